package sweep

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
)

// together runs two trials at once, each of which waits for the other to begin.
func together(t *testing.T, first, second func(context.Context) error) error {
	t.Helper()
	b := newLab(three())
	o := options(b, 1, 2)
	o.Parallel = 2
	r := newRunner(o, b, &notes{}, Known{}, nil)
	trials := []*trial{newTrial(profile.Prefill, o.Candidates[0]), newTrial(profile.Prefill, o.Candidates[1])}
	begun := map[*trial]chan struct{}{trials[0]: make(chan struct{}), trials[1]: make(chan struct{})}
	return r.beside(t.Context(), trials, func(ctx context.Context, s *trial) error {
		close(begun[s])
		if s == trials[0] {
			<-begun[trials[1]]
			return first(ctx)
		}
		<-begun[trials[0]]
		return second(ctx)
	})
}

// Time that is up for one leaves the others their work; any other failure does not,
// and none of two is lost.
func TestBesideFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := make(chan struct{})
		err := together(t, func(context.Context) error { close(late); return errTimeUp }, func(ctx context.Context) error {
			<-late
			synctest.Wait() // the first one's end has been seen
			if ctx.Err() != nil {
				return errors.New("canceled")
			}
			return nil
		})
		if !errors.Is(err, errTimeUp) || err.Error() != errTimeUp.Error() {
			t.Errorf("%v", err)
		}
	})
	one, two := errors.New("one"), errors.New("two")
	err := together(t, func(context.Context) error { return one }, func(ctx context.Context) error {
		<-ctx.Done()
		return errors.Join(context.Cause(ctx), two) // as one whose engine does not stop
	})
	if !errors.Is(err, one) || !errors.Is(err, two) {
		t.Errorf("%v", err)
	}
	err = together(t, func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }, func(context.Context) error { return two })
	if err == nil || err.Error() != two.Error() {
		t.Errorf("%v", err)
	}
}

// An engine that does not stop is an error even where the time is up, and what a
// candidate may need is all that there may be.
func TestStopAndSizeAreSaid(t *testing.T) {
	stuck := errors.New("stuck")
	b := newLab(three())
	o := options(b, 1)
	l := launchFunc(func(ctx context.Context, cfg engine.Config) (*Instance, error) {
		in, err := b.Launch(ctx, cfg)
		if cfg.PrefixCaching {
			in.Stop = func(context.Context) error { return stuck }
		}
		return in, err
	})
	n := &notes{}
	n.after = func() {
		if n.Points[len(n.Points)-1].Phase == profile.Decode { // there is more to measure, and no time
			b.now = o.Now().Add(time.Hour)
		}
	}
	o.Deadline = b.now.Add(time.Hour)
	if _, err := Run(t.Context(), o, l, n, Known{}, nil); !errors.Is(err, stuck) {
		t.Errorf("%v", err)
	}
	b = newLab(three())
	o = options(b, 1, 4)
	o.MaxGPUs = 3
	res, _, err := run(t, b, o, Known{})
	if err != nil || len(res.Skips) != 1 || res.Skips[0] != (profile.Skip{Label: "TP:4", Reason: "needs 4 GPUs, 3 may be in use at once"}) {
		t.Errorf("%v, skips %+v", err, res.Skips)
	}
}

