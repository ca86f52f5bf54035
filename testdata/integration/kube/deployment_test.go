package kube

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll/engine"
	"plimsoll/planner"
	"plimsoll/planner/connect/kubernetes"
	"plimsoll/testdata/integration/cluster"
)

// engines is a Deployment of engines with so many GPUs each.
func engines(replicas, gpus int) []byte {
	return fmt.Appendf(nil, `
apiVersion: apps/v1
kind: Deployment
metadata: {name: decode}
spec:
  replicas: %d
  selector: {matchLabels: {app: decode}}
  template:
    metadata: {labels: {app: decode}}
    spec:
      terminationGracePeriodSeconds: 2
      containers:
        - {name: engine, image: engine, args: [--model, Qwen/Qwen3-8B], resources: {limits: {nvidia.com/gpu: "%d"}}}
`, replicas, gpus)
}

func aggregated() kubernetes.Options {
	return kubernetes.Options{Namespace: namespace, Targets: map[engine.Role]string{engine.RoleAggregated: "apps/v1/Deployment/decode"}}
}

// pool waits until the only pool is as ok wants it.
func pool(t *testing.T, on *kubernetes.Target, what string, ok func(planner.PoolState) bool) planner.State {
	t.Helper()
	var s planner.State
	eventually(t, what, func(ctx context.Context) (err error) {
		if s, err = on.State(ctx); err != nil {
			return err
		}
		if len(s.Pools) != 1 || !ok(s.Pools[0]) {
			return fmt.Errorf("state is %+v", s)
		}
		return nil
	})
	return s
}

// Upstream's planner waited for ever for pods that had no GPUs, and scaled
// nothing down meanwhile (dynamo#14251).
func TestPendingPodsKeepNobodyFromScalingDown(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Workloads: true, PodStartup: time.Second})
	c.AddNode("eight", 8)
	create(t, c, engines(1, 2))
	on := target(t, granted(t, c, aggregated()), aggregated())
	first := pool(t, on, "one is ready", func(p planner.PoolState) bool { return p.Ready == 1 })
	if p := first.Pools[0]; p.GPUs != 2 || first.Model != "Qwen/Qwen3-8B" || p.Name != "decode" || first.Scaling != "" {
		t.Errorf("state is %+v", first)
	}

	scaled(t, on, planner.Replicas{Aggregated: 6}, "load")
	full := pool(t, on, "two have no place", func(p planner.PoolState) bool {
		return p == planner.PoolState{Role: engine.RoleAggregated, Name: "decode", Want: 6, Ready: 4, Starting: 2, Pending: 2, GPUs: 2}
	})
	if !strings.Contains(full.Scaling, "2 without a place (0/1 nodes are available: 1 Insufficient nvidia.com/gpu") {
		t.Errorf("scaling: %s", full.Scaling)
	}

	scaled(t, on, planner.Replicas{Aggregated: 3}, "no GPUs")
	less := pool(t, on, "three are ready and no more", func(p planner.PoolState) bool { return p.Ready == 3 && p.Draining == 0 })
	if less.Pools[0].Pending != 0 || less.Scaling != "" {
		t.Errorf("state is %+v", less)
	}
	events(t, c, "Deployment", "aggregated decode from 1 to 6: load", "aggregated decode from 6 to 3: no GPUs")
}

// Pods that a quota keeps from being made are as pending as those without a node.
func TestQuotaIsSeen(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Workloads: true})
	c.AddNode("eight", 8)
	hard := corev1.ResourceList{"requests.nvidia.com/gpu": resource.MustParse("4")}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "gpus"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}
	made, err := c.Client.CoreV1().ResourceQuotas(namespace).Create(t.Context(), quota, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// The controller that keeps a quota's status does not run here.
	made.Status = corev1.ResourceQuotaStatus{Hard: hard, Used: corev1.ResourceList{"requests.nvidia.com/gpu": resource.MustParse("0")}}
	if _, err := c.Client.CoreV1().ResourceQuotas(namespace).UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	large := corev1.Container{Name: "large", Image: "engine", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("5")}}}
	eventually(t, "the quota counts", func(ctx context.Context) error { // the API server's admission reads it from a cache
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "large"}, Spec: corev1.PodSpec{Containers: []corev1.Container{large}}}
		_, err := c.Client.CoreV1().Pods(namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err == nil || !strings.Contains(err.Error(), "exceeded quota") {
			return fmt.Errorf("a pod beyond the quota: error is %w", err)
		}
		return nil
	})
	create(t, c, engines(3, 2))
	on := target(t, granted(t, c, aggregated()), aggregated())
	s := pool(t, on, "one is refused", func(p planner.PoolState) bool { return p.Ready == 2 && p.Pending == 1 })
	if !strings.Contains(s.Scaling, "exceeded quota") {
		t.Errorf("scaling: %s", s.Scaling)
	}
	scaled(t, on, planner.Replicas{Aggregated: 1}, "quota")
	pool(t, on, "one is left", func(p planner.PoolState) bool { return p.Ready == 1 && p.Pending == 0 && p.Draining == 0 })
}

// Pods that stop hold their GPUs: they are counted until they are gone.
func TestDrainingPodsAreCounted(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Workloads: true})
	c.AddNode("eight", 8)
	create(t, c, engines(3, 2))
	on := target(t, granted(t, c, aggregated()), aggregated())
	pool(t, on, "three are ready", func(p planner.PoolState) bool { return p.Ready == 3 })
	// A finalizer keeps a pod as long as requests would.
	pods, err := c.Client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items {
		hold(t, c, p.Name, `["example.com/requests"]`)
	}
	scaled(t, on, planner.Replicas{Aggregated: 1}, "less")
	pool(t, on, "two drain", func(p planner.PoolState) bool { return p.Want == 1 && p.Ready == 1 && p.Draining == 2 })
	for _, p := range pods.Items {
		hold(t, c, p.Name, `null`)
	}
	pool(t, on, "none drains", func(p planner.PoolState) bool { return p.Draining == 0 })
}

func hold(t *testing.T, c *cluster.Cluster, pod, finalizers string) {
	t.Helper()
	patch := []byte(`{"metadata":{"finalizers":` + finalizers + `}}`)
	if _, err := c.Client.CoreV1().Pods(namespace).Patch(t.Context(), pod, "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}
