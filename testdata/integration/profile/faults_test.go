package profile

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll/testdata/integration/cluster"
	"plimsoll/testdata/integration/program"
)

// No pod is made where the namespace's quota has no GPUs left; the reason is there
// long before any time-out.
func overQuota(t *testing.T, on *cluster.Cluster) {
	s := newSite(t, on, "quota")
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "gpus"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"requests." + cluster.GPU: resource.MustParse("0")}},
	}
	quotas := on.Client.CoreV1().ResourceQuotas(s.namespace)
	if _, err := quotas.Create(t.Context(), quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	program.Until(t, 20*time.Second, "the quota counts", func() bool {
		q, err := quotas.Get(t.Context(), quota.Name, metav1.GetOptions{})
		return err == nil && len(q.Status.Hard) > 0
	})
	began := time.Now()
	s.fails([]string{"exceeded quota: gpus"})
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}

func imageMissing(t *testing.T, on *cluster.Cluster) {
	newSite(t, on, "image").fails([]string{"ErrImagePull", `"registry/none:1": not found`, "hint: is --image right"}, "--image", "registry/none:1")
}

// A limit of the user's own template is too small for the engine.
func outOfMemory(t *testing.T, on *cluster.Cluster) {
	s := newSite(t, on, "memory")
	const limits = "limits: { "
	text := program.Run(t.Context(), t, nil, "profile-sla", "manifest", "--template").Stdout
	if strings.Count(text, limits) != 1 {
		t.Fatalf("the template has no %q:\n%s", limits, text)
	}
	template := write(t, "engine.yaml", strings.ReplaceAll(text, limits, limits+"memory: 64Mi, "))
	s.fails([]string{"OOMKilled", "exit code 137", "hint: the container used more than its memory limit"}, "--image", "hungry", "--memory-request", "32Mi", "--kube-template", template)
}

// Somebody else's objects of the engines' names are left alone, and the run takes
// other names.
func namesTaken(t *testing.T, on *cluster.Cluster) {
	s := newSite(t, on, "names")
	dir := filepath.Join(t.TempDir(), "out")
	p := program.Start(t, nil, s.onCluster(dir, grid()...)...) // an engine for each phase
	id := s.run()
	var taken []string
	for attempt := 2; attempt <= 3; attempt++ {
		for _, phase := range []string{"prefill", "decode"} {
			service := &corev1.Service{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("plimsoll-%s-%d-%s-tp1", id, attempt, phase), Labels: map[string]string{"app": "another"}},
				Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
			}
			if _, err := on.Client.CoreV1().Services(s.namespace).Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			taken = append(taken, service.Name)
		}
	}
	if code := ends(t, p, 4*time.Minute); code != 0 {
		t.Errorf("exit code %d", code)
	}
	s.nothingLeft(taken...)
	for _, name := range taken {
		service, err := on.Client.CoreV1().Services(s.namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil || service.Labels["app"] != "another" || len(service.Labels) != 1 || len(service.OwnerReferences) > 0 {
			t.Errorf("%s is %+v, %v", name, service, err)
		}
	}
}

// A pod that goes while it is measured: its configuration drops out with the
// reason, and the others are measured.
func podsGo(t *testing.T, on *cluster.Cluster) {
	for name, c := range map[string]struct {
		end  func(s *site, pod string) error
		says string
	}{
		"evicted": {func(s *site, pod string) error { return s.on.Kubelet.Evict(s.namespace, pod) }, "Evicted: The node was low on resource: memory."},
		"deleted": {func(s *site, pod string) error {
			return s.on.Client.CoreV1().Pods(s.namespace).Delete(t.Context(), pod, metav1.DeleteOptions{})
		}, "deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, on, name)
			dir := filepath.Join(t.TempDir(), "out")
			p := program.Start(t, nil, s.onCluster(dir, grid("--tp", "1,2")...)...) // which leaves no size out
			pod := s.pod(60*time.Second, "the engine of TP 2 is measured", func(p corev1.Pod) bool { return strings.Contains(p.Name, "decode-tp2") && ready(p) })
			time.Sleep(500 * time.Millisecond) // into its measurement
			if err := c.end(s, pod.Name); err != nil {
				t.Fatal(err)
			}
			if code := ends(t, p, 4*time.Minute); code != 0 {
				t.Errorf("exit code %d", code)
			}
			s.nothingLeft()
			reason := ""
			for _, r := range recommendation(t, dir).Rejected {
				if r.Label == "TP:2" && strings.Contains(r.Reason, c.says) {
					reason = r.Reason
				}
			}
			t.Log(reason)
			if reason == "" || !strings.Contains(p.Output(), c.says) {
				t.Errorf("TP:2 was not rejected for %q: %+v", c.says, recommendation(t, dir).Rejected)
			}
		})
	}
}

func ready(p corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}
