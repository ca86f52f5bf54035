package local_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/planner"
	"plimsoll/planner/connect/local"
)

// drained is a fixture with one worker in a mode, ready, and then one too many.
func drained(t *testing.T, mode string, change func(*local.Options)) *fixture {
	t.Helper()
	dir := folder(t)
	o := options(dir, mode)
	change(&o)
	f := newFixture(t, dir, o)
	f.scale(1)
	f.settled(1)
	return f
}

// What does not end in its grace is killed if it is idle.
func TestKillAfterGrace(t *testing.T) {
	f := drained(t, "stubborn", func(o *local.Options) { o.Pools[0].Template.Grace = 300 * time.Millisecond })
	f.scale(0)
	f.settled(0)
	if log := f.log(); !strings.Contains(log, "SIGTERM: it is idle") || !strings.Contains(log, "SIGKILL: it has not ended") {
		t.Error(log)
	}
}

// quick shortens what a worker that hangs is given. A look at it takes up to half of that.
func quick(o *local.Options) { o.HungAfter, o.TermGrace = 2*time.Second, 50*time.Millisecond }

// told waits until the planner has read of a request in the metrics.
func (f *fixture) told(url string) {
	f.t.Helper()
	enginetest.Eventually(f.t, "metrics with a request", func() bool {
		f.state()
		n, err := fetch(f.t, url+"/told")
		return err == nil && n == "1"
	})
}

// A worker that is not done in its grace is told to end, then killed, and it is said what
// that costs.
func TestGraceIsOver(t *testing.T) {
	for name, c := range map[string]struct {
		mode   string
		drains bool
		want   []string
	}{
		"it drains by itself":     {"stubborn", true, []string{"SIGTERM: it finishes its requests", "SIGKILL: it has not ended", "ended; 1 request lost"}},
		"it does not":             {"serve", false, []string{"SIGTERM: its 300ms to finish are over", "ended; 1 request lost"}},
		"it ignores TERM":         {"stubborn", false, []string{"SIGTERM: its 300ms to finish are over", "SIGKILL: it has not ended", "ended; 1 request lost"}},
		"its metrics say nothing": {"mute", false, []string{"SIGTERM: its 300ms", "SIGKILL", "ended; how many requests were lost is unknown by its metrics: "}},
	} {
		t.Run(name, func(t *testing.T) {
			f := drained(t, c.mode, func(o *local.Options) {
				o.TermGrace, o.Pools[0].Template.Grace, o.Pools[0].DrainsOnTERM = 50*time.Millisecond, 300*time.Millisecond, c.drains
			})
			answer := hold(t, f.found()[0].URL, "never")
			f.scale(0)
			f.settled(0)
			for _, want := range c.want {
				if !strings.Contains(f.log(), want) {
					t.Errorf("%q is not said:\n%s", want, f.log())
				}
			}
			if a := <-answer; a == "whole" || len(workers(f.dir)) != 0 {
				t.Errorf("the request got %q, %v are left", a, workers(f.dir))
			}
		})
	}
}

// One that is stopped leaves the frontend's list and is killed, whether it was ready or
// drains; its requests end with an error.
func TestHungWorker(t *testing.T) {
	t.Parallel()
	for name, drains := range map[string]bool{"ready": false, "draining": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := drained(t, "serve", quick)
			url, old := f.found()[0].URL, pidOf(f, first)
			answer := hold(t, url, "never")
			f.told(url)
			want := 1
			if drains {
				want = 0
				f.scale(want)
			}
			if err := syscall.Kill(old, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			f.until("its end", func(p planner.PoolState) bool { return p.Ready == want && strings.Contains(f.log(), "SIGKILL") })
			f.settled(want)
			if replaced := strings.Contains(f.log(), first+": has not answered at /health for 2s: replaced"); replaced == drains ||
				!strings.Contains(f.log(), "SIGTERM: it answers nothing") || !strings.Contains(f.log(), "ended; 1 request lost by its last metrics") {
				t.Error(f.log())
			}
			if a := <-answer; a == "whole" || slices.Contains(workers(f.dir), old) {
				t.Errorf("the request got %q, %v are left", a, workers(f.dir))
			}
		})
	}
}

