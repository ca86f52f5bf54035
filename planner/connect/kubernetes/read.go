package kubernetes

import (
	"context"
	"fmt"
	"slices"
	"strings"

	autoscaling "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"plimsoll/engine"
	"plimsoll/engine/kube/cluster"
)

// read gives the pools: prefill and decode, or aggregated.
func (t *Target) read(ctx context.Context) ([]pool, error) {
	if len(t.places) == 0 {
		return t.readGraph(ctx)
	}
	var pools []pool
	for _, role := range engine.Roles() {
		at, ok := t.places[role]
		if !ok {
			continue
		}
		p, err := t.readWorkload(ctx, role, at)
		if err != nil {
			return nil, err
		}
		pools = append(pools, p)
	}
	return pools, nil
}

func (t *Target) readWorkload(ctx context.Context, role engine.Role, at object) (pool, error) {
	raw, err := t.get(ctx, at)
	if err != nil {
		return pool{}, err
	}
	w, err := parseWorkload(raw)
	if err != nil {
		return pool{}, fmt.Errorf("%s %s: %w", at.resource.Resource, at.name, err)
	}
	s, err := t.scaleOf(ctx, at)
	if err != nil {
		return pool{}, err
	}
	p := pool{
		role: role, name: at.name, want: int(s.Spec.Replicas), size: w.size(), gpus: w.gpus(), model: w.model(),
		selector: s.Status.Selector, refused: w.refused(), about: w.subject, at: place{at, "scale"},
	}
	if w.Spec.LeaderWorkerTemplate != nil { // whose scale selects leaders only
		p.selector = "leaderworkerset.sigs.k8s.io/name=" + at.name
	}
	if p.selector == "" {
		return pool{}, fmt.Errorf("%s %s: its scale subresource has no selector, so its pods cannot be counted (hint: name the Deployment or StatefulSet behind it)", at.resource.Resource, at.name)
	}
	return p, nil
}

func (t *Target) readGraph(ctx context.Context) ([]pool, error) {
	g, version, err := t.graph(ctx)
	if err != nil {
		return nil, err
	}
	services, err := g.roles(t.o.Targets)
	if err != nil {
		return nil, err
	}
	var pools []pool
	for _, role := range engine.Roles() {
		s, ok := services[role]
		if !ok {
			continue
		}
		p := pool{
			role: role, name: s.name, want: s.replicas, size: s.size, gpus: s.gpus, model: s.model, about: g.subject, service: s,
			// The labels that Dynamo's operator gives its pods.
			selector: fmt.Sprintf("nvidia.com/dynamo-graph-deployment-name=%s,nvidia.com/dynamo-component=%s", t.o.Deployment, s.name),
			at:       place{object{version.WithResource(graphs), t.o.Deployment}, ""},
		}
		if err := t.adapt(ctx, &p); err != nil {
			return nil, err
		}
		pools = append(pools, p)
	}
	return pools, nil
}

// graph reads the DynamoGraphDeployment in the newest version that is served: in v1beta1
// services became a list of components (ai-dynamo/dynamo, deploy/operator/api, August 2026).
func (t *Target) graph(ctx context.Context) (graph, schema.GroupVersion, error) {
	var raw []byte
	var version schema.GroupVersion
	var err error
	for _, v := range []string{"v1beta1", "v1alpha1"} {
		version = schema.GroupVersion{Group: nvidia, Version: v}
		raw, err = t.get(ctx, object{version.WithResource(graphs), t.o.Deployment})
		if err == nil || !cluster.NotServed(err) {
			break
		}
	}
	if err != nil {
		return graph{}, version, err
	}
	g, err := parseGraph(raw)
	if err != nil {
		return graph{}, version, fmt.Errorf("%s %s: %w", graphs, t.o.Deployment, err)
	}
	return g, version, nil
}

// adapt lets the service's scaling adapter, where it has one, be the truth and
// the place: Dynamo's operator copies its number into the deployment, and would
// copy it over anything written there.
func (t *Target) adapt(ctx context.Context, p *pool) error {
	version := p.at.resource.Version
	// An operator may serve the adapter in the older version only.
	for _, v := range slices.Compact([]string{version, "v1alpha1"}) {
		name := t.o.Deployment + "-" + strings.ToLower(p.name) // as Dynamo's operator calls it
		at := object{schema.GroupVersionResource{Group: nvidia, Version: v, Resource: adapters}, name}
		s, err := t.scaleOf(ctx, at)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return err
		}
		p.want, p.at = int(s.Spec.Replicas), place{at, "scale"}
		if s.Status.Selector != "" {
			p.selector = s.Status.Selector
		}
		return nil
	}
	return nil
}

func (t *Target) scaleOf(ctx context.Context, at object) (s autoscaling.Scale, err error) {
	raw, err := t.get(ctx, at, "scale")
	if err != nil {
		return s, err
	}
	if s, err = parseScale(raw); err != nil {
		return s, fmt.Errorf("%s %s: %w", at.resource.Resource, at.name, err)
	}
	return s, nil
}

func (t *Target) get(ctx context.Context, at object, subresource ...string) (raw []byte, err error) {
	r := t.request("get", at.resource, strings.Join(subresource, "/"), at.name)
	err = r.Do(ctx, patience, func(ctx context.Context) error {
		got, err := t.client.Resource(at.resource).Namespace(t.o.Namespace).Get(ctx, at.name, metav1.GetOptions{}, subresource...)
		if err != nil {
			return err
		}
		raw, err = got.MarshalJSON()
		return err
	})
	return raw, err
}

func (t *Target) pods(ctx context.Context, selector string) ([]corev1.Pod, error) {
	resource := schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	var list corev1.PodList
	err := t.request("list", resource, "", "").Do(ctx, patience, func(ctx context.Context) error {
		got, err := t.client.Resource(resource).Namespace(t.o.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return err
		}
		return runtime.DefaultUnstructuredConverter.FromUnstructured(got.UnstructuredContent(), &list)
	})
	return list.Items, err
}
