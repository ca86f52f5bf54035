package profile

import (
	"encoding/json"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll/testdata/integration/cluster"
	"plimsoll/testdata/integration/program"
)

// Ctrl-C ends it with 130, and a terminal that is closed with 1; it leaves nothing
// but what was measured.
func interrupted(t *testing.T, on *cluster.Cluster) {
	for name, c := range map[string]struct {
		signal syscall.Signal
		code   int
	}{"interrupted": {syscall.SIGINT, 130}, "hangup": {syscall.SIGHUP, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if signal.Ignored(c.signal) {
				t.Skip("this test runs under nohup")
			}
			s := newSite(t, on, name)
			dir := filepath.Join(t.TempDir(), "out")
			p := program.Start(t, nil, s.onCluster(dir, "--tp", "1,2")...)
			program.Until(t, 60*time.Second, "a point", func() bool { return points(dir) > 0 })
			p.Signal(c.signal)
			began := time.Now()
			if code := ends(t, p, 60*time.Second); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			t.Logf("gone %v after the signal", time.Since(began).Round(time.Millisecond))
			s.nothingLeft()
			if !strings.Contains(p.Output(), "--resume") {
				t.Errorf("it does not say how to go on:\n%s", p.Output())
			}
		})
	}
}

// What a killed run leaves is there until cleanup, which leaves a live run
// alone; the profile goes on where it was.
func killed(t *testing.T, on *cluster.Cluster) {
	s := newSite(t, on, "killed")
	dir := filepath.Join(t.TempDir(), "out")
	p := program.Start(t, nil, s.onCluster(dir, grid("--tp", "1,2")...)...)
	program.Until(t, 60*time.Second, "two points", func() bool { return points(dir) >= 2 })
	s.pod(20*time.Second, "an engine of the third", func(p corev1.Pod) bool { return strings.Contains(p.Name, "decode") && ready(p) })
	id := s.run()
	p.Kill()
	kept := points(dir)
	program.Until(t, 20*time.Second, "what was stopping is gone", func() bool { return !s.stops() })
	left := s.objects()
	if !slices.ContainsFunc(left, func(o string) bool { return strings.HasPrefix(o, "pods/") }) {
		t.Errorf("there is left %v, and no pod", left)
	}

	// Its Lease is fresh: it might live. A minute or two later it does not.
	if r := s.cleanup(); r.Code != 0 || len(s.objects()) != len(left) {
		t.Errorf("cleanup of a run that lives: %d, %s%s, and %v", r.Code, r.Stdout, r.Stderr, s.objects())
	}
	if r := s.cleanup("--run", id); r.Code != 1 || !strings.Contains(r.Stderr, "lives") {
		t.Errorf("cleanup --run of a run that lives: %d, %s%s", r.Code, r.Stdout, r.Stderr)
	}
	s.age(id, 3*time.Minute)
	if r := s.cleanup("--dry-run"); r.Code != 0 || !strings.Contains(r.Stdout, "dead") || len(s.objects()) != len(left) {
		t.Errorf("cleanup --dry-run: %d, %s%s", r.Code, r.Stdout, r.Stderr)
	}

	// The next run says that something is left, and keeps off it.
	r := s.profile(dir, grid("--tp", "1,2", "--resume")...)
	if r.Code != 0 || !strings.Contains(r.Stderr, "cleanup") {
		t.Errorf("--resume: %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	if n := points(dir); n <= kept || repeated(t, dir) {
		t.Errorf("%d points after %d", n, kept)
	}
	if now := s.objects(); !slices.Equal(now, left) {
		t.Errorf("there is left %v, want %v", now, left)
	}
	r = s.cleanup()
	if r.Code != 0 || !strings.Contains(r.Stdout, "deleted of run "+id) {
		t.Errorf("cleanup: %d, %s%s", r.Code, r.Stdout, r.Stderr)
	}
	t.Logf("%d points kept of %d\n%s", kept, points(dir), r.Stdout)
	s.nothingLeft()
}

// stops reports whether a pod is on its way out.
func (s *site) stops() bool {
	pods, err := s.on.Client.CoreV1().Pods(s.namespace).List(s.t.Context(), metav1.ListOptions{})
	return err != nil || slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil })
}

