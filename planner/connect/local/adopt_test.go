package local_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"plimsoll/engine/enginetest"
	"plimsoll/engine/process"
	"plimsoll/planner"
	"plimsoll/planner/connect/local"
)

// pidOf is a worker's process by the state file.
func pidOf(f *fixture, name string) int {
	f.t.Helper()
	pid, _ := f.entries()[name]["pid"].(float64)
	if pid < 2 {
		f.t.Fatalf("%s has pid %v", name, pid)
	}
	return int(pid)
}

func kill(t *testing.T, f *fixture, name string) {
	t.Helper()
	if err := syscall.Kill(pidOf(f, name), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

const (
	first  = "dynamo_VllmDecodeWorker"
	second = "dynamo_VllmDecodeWorker_1"
)

// A new Target goes on with the workers that there are, in whatever phase.
func TestAdoption(t *testing.T) {
	f := drained(t, "drain", func(*local.Options) {})
	pid := pidOf(f, first)
	f.restart()
	if p := f.state().Pools[0]; p.Ready != 1 || p.Want != 1 {
		t.Errorf("before it acts it sees %+v", p)
	}
	f.scale(1)
	f.settled(1)
	if pidOf(f, first) != pid || len(workers(f.dir)) != 1 {
		t.Error("it was started again")
	}
	file := filepath.Join(f.dir, "release")
	answer := hold(t, f.found()[0].URL, file)
	f.scale(0)
	f.restart() // marked, TERM not sent
	f.scale(0)
	enginetest.Eventually(t, "TERM", func() bool { f.state(); return strings.Contains(f.log(), "SIGTERM") })
	f.restart() // TERM sent, request in flight
	f.scale(0)
	f.still(func(s planner.State) bool { return s.Pools[0].Draining == 1 })
	if n := strings.Count(f.log(), "SIGTERM"); n != 1 {
		t.Errorf("TERM was sent %d times", n)
	}
	finish(t, file, answer)
	f.settled(0)
}

// One that died while no planner ran is cleaned and replaced; how it ended is
// not known, what it said is.
func TestDiedWhileNobodyLooked(t *testing.T) {
	f := drained(t, "serve", func(*local.Options) {})
	f.restart()
	kill(t, f, first)
	enginetest.Eventually(t, "its end", func() bool { return len(workers(f.dir)) == 0 })
	f.scale(1)
	f.settled(1)
	if !strings.Contains(f.log(), "an earlier run started it") {
		t.Error(f.log())
	}
}

// Killed between the record of a start and the start, and between the start and
// the record of its process.
func TestKilledWhileStarting(t *testing.T) {
	forget := func(e map[string]any) {
		e["state"] = "starting"
		delete(e, "pid")
		delete(e, "start_ticks")
	}
	f := drained(t, "serve", func(*local.Options) {})
	pid := pidOf(f, first)
	f.restart()
	f.edit(first, forget)
	if len(f.found()) != 0 {
		t.Error("a frontend sees a worker without a process")
	}
	f.scale(1)
	f.settled(1)
	if pidOf(f, first) != pid || len(workers(f.dir)) != 1 {
		t.Errorf("it was started twice\n%s", f.log())
	}
	kill(t, f, first)
	enginetest.Eventually(t, "its end", func() bool { return len(workers(f.dir)) == 0 })
	f.restart()
	f.edit(first, forget)
	f.scale(1)
	f.settled(1)
	if len(workers(f.dir)) != 1 || pidOf(f, first) == pid {
		t.Error("it was not started")
	}
}

// A TERM that was written down and never sent is sent once the worker is idle.
func TestKilledBeforeTERM(t *testing.T) {
	f := drained(t, "drain", func(*local.Options) {})
	file := filepath.Join(f.dir, "release")
	answer := hold(t, f.found()[0].URL, file)
	f.restart()
	f.edit(first, func(e map[string]any) {
		long := time.Now().Add(-11 * time.Second).UTC().Format(time.RFC3339Nano)
		e["state"], e["drain_at"], e["term_at"], e["want"] = "draining", long, long, 0
	})
	f.scale(0)
	f.still(func(planner.State) bool { return !strings.Contains(f.log(), "SIGTERM") })
	finish(t, file, answer)
	f.settled(0)
}

// A pid that another process has by now is never signalled, and what runs that
// the file does not know is not touched.
func TestStalePIDIsNeverSignalled(t *testing.T) {
	f := drained(t, "serve", func(*local.Options) {})
	stranger := enginetest.Command(t, "sleep", "600")
	stranger.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stranger.Wait() }()
	defer func() { _ = stranger.Process.Kill() }()
	unknown := pidOf(f, first) // it runs on, and the file forgets it
	h, err := process.HandleOf(stranger.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(map[string]any){
		"start": func(e map[string]any) { e["pid"], e["start_ticks"] = h.PID, h.Start+1 },
		"boot":  func(e map[string]any) { e["pid"], e["start_ticks"], e["boot_id"] = h.PID, h.Start, "another" },
	} {
		f.restart()
		f.edit(first, change)
		f.edit(first, func(e map[string]any) { e["state"], e["drain_at"] = "draining", time.Now().Add(-time.Hour) })
		f.scale(0)
		f.settled(0)
		if now, err := process.HandleOf(h.PID); err != nil || now != h {
			t.Fatalf("%s: the stranger is gone: %v\n%s", name, err, f.log())
		}
		f.scale(1)
		f.settled(1)
	}
	if !slices.Contains(workers(f.dir), unknown) {
		t.Error("a worker that the file does not know was ended")
	}
}

// gone removes the state file, or the whole folder.
func (f *fixture) gone(whole bool) {
	f.t.Helper()
	remove, path := os.Remove, f.opts.Path
	if whole {
		remove, path = os.RemoveAll, filepath.Dir(path)
	}
	if err := remove(path); err != nil {
		f.t.Fatal(err)
	}
}

// A state file that is removed under a planner is written again: its workers serve or
// drain as before, and no other planner acts.
func TestFileIsGone(t *testing.T) {
	for name, whole := range map[string]bool{"the file": false, "its folder": true} {
		t.Run(name, func(t *testing.T) {
			dir := folder(t)
			f := newFixture(t, dir, options(dir, "drain"))
			f.scale(2)
			f.settled(2)
			file, ws := filepath.Join(dir, "release"), f.found()
			answer := hold(t, ws[1].URL, file)
			f.scale(1)
			f.until("draining", func(p planner.PoolState) bool { return p.Draining == 1 })
			f.gone(whole)
			if p := f.state().Pools[0]; p.Want != 1 || p.Ready != 1 || p.Draining != 1 || len(workers(dir)) != 2 {
				t.Errorf("%+v, %d processes\n%s", p, len(workers(dir)), f.log())
			}
			if other := newFixture(t, dir, f.opts); !errors.Is(other.Scale(t.Context(), planner.Replicas{}, "test"), local.ErrOwned) {
				t.Error("another planner acts on the file")
			}
			finish(t, file, answer)
			f.settled(1)
			if now := f.found(); len(now) != 1 || now[0] != ws[0] {
				t.Errorf("%+v became %+v", ws, now)
			}
		})
	}
}

// A planner that starts without the state file finds its workers by their mark, with
// their GPUs, and none of another namespace.
func TestWorkersAreFoundByTheirMark(t *testing.T) {
	dir := folder(t)
	o := options(dir, "serve")
	o.GPUs = []string{"3", "1"}
	f := newFixture(t, dir, o)
	f.scale(2)
	f.settled(2)
	elsewhere := options(dir, "serve")
	elsewhere.Path, elsewhere.GPUs = filepath.Join(dir, "state", "other.json"), []string{"7"}
	other := newFixture(t, dir, elsewhere)
	other.scale(1)
	other.settled(1)

	before := f.found()
	pids := []int{pidOf(f, first), pidOf(f, second)}
	gpus := func() string { return fmt.Sprint(f.entries()[first]["resources"], f.entries()[second]["resources"]) }
	had := gpus()
	f.restart()
	f.gone(false)
	if p := f.state().Pools[0]; p.Starting != 2 || p.Want != -1 {
		t.Errorf("before it acts it sees %+v", p)
	}
	if _, err := os.Stat(f.opts.Path); err == nil {
		t.Error("a look wrote the file")
	}
	f.scale(3)
	s := f.until("two of three", func(p planner.PoolState) bool { return p.Ready == 2 })
	if s.Pools[0].Pending != 1 || len(workers(dir)) != 3 {
		t.Errorf("%+v, %d processes\n%s", s, len(workers(dir)), f.log())
	}
	if now := []int{pidOf(f, first), pidOf(f, second)}; !slices.Equal(now, pids) || !slices.Equal(f.found(), before) || gpus() != had {
		t.Errorf("%v %+v %s became %v %+v %s", pids, before, had, now, f.found(), gpus())
	}
	f.scale(0)
	f.settled(0)
	other.settled(1)
}

// Workers of another machine's planner are none of ours.
func TestOtherMachine(t *testing.T) {
	f := drained(t, "serve", func(*local.Options) {})
	f.restart()
	f.edit(first, func(e map[string]any) { e["boot_id"], e["host"] = "another", "elsewhere" })
	before, err := os.ReadFile(f.opts.Path)
	if err != nil {
		t.Fatal(err)
	}
	err = f.Scale(t.Context(), planner.Replicas{}, "test")
	if err == nil || !strings.Contains(err.Error(), "runs on elsewhere") {
		t.Errorf("got %v", err)
	}
	if after, err := os.ReadFile(f.opts.Path); err != nil || string(after) != string(before) {
		t.Errorf("the file was changed: %v", err)
	}
}

// A port that somebody took between two runs is not the worker's any more.
func TestPortTaken(t *testing.T) {
	f := drained(t, "serve", func(*local.Options) {})
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})) // says that it is well
	defer other.Close()
	f.restart()
	f.edit(first, func(e map[string]any) {
		e["port"], e["url"] = other.Listener.Addr().(*net.TCPAddr).Port, other.URL
	})
	f.scale(1)
	f.still(func(s planner.State) bool {
		return s.Pools[0].Ready == 0 && s.Pools[0].Starting == 1 && strings.Contains(f.log(), "belongs to")
	})
	if ws := f.found(); len(ws) != 1 || ws[0].State != local.Starting {
		t.Errorf("a frontend sees %+v", ws)
	}
}

// Run does by itself what State does when it is asked.
func TestRun(t *testing.T) {
	dir := folder(t)
	f := newFixture(t, dir, options(dir, "serve"))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	f.scale(2)
	ready := func(n int) func() bool {
		return func() bool {
			got := 0
			for _, w := range f.found() {
				if w.State == local.Ready {
					got++
				}
			}
			return got == n && len(workers(dir)) == n
		}
	}
	enginetest.Eventually(t, "two ready workers", ready(2))
	kill(t, f, second)
	enginetest.Eventually(t, "another in its place", func() bool { return ready(2)() && strings.Contains(f.log(), "SIGKILL") })
	f.scale(0)
	enginetest.Eventually(t, "none", ready(0))
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
