package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"plimsoll/engine/field"
	"plimsoll/engine/kube/cluster"
)

// leaseDuration is how long after its last sign of life a run counts as dead.
const leaseDuration = 60 * time.Second

// renewals are this far apart.
const renewEvery = leaseDuration / 4

// Run is one profile run on a cluster. Its methods may be called from any
// goroutine.
type Run struct {
	*api
	id    string
	o     Options
	owner metav1.OwnerReference

	end     context.CancelFunc // of the renewals
	renewed sync.WaitGroup

	mu       sync.Mutex
	attempts int
	kinds    []schema.GroupVersionResource // of what was made so far
	lost     error                         // why nothing can be made any more
}

// Begin makes the run's Lease, which owns all that the run makes, and renews it
// until Close. about says what is run, for people who look at the cluster. It
// refuses to begin where the user may not do all that a run does.
func Begin(ctx context.Context, config *rest.Config, namespace, about string, o Options) (*Run, error) {
	o = o.Filled()
	if err := o.Check(); err != nil {
		return nil, err
	}
	a, err := connect(config, namespace)
	if err != nil {
		return nil, err
	}
	rules, err := o.Rules()
	if err != nil {
		return nil, err
	}
	if err := a.permit(ctx, rules); err != nil {
		return nil, err
	}
	r := &Run{api: a, id: newID(), o: o}
	if r.owner, err = r.lease(ctx, about); err != nil {
		return nil, err
	}
	// A run outlives the context of its beginning: it is ended by Close.
	renewing, end := context.WithCancel(quiet(context.WithoutCancel(ctx)))
	r.end = end
	r.renewed.Go(func() { r.renew(renewing, renewEvery) })
	return r, nil
}

// quiet keeps client-go from writing to stderr: what matters comes as an error.
func quiet(ctx context.Context) context.Context { return klog.NewContext(ctx, logr.Discard()) }

// ID names the run, as in the label plimsoll.dev/run.
func (r *Run) ID() string { return r.id }

// Namespace is where everything is made.
func (r *Run) Namespace() string { return r.namespace }

// Close deletes all that is left of the run, with its Lease, and returns once its
// pods are gone.
func (r *Run) Close(ctx context.Context) error {
	r.end()
	r.renewed.Wait()
	r.mu.Lock()
	kinds := withMade(r.kinds)
	r.mu.Unlock()
	_, err := r.sweep(ctx, labelRun+"="+r.id, kinds)
	if err == nil {
		err = r.gone(ctx, labelRun+"="+r.id, defaultGrace)
	}
	if err != nil {
		return fmt.Errorf("something of run %s may be left: %w (hint: plimsoll profile-sla cleanup "+field.KubeNamespace+" %s)", r.id, err, r.namespace)
	}
	return r.remove(ctx, leases(), r.leaseName())
}

func (r *Run) leaseName() string { return "plimsoll-" + r.id }

func leases() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
}

// What a run's Lease tells besides.
const (
	annotationAbout = "plimsoll.dev/about"
	annotationKinds = "plimsoll.dev/kinds" // of the objects, as plural.version.group
)

func (r *Run) lease(ctx context.Context, about string) (metav1.OwnerReference, error) {
	now := metav1.NowMicro().UTC().Format(metav1.RFC3339Micro)
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
		"metadata": map[string]any{
			"name": r.leaseName(), "labels": map[string]any{labelName: "plimsoll-profile", labelOwner: "plimsoll", labelRun: r.id},
			"annotations": map[string]any{annotationAbout: about},
		},
		"spec": map[string]any{
			"holderIdentity": holder(), "leaseDurationSeconds": int64(leaseDuration.Seconds()), "acquireTime": now, "renewTime": now,
		},
	}}
	made, err := r.create(ctx, leases(), object)
	if err != nil {
		made, err = r.unheard(ctx, object, err)
	}
	if err != nil {
		return metav1.OwnerReference{}, err
	}
	return metav1.OwnerReference{APIVersion: "coordination.k8s.io/v1", Kind: "Lease", Name: made.GetName(), UID: made.GetUID()}, nil
}

// unheard is the run's Lease where it was made and only the answer was lost: it is
// taken, or, where nobody waits for the run any more, deleted.
func (r *Run) unheard(ctx context.Context, asked *unstructured.Unstructured, cause error) (*unstructured.Unstructured, error) {
	if forbidden(cause) {
		return nil, cause
	}
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTimeout)
	defer cancel()
	found, err := r.list(after, leases(), labelRun+"="+r.id)
	if err != nil {
		return nil, cause
	}
	for i := range found {
		if found[i].GetName() != r.leaseName() || text(found[i], "holderIdentity") != text(*asked, "holderIdentity") || text(found[i], "acquireTime") != text(*asked, "acquireTime") {
			continue
		}
		if ctx.Err() == nil {
			return &found[i], nil
		}
		return nil, errors.Join(cause, r.remove(after, leases(), r.leaseName()))
	}
	return nil, cause
}

// use writes down, before it is made, of what kinds something is, so that it is
// found after a crash.
func (r *Run) use(ctx context.Context, list []*unstructured.Unstructured) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	kinds := r.kinds
	for _, o := range list {
		if at := resourceOf(o); !slices.Contains(kinds, at) {
			kinds = append(slices.Clip(kinds), at)
		}
	}
	if len(kinds) == len(r.kinds) {
		return nil
	}
	body := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, annotationKinds, kindsText(kinds))
	if err := r.patch(ctx, leases(), r.leaseName(), body); err != nil {
		return err
	}
	r.kinds = kinds
	return nil
}

func kindsText(kinds []schema.GroupVersionResource) string {
	words := make([]string, len(kinds))
	for i, k := range kinds {
		words[i] = k.Resource + "." + k.Version + "." + k.Group
	}
	return strings.Join(words, ",")
}

// parseKinds leaves out what is no kind.
func parseKinds(text string) []schema.GroupVersionResource {
	var kinds []schema.GroupVersionResource
	for word := range strings.SplitSeq(text, ",") {
		if k, _ := schema.ParseResourceArg(word); k != nil {
			kinds = append(kinds, *k)
		}
	}
	return kinds
}

// renew says that the run lives, until ctx ends. Where it cannot be said the run
// goes on: nobody deletes by itself.
func (r *Run) renew(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := r.renewOnce(ctx)
		if apierrors.IsNotFound(err) && !cluster.NotServed(err) {
			r.lose(fmt.Errorf("the Lease %s was deleted by somebody, and what the run made goes with it (hint: "+field.Resume+" goes on in a new run)", r.leaseName()))
			return
		}
		if err != nil && ctx.Err() == nil {
			r.o.Note("the run's Lease was not renewed: %v", err)
		}
	}
}

func (r *Run) renewOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, renewEvery/2)
	defer cancel()
	return r.patch(ctx, leases(), r.leaseName(), fmt.Appendf(nil, `{"spec":{"renewTime":%q}}`, metav1.NowMicro().UTC().Format(metav1.RFC3339Micro)))
}

// lose ends the run for engines to come: an owner that is gone takes them with it.
func (r *Run) lose(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost = err
	r.o.Note("%v", err)
}

// lasts is nil while the run can make something.
func (r *Run) lasts() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost
}

// attempt numbers the engines of the run, so that no two have one name.
func (r *Run) attempt() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.attempts++
	return r.attempts
}
