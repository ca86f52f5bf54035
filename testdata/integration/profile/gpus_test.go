package profile

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"plimsoll/testdata/integration/cluster"
)

// counter sums the GPUs of a namespace's pods at every change.
type counter struct {
	mu          sync.Mutex
	held, asked int64 // the most at once: by pods that have a node, and by all
}

// watchGPUs counts until the test ends.
func watchGPUs(t *testing.T, on *cluster.Cluster, namespace string) *counter {
	t.Helper()
	c := &counter{}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var ended sync.WaitGroup
	ended.Go(func() {
		for c.watch(ctx, on, namespace) != nil && ctx.Err() == nil {
			time.Sleep(100 * time.Millisecond) // the API server is away
		}
	})
	t.Cleanup(func() {
		cancel()
		ended.Wait()
	})
	return c
}

// watch counts until the API server ends the watch.
func (c *counter) watch(ctx context.Context, on *cluster.Cluster, namespace string) error {
	pods := on.Client.CoreV1().Pods(namespace)
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	there := map[types.UID]corev1.Pod{}
	for _, p := range list.Items {
		there[p.UID] = p
	}
	c.count(there)
	w, err := pods.Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		return err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		p, ok := event.Object.(*corev1.Pod)
		if !ok {
			return fmt.Errorf("%v", event.Object)
		}
		there[p.UID] = *p
		if event.Type == watch.Deleted {
			delete(there, p.UID)
		}
		c.count(there)
	}
	return errors.New("the watch ended")
}

func (c *counter) count(there map[types.UID]corev1.Pod) {
	held, asked := int64(0), int64(0)
	for _, p := range there {
		if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		asked += gpus(p)
		if p.Spec.NodeName != "" {
			held += gpus(p)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held, c.asked = max(c.held, held), max(c.asked, asked)
}

func (c *counter) most() (held, asked int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.held, c.asked
}

// gpus are those that a pod asks for.
func gpus(p corev1.Pod) int64 {
	sum := int64(0)
	for _, c := range p.Spec.Containers {
		q := c.Resources.Limits[cluster.GPU]
		sum += q.Value()
	}
	return sum
}
