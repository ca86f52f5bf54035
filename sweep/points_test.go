package sweep

import (
	"math"
	"slices"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
	"plimsoll/recommend"
)

func TestInFlightIsWhatWasSeen(t *testing.T) {
	v := &virtual{lab: newLab(nil), law: affine(1)}
	m, _ := v.Measure(t.Context(), profile.Workload{ISL: 1000, OSL: 100, Requests: 16, InFlight: 16, SharedPrompts: true})
	m.Running[0].N = 8
	p := summarizeDecode(m, engine.Config{Parallelism: engine.TP(1)}, profile.EngineFacts{KVTokens: 100_000})
	if p.InFlight != 8 || math.Abs(p.KVUsage-8*p.Context/100_000) > 1e-12 {
		t.Errorf("in flight %v, KV %v", p.InFlight, p.KVUsage)
	}
	if len(p.Warnings) != 1 || p.Warnings[0].Code != "in_flight_short" {
		t.Errorf("warnings %v", p.Warnings)
	}
}

// An engine whose gauge says 0 while streams run does not say how many run: the client's
// count stands, and a rate is recommended. Before the fix none were in flight, and the
// choice among such points panicked.
func TestInFlightWhereTheGaugeSaysNothing(t *testing.T) {
	v := &virtual{lab: newLab(nil), law: affine(1)}
	m, _ := v.Measure(t.Context(), profile.Workload{ISL: 1000, OSL: 100, Requests: 16, InFlight: 16, SharedPrompts: true})
	for _, n := range []float64{0, -1, math.NaN()} {
		m.Running[0].N = n
		p := summarizeDecode(m, engine.Config{Parallelism: engine.TP(1)}, profile.EngineFacts{KVTokens: 100_000})
		if p.InFlight != 16 || !slices.Equal(codes(p.Warnings), []string{"unverified"}) {
			t.Errorf("it says %v: in flight %v, warnings %v", n, p.InFlight, p.Warnings)
		}
		p.Phase = profile.Decode
		sla := profile.SLA{TTFT: time.Second, ITL: time.Second, Stat: profile.Mean}
		if ch, err := recommend.Choose(profile.Decode, []profile.Point{p}, sla, recommend.BySingle, 100); err != nil || ch.Picked.RPS <= 0 {
			t.Errorf("it says %v: %v, picked %+v", n, err, ch.Picked)
		}
	}
}

