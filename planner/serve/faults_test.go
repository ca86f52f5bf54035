package serve

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll/engine"
	"plimsoll/planner"
)

// Two deployments that decide at the same instant do not both take what is free.
func TestSharedBudgetAtOneInstant(t *testing.T) {
	shared := NewBudget(10)
	for _, name := range []string{"a", "b"} {
		shared.join(name, planner.Ask{Weight: 1, Pair: 2, Least: 2})
		shared.holds(name, 2)
	}
	var other sync.WaitGroup
	var sum atomic.Int64
	take := func(s planner.Share) (wanted, granted int) {
		granted = 2 + min(s.Free, s.Max-2)
		sum.Add(int64(granted))
		return 10, granted
	}
	shared.decide("a", 2, func(s planner.Share) (wanted, granted int) {
		other.Go(func() { shared.decide("b", 2, take) })
		for range 10_000 { // long enough for b to come in between
			runtime.Gosched()
		}
		return take(s)
	})
	other.Wait()
	if got := sum.Load(); got > 10 {
		t.Errorf("%d GPUs of 10 are given away", got)
	}
}

// A deployment whose replicas nobody saw yet may hold the rest of the budget.
func TestUnseenDeploymentsKeepTheirGPUs(t *testing.T) {
	b := NewBudget(10)
	b.join("a", planner.Ask{Weight: 1, Pair: 2, Least: 2})
	b.join("b", planner.Ask{Weight: 1, Pair: 2, Least: 2})
	b.holds("a", 1)
	if s := b.share("a", 2); s.Free != 1 {
		t.Errorf("%d GPUs are free: want what a needs for its least", s.Free)
	}
	b.holds("b", 6)
	if s := b.share("a", 2); s.Free != 3 {
		t.Errorf("%d GPUs are free", s.Free)
	}
}

// GPUs that were asked for and are not there yet are nobody else's.
func TestPendingReplicasAreClaimed(t *testing.T) {
	g := newRig(t, []planner.Replicas{pd(1, 1)}, func(o *Options, _ *world) { o.Budget = NewBudget(10) })
	g.use(planner.State{Pools: []planner.PoolState{
		{Role: engine.RolePrefill, Want: 3, Ready: 1, Starting: 2, Pending: 2},
		{Role: engine.RoleDecode, Want: 4, Ready: 2, Draining: 1}, // an acknowledgement is awaited
	}})
	if got := g.o.Budget.held["test"]; got != 8 {
		t.Errorf("%d GPUs are claimed, want 3 + 4 + 1", got)
	}
}

// A metric that is no number is no event that cannot be written.
func TestNaNDoesNotBreakEvents(t *testing.T) {
	o := planner.Observation{Arrivals: planner.Known(math.NaN()), Running: planner.Known(math.Inf(1))}
	b, err := json.Marshal(Event{Observation: &o, Decision: &planner.Decision{Forecast: planner.Demand{Rate: planner.Known(math.NaN())}}})
	if err != nil || !strings.Contains(string(b), `"arrivals":null`) {
		t.Errorf("%s, %v", b, err)
	}
}

// Another planner on the same state file is refused, and let in when the first one
// is gone.
func TestOneStateFileOnePlanner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	with := func(o *Options, _ *world) { o.StatePath = path }
	synctest.Test(t, func(t *testing.T) {
		first, second := newRig(t, []planner.Replicas{pd(1, 1)}, with), newRig(t, []planner.Replicas{pd(1, 1)}, with)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = first.Run(ctx) })
		synctest.Wait()
		if err := second.Run(t.Context()); !errors.Is(err, ErrStateInUse) || !strings.Contains(err.Error(), path) {
			t.Errorf("a second planner: %v", err)
		}
		cancel()
		running.Wait()
		second.lasts(t, 2*time.Minute)
		if len(second.seen) == 0 {
			t.Error("the second planner never decided")
		}
	})
}

// Another policy, or another interval, leaves the history behind, and not what was held.
func TestGPUHoursOutlastOtherSettings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	for _, bad := range []string{
		`{"schema":1,"deployment":"test","interval_ns":60000000000,"gpu_hours":7,"core":{"policy":"other"}}`,
		`{"schema":1,"deployment":"test","interval_ns":1,"gpu_hours":7,"core":{"policy":1}}`,
	} {
		if err := os.WriteFile(path, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, []planner.Replicas{pd(4, 4)}, func(o *Options, _ *world) { o.StatePath = path })
			g.lasts(t, 90*time.Second)
			if s := g.Status(); s.GPUHours < 7 || !g.said(Warned, "dropped") {
				t.Errorf("%s: %+v, asked for %v", bad, s, g.asked)
			}
		})
	}
}

