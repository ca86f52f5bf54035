package kube

import (
	"context"
	"errors"
	"sync"
	"time"

	"plimsoll/engine/kube/cluster"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// watcher keeps the pods of a selector as the API server has them. It goes on
// after the API server was away.
type watcher struct {
	changed chan struct{} // has an element when pods, or the error, may have changed
	store   cache.Store
	stop    func()

	mu     sync.Mutex
	denied time.Time // since when the API server refuses; zero while it does not
	err    error
}

// watchPods returns once the pods that there are are known, which ctx bounds; the
// watch goes on until stop.
func (a *api) watchPods(ctx context.Context, selector string) (*watcher, error) {
	pods := a.core.Pods(a.namespace)
	// A list says what an informer would try again for ever: that it is forbidden.
	err := a.do(ctx, a.request("list", podResource(), "", ""), func(ctx context.Context) error {
		_, err := pods.List(ctx, metav1.ListOptions{LabelSelector: selector, Limit: 1})
		return err
	})
	if err != nil {
		return nil, err
	}
	w := &watcher{changed: make(chan struct{}, 1)}
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = selector
			return pods.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = selector
			got, err := pods.Watch(ctx, o)
			if err == nil {
				w.accepted()
			}
			return got, err
		},
	}
	informer := cache.NewSharedInformer(source, &corev1.Pod{}, 0)
	w.store = informer.GetStore()
	tell := func(any) { w.tell() }
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: tell, DeleteFunc: tell, UpdateFunc: func(_, _ any) { w.tell() },
	})
	if err != nil {
		return nil, err
	}
	if err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		w.refused(err, time.Now(), a.request("watch", podResource(), "", ""))
	}); err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(quiet(context.WithoutCancel(ctx)))
	var ended sync.WaitGroup
	ended.Go(func() { informer.RunWithContext(running) })
	w.stop = func() { cancel(); ended.Wait() }
	limit, release := context.WithTimeoutCause(ctx, patience, errors.New("the pods are not listed: is the API server away?"))
	defer release()
	for !informer.HasSynced() {
		select {
		case <-limit.Done():
			w.stop()
			return nil, context.Cause(limit)
		case <-time.After(20 * time.Millisecond):
		}
		if err := w.failure(); err != nil {
			w.stop()
			return nil, err
		}
	}
	return w, nil
}

func (w *watcher) tell() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// refused notes why a watch ended. A refusal is one when it lasts: an API server
// that has just started knows no Roles for a moment.
func (w *watcher) refused(err error, now time.Time, r cluster.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case !apierrors.IsForbidden(err):
		w.denied = time.Time{}
	case w.denied.IsZero() && r.Permitted:
		w.denied = now
	case !r.Permitted || now.Sub(w.denied) >= cluster.StartsWithin:
		w.err = r.Explain(err)
		w.tell()
	}
}

// accepted notes that a watch was begun.
func (w *watcher) accepted() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.denied = time.Time{}
}

// failure is why the pods cannot be watched any more; nil where they can.
func (w *watcher) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

func (w *watcher) pods() []*corev1.Pod {
	var all []*corev1.Pod
	for _, o := range w.store.List() {
		if p, ok := o.(*corev1.Pod); ok {
			all = append(all, p)
		}
	}
	return all
}
