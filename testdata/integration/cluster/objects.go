package cluster

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
)

// Objects reads YAML documents.
func Objects(text []byte) ([]*unstructured.Unstructured, error) {
	var list []*unstructured.Unstructured
	for doc := range bytes.SplitSeq(text, []byte("---\n")) {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(doc, &o.Object); err != nil {
			return nil, fmt.Errorf("%w in\n%s", err, doc)
		}
		if len(o.Object) > 0 {
			list = append(list, o)
		}
	}
	return list, nil
}

// ResourceOf is where objects of its kind are.
func ResourceOf(o *unstructured.Unstructured) schema.GroupVersionResource {
	kind := o.GroupVersionKind()
	return kind.GroupVersion().WithResource(strings.ToLower(kind.Kind) + "s")
}

// Dynamic is the administrator's client for objects of any kind.
func (c *Cluster) Dynamic() dynamic.Interface {
	c.t.Helper()
	client, err := dynamic.NewForConfig(c.Config)
	if err != nil {
		c.t.Fatal(err)
	}
	return client
}

// Create makes objects of a namespace, or of the whole cluster; those of a kind
// that was just defined are served a moment later.
func (c *Cluster) Create(namespace string, list ...*unstructured.Unstructured) {
	c.t.Helper()
	for _, o := range list {
		var at dynamic.ResourceInterface = c.Dynamic().Resource(ResourceOf(o))
		if !ofCluster(o.GetKind()) {
			at = c.Dynamic().Resource(ResourceOf(o)).Namespace(namespace)
		}
		c.await("there is the "+o.GetKind()+" "+o.GetName(), 60*time.Second, func(ctx context.Context) error {
			_, err := at.Create(ctx, o, metav1.CreateOptions{FieldValidation: "Strict"})
			return err
		})
	}
}

func ofCluster(kind string) bool {
	return slices.Contains([]string{"CustomResourceDefinition", "Namespace", "ClusterRole", "ClusterRoleBinding"}, kind)
}
