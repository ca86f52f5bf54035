package kube

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"plimsoll/engine/kube/cluster"
)

// productLabel is NVIDIA's GPU feature discovery's: the driver's name of the GPU,
// with dashes for spaces; -SHARED at its end where each GPU is given to several pods,
// and -MIG- in it for a slice of one
// (https://github.com/NVIDIA/k8s-device-plugin/blob/main/docs/gpu-feature-discovery/README.md, read 2026-11-22).
const productLabel = "nvidia.com/gpu.product"

// Node is one on which engines may run.
type Node struct {
	Name    string
	GPUs    int    // that pods may ask for, used or not
	Product string // as the driver calls the GPU; empty where the node does not tell
	Parts   bool   // its GPUs are MIG slices, or each is given to several pods
}

// Nodes are those with GPUs that match a selector and take new pods now. Listing them
// is a permission of the whole cluster, not of a namespace.
func Nodes(ctx context.Context, config *rest.Config, o Options) ([]Node, error) {
	a, err := connect(config, "")
	if err != nil {
		return nil, err
	}
	var list *corev1.NodeList
	r := cluster.Request{Verb: "list", Resource: schema.GroupVersionResource{Version: "v1", Resource: "nodes"}, Manifest: manifestCommand}
	err = a.do(ctx, r, func(ctx context.Context) error {
		list, err = a.core.Nodes().List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(o.NodeSelector).String()})
		return err
	})
	if err != nil {
		return nil, err
	}
	var nodes []Node
	for _, n := range list.Items {
		q := n.Status.Allocatable[corev1.ResourceName(o.GPUResource)]
		if gpus := int(q.Value()); gpus > 0 && takesPods(n) {
			product := strings.ReplaceAll(n.Labels[productLabel], "-", " ")
			nodes = append(nodes, Node{Name: n.Name, GPUs: gpus, Product: product, Parts: strings.HasSuffix(product, " SHARED") || strings.Contains(product, " MIG ")})
		}
	}
	return nodes, nil
}

// takesPods is false for a node that is cordoned, or was lost.
func takesPods(n corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return false
		}
	}
	return !n.Spec.Unschedulable
}
