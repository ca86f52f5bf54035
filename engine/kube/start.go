package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"plimsoll/engine/redact"
)

// createTries is how many names are tried where one is taken.
const createTries = 3

// Start starts an engine and returns once it answers. Whoever gets the Engine must
// Stop it; with an error, nothing of it is left.
func (r *Run) Start(ctx context.Context, l Launch) (*Engine, error) {
	e, err := r.start(ctx, l)
	if err != nil {
		return nil, fmt.Errorf("starting %s on Kubernetes: %w", l.Spec.Name, err)
	}
	return e, nil
}

func (r *Run) start(ctx context.Context, l Launch) (*Engine, error) {
	if l.Spec.Port < 1 || l.Spec.Port > 65535 || len(l.Spec.Argv) == 0 {
		return nil, fmt.Errorf("it has no command or no port: %q, %d", redact.Words(l.Spec.Argv), l.Spec.Port)
	}
	var last error
	for range createTries {
		if err := r.lasts(); err != nil {
			return nil, err
		}
		e := &Engine{run: r, spec: l.Spec, name: nameOf(r.id, r.attempt(), l.Spec.Name), done: make(chan struct{})}
		err := e.make(ctx, l)
		if err == nil {
			err = e.await(ctx)
		}
		if err == nil {
			return e, nil
		}
		if e.pod == "" { // else Stop keeps it
			e.saveLog(context.WithoutCancel(ctx))
		}
		last = errors.Join(err, e.Stop(context.WithoutCancel(ctx)))
		if !apierrors.IsAlreadyExists(err) {
			break // another name would not help
		}
	}
	return nil, last
}

// make creates the engine's objects. One of that name that is there already is
// somebody else's, and is left alone.
func (e *Engine) make(ctx context.Context, l Launch) error {
	f, err := e.run.o.fields(e.run.namespace, e.run.id, e.name, l)
	if err != nil {
		return err
	}
	list, err := e.run.o.render(f)
	if err != nil {
		return err
	}
	e.run.o.Note("making %s in namespace %s: %s", e.name, e.run.namespace, objectNames(list))
	if err := e.run.use(ctx, list); err != nil {
		return err
	}
	for _, o := range list {
		e.run.own(o, f)
		e.kinds = append(e.kinds, resourceOf(o))
		if _, err := e.run.create(ctx, resourceOf(o), o); err != nil {
			return err
		}
		if o.GetKind() == "Service" && e.service == "" {
			e.service = o.GetName()
		}
	}
	return nil
}

func objectNames(list []*unstructured.Unstructured) string {
	s := ""
	for i, o := range list {
		if i > 0 {
			s += ", "
		}
		s += o.GetKind() + " " + o.GetName()
	}
	return s
}

// own marks an object and its pods as the run's.
func (r *Run) own(o *unstructured.Unstructured, f Fields) {
	o.SetNamespace(r.namespace)
	o.SetLabels(with(o.GetLabels(), f.Labels))
	o.SetOwnerReferences(append(o.GetOwnerReferences(), r.owner))
	for _, t := range podTemplates(o) {
		old, _, _ := unstructured.NestedStringMap(t, "metadata", "labels") // what is no map is for the API server to refuse
		_ = unstructured.SetNestedStringMap(t, with(old, f.Labels), "metadata", "labels")
	}
}

// with has labels of the user's and, above them, those by which things are found.
func with(own, ours map[string]string) map[string]string {
	all := map[string]string{}
	for k, v := range own {
		all[k] = v
	}
	for k, v := range ours {
		all[k] = v
	}
	return all
}

// await returns once the engine answers, or will not.
func (e *Engine) await(ctx context.Context) error {
	w, err := e.run.watchPods(ctx, e.selector())
	if err != nil {
		return err
	}
	e.watcher = w
	if err := e.awaitPod(ctx); err != nil {
		return err
	}
	go e.watch()
	return e.reach(ctx)
}

// lookEvery is how often what no pod tells is looked at: whether one can be made.
const lookEvery = 3 * time.Second

// awaitPod returns once a pod serves.
func (e *Engine) awaitPod(ctx context.Context) error {
	p := newPatience(e, time.Now())
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		pod := serving(e.watcher.pods())
		if err := errors.Join(e.watcher.failure(), e.run.lasts()); err != nil {
			return err
		}
		now := time.Now()
		if pod == nil {
			p.noPod(now)
			if err := e.unmade(ctx, p, now); err != nil {
				return err
			}
		} else {
			s := judge(pod)
			if s.ready && s.end == nil {
				e.pod, e.uid = pod.Name, pod.UID
				return nil
			}
			if err := p.look(s, now); err != nil {
				return e.detailed(ctx, err)
			}
		}
		if err := p.over(now); err != nil {
			return e.detailed(ctx, err)
		}
		select {
		case <-e.watcher.changed:
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waiting for it: %w", context.Cause(ctx))
		}
	}
}

// unmade is why there is no pod, where that lasts: a quota, an admission policy, a
// service account that is not there.
func (e *Engine) unmade(ctx context.Context, p *waiter, now time.Time) error {
	message, err := e.refusal(ctx)
	if err != nil || message == "" {
		return err
	}
	if e := p.look(seen{trouble: &PodError{Engine: e.spec.Name, Reason: failedCreate, Message: message, Hint: refusedHint(message)}, waiting: message, unplaced: true}, now); e != nil {
		return e
	}
	return nil
}

// refusal is why a Deployment's pod cannot be made, or what Events say of other
// kinds.
func (e *Engine) refusal(ctx context.Context) (string, error) {
	items, err := e.run.list(ctx, deployments(), e.selector())
	if err != nil && !forbidden(err) { // a template without Deployments needs no right to list them
		return "", err
	}
	for _, d := range items {
		conditions, _, _ := unstructured.NestedSlice(d.Object, "status", "conditions") // none where there are none yet
		for _, c := range conditions {
			m, _ := c.(map[string]any)
			if m["type"] == "ReplicaFailure" && m["status"] == "True" {
				message, _ := m["message"].(string)
				return message, nil
			}
		}
	}
	if len(items) > 0 {
		return "", nil
	}
	for _, w := range e.warnings(ctx) {
		if w.Reason == failedCreate {
			return w.Message, nil
		}
	}
	return "", nil
}

// detailed adds what the log and the Events say.
func (e *Engine) detailed(ctx context.Context, err *PodError) error {
	err.Engine = e.spec.Name
	if err.Pod == "" {
		return err
	}
	err.Tail = e.tail(ctx, err.Pod)
	if err.Exited || err.Message != "" {
		return err
	}
	if w := e.warnings(ctx); len(w) > 0 {
		err.Message = w[len(w)-1].Reason + ": " + w[len(w)-1].Message
	}
	return err
}

// event is a warning about one of the engine's objects.
type event struct{ Reason, Message string }

// warnings are Events about the engine's objects, the last one last; none where
// they may not be read.
func (e *Engine) warnings(ctx context.Context) []event {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	list, err := e.run.core.Events(e.run.namespace).List(ctx, metav1.ListOptions{FieldSelector: "type=Warning", Limit: 500})
	if err != nil {
		return nil
	}
	return eventsOf(list, e.name)
}
