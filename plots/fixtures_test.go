package plots

import (
	"errors"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"plimsoll/profile"
)

var (
	update = flag.Bool("update", false, "rewrite the golden files")
	lookAt = flag.String("look", "", "write every picture that is tested to this folder, to be looked at")
)

// The numbers below are those of a roofline estimate of Llama-3.1-8B bf16 on
// H100 SXM, rounded: made up, but of the right shape.

func caption() Caption {
	return Caption{
		Model: "meta-llama/Llama-3.1-8B-Instruct", GPU: "H100 SXM 80GB", Engine: "embedded engine",
		ISL: 3000, OSL: 150,
		SLA:        profile.SLA{TTFT: 200 * time.Millisecond, ITL: 20 * time.Millisecond, Stat: profile.Mean},
		Provenance: profile.Simulated, Feasible: true,
	}
}

func msec(v float64) time.Duration { return time.Duration(v * float64(time.Millisecond)) }

func prefillCandidates() []Candidate {
	return []Candidate{
		{Label: "TP:1", Latency: msec(72.4), Low: msec(70.1), High: msec(74.7), ThroughputPerGPU: 41430, Interval: profile.Interval{Low: 40160, High: 42790}, Feasible: true, Picked: true},
		{Label: "TP:2", Latency: msec(45.2), Low: msec(44.0), High: msec(46.4), ThroughputPerGPU: 33190, Interval: profile.Interval{Low: 32330, High: 34090}, Feasible: true},
		{Label: "TP:4", Latency: msec(30.1), Low: msec(29.6), High: msec(30.6), ThroughputPerGPU: 24920, Interval: profile.Interval{Low: 24510, High: 25340}, Feasible: true},
	}
}

func decodeCandidates() []Candidate {
	var cs []Candidate
	for _, g := range []struct {
		label     string
		gpus      float64
		low, high float64 // ITL in ms at n = 1 and 64
	}{{"TP:1", 1, 7.2, 21}, {"TP:2", 2, 4.9, 12.5}, {"TP:4", 4, 3.9, 8.4}} {
		for _, n := range []float64{1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 56, 64} {
			itl := g.low + (g.high-g.low)*(n-1)/63
			cs = append(cs, Candidate{
				Label: g.label, Group: g.label, Latency: msec(itl), InFlight: n,
				ThroughputPerGPU: n * 1000 / itl / g.gpus, Feasible: itl <= 20,
				Picked: g.label == "TP:1" && n == 56,
			})
		}
	}
	return cs
}

func ttftAt(isl float64) float64 { return 4 + isl*0.0205 + isl*isl*4.2e-7 }

func within(lo, hi float64, f func(float64) float64) Curve {
	return func(x float64) (float64, bool) { return f(x), x >= lo && x <= hi }
}

func prefillSurface() profile.PrefillSurface {
	s := profile.PrefillSurface{Provenance: profile.Simulated}
	for i := range 16 {
		isl := 100 + i*1018
		wobble := 1 + 0.02*math.Sin(float64(i)*2.3)
		t := ttftAt(float64(isl)) * wobble
		s.Samples = append(s.Samples, profile.PrefillSample{ISL: isl, TTFT: msec(t), ThroughputPerGPU: float64(isl) / t * 1000})
	}
	return s
}

func ttftCurve() Curve { return within(100, 15370, ttftAt) }

func throughputCurve() Curve {
	return within(100, 15370, func(isl float64) float64 { return isl / ttftAt(isl) * 1000 })
}

const maxKV = 400000

func itlAt(kv, _ float64) float64 { return 7.0 + 14.6*kv*kv*0.25 + 11.2*kv }

func decodeThroughputAt(kv, context float64) float64 {
	return kv * maxKV / context / itlAt(kv, context) * 1000
}

var decodeContexts = []float64{350, 2925, 5500, 8075, 10650, 13225}

func kvMax(context float64) float64 { return min(1, 64*context/maxKV) * 0.97 }

func decodeSurface() profile.DecodeSurface {
	s := profile.DecodeSurface{MaxKVTokens: maxKV, Provenance: profile.Simulated}
	for _, ctx := range decodeContexts {
		for i := range 6 {
			kv := ctx/maxKV + (kvMax(ctx)-ctx/maxKV)*float64(i)/5
			s.Samples = append(s.Samples, profile.DecodeSample{KVUsage: kv, Context: ctx, ITL: msec(itlAt(kv, ctx)), ThroughputPerGPU: decodeThroughputAt(kv, ctx)})
		}
	}
	return s
}

// measuredRange is the hull of the rows, straight between neighbours.
func measuredRange(f func(kv, context float64) float64) Surface {
	return func(kv, context float64) (float64, bool) {
		for i := 1; i < len(decodeContexts); i++ {
			a, b := decodeContexts[i-1], decodeContexts[i]
			if context < a || context > b {
				continue
			}
			t := (context - a) / (b - a)
			lo, hi := a/maxKV+t*(b-a)/maxKV, kvMax(a)+t*(kvMax(b)-kvMax(a))
			return f(kv, context), kv >= lo && kv <= hi
		}
		return f(kv, context), false
	}
}

func throughputSurface() Surface { return measuredRange(decodeThroughputAt) }

func itlSurface() Surface { return measuredRange(itlAt) }

// show writes the picture where -look says.
func show(t *testing.T, name string, p *Picture) {
	t.Helper()
	if *lookAt == "" {
		return
	}
	for ext, write := range map[string]func(io.Writer) error{".png": p.WritePNG, ".svg": p.WriteSVG} {
		f, err := os.Create(filepath.Join(*lookAt, name+ext))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(write(f), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
}
