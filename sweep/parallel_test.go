package sweep

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/profile"
	"plimsoll/recommend"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// timeless is a result without instants and durations.
func timeless(r Result) Result {
	plain := func(p profile.Point) profile.Point {
		p.Started, p.Elapsed = time.Time{}, 0
		return p
	}
	choice := func(c recommend.Choice) recommend.Choice {
		c.Picked.Point, c.All = plain(c.Picked.Point), slices.Clone(c.All)
		for i := range c.All {
			c.All[i].Point = plain(c.All[i].Point)
		}
		if c.Other != nil {
			other := *c.Other
			other.Point, c.Other = plain(other.Point), &other
		}
		return c
	}
	r.Points = slices.Clone(r.Points)
	for i := range r.Points {
		r.Points[i] = plain(r.Points[i])
	}
	r.Discarded = slices.Clone(r.Discarded)
	for i := range r.Discarded {
		r.Discarded[i] = plain(r.Discarded[i])
	}
	r.Prefill, r.Decode = choice(r.Prefill), choice(r.Decode)
	r.Engines = maps.Clone(r.Engines)
	for key, f := range r.Engines {
		f.StartUpSeconds = 0
		r.Engines[key] = f
	}
	r.Cost.EngineSeconds, r.Cost.LoadingSeconds, r.Cost.GPUSeconds = 0, 0, 0
	return r
}

