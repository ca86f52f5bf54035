package cluster_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"plimsoll/testdata/integration/cluster"
)

// A node of eight GPUs has room for four pods of two: the fifth stays Pending
// until there is another node, as in life.
func TestDeploymentGetsTheGPUsThatThereAre(t *testing.T) {
	t.Parallel()
	const startup = 2 * time.Second
	c := cluster.Start(t, cluster.Options{Workloads: true, PodStartup: startup})
	c.AddNode("first", 8)
	if _, err := c.Client.AppsV1().Deployments("default").Create(t.Context(), deployment(5, 2), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, c.Client, 4, 1)
	pods, err := c.Client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods.Items {
		if waited := readyAfter(p); waited != 0 && waited < startup-time.Second { // whole seconds are recorded
			t.Errorf("pod %s was ready %v after it was made, want %v at least", p.Name, waited, startup)
		}
	}
	c.AddNode("second", 8)
	await(t, c.Client, 5, 0)
}

// A user other than the administrator may do nothing.
func TestUsersHaveNoRights(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{})
	config := c.ConfigOf("system:serviceaccount:default:planner")
	user, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := user.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}); err == nil {
		t.Error("a user without roles lists pods")
	}
	if _, err := c.Client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
}

// await waits until so many pods are ready, and so many have no room.
func await(t *testing.T, client kubernetes.Interface, ready, unschedulable int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	err := cluster.Poll(ctx, func(ctx context.Context) error {
		pods, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		gotReady, gotUnschedulable := 0, 0
		for _, p := range pods.Items {
			for _, c := range p.Status.Conditions {
				switch {
				case c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue:
					gotReady++
				case c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable:
					gotUnschedulable++
				}
			}
		}
		if gotReady != ready || gotUnschedulable != unschedulable {
			return fmt.Errorf("%d of %d pods are ready and %d have no room, want %d and %d",
				gotReady, len(pods.Items), gotUnschedulable, ready, unschedulable)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func readyAfter(p corev1.Pod) time.Duration {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Sub(p.CreationTimestamp.Time)
		}
	}
	return 0
}

func deployment(replicas int32, gpus int64) *appsv1.Deployment {
	labels := map[string]string{"app": "decode"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "decode"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "engine", Image: "engine",
					Resources: corev1.ResourceRequirements{
						Limits: corev1.ResourceList{cluster.GPU: *resource.NewQuantity(gpus, resource.DecimalSI)},
					},
				}}},
			},
		},
	}
}
