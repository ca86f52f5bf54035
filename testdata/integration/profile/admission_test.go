package profile

import (
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plimsoll/testdata/integration/cluster"
	"plimsoll/testdata/integration/program"
)

// A namespace of the Pod Security Standard "restricted" refuses the built-in
// template, which is said with what to do; with what docs/kubernetes.md names it
// takes the pods.
func restricted(t *testing.T, on *cluster.Cluster) {
	s := newSite(t, on, "restricted")
	body := []byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"restricted"}}}`)
	if _, err := on.Client.CoreV1().Namespaces().Patch(t.Context(), s.namespace, types.MergePatchType, body, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	s.fails([]string{`violates PodSecurity "restricted`, "hint: a --kube-template with the securityContext"})

	const image = "    image: {{json .Image}}\n"
	text := program.Run(t.Context(), t, nil, "profile-sla", "manifest", "--template").Stdout
	if strings.Count(text, image) != 1 {
		t.Fatalf("the template has no %q:\n%s", image, text)
	}
	template := write(t, "engine.yaml", strings.ReplaceAll(text, image, image+
		"    securityContext: {runAsNonRoot: true, runAsUser: 1000, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, seccompProfile: {type: RuntimeDefault}}\n"))
	if r := s.profile(filepath.Join(t.TempDir(), "out"), "--kube-template", template); r.Code != 0 {
		t.Errorf("exit code %d\n%s", r.Code, r.Stderr)
	}
	s.nothingLeft()
}

// Nodes that are tainted by their GPUs' name, as clouds do, take the engines; other
// taints are tolerated by flag alone.
func tainted(t *testing.T, on *cluster.Cluster) {
	s := newSite(t, on, "taint")
	for name, key := range map[string]string{"cloud": string(cluster.GPU), "team": "team"} {
		on.AddNode(name, 4)
		body := []byte(`{"metadata":{"labels":{"pool":"` + name + `"}},"spec":{"taints":[{"key":"` + key + `","value":"present","effect":"NoSchedule"}]}}`)
		if _, err := on.Client.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, body, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if r := s.profile(filepath.Join(t.TempDir(), "out"), "--node-selector", "pool=cloud"); r.Code != 0 {
		t.Errorf("exit code %d\n%s", r.Code, r.Stderr)
	}
	s.fails([]string{"untolerated taint", "hint: --toleration"}, "--node-selector", "pool=team", "--schedule-timeout", "3s")
	if r := s.profile(filepath.Join(t.TempDir(), "out"), "--node-selector", "pool=team", "--toleration", "team"); r.Code != 0 {
		t.Errorf("exit code %d\n%s", r.Code, r.Stderr)
	}
}

// A run whose Lease seems old, because its clock is another or the API server was
// away, renews it while cleanup listens, and is left alone.
func clockIsAnother(t *testing.T, on *cluster.Cluster) {
	s := newSite(t, on, "clock")
	p := program.Start(t, nil, s.onCluster(filepath.Join(t.TempDir(), "out"), "--image", "slow")...)
	id := s.run()
	s.pod(60*time.Second, "an engine loads", func(corev1.Pod) bool { return true })
	s.age(id, 10*time.Minute)
	r := s.cleanup()
	t.Logf("%s%s", r.Stderr, r.Stdout)
	if r.Code != 0 || !strings.Contains(r.Stdout, "lives") || strings.Contains(r.Stdout, "deleted") {
		t.Errorf("cleanup of a run that lives: %d", r.Code)
	}
	if !slices.ContainsFunc(s.objects(), func(o string) bool { return strings.HasPrefix(o, "pods/") }) {
		t.Errorf("its engine is gone: there is %v", s.objects())
	}
	p.Signal(syscall.SIGINT)
	if code := ends(t, p, 60*time.Second); code != 130 {
		t.Errorf("exit code %d\n%s", code, p.Output())
	}
	s.nothingLeft()
}

// Somebody deletes the run's Lease while an engine loads: the engine goes with it,
// and the run ends with why, long before any time-out.
func leaseDeleted(t *testing.T, on *cluster.Cluster) {
	s := newSite(t, on, "lease")
	p := program.Start(t, nil, s.onCluster(filepath.Join(t.TempDir(), "out"), "--image", "slow")...)
	id := s.run()
	s.pod(60*time.Second, "an engine loads", func(corev1.Pod) bool { return true })
	if err := on.Client.CoordinationV1().Leases(s.namespace).Delete(t.Context(), "plimsoll-"+id, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if code := ends(t, p, 60*time.Second); code != 1 || !strings.Contains(p.Output(), "the Lease plimsoll-"+id+" was deleted by somebody") {
		t.Errorf("exit code %d\n%s", code, p.Output())
	}
	t.Logf("it ended after %v", time.Since(began).Round(time.Millisecond))
	s.nothingLeft()
}