// Neither a clock that is set while a worker drains nor one that was set back before
// keeps it longer, or cuts it short.
func TestClockIsSet(t *testing.T) {
	f := drained(t, "stubborn", func(o *local.Options) { o.TermGrace, o.Pools[0].DrainsOnTERM = time.Second, true })
	hold(t, f.found()[0].URL, "never")
	f.scale(0)
	enginetest.Eventually(t, "TERM", func() bool { f.state(); return strings.Contains(f.log(), "SIGTERM") })
	f.restart()
	began := time.Now().AddDate(-1, 0, 0) // what is written down is a year ahead, and the wall clock a year on
	var passed atomic.Int64
	f.SetClock(func() time.Time { return began.Add(time.Duration(passed.Load())).UTC() })
	f.scale(0)
	passed.Add(int64(time.Minute / 2))
	f.still(func(s planner.State) bool { return s.Pools[0].Draining == 1 && !strings.Contains(f.log(), "SIGKILL") })
	passed.Add(int64(time.Minute))
	f.settled(0)
}

// One that never was ready has nothing to finish.
func TestStopWhileStarting(t *testing.T) {
	dir := folder(t)
	f := newFixture(t, dir, options(dir, "never"))
	f.scale(2)
	f.until("starting", func(p planner.PoolState) bool { return p.Starting == 2 })
	f.scale(0)
	f.settled(0)
	if !strings.Contains(f.log(), "SIGTERM: it never was ready") {
		t.Error(f.log())
	}
}

// leases records what is revoked, and can fail.
type leases struct {
	mu      sync.Mutex
	revoked []int64
	err     error
	then    func(int64) // called after each
}

func (l *leases) Revoke(_ context.Context, id int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.revoked = append(l.revoked, id)
		l.then(id)
	}
	return l.err
}

func (l *leases) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

// Routers are told before the worker is: no TERM before the lease is revoked.
func TestLeaseIsRevokedBeforeTERM(t *testing.T) {
	etcd := &leases{err: errors.New("etcd is away"), then: func(int64) {}}
	f := drained(t, "drain", func(o *local.Options) { o.Leases = etcd })
	const lease = 7587886413462934532 // above 2^53, where a float64 would lose digits
	f.edit("dynamo_VllmDecodeWorker", func(e map[string]any) { e["lease"], e["want"] = int64(lease), 1 })
	f.scale(0)
	f.until("the failure to revoke", func(p planner.PoolState) bool { return p.Draining == 1 })
	f.still(func(s planner.State) bool {
		return strings.Contains(s.Scaling, "etcd is away") && !strings.Contains(f.log(), "SIGTERM")
	})
	etcd.fail(nil)
	f.settled(0)
	if !slices.Equal(etcd.revoked, []int64{lease}) {
		t.Errorf("revoked %d", etcd.revoked)
	}
}

// A worker that registers anew while its lease is revoked is waited for again.
func TestLeaseThatChanges(t *testing.T) {
	etcd := &leases{}
	f := drained(t, "drain", func(o *local.Options) { o.Leases = etcd })
	early := false
	etcd.then = func(id int64) {
		early = early || strings.Contains(f.log(), "SIGTERM")
		if id < 3 {
			f.edit(first, func(e map[string]any) { e["lease"] = id + 1 })
		}
	}
	f.edit(first, func(e map[string]any) { e["lease"] = "1" })
	f.scale(0)
	f.settled(0)
	if !slices.Equal(etcd.revoked, []int64{1, 2, 3}) || early {
		t.Errorf("revoked %d, TERM before that: %v", etcd.revoked, early)
	}
}

// wrapped puts a shell in front of the engine.
func wrapped(o *local.Options) {
	argv := &o.Pools[0].Template.Argv
	*argv = "sh -c '" + *argv + "; true'"
}

