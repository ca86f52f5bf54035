package sweep

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
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

// A run that was stopped anywhere, and is resumed, ends as one that was never stopped.
func TestStoppedAnywhere(t *testing.T) {
	for _, search := range []Search{Grid, Adaptive} {
		stoppedAnywhere(t, search)
	}
}

func stoppedAnywhere(t *testing.T, search Search) {
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
		o.Search = search
		if _, err := Run(ctx, o, c, c, Known{}, nil); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		c.check(t)
		again := newCrowd(three())
		o = again.options(1, 2, 4)
		o.Search = search
		got, err := Run(context.Background(), o, again, again, c.notes.Known, nil)
		if err != nil {
			t.Fatal(err)
		}
		again.check(t)
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

// Whatever goes wrong, at whatever point: every engine is stopped exactly once,
// nothing is left running, and what was measured is kept.
func TestFaults(t *testing.T) {
	faults := []string{"launch", "die", "always die", "overload", "record", "cancel", "stop"}
	enginetest.Check(t, func(t *rapid.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		c := newCrowd(three())
		c.cancel, c.fault = cancel, rapid.SampledFrom(faults).Draw(t, "fault")
		c.at = rapid.IntRange(0, 120).Draw(t, "event")
		o := c.options(1, 2, 4)
		if rapid.Bool().Draw(t, "deadline") {
			o.Deadline = c.lab.now.Add(time.Duration(rapid.IntRange(1, 60).Draw(t, "seconds")) * time.Second)
		}
		got, err := Run(ctx, o, c, c, Known{}, nil)
		c.check(t)
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

type launchFunc func(context.Context, engine.Config) (*Instance, error)

func (f launchFunc) Launch(ctx context.Context, cfg engine.Config) (*Instance, error) {
	return f(ctx, cfg)
}
