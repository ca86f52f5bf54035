//go:build full

package local_test

import (
	"strings"
	"testing"
	"time"

	"plimsoll/engine/enginetest"
	"plimsoll/planner"
)

// A worker that dies at once is reported with its code and its last words, and
// is started again ever more slowly; its GPU is free meanwhile.
func TestCrashLoopIsBounded(t *testing.T) {
	dir := folder(t)
	o := options(dir, "exit3")
	o.Backoff, o.MaxBackoff = 50*time.Millisecond, time.Hour
	f := newFixture(t, dir, o)
	f.scale(1)
	var s planner.State
	enginetest.Eventually(t, "three failures", func() bool { s = f.state(); return strings.Contains(s.Trouble, "after 3 failures") })
	if s.Scaling != "" || !strings.Contains(s.Trouble, "exited with code 3") || !strings.Contains(f.log(), "fatal: no such tensor") {
		t.Errorf("%+v\n%s", s, f.log())
	}
	if p := s.Pools[0]; p.Starting != 1 || p.Pending != 0 || p.Ready != 0 {
		t.Errorf("%+v", p)
	}
	e := f.entries()["dynamo_VllmDecodeWorker"]
	died, err1 := time.Parse(time.RFC3339Nano, e["retry_at"].(string))
	if err1 != nil || e["resources"] != nil {
		t.Errorf("%v, %v", e, err1)
	}
	// The wait is kept over a restart of the planner: fail, 50 ms, fail, 100 ms, fail, 200 ms.
	f.restart()
	f.scale(1)
	if got := f.entries()["dynamo_VllmDecodeWorker"]; got["failures"] == 3.0 && got["retry_at"] != died.Format(time.RFC3339Nano) {
		t.Errorf("the wait was forgotten: %v", got)
	}
	starts := strings.Count(f.log(), ": process ")
	if fails := strings.Count(f.log(), "exited with code 3"); starts < 3 || starts > 4 || fails < 3 {
		t.Errorf("%d starts, %d failures\n%s", starts, fails, f.log())
	}
}
