package sweep

import (
	"math"
	"slices"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
)

func TestInFlightIsWhatWasSeen(t *testing.T) {
	v := &virtual{lab: newLab(nil), law: affine(1)}
	m, _ := v.Measure(t.Context(), profile.Workload{ISL: 1000, OSL: 100, Requests: 16, InFlight: 16, SharedPrompts: true})
	m.Running[0].N = 8
	p := summarizeDecode(m, engine.Config{Parallelism: engine.TP(1)}, 100_000)
	if p.InFlight != 8 || math.Abs(p.KVUsage-8*p.Context/100_000) > 1e-12 {
		t.Errorf("in flight %v, KV %v", p.InFlight, p.KVUsage)
	}
	if len(p.Warnings) != 1 || p.Warnings[0].Code != "in_flight_short" {
		t.Errorf("warnings %v", p.Warnings)
	}
}

// A stall of the machine, not of the engine, is measured again, and said.
func TestDisturbedPointIsMeasuredAgain(t *testing.T) {
	l := affine(1)
	l.stalls = 1
	b := newLab(map[string]law{"TP:1": l})
	res, _, err := run(t, b, options(b, 1), Known{})
	if err != nil {
		t.Fatal(err)
	}
	p := res.Prefill.Picked.Point
	if want := l.ttft(3000); p.TTFT.Mean != want {
		t.Errorf("TTFT %v, want %v", p.TTFT.Mean, want)
	}
	if len(p.Warnings) != 1 || p.Warnings[0].Code != "disturbed" || p.Warnings[0].Message != "measured 2 times: there were stalls in the ones before" {
		t.Errorf("warnings %v", p.Warnings)
	}
	l.stalls = 1000
	b = newLab(map[string]law{"TP:1": l})
	res, _, err = run(t, b, options(b, 1), Known{})
	if err != nil {
		t.Fatal(err)
	}
	if p := res.Prefill.Picked.Point; len(p.Warnings) != 1 || p.Warnings[0].Code != "noisy" {
		t.Errorf("an engine that always stalls: warnings %v", p.Warnings)
	}

	// In virtual time what looks like a stall is the engine.
	b = newLab(map[string]law{"TP:1": l})
	o := options(b, 1)
	o.Virtual = true
	if res, _, err = run(t, b, o, Known{}); err != nil {
		t.Fatal(err)
	}
	if p := res.Prefill.Picked.Point; len(p.Warnings) > 0 || p.TTFT.Mean == l.ttft(3000) {
		t.Errorf("in virtual time: TTFT %v, warnings %v", p.TTFT.Mean, p.Warnings)
	}
}

// With two output tokens there is one gap, and streams hardly overlap: the
// rate of such a burst says nothing, and must never be picked.
func TestShortOutputIsMeasuredLonger(t *testing.T) {
	b := newLab(three())
	o := options(b, 1)
	o.OSL = 2
	res, _, err := run(t, b, o, Known{})
	if err != nil {
		t.Fatal(err)
	}
	if p := res.Decode.Picked.Point; p.OSL != minOSL || p.Asked < 59 {
		t.Errorf("picked n=%d measured with OSL %d", p.Asked, p.OSL)
	}
	if !slices.Contains(codes(res.Warnings), "osl_raised") {
		t.Errorf("warnings %v", res.Warnings)
	}
	v := &virtual{lab: newLab(nil), law: affine(1)}
	m, _ := v.Measure(t.Context(), profile.Workload{ISL: 1000, OSL: 3, Requests: 16, InFlight: 16, SharedPrompts: true})
	p := summarizeDecode(m, engine.Config{Parallelism: engine.TP(1)}, 100_000)
	if p.ITL.N != 0 || p.ThroughputPerGPU != 0 || !slices.Contains(codes(p.Warnings), "no_steady_part") {
		t.Errorf("a window of two gaps gave ITL %v, %v tokens/s, warnings %v", p.ITL.Mean, p.ThroughputPerGPU, codes(p.Warnings))
	}
}