// A shell in front of the engine dies of TERM; the engine behind it drains, in the
// shell's session or in its own.
func TestWrapperDiesBeforeItsEngine(t *testing.T) {
	for _, mode := range []string{"drain", "away-drain"} {
		t.Run(mode, func(t *testing.T) {
			f := drained(t, mode, wrapped)
			file := filepath.Join(f.dir, "release")
			answer := hold(t, f.found()[0].URL, file)
			f.scale(0)
			enginetest.Eventually(t, "TERM to the rest", func() bool { f.state(); return strings.Contains(f.log(), "its leader ended, and these did not") })
			f.still(func(s planner.State) bool { return s.Pools[0].Draining == 1 })
			finish(t, file, answer)
			f.settled(0)
			if left := workers(f.dir); len(left) != 0 {
				t.Errorf("%v are left", left)
			}
		})
	}
}

// What left the session of a worker that died is killed before another takes its place.
func TestWrapperDiesWithoutItsEngine(t *testing.T) {
	f := drained(t, "away-stubborn", wrapped)
	before := workers(f.dir)
	kill(t, f, first) // the shell
	enginetest.Eventually(t, "KILL", func() bool { f.state(); return strings.Contains(f.log(), "SIGKILL: its leader died") })
	f.settled(1)
	if now := workers(f.dir); len(now) != 1 || slices.Equal(now, before) {
		t.Errorf("%v became %v\n%s", before, now, f.log())
	}
}

// What was ready and dies is replaced; when the cause is gone the pool is whole again.
func TestDeadWorkerIsReplaced(t *testing.T) {
	dir := folder(t)
	f := newFixture(t, dir, options(dir, "flag"))
	release(t, filepath.Join(dir, "well"))
	f.scale(2)
	f.settled(2)
	before := f.found()
	if err := os.Remove(filepath.Join(dir, "well")); err != nil {
		t.Fatal(err)
	}
	kill(t, f, "dynamo_VllmDecodeWorker_1")
	f.until("a failure", func(p planner.PoolState) bool {
		s := f.state()
		return p.Ready == 1 && p.Starting == 1 && strings.Contains(s.Scaling+s.Trouble, "exited with code 4")
	})
	if !strings.Contains(f.log(), "SIGKILL (often the kernel, out of memory)") {
		t.Error(f.log())
	}
	release(t, filepath.Join(dir, "well"))
	f.settled(2)
	after := f.found()
	if after[0] != before[0] || after[1].URL == before[1].URL {
		t.Errorf("%+v became %+v", before, after)
	}
	f.until("the failures forgotten", func(planner.PoolState) bool {
		return f.entries()["dynamo_VllmDecodeWorker"]["failures"] == nil
	})
}

// A worker that does not become ready in time makes room for another.
func TestReadyTimeout(t *testing.T) {
	dir := folder(t)
	o := options(dir, "never")
	o.Pools[0].Template.ReadyTimeout = 100 * time.Millisecond
	f := newFixture(t, dir, o)
	f.scale(1)
	f.until("a second start", func(planner.PoolState) bool { return strings.Count(f.log(), ": process ") >= 2 })
	if !strings.Contains(f.log(), "is not ready after 100ms") {
		t.Error(f.log())
	}
}

// A program that is not there is a failure like others.
func TestProgramMissing(t *testing.T) {
	dir := folder(t)
	o := options(dir, "serve")
	o.Pools[0].Template.Argv = "/no/such/engine {{.Port}}"
	f := newFixture(t, dir, o)
	f.scale(1)
	s := f.until("a failure", func(p planner.PoolState) bool { return p.Starting == 1 })
	if !strings.Contains(s.Scaling+s.Trouble, `program "/no/such/engine" does not exist`) {
		t.Errorf("%+v", s)
	}
	if p, _ := s.Pool(engine.RoleDecode); p.Ready != 0 || len(f.found()) != 0 {
		t.Errorf("%+v", p)
	}
}
