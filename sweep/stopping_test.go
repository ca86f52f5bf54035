package sweep

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
)

// shaky is an engine whose TTFT has noise of so many of its own; it counts requests.
type shaky struct {
	noise float64
	sent  int
	stall func(k int) bool // whether the k-th request of all stalls
}

func (s *shaky) Measure(_ context.Context, w profile.Workload) (m Measurement, err error) {
	random := rand.New(rand.NewPCG(1, uint64(s.sent))) //nolint:gosec // noise
	for i := range w.Requests {
		ttft := time.Duration(100e6 * math.Exp(s.noise*random.NormFloat64()))
		if s.stall != nil && s.stall(s.sent) {
			ttft *= 40
		}
		at := time.Duration(1+s.sent) * 10 * time.Second
		m.Requests = append(m.Requests, profile.Request{
			Index: i, ISL: w.ISL, OSL: 1, Due: at, Sent: at, First: at + ttft, Last: at + ttft, End: at + ttft,
			Chunks: []profile.Chunk{{At: at + ttft}}, PromptTokens: w.ISL, CachedTokens: -1, OutputTokens: 1, UsageSeen: true, Status: 200,
		})
		s.sent++
	}
	m.Window = profile.Whole(m.Requests)
	return m, nil
}

// A surface's point takes all slices only where they make it tight, and repeats
// of large slices do not multiply what it takes; a sweep's may take all.
func TestNoisySurfacePointEndsEarly(t *testing.T) {
	const first = 3
	for name, c := range map[string]struct {
		stage profile.Stage
		noise float64
		stall func(int) bool
		most  int
	}{
		"calm":         {profile.StageSurface, 0.001, nil, first},
		"mends":        {profile.StageSurface, 0.02, nil, 12 * first},
		"noisy":        {profile.StageSurface, 0.2, nil, patience * first},
		"stalls later": {profile.StageSurface, 0.1, func(k int) bool { return k >= first }, 2 * first},
		"sweep":        {profile.StageSweep, 0.2, nil, 12 * first},
	} {
		t.Run(name, func(t *testing.T) {
			b := newLab(three())
			o := options(b, 1)
			o.Virtual = false
			o.SLA = profile.SLA{TTFT: 100 * time.Millisecond, ITL: time.Second, Stat: profile.Mean}
			r := newRunner(o, b, &notes{}, Known{}, nil)
			s := &shaky{noise: c.noise, stall: c.stall}
			in := &trial{host: &host{inst: &Instance{Measurer: s, Died: func() error { return nil }}}}
			p, rs, err := r.inSlices(t.Context(), in, profile.Workload{ISL: 100, OSL: 1, InFlight: 1}, c.stage, first)
			if err != nil || p.Requests != len(rs) {
				t.Fatalf("%d requests, %d records, err %v", p.Requests, len(rs), err)
			}
			if s.sent > c.most || (name == "noisy" || name == "sweep") && s.sent != c.most {
				t.Errorf("%d requests were sent, want %d", s.sent, c.most)
			}
		})
	}
}

// small is the lab with engines whose context is a little too short.
type small struct {
	*lab
	opts Options
}

func (s small) Launch(ctx context.Context, cfg engine.Config) (*Instance, error) {
	in, err := s.lab.Launch(ctx, cfg)
	if err == nil {
		in.Facts.MaxModelLen = s.opts.ISL
	}
	return in, err
}

// An engine whose context is too short for the target is told by what it says of
// itself, before it is asked for what it cannot do.
func TestShortContextIsSaidBeforeAnythingIsSent(t *testing.T) {
	b := newLab(three())
	o := options(b, 1)
	res, _ := Run(t.Context(), o, small{b, o}, &notes{}, Known{}, nil)
	if len(b.measured) > 0 {
		t.Errorf("%d loads were sent", len(b.measured))
	}
	if len(res.Skips) == 0 {
		t.Error("no configuration is skipped")
	}
	for _, skip := range res.Skips {
		if !strings.Contains(skip.Reason, "above the engine's context") {
			t.Errorf("%s is skipped for %q", skip.Label, skip.Reason)
		}
	}
}

// Points are added as long as they help, and for a few more.
func TestSurfaceEndsWherePointsDoNotHelp(t *testing.T) {
	const hopes = 3
	for name, c := range map[string]struct {
		worst []float64
		taken int // looks at the surface, the one that ends it included
	}{
		"never better":      {[]float64{0.2, 0.2, 0.21, 0.19, 0.2}, 1 + hopes},
		"better at last":    {[]float64{0.2, 0.2, 0.2, 0.1, 0.1, 0.1, 0.1}, 4 + hopes},
		"better every time": {[]float64{0.9, 0.8, 0.7, 0.6, 0.5, 0.4}, 0},
	} {
		gain := returns{hopes: hopes}
		taken := 0
		for i, w := range c.worst {
			if gain.ended(w) {
				taken = i + 1
				break
			}
		}
		if taken != c.taken {
			t.Errorf("%s: ended after %d looks, want %d", name, taken, c.taken)
		}
	}
}