// A proxy that hands the whole stream over at once shows gaps of nothing.
func TestBufferedStreamIsNotMeasured(t *testing.T) {
	v := &virtual{lab: newLab(nil), law: affine(1)}
	m, _ := v.Measure(t.Context(), profile.Workload{ISL: 1000, OSL: 100, Requests: 4, InFlight: 4, SharedPrompts: true})
	for i := range m.Requests {
		r := &m.Requests[i]
		for k := range r.Chunks[:90] {
			r.Chunks[k].At = r.First + time.Duration(k)*time.Microsecond
		}
	}
	p := summarizeDecode(m, engine.Config{Parallelism: engine.TP(1)}, 100_000)
	if p.ITL.N != 0 || p.ThroughputPerGPU != 0 || !slices.Contains(codes(p.Warnings), "buffered") {
		t.Errorf("ITL %v, %v tokens/s, warnings %v", p.ITL.Mean, p.ThroughputPerGPU, codes(p.Warnings))
	}
}

// Somebody else's load on a shared server is not ours.
func TestForeignLoadIsSaid(t *testing.T) {
	v := &virtual{lab: newLab(nil), law: affine(1)}
	m, _ := v.Measure(t.Context(), profile.Workload{ISL: 1000, OSL: 100, Requests: 4, InFlight: 4, SharedPrompts: true})
	m.Running[0].N = 9
	p := summarizeDecode(m, engine.Config{Parallelism: engine.TP(1)}, 100_000)
	if !slices.Contains(codes(p.Warnings), "foreign_load") || p.InFlight != 4 {
		t.Errorf("in flight %v, warnings %v", p.InFlight, codes(p.Warnings))
	}
}

// A measurement with failures is never replaced by one without.
func TestFailuresAreNeverThrownAway(t *testing.T) {
	l := affine(1)
	l.stalls, l.failEvery = 1, 4 // the first is disturbed, and failing
	b := newLab(map[string]law{"TP:1": l})
	res, _, err := run(t, b, options(b, 1), Known{})
	if err != nil {
		t.Fatal(err)
	}
	if p := res.Prefill.Picked.Point; p.Failures == 0 || res.Prefill.Feasible {
		t.Errorf("%d failures, feasible %v", p.Failures, res.Prefill.Feasible)
	}
	if s, short := res.Prefill.Shortfall(options(b, 1).SLA); !short || s.Metric != "failures" || s.Promise != 0 {
		t.Errorf("shortfall %+v", s)
	}
}

// No point is measured twice, however few counts there are to choose from.
func TestPointsAreMeasuredOnce(t *testing.T) {
	for top := 1; top <= 9; top++ {
		for _, itl := range []time.Duration{7 * ms, 8300 * time.Microsecond, 8800 * time.Microsecond, 20 * ms} {
			b := newLab(three())
			o := options(b, 1)
			o.MaxInFlight, o.SLA.ITL = top, itl
			res, n, err := run(t, b, o, Known{})
			if err != nil {
				t.Fatal(err)
			}
			seen := map[string]bool{}
			for _, p := range n.Points {
				if seen[p.ID] {
					t.Errorf("top %d, ITL %v: %s was measured twice", top, itl, p.ID)
				}
				seen[p.ID] = true
			}
			at := map[[2]float64]bool{}
			for _, s := range res.DecodeSurface.Samples {
				if key := [2]float64{s.Context, s.KVUsage}; at[key] {
					t.Errorf("top %d, ITL %v: the surface has %v twice", top, itl, key)
				} else {
					at[key] = true
				}
			}
		}
	}
}

// A point that came out unusable on a busy machine gets one more chance.
func TestBlankPointIsMeasuredOnceMore(t *testing.T) {
	l := affine(1)
	v := &virtual{lab: newLab(nil), law: l}
	calls := 0
	b := newLab(three())
	r := newRunner(options(b, 1), b, &notes{}, Known{}, nil)
	in := &trial{inst: &Instance{Measurer: v, Died: func() error { return nil }}}
	w := profile.Workload{ISL: 1000, OSL: 100, Requests: 4, InFlight: 4, SharedPrompts: true}
	p, _, err := r.undisturbed(t.Context(), in, w, func(m Measurement) profile.Point {
		calls++
		p := summarizeDecode(m, engine.Config{Parallelism: engine.TP(1)}, 100_000)
		if calls == 1 {
			p.ThroughputPerGPU = 0
		}
		return p
	})
	if err != nil || calls != 2 || p.ThroughputPerGPU <= 0 {
		t.Errorf("measured %d times, %v tokens/s, err %v", calls, p.ThroughputPerGPU, err)
	}
}
