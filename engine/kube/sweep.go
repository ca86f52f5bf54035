package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"plimsoll/engine/kube/cluster"
)

// withMade are kinds and what controllers make of their objects: without garbage
// collection a ReplicaSet would go on and make pods.
func withMade(kinds []schema.GroupVersionResource) []schema.GroupVersionResource {
	all := slices.Clone(kinds)
	for _, k := range kinds {
		switch {
		case k.Group == "apps" && k.Resource == "deployments":
			all = append(all, schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "replicasets"})
		case k.Resource == "leaderworkersets":
			all = append(all, schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "statefulsets"})
		}
	}
	return append(all, podResource())
}

// sweep deletes what a selector finds, kind by kind, and says what that was. It
// goes on after an error, within the time that one request may take: an API server
// that is away is away for every kind.
func (a *api) sweep(ctx context.Context, selector string, kinds []schema.GroupVersionResource) (deleted []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var errs []error
	for _, at := range kinds {
		items, err := a.list(ctx, at, selector)
		if cluster.NotServed(err) {
			continue
		}
		if err != nil {
			errs = append(errs, err)
		}
		for _, o := range items {
			if o.GetDeletionTimestamp() != nil {
				continue
			}
			if err := a.remove(ctx, at, o.GetName()); err != nil {
				errs = append(errs, err)
				continue
			}
			deleted = append(deleted, strings.ToLower(o.GetKind())+"/"+o.GetName())
		}
	}
	return deleted, errors.Join(errs...)
}

// beyondGrace is how much longer than its grace a pod may take to go.
const beyondGrace = 90 * time.Second

// gone waits until no pod has the labels: only then are its GPUs free.
func (a *api) gone(ctx context.Context, selector string, grace time.Duration) error {
	limit, cancel := context.WithTimeoutCause(ctx, grace+beyondGrace, errors.New("it takes longer than its grace"))
	defer cancel()
	w, err := a.watchPods(limit, selector)
	if err != nil {
		return err
	}
	defer w.stop()
	for {
		pods := w.pods()
		if len(pods) == 0 {
			return nil
		}
		select {
		case <-w.changed:
		case <-limit.Done():
			p := pods[0]
			return fmt.Errorf("waiting for pod %s on node %q to be gone: %w (hint: a node that is lost keeps its pods: kubectl delete pod --force --namespace %s %s)",
				p.Name, p.Spec.NodeName, context.Cause(limit), a.namespace, p.Name)
		}
	}
}

// forbidden reports whether an error is the authorizer's.
func forbidden(err error) bool { return apierrors.IsForbidden(err) }
