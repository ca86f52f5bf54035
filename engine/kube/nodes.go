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
// with dashes for spaces.
const productLabel = "nvidia.com/gpu.product"

// Node is one on which engines may run.
type Node struct {
	Name    string
	GPUs    int    // that pods may ask for, used or not
	Product string // as the driver calls the GPU; empty where the node does not tell
}

// Nodes are those with GPUs that match a selector and take new pods. Listing them
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
		if gpus := int(q.Value()); gpus > 0 && !n.Spec.Unschedulable {
			nodes = append(nodes, Node{Name: n.Name, GPUs: gpus, Product: strings.ReplaceAll(n.Labels[productLabel], "-", " ")})
		}
	}
	return nodes, nil
}
