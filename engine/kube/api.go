package kube

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"plimsoll/engine/kube/cluster"
)

const (
	manager = cluster.Manager
	// patience is how long a request is made again: an API server that is replaced
	// is away for a minute or two.
	patience = 3 * time.Minute
	// firstPatience is patience with one that never answered: its address is wrong,
	// or it is away, and nothing is lost by trying later.
	firstPatience = 15 * time.Second
	// requestTimeout bounds one request that is no stream.
	requestTimeout = 20 * time.Second
	// manifestCommand prints a Role with what is needed.
	manifestCommand = "plimsoll profile-sla manifest"
)

// api is a namespace of a cluster.
type api struct {
	config    *rest.Config // without a time limit, which would cut streams
	namespace string
	dynamic   dynamic.Interface
	core      corev1client.CoreV1Interface
	permitted bool // the user's rights were looked at, and are enough
	answered  atomic.Bool
}

func connect(config *rest.Config, namespace string) (*api, error) {
	config = rest.CopyConfig(config)
	config.Timeout = 0
	config.QPS, config.Burst = 50, 100 // client-go's own 5 a second would make an engine's end wait
	d, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a Kubernetes client: %w", err)
	}
	core, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a Kubernetes client: %w", err)
	}
	return &api{config: config, namespace: namespace, dynamic: d, core: core}, nil
}

func (a *api) request(verb string, at schema.GroupVersionResource, sub, name string) cluster.Request {
	return cluster.Request{Verb: verb, Resource: at, Subresource: sub, Namespace: a.namespace, Name: name, Manifest: manifestCommand, Permitted: a.permitted}
}

func (a *api) objects(at schema.GroupVersionResource) dynamic.ResourceInterface {
	return a.dynamic.Resource(at).Namespace(a.namespace)
}

// do makes a request that is no stream, patiently.
func (a *api) do(ctx context.Context, r cluster.Request, f func(context.Context) error) error {
	patience := patience
	if !a.answered.Load() {
		patience = firstPatience
	}
	err := r.Do(ctx, patience, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		return f(ctx)
	})
	if err == nil {
		a.answered.Store(true)
	}
	return err
}

func (a *api) create(ctx context.Context, at schema.GroupVersionResource, o *unstructured.Unstructured) (made *unstructured.Unstructured, err error) {
	err = a.do(ctx, a.request("create", at, "", o.GetName()), func(ctx context.Context) error {
		made, err = a.objects(at).Create(ctx, o, metav1.CreateOptions{FieldManager: manager, FieldValidation: metav1.FieldValidationStrict})
		return err
	})
	return made, err
}

// patch merges body into an object.
func (a *api) patch(ctx context.Context, at schema.GroupVersionResource, name string, body []byte) error {
	return a.do(ctx, a.request("patch", at, "", name), func(ctx context.Context) error {
		_, err := a.objects(at).Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{FieldManager: manager})
		return err
	})
}

func (a *api) list(ctx context.Context, at schema.GroupVersionResource, selector string) (items []unstructured.Unstructured, err error) {
	err = a.do(ctx, a.request("list", at, "", ""), func(ctx context.Context) error {
		got, err := a.objects(at).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err == nil {
			items = got.Items
		}
		return err
	})
	return items, err
}

// remove deletes an object; that it is gone is no error.
func (a *api) remove(ctx context.Context, at schema.GroupVersionResource, name string) error {
	background := metav1.DeletePropagationBackground
	err := a.do(ctx, a.request("delete", at, "", name), func(ctx context.Context) error {
		return a.objects(at).Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: &background})
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// holder is who runs this.
func holder() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%s pid %d", host, os.Getpid())
}

func podResource() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "pods"}
}