// What runs beside what changes nothing in the result, whatever finishes first;
// engines never have more GPUs than allowed; a candidate that never could is
// left out with its reason.
func TestParallelGivesTheSameResult(t *testing.T) {
	for _, search := range []Search{Grid, Adaptive} {
		parallelIsTheSame(t, search)
	}
	c := newCrowd(three())
	o := c.options(1, 2, 4)
	o.Parallel, o.MaxGPUs = 3, 2
	got, err := Run(t.Context(), o, c, c, Known{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.check(t, o)
	if len(got.Skips) != 1 || got.Skips[0] != (profile.Skip{Label: "TP:4", Reason: "needs 4 GPUs, 2 may be in use at once"}) {
		t.Errorf("skips %+v", got.Skips)
	}
}

// The adaptive search leaves out by what it knows where engines run one after the
// other, and measures all where they do not.
func parallelIsTheSame(t *testing.T, search Search) {
	plain := newCrowd(three())
	alone := plain.options(1, 2, 4)
	least := 0
	if alone.Search = search; search == Adaptive {
		alone.Parallel, least = 2, 2
	}
	want, err := Run(t.Context(), alone, plain, plain, Known{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	enginetest.Check(t, func(t *rapid.T) {
		c := newCrowd(three())
		o := c.options(1, 2, 4)
		o.Search, o.Parallel = search, rapid.IntRange(least, 5).Draw(t, "parallel")
		o.MaxGPUs = rapid.SampledFrom([]int{0, 4, 5, 6, 7, 100}).Draw(t, "GPUs")
		shares := 0
		got, err := Run(t.Context(), o, c, c, Known{}, func(p Progress) { shares++ }) // shares: the race detector looks
		if err != nil || shares == 0 {
			t.Fatalf("%v, %d times progress", err, shares)
		}
		c.check(t, o)
		if a, b := timeless(got), timeless(want); !reflect.DeepEqual(a, b) {
			t.Fatalf("parallel %d on %d GPUs:\ngot  %+v\nwant %+v", o.Parallel, o.MaxGPUs, a, b)
		}
	})
}

// Stopped anywhere while engines ran side by side, a run resumed with another
// number of them ends as one that was never stopped.
func TestParallelResume(t *testing.T) {
	for _, search := range []Search{Grid, Adaptive} {
		parallelResumes(t, search)
	}
}

func parallelResumes(t *testing.T, search Search) {
	plain := newCrowd(three())
	o := plain.options(1, 2, 4)
	o.Search = search
	want, err := Run(t.Context(), o, plain, plain, Known{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	enginetest.Check(t, func(t *rapid.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		c := newCrowd(three())
		c.fault, c.cancel, c.at = "cancel", cancel, rapid.IntRange(0, 100).Draw(t, "stopped at")
		o := c.options(1, 2, 4)
		o.Search, o.Parallel = search, rapid.IntRange(1, 4).Draw(t, "parallel")
		if _, err := Run(ctx, o, c, c, Known{}, nil); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		c.check(t, o)
		again := newCrowd(three())
		o = again.options(1, 2, 4)
		o.Search, o.Parallel = search, rapid.IntRange(1, 4).Draw(t, "parallel when resumed")
		got, err := Run(context.Background(), o, again, again, c.notes.Known, nil)
		if err != nil {
			t.Fatal(err)
		}
		again.check(t, o)
		if search == Adaptive { // stairs begun anew are at other contexts
			samePicks(t, got, want)
			return
		}
		a, b := timeless(got), timeless(want)
		a.Cost, b.Cost = Cost{}, Cost{} // it was launched more often
		if !reflect.DeepEqual(a, b) {
			t.Fatalf("stopped at %d:\ngot  %+v\nwant %+v", c.at, a, b)
		}
	})
}

// samePicks wants the same configurations picked, at loads within what the search
// may be off.
func samePicks(t interface{ Fatalf(string, ...any) }, got, want Result) {
	for _, c := range [][2]recommend.Choice{{got.Prefill, want.Prefill}, {got.Decode, want.Decode}} {
		a, b := c[0].Picked, c[1].Picked
		if a.Label() != b.Label() || abs(a.Point.Asked-b.Point.Asked) > max(1, b.Point.Asked/20) {
			t.Fatalf("picked %s at %d, want %s at %d", a.Label(), a.Point.Asked, b.Label(), b.Point.Asked)
		}
	}
}

// Engines do run beside each other: each launch here waits for the other one.
func TestParallelIsParallel(t *testing.T) {
	c := newCrowd(three())
	o := c.options(1, 2)
	o.Parallel, o.Search = 2, Grid // two surfaces on two engines
	both := &meeting{crowd: c}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := Run(ctx, o, both, c, Known{}, nil); err != nil {
		t.Fatal(err)
	}
	if c.most != 2 {
		t.Errorf("%d engines at once, want 2", c.most)
	}
}

// meeting lets launches through in twos.
type meeting struct {
	*crowd
	mu   sync.Mutex
	n    int
	open chan struct{} // closed when the second of two is there
}

func (m *meeting) Launch(ctx context.Context, cfg engine.Config) (*Instance, error) {
	m.mu.Lock()
	if m.n++; m.n%2 == 1 {
		m.open = make(chan struct{})
	} else {
		close(m.open)
	}
	open := m.open
	m.mu.Unlock()
	select {
	case <-open:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return m.crowd.Launch(ctx, cfg)
}

// Whatever goes wrong, at whatever point: every engine is stopped exactly once,
// nothing is left running, and what was measured is kept.
func TestParallelFaults(t *testing.T) {
	faults := []string{"launch", "die", "always die", "overload", "record", "cancel", "stop"}
	enginetest.Check(t, func(t *rapid.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		c := newCrowd(three())
		c.cancel, c.fault = cancel, rapid.SampledFrom(faults).Draw(t, "fault")
		c.at = rapid.IntRange(0, 120).Draw(t, "event")
		o := c.options(1, 2, 4)
		o.Parallel, o.MaxGPUs = rapid.IntRange(1, 4).Draw(t, "parallel"), rapid.IntRange(4, 8).Draw(t, "GPUs")
		if rapid.Bool().Draw(t, "deadline") {
			o.Deadline = c.lab.now.Add(time.Duration(rapid.IntRange(1, 60).Draw(t, "seconds")) * time.Second)
		}
		got, err := Run(ctx, o, c, c, Known{}, nil)
		c.check(t, o)
		if len(got.Points) < len(c.notes.Points)-1 { // the one whose recorder failed is not kept
			t.Fatalf("%d points in the result, %d were recorded", len(got.Points), len(c.notes.Points))
		}
		untimed := o.Deadline.IsZero()
		switch canceled := ctx.Err() != nil; {
		case canceled && untimed && err != nil && !errors.Is(err, context.Canceled): // nil: it was the end anyway
			t.Fatalf("canceled: %v", err)
		case canceled && err == nil && c.events > c.at+4:
			t.Fatalf("%d events after it was canceled", c.events-c.at)
		case c.fault == "overload" && c.at == -1 && !errors.Is(err, ErrOverload):
			t.Fatalf("overloaded: %v", err)
		case c.fault == "record" && c.at == -1 && !errors.Is(err, errInjected):
			t.Fatalf("the recorder failed: %v", err)
		case c.fault == "stop" && c.at == -1 && !errors.Is(err, errInjected):
			t.Fatalf("an engine did not stop: %v", err)
		case (c.fault == "launch" || c.fault == "die") && untimed && err != nil:
			t.Fatalf("one engine failed: %v", err)
		}
	})
	goleak.VerifyNone(t)
}

// A server that is overloaded stops the load on the others too.
func TestParallelFirstFailureStopsTheOthers(t *testing.T) {
	c := newCrowd(three())
	o := c.options(1, 2)
	o.Parallel = 2
	other := make(chan struct{}) // closed when TP:2 is under load
	l := launchFunc(func(ctx context.Context, cfg engine.Config) (*Instance, error) {
		in, err := c.Launch(ctx, cfg)
		if err != nil {
			return nil, err
		}
		in.Measurer = measureFunc(func(ctx context.Context, _ profile.Workload) (Measurement, error) {
			if cfg.Parallelism == engine.TP(1) {
				<-other
				return Measurement{}, fmt.Errorf("%w: %w", ErrOverload, errInjected)
			}
			close(other)
			<-ctx.Done()
			return Measurement{}, ctx.Err()
		})
		return in, nil
	})
	_, err := Run(t.Context(), o, l, c, Known{}, nil)
	if !errors.Is(err, ErrOverload) || errors.Is(err, context.Canceled) || len(c.notes.Skips) > 0 {
		t.Errorf("%v, skips %v", err, c.notes.Skips)
	}
	c.check(t, o)
}

// An engine that is launched while another one fails is stopped, and the reason of
// the whole is said once.
func TestParallelFailureDuringALaunch(t *testing.T) {
	c := newCrowd(three())
	o := c.options(1, 2)
	o.Parallel = 2
	under := make(chan struct{}) // closed when TP:2 is being launched
	l := launchFunc(func(ctx context.Context, cfg engine.Config) (*Instance, error) {
		if cfg.Parallelism == engine.TP(2) {
			close(under)
			<-ctx.Done() // it comes up all the same
			return c.Launch(context.WithoutCancel(ctx), cfg)
		}
		in, err := c.Launch(ctx, cfg)
		in.Measurer = measureFunc(func(context.Context, profile.Workload) (Measurement, error) {
			<-under
			return Measurement{}, fmt.Errorf("%w: %w", ErrOverload, errInjected)
		})
		return in, err
	})
	_, err := Run(t.Context(), o, l, c, Known{}, nil)
	if !errors.Is(err, ErrOverload) || strings.Count(err.Error(), errInjected.Error()) != 1 {
		t.Errorf("%v", err)
	}
	c.check(t, o)
}

type launchFunc func(context.Context, engine.Config) (*Instance, error)

func (f launchFunc) Launch(ctx context.Context, cfg engine.Config) (*Instance, error) {
	return f(ctx, cfg)
}