// History by one profile is not taken for another; what was held under it counts on.
func TestAnotherProfileBeginsAnew(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	synctest.Test(t, func(t *testing.T) {
		hours := 0.0
		for _, c := range []struct {
			profile string
			anew    bool
		}{{"one", false}, {"one", false}, {"another", true}, {"another", false}} {
			g := newRig(t, []planner.Replicas{pd(1, 1)}, func(o *Options, _ *world) { o.StatePath, o.Profile = path, c.profile })
			g.lasts(t, 2*time.Minute+time.Second)
			if restored := g.restored > 0; restored == c.anew && hours > 0 || g.said(Warned, "of another profile and is dropped") != c.anew || g.Status().GPUHours <= hours {
				t.Errorf("by %s it took its history up %d times: %s", c.profile, g.restored, g.kinds())
			}
			hours = g.Status().GPUHours
		}
	})
}

// What a planner saw while it led before is of another time.
func TestLeadingAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, []planner.Replicas{pd(2, 2)}, func(o *Options, w *world) {
			w.takes = 10 * time.Hour
			o.Lead = func(ctx context.Context, run func(context.Context) error) error {
				for range 2 {
					once, cancel := context.WithTimeout(ctx, 2*time.Minute)
					err := run(once)
					cancel()
					if err != nil {
						return err
					}
					time.Sleep(24 * time.Hour)
				}
				return nil
			}
		})
		g.lasts(t, 50*time.Hour)
		if s := g.Status(); s.Interval != time.Minute || s.GPUHours > 1 {
			t.Errorf("%+v", s)
		}
	})
}

// A planner that leads again is ready once it sees the deployment again; that its metrics
// were away while it led before says nothing.
func TestReadyAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, []planner.Replicas{pd(1, 1)}, func(o *Options, w *world) {
			o.Lead = func(ctx context.Context, run func(context.Context) error) error {
				once, cancel := context.WithTimeout(ctx, 150*time.Second)
				defer cancel()
				if err := run(once); err != nil {
					return err
				}
				time.Sleep(24 * time.Hour)
				return run(ctx)
			}
			w.later(90*time.Second, func() { w.blind = errors.New("gone") })
			w.later(time.Hour, func() { w.blind, w.broken = nil, errors.New("refused") })
			w.later(24*time.Hour+170*time.Second, func() { w.broken = nil })
		})
		go g.lasts(t, 25*time.Hour)
		begin := time.Now()
		for _, c := range []struct {
			at    time.Duration
			ready bool
			want  string
		}{
			{149 * time.Second, true, "ok"}, // for two intervals
			{24*time.Hour + 160*time.Second, false, "test is not ready: refused"},
			{24*time.Hour + 180*time.Second, true, "ok"},
		} {
			time.Sleep(time.Until(begin.Add(c.at)))
			synctest.Wait()
			if body := g.readyz(); !strings.Contains(body, c.want) || g.Status().Ready != c.ready {
				t.Errorf("after %v: ready is %v, %s", c.at, g.Status().Ready, body)
			}
		}
		time.Sleep(time.Until(begin.Add(26 * time.Hour)))
	})
}

// A scaling under way that a planner which blocks finds at its start, of replicas
// that have no place, does not stop it for ever (dynamo#14251).
func TestBlockingDoesNotWaitForEverForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, []planner.Replicas{pd(1, 1)}, func(o *Options, w *world) {
			o.Blocking, w.until = true, time.Now().Add(100*time.Hour)
		})
		g.lasts(t, 32*time.Minute)
		if len(g.seen) == 0 {
			t.Error("it never decided")
		}
	})
}

// One scaling that does not end, such as a replica that drains for hours, puts off
// one decision, not all of them.
func TestOneScalingPostponesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, []planner.Replicas{pd(1, 2)}, func(_ *Options, w *world) { w.takes = 100 * time.Hour })
		g.lasts(t, 12*time.Minute+time.Second)
		if n := len(g.seen); n < 8 { // at 1, then 5, then every minute
			t.Errorf("%d decisions within 12 minutes", n)
		}
	})
}
