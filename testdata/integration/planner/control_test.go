package planner

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"plimsoll/testdata/integration/etcd"
	"plimsoll/testdata/integration/program"
)

// What is changed while the planner runs, by its file; its end.
func TestControl(t *testing.T) {
	t.Parallel()
	on := etcd.Start(t, 1)
	acknowledged(t, on)
	sites, scraper := frontends(t, "file")
	file := filepath.Join(t.TempDir(), "planner.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("max-gpu-budget: 4\nmin-endpoint: 1\nttft: 300\nno-operation: true\n")
	s := plan(t, "file", "--environment", "virtual", "--etcd-endpoints", on.Endpoints[0], "--prometheus-endpoint", scraper, "--config", file)
	flag := slices.Index(s.args, "--ttft")
	s.args = slices.Delete(s.args, flag, flag+2) // it would win over the file
	s.start()
	begin := time.Now()
	sites["file"].set(steady(60), figures)
	s.after(begin, 30*time.Second, "it says what it would do", ofKind("advice", "would ask for prefill="))
	write("max-gpu-budget: 4\nmin-endpoint: 1\nttft: 300\n")
	s.Signal(syscall.SIGHUP)
	s.wants(30*time.Second, "all of the budget", func(p pair) bool { return p.Prefill+p.Decode == 4 })
	lease := func(what string, is func(left int64) bool) {
		t.Helper()
		program.Until(t, 20*time.Second, what, func() bool {
			at, err := on.Client().Get(t.Context(), "v1/file/planner/decision_id")
			if err != nil || len(at.Kvs) != 1 {
				t.Fatal(at, err)
			}
			left, err := on.Client().TimeToLive(t.Context(), clientv3.LeaseID(at.Kvs[0].Lease))
			return err == nil && is(left.TTL)
		})
	}
	write("max-gpu-budget: 4\nmin-endpoint: 1\nttft: 300\nno-operation: true\n")
	s.Signal(syscall.SIGHUP)
	lease("advice alone does not renew the decision", func(left int64) bool { return left < 86_395 })
	write("max-gpu-budget: 4\nmin-endpoint: 1\nttft: 300\n")
	s.Signal(syscall.SIGHUP)
	lease("a planner that acts renews it", func(left int64) bool { return left > 86_397 })
	for bad, why := range map[string]string{"max-gpu-budget: many\n": "max-gpu-budget", "max-gpu-bugdet: 8\n": "max-gpu-bugdet", "{": file, "": "says nothing", "# all of it\n": "says nothing"} {
		before := len(s.Output())
		write(bad)
		s.Signal(syscall.SIGHUP)
		program.Until(t, 5*time.Second, "it says what is wrong with "+bad, func() bool {
			said := s.Output()[before:]
			return strings.Contains(said, "the configuration is unchanged: ") && strings.Contains(said, why)
		})
	}
	if d := s.decisions(1)[0]; d.Decision.Want.Prefill+d.Decision.Want.Decode > 4 {
		t.Errorf("after bad files it decided %+v", d.Decision)
	}
	begin = time.Now()
	write("max-gpu-budget: 7\nmin-endpoint: 2\nttft: 100\n")
	s.Signal(syscall.SIGHUP)
	s.after(begin, 5*time.Second, "the change is an event", ofKind("changed", "TTFT 300ms became 100ms, the most GPUs 4 became 7, the least prefill replicas 1 became 2"))
	s.wants(10*time.Second, "the new SLA, which takes 5 prefill engines at 60.81 ms for each request", is(pair{5, 2}))
	if code := s.Stop(); code != 0 {
		t.Errorf("TERM ends it with %d", code)
	}
	o := other{t, "file", on}
	if got, _ := o.keys(); got["num_decode_workers"] != "2" {
		t.Errorf("after TERM etcd holds %v", got)
	}
	s.after(begin, time.Second, "its end is an event", ofKind("stopped", ""))
}
