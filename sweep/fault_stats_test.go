package sweep

import (
	"context"
	"slices"
	"strings"
	"testing"

	"plimsoll/engine"
	"plimsoll/profile"
)

// hitting is an engine whose prefix cache serves a share of every prompt.
type hitting struct {
	*lab
	share   float64
	counted bool // by counters, not with each answer
}

func (h hitting) Launch(ctx context.Context, cfg engine.Config) (*Instance, error) {
	in, err := h.lab.Launch(ctx, cfg)
	if err == nil {
		in.Measurer, in.Play = cached{in.Measurer, h}, h.played(in.Play)
	}
	return in, err
}

type player = func(context.Context, profile.Script, func(profile.Request) bool) (Measurement, error)

// played makes prompts of a load that are not shared come from the cache too.
func (h hitting) played(play player) player {
	return func(ctx context.Context, s profile.Script, stop func(profile.Request) bool) (Measurement, error) {
		m, err := play(ctx, s, stop)
		for i, q := range m.Requests {
			if s.Asks[i].Shared == 0 {
				m.Requests[i].CachedTokens = int(h.share * float64(q.ISL))
			}
		}
		return h.told(m), err
	}
}

// told is m as an engine tells it whose counters alone know of its cache.
func (h hitting) told(m Measurement) Measurement {
	if !h.counted {
		return m
	}
	share := profile.Summarize(m.Requests, profile.Whole(m.Requests)).Cached
	m.Cached = &share
	for i := range m.Requests {
		m.Requests[i].CachedTokens = -1
	}
	return m
}

type cached struct {
	Measurer
	hitting
}

func (c cached) Measure(ctx context.Context, w profile.Workload) (Measurement, error) {
	m, err := c.Measurer.Measure(ctx, w)
	for i := range m.Requests {
		if !w.SharedPrompts {
			m.Requests[i].CachedTokens = int(c.share * float64(w.ISL))
		}
	}
	return c.told(m), err
}

// Fault 13: prompts that should be new come from the prefix cache. A little of
// that is said; more makes TTFT another engine's, and is never picked. So it is
// where the engine tells by its counters alone.
func TestFault13PrefixCacheAccidentallyHit(t *testing.T) {
	for _, tt := range []struct {
		share         float64
		said, invalid bool
	}{{0, false, false}, {0.05, true, false}, {0.6, true, true}} {
		for _, counted := range []bool{false, true} {
			b := newLab(map[string]law{"TP:1": affine(1)})
			n := &notes{}
			res, err := Run(t.Context(), options(b, 1), hitting{b, tt.share, counted}, n, Known{}, nil)
			if (err != nil) != tt.invalid {
				t.Fatalf("share %v, counted %v: %v", tt.share, counted, err)
			}
			p := n.Points[slices.IndexFunc(n.Points, func(p profile.Point) bool { return p.Phase == profile.Prefill })]
			if slices.Contains(b.launches, "TP:1 cache=false") != tt.said { // where it hits, it is launched without
				t.Errorf("share %v, counted %v: launches %v", tt.share, counted, b.launches)
			}
			if slices.Contains(codes(p.Warnings), "prefix_hit") != tt.said || slices.Contains(codes(p.Warnings), "unverified") ||
				strings.Contains(p.Invalid, "60 % of the tokens of new prompts") != tt.invalid {
				t.Errorf("share %v, counted %v: invalid %q, warnings %v", tt.share, counted, p.Invalid, p.Warnings)
			}
			if tt.invalid && (len(res.Prefill.All) > 0 || res.Prefill.Rejected[0].Metric != "invalid") {
				t.Errorf("share %v, counted %v: %+v", tt.share, counted, res.Prefill)
			}
		}
	}
}

// More throughput than the GPU has arithmetic for is nobody's.
func TestImplausibleThroughputIsInvalid(t *testing.T) {
	b := newLab(map[string]law{"TP:1": affine(1)})
	o := options(b, 1)
	o.Peak = func(engine.Config) float64 { return 1000 }
	_, n, err := run(t, b, o, Known{})
	if err == nil || !strings.Contains(n.Points[0].Invalid, "impossible (the GPU's dense peak allows 1,000)") {
		t.Errorf("%v; invalid %q", err, n.Points[0].Invalid)
	}
}
