package sweep

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
)

// An engine that does not stop is an error even where the time is up.
func TestStuckEngineIsSaid(t *testing.T) {
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

// The ledger: only what a sweep measured is recalled of a dropped configuration.
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
	l.launching(one)
	l.launching(two)
	l.missing(one, "of one")
	l.missing(nil, "of all")
	var res Result
	l.into(&res)
	if res.Partial != "of one; of all" || res.Cost.Launches != 2 {
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
}