// A stall of the machine, not of the engine, is measured again.
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
	if len(p.Warnings) > 0 || len(res.Discarded) != 1 || res.Discarded[0].Discarded != "there were stalls" {
		t.Errorf("warnings %v, discarded %v", p.Warnings, res.Discarded)
	}
	l.stalls = 1000
	b = newLab(map[string]law{"TP:1": l})
	res, _, err = run(t, b, options(b, 1), Known{})
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Discarded) < attempts-1 {
		t.Errorf("an engine that always stalls: discarded %v", res.Discarded)
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

// A point whose client was the bottleneck is measured again; where it stays so,
// the point is kept with the reason and never picked.
func TestPointOfABusyClientIsInvalid(t *testing.T) {
	b := newLab(map[string]law{"TP:1": affine(1), "TP:2": affine(2)})
	res, _, err := run(t, b, options(b, 1, 2), Known{})
	if err != nil {
		t.Fatal(err)
	}
	want := res.Prefill.Picked.Point.Config.Parallelism.Label()
	busy := affine(1)
	busy.busy = 2 // warm-ups included
	b = newLab(map[string]law{want: busy, other(want): affine(2)})
	if res, _, err = run(t, b, options(b, 1, 2), Known{}); err != nil {
		t.Fatal(err)
	}
	for _, p := range res.Points {
		if p.Invalid != "" || p.Client == nil || !p.Client.OK() {
			t.Errorf("%s: measured again and still invalid: %q", p.ID, p.Invalid)
		}
	}
	busy.busy = 1000
	b = newLab(map[string]law{want: busy, other(want): affine(2)})
	if res, _, err = run(t, b, options(b, 1, 2), Known{}); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, p := range res.Points {
		if p.Config.Parallelism.Label() != want {
			continue
		}
		if seen++; p.Invalid != "the client was the bottleneck: no processor time" || p.Meets(options(b, 1).SLA) {
			t.Errorf("%s: invalid %q", p.ID, p.Invalid)
		}
	}
	if seen == 0 || res.Prefill.Picked.Point.Config.Parallelism.Label() == want || res.Decode.Picked.Point.Config.Parallelism.Label() == want {
		t.Errorf("%d points of %s, picked %s and %s", seen, want, res.Prefill.Picked.Point.ID, res.Decode.Picked.Point.ID)
	}
}

func other(label string) string {
	if label == "TP:1" {
		return "TP:2"
	}
	return "TP:1"
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
	v := &virtual{lab: newLab(nil), law: affine(1)}
	m, _ := v.Measure(t.Context(), profile.Workload{ISL: 1000, OSL: 3, Requests: 16, InFlight: 16, SharedPrompts: true})
	p := summarizeDecode(m, engine.Config{Parallelism: engine.TP(1)}, profile.EngineFacts{KVTokens: 100_000})
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
	p := summarizeDecode(m, engine.Config{Parallelism: engine.TP(1)}, profile.EngineFacts{KVTokens: 100_000})
	if p.ITL.N != 0 || p.ThroughputPerGPU != 0 || !slices.Contains(codes(p.Warnings), "buffered") {
		t.Errorf("ITL %v, %v tokens/s, warnings %v", p.ITL.Mean, p.ThroughputPerGPU, codes(p.Warnings))
	}
}

// Somebody else's load on a shared server is not ours.
func TestForeignLoadIsSaid(t *testing.T) {
	v := &virtual{lab: newLab(nil), law: affine(1)}
	m, _ := v.Measure(t.Context(), profile.Workload{ISL: 1000, OSL: 100, Requests: 4, InFlight: 4, SharedPrompts: true})
	m.Running[0].N = 9
	p := summarizeDecode(m, engine.Config{Parallelism: engine.TP(1)}, profile.EngineFacts{KVTokens: 100_000})
	if !slices.Contains(codes(p.Warnings), "foreign_load") || p.InFlight != 4 {
		t.Errorf("in flight %v, warnings %v", p.InFlight, codes(p.Warnings))
	}
}

// A measurement with failures is never replaced by one without.
func TestFailuresAreNeverThrownAway(t *testing.T) {
	l := affine(1)
	l.stalls, l.failEvery = 1, 3 // the first is disturbed, and failing
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

// A point that came out unusable on a busy machine gets one more chance, and what
// came out is kept; first tokens that come in waves are no stall of it.
func TestBlankPointIsMeasuredOnceMore(t *testing.T) {
	for _, always := range []bool{false, true} {
		v := &virtual{lab: newLab(nil), law: affine(1)}
		b, n := newLab(three()), &notes{}
		r := newRunner(options(b, 1), b, n, Known{}, nil)
		in := &trial{id: "x", host: &host{inst: &Instance{Measurer: v, Died: func() error { return nil }}}}
		w := profile.Workload{ISL: 1000, OSL: 100, Requests: 4, InFlight: 4, SharedPrompts: true}
		p, _, err := r.undisturbed(t.Context(), in, w, Measurement{}, attempts, func(m Measurement) profile.Point {
			p := summarizeDecode(m, engine.Config{Parallelism: engine.TP(1)}, profile.EngineFacts{KVTokens: 100_000})
			if always || len(n.Points) == 0 {
				p.ThroughputPerGPU, p.ITL = 0, profile.Distribution{}
				p.TTFT = profile.Distribution{N: 4, Mean: 400 * time.Millisecond, P50: 200 * time.Millisecond, Half: 600 * time.Millisecond}
			}
			return p
		})
		if err != nil || len(v.lab.measured) != 2 || (p.ThroughputPerGPU <= 0) != always {
			t.Errorf("always %v: measured %d times, %v tokens/s, err %v", always, len(v.lab.measured), p.ThroughputPerGPU, err)
		}
		if len(n.Points) != 1 || n.Points[0].ID != "x/attempt1" || n.Points[0].Discarded != "there were stalls" || n.Points[0].Requests != 4 {
			t.Errorf("always %v: kept %+v", always, n.Points)
		}
	}
}