func (s *site) cleanup(more ...string) program.Result {
	s.t.Helper()
	return program.Run(s.t.Context(), s.t, nil, append([]string{
		"profile-sla", "cleanup", "--kubeconfig", s.kubeconfig, "--kube-namespace", s.namespace,
	}, more...)...)
}

// run waits for a run's Lease and gives its ID.
func (s *site) run() (id string) {
	s.t.Helper()
	program.Until(s.t, 30*time.Second, "a run", func() bool {
		list, err := s.on.Client.CoordinationV1().Leases(s.namespace).List(s.t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) == 0 {
			return false
		}
		id = list.Items[0].Labels["plimsoll.dev/run"]
		return id != ""
	})
	return id
}

// age makes a run's last sign of life older.
func (s *site) age(id string, by time.Duration) {
	s.t.Helper()
	leases := s.on.Client.CoordinationV1().Leases(s.namespace)
	list, err := leases.List(s.t.Context(), metav1.ListOptions{LabelSelector: "plimsoll.dev/run=" + id})
	if err != nil || len(list.Items) != 1 {
		s.t.Fatalf("%d leases, %v", len(list.Items), err)
	}
	lease := list.Items[0]
	lease.Spec.RenewTime = &metav1.MicroTime{Time: lease.Spec.RenewTime.Add(-by)}
	if _, err := leases.Update(s.t.Context(), &lease, metav1.UpdateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// repeated reports whether a point was measured twice.
func repeated(t *testing.T, dir string) bool {
	t.Helper()
	seen := map[string]bool{}
	for _, line := range journal(dir) {
		var entry struct {
			Type  string
			Point struct{ ID string }
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatal(err)
		}
		if entry.Type != "point" {
			continue
		}
		if seen[entry.Point.ID] {
			return true
		}
		seen[entry.Point.ID] = true
	}
	return false
}

// The API server is killed in the middle of a load, and comes back: the load is
// sent again.
func apiServerRestarts(t *testing.T, on *cluster.Cluster) {
	s := newSite(t, on, "restart")
	dir := filepath.Join(t.TempDir(), "out")
	p := program.Start(t, nil, s.onCluster(dir, "--osl", "200", "--max-num-seqs", "64", "--max-context-length", "2000")...)
	program.Until(t, 60*time.Second, "the first point of decode", func() bool {
		return slices.ContainsFunc(journal(dir), func(line string) bool { return strings.Contains(line, `"id":"sweep/decode/`) })
	})
	time.Sleep(2 * time.Second) // into the load of the next, whose 200 steps take 25 ms and more each
	on.KillAPIServer()
	time.Sleep(2 * time.Second)
	on.RestartAPIServer()
	if code := ends(t, p, 120*time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
	s.nothingLeft()
	again := 0
	for _, line := range journal(dir) {
		if strings.Contains(line, `"port_forward_broken"`) {
			again++
		}
	}
	t.Logf("%d points were measured again", again)
	if again == 0 {
		t.Error("no point says that its way broke")
	}
	got := recommendation(t, dir)
	for _, r := range got.Rejected {
		if strings.Contains(r.Reason, "could not be measured") {
			t.Errorf("%s %s: %s", r.Phase, r.Label, r.Reason)
		}
	}
}

// ends waits for the end, and gives the exit code.
func ends(t *testing.T, p *program.Background, within time.Duration) int {
	t.Helper()
	select {
	case <-p.Ended():
	case <-time.After(within):
		t.Errorf("it runs still after %v", within)
	}
	return p.Stop()
}