// A failure in decode leaves the prefill of the same layout in the comparison, be it
// of the engine while it ran or as it was started.
func TestDecodeFailuresLeavePrefill(t *testing.T) {
	b := newLab(three())
	dies := b.laws["TP:2"]
	dies.dieAt = 30
	b.laws["TP:2"] = dies
	l := launchFunc(func(ctx context.Context, cfg engine.Config) (*Instance, error) {
		if cfg.PrefixCaching && cfg.Parallelism == engine.TP(4) {
			return nil, errors.New("no memory for graphs")
		}
		return b.Launch(ctx, cfg)
	})
	o := options(b, 1, 2, 4)
	o.Search = Grid // the other has one engine for both
	res, err := Run(t.Context(), o, l, &notes{}, Known{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var prefill, skips []string
	for _, c := range res.Prefill.All {
		prefill = append(prefill, c.Label())
	}
	for _, s := range res.Skips {
		skips = append(skips, string(s.Phase)+" "+s.Label)
	}
	slices.Sort(prefill)
	if !slices.Equal(prefill, []string{"TP:1", "TP:2", "TP:4"}) || !slices.Equal(skips, []string{"decode TP:2", "decode TP:4"}) {
		t.Errorf("prefill of %v, skips %v", prefill, skips)
	}
}

// The ledger: only what a sweep measured is recalled of a dropped configuration, a
// caveat of several trials is one, and those that run share the time that is left.
func TestLedger(t *testing.T) {
	b := newLab(three())
	o := options(b, 1, 2)
	one, two := newTrial(profile.Decode, o.Candidates[0]), newTrial(profile.Decode, o.Candidates[1])
	known := Known{Points: []profile.Point{
		{ID: "a", Phase: profile.Decode, Stage: profile.StageSweep, Config: one.cfg},
		{ID: "b", Phase: profile.Decode, Stage: profile.StageSurface, Config: one.cfg},
		{ID: "c", Phase: profile.Prefill, Stage: profile.StageSweep, Config: one.cfg},
		{ID: "d", Phase: profile.Decode, Stage: profile.StageSweep, Config: two.cfg},
	}}
	l := newLedger(o, &notes{}, known, nil)
	l.begin(one)
	l.begin(two)
	l.recallAll(one)
	if ps := l.points(); len(ps) != 1 || ps[0].ID != "a" {
		t.Errorf("recalled %+v", ps)
	}
	l.warn(two, profile.Warnf("x", "same"))
	l.warn(one, profile.Warnf("x", "same"))
	l.launching(one)
	l.meter.expected, l.meter.actual = time.Second, time.Second
	alone := l.at("").Remaining
	l.launching(two)
	if both := l.at("").Remaining; alone <= 0 || both != alone/2 {
		t.Errorf("%v left for one engine, %v for two", alone, both)
	}
	l.missing(one, "of one")
	l.missing(nil, "of all")
	var res Result
	l.into(&res)
	if len(res.Warnings) != 1 || res.Partial != "of one; of all" || res.Cost.Launches != 2 {
		t.Errorf("%+v", res)
	}
}

// A launch that fails has used its GPUs as long as it took.
func TestCostOfFailedLaunches(t *testing.T) {
	laws := three()
	four := laws["TP:4"]
	four.launchErr = errors.New("not ready")
	laws["TP:4"] = four
	b := newLab(laws)
	if res, _, _ := run(t, b, options(b, 4), Known{}); res.Cost.Launches != 1 || res.Cost.EngineSeconds != 1 || res.Cost.GPUSeconds != 4 {
		t.Errorf("%+v", res.Cost)
	}
}

// A plan counts with what replicas do at the same time, and with all of their limits.
func TestPlanOfReplicas(t *testing.T) {
	b := newLab(map[string]law{"DEP:4": affine(4)})
	o := options(b)
	o.Candidates = []engine.Config{{Parallelism: engine.Parallelism{TP: 1, PP: 1, DP: 4, EP: 4}, Limits: engine.Limits{MaxNumSeqs: 2, BlockSize: 16}}}
	o.Search = Grid
	steps := Plan(o)
	// Three warm-ups on each, and the rounds of the burst.
	if want := (perRank + gridWarmups) * (affine(4).TTFT(o.ISL) + (burstOSL-1)*affine(4).ITL(4, float64(o.ISL)+burstOSL/2.0)); (steps[0].Expected - want).Abs() > time.Microsecond {
		t.Errorf("prefill about %v, want %v", steps[0].Expected, want)
	}
	if d := steps[1]; d.Phase != profile.Decode || d.Points != 2 || d.Cost.Requests != 2*(4+8)+2*2*12 { // 4 and 8 in flight, each twice, each time warmed up
		t.Errorf("%+v", d)
	}
	// A grid whose steps are rounds is as fine as can be.
	steep := affine(4)
	steep.seqs = 8
	steep.itl = func(n int, _ float64) time.Duration { return time.Duration(n) * 4 * ms }
	steep.ttft = func(int) time.Duration { return time.Second }
	b.laws["DEP:4"] = steep
	res, _, err := run(t, b, o, Known{})
	if err != nil || strings.Contains(strings.Join(codes(res.Warnings), " "), "coarse_grid") {
		t.Errorf("%v, warnings %v", err, res.Warnings)
	}
}
