package kube

import (
	"cmp"
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// Found is a run as its Lease tells, or, without one, as its labels do.
type Found struct {
	ID     string
	About  string // what is profiled; empty where unknown
	Holder string
	Began  time.Time // zero where unknown
	Seen   time.Time // last sign of life; zero where its Lease is gone
	Pods   int

	kinds   []schema.GroupVersionResource
	lease   string
	renewed bool // while Listen looked
}

// Lives reports whether the run gave a sign of life not long before now, or while
// Listen looked.
func (f Found) Lives(now time.Time) bool { return f.renewed || now.Sub(f.Seen) < 2*leaseDuration }

// ListenFor is a time in which every run that reaches the API server renews its Lease.
const ListenFor = renewEvery + renewEvery/2

// Doubtful reports whether a run that seems dead might live: its clock may be
// another, or the API server was away and its renewals with it. After an hour
// neither is the reason.
func (f Found) Doubtful(now time.Time) bool {
	return !f.Lives(now) && !f.Seen.IsZero() && now.Sub(f.Seen) < time.Hour
}

// Listen lists the runs again after a while. One whose Lease was renewed since it was
// found lives, whatever its clock says.
func Listen(ctx context.Context, config *rest.Config, namespace string, found []Found, wait time.Duration) ([]Found, error) {
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-time.After(wait):
	}
	again, err := Find(ctx, config, namespace)
	if err != nil {
		return nil, err
	}
	for i, f := range again {
		before := slices.IndexFunc(found, func(b Found) bool { return b.ID == f.ID })
		again[i].renewed = before < 0 || !found[before].Seen.Equal(f.Seen) // one that is new has just begun
	}
	return again, nil
}

// Find lists the runs of a namespace, the oldest first.
func Find(ctx context.Context, config *rest.Config, namespace string) ([]Found, error) {
	a, err := connect(config, namespace)
	if err != nil {
		return nil, err
	}
	return a.find(ctx)
}

func (a *api) find(ctx context.Context) ([]Found, error) {
	// Leases come last: the pods of a run that begins meanwhile are never without one.
	pods, err := a.list(ctx, podResource(), labelRun)
	if err != nil {
		return nil, err
	}
	made, err := a.list(ctx, deployments(), labelRun)
	if err != nil && !forbidden(err) { // a template without Deployments needs no right to list them
		return nil, err
	}
	items, err := a.list(ctx, leases(), labelOwner+"=plimsoll,"+labelRun)
	if err != nil {
		return nil, err
	}
	runs := map[string]*Found{}
	for _, l := range items {
		id := l.GetLabels()[labelRun]
		runs[id] = &Found{
			ID: id, About: l.GetAnnotations()[annotationAbout], kinds: parseKinds(l.GetAnnotations()[annotationKinds]), lease: l.GetName(),
			Holder: text(l, "holderIdentity"), Began: moment(text(l, "acquireTime")), Seen: moment(text(l, "renewTime")),
		}
	}
	for i, o := range append(pods, made...) {
		id := o.GetLabels()[labelRun]
		if runs[id] == nil {
			runs[id] = &Found{ID: id}
		}
		if i < len(pods) {
			runs[id].Pods++
		}
	}
	all := make([]Found, 0, len(runs))
	for _, f := range runs {
		all = append(all, *f)
	}
	slices.SortFunc(all, func(a, b Found) int { return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.ID, b.ID)) })
	return all, nil
}

func text(l unstructured.Unstructured, field string) string {
	s, _, _ := unstructured.NestedString(l.Object, "spec", field) // what is no text is none
	return s
}

func moment(s string) time.Time {
	t, err := time.Parse(metav1.RFC3339Micro, s)
	if err != nil {
		return time.Time{}
	}
	return t
}

// Cleanup deletes all that carries a run's label, its Lease last, and returns once
// its pods are gone. It says what it deleted, after an error too.
func Cleanup(ctx context.Context, config *rest.Config, namespace string, run Found) (deleted []string, err error) {
	a, err := connect(config, namespace)
	if err != nil {
		return nil, err
	}
	kinds := run.kinds
	if len(kinds) == 0 { // its Lease is gone: what the default template makes
		if kinds, err = (Options{}).Filled().kinds(); err != nil {
			return nil, err
		}
	}
	selector := labelRun + "=" + run.ID
	deleted, err = a.sweep(ctx, selector, withMade(kinds))
	if err == nil {
		err = a.gone(ctx, selector, defaultGrace)
	}
	if err != nil {
		return deleted, err
	}
	if run.lease == "" {
		return deleted, nil
	}
	if err := a.remove(ctx, leases(), run.lease); err != nil {
		return deleted, err
	}
	return append(deleted, "lease/"+run.lease), nil
}
