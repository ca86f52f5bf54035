package plots

import (
	"io"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/engine/enginetest"
	"plimsoll/profile"
)

// wild is any number at all, now and then one that no axis could hold.
func wild() *rapid.Generator[float64] {
	return rapid.OneOf(
		rapid.Float64Range(0, 100),
		rapid.Float64Range(0, 1e6),
		rapid.SampledFrom([]float64{0, 1, 5e-324, 1e-12, 1e-9, 1, 1 + 1e-12, 50, 1e15}),
		rapid.Custom(func(t *rapid.T) float64 { return math.Pow(10, rapid.Float64Range(-15, 15).Draw(t, "exponent")) }),
		rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 1e300, math.MaxFloat64}),
	)
}

// tame is a number that an axis can hold.
func tame() *rapid.Generator[float64] {
	return wild().Filter(func(v float64) bool { return drawable("", "", v) == nil })
}

func wildDuration() *rapid.Generator[time.Duration] {
	return rapid.OneOf(
		rapid.Map(rapid.Int64Range(0, int64(10*time.Second)), func(n int64) time.Duration { return time.Duration(n) }),
		rapid.SampledFrom([]time.Duration{0, 1, time.Hour, math.MaxInt64}),
	)
}

func wildCaption() *rapid.Generator[Caption] {
	return rapid.Custom(func(t *rapid.T) Caption {
		return Caption{
			Model: rapid.String().Draw(t, "model"), GPU: rapid.String().Draw(t, "gpu"), Engine: rapid.String().Draw(t, "engine"),
			Configuration: rapid.StringMatching(`(TP:\d)?`).Draw(t, "configuration"),
			ISL:           rapid.IntRange(0, 1<<40).Draw(t, "isl"), OSL: rapid.IntRange(0, 1<<40).Draw(t, "osl"),
			SLA: profile.SLA{
				TTFT: wildDuration().Draw(t, "ttft"), ITL: wildDuration().Draw(t, "itl"),
				Stat: rapid.SampledFrom([]profile.Statistic{"", profile.Mean, profile.P99}).Draw(t, "stat"),
			},
			Provenance: profile.Provenance(rapid.IntRange(0, 3).Draw(t, "provenance")),
			Feasible:   rapid.Bool().Draw(t, "feasible"), Note: rapid.String().Draw(t, "note"),
		}
	})
}

func wildCandidate(number *rapid.Generator[float64]) *rapid.Generator[Candidate] {
	return rapid.Custom(func(t *rapid.T) Candidate {
		k := Candidate{
			Label: rapid.OneOf(rapid.SampledFrom([]string{"TP:1", "TP:2", "TP:4 PP:2"}), rapid.String()).Draw(t, "label"),
			Group: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "group"), Latency: wildDuration().Draw(t, "latency"),
			InFlight: number.Draw(t, "in flight"), ThroughputPerGPU: number.Draw(t, "throughput"),
			Feasible: rapid.Bool().Draw(t, "feasible"), Picked: rapid.Bool().Draw(t, "picked"),
		}
		if rapid.Bool().Draw(t, "interval") {
			k.Interval = profile.Interval{Low: k.ThroughputPerGPU * 0.9, High: k.ThroughputPerGPU}
			k.Low, k.High = k.Latency/2, k.Latency
		}
		return k
	})
}

// holds checks a picture made of anything: refused, or drawn well in both formats.
func holds(t *rapid.T, p *Picture, err error) {
	if err != nil {
		return
	}
	var w writer
	if err := p.WriteSVG(&w); err != nil {
		t.Fatal(err)
	}
	checkTexts(t, texts(t, string(w.b)))
	if rapid.IntRange(0, 20).Draw(t, "also as PNG if 13") == 13 { // slow
		if err := p.WritePNG(io.Discard); err != nil {
			t.Fatal(err)
		}
	}
}

type writer struct{ b []byte }

func (w *writer) Write(b []byte) (int, error) {
	w.b = append(w.b, b...)
	return len(b), nil
}

func TestAnyCandidatesAreRefusedOrDrawn(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		numbers := rapid.SampledFrom([]*rapid.Generator[float64]{tame(), wild()}).Draw(t, "numbers")
		cs := rapid.SliceOfN(wildCandidate(numbers), 0, 12).Draw(t, "candidates")
		draw := rapid.SampledFrom([]func(Caption, []Candidate) (*Picture, error){PrefillPerformance, DecodePerformance}).Draw(t, "picture")
		p, err := draw(wildCaption().Draw(t, "caption"), cs)
		holds(t, p, err)
	})
}

// curveOf is a fit as good or bad as the numbers that it is made of.
func curveOf(t *rapid.T, numbers *rapid.Generator[float64]) Curve {
	a, b := numbers.Draw(t, "a"), numbers.Draw(t, "b")
	lo, hi := 0.0, math.Inf(1)
	if rapid.Bool().Draw(t, "known in part") {
		lo, hi = wild().Draw(t, "from"), wild().Draw(t, "to")
	}
	return func(x float64) (float64, bool) { return a + b*x, x >= lo && x <= hi }
}

func TestAnyPrefillSurfaceIsRefusedOrDrawn(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		numbers := rapid.SampledFrom([]*rapid.Generator[float64]{tame(), wild()}).Draw(t, "numbers")
		var s profile.PrefillSurface
		for range rapid.IntRange(0, 8).Draw(t, "samples") {
			s.Samples = append(s.Samples, profile.PrefillSample{
				ISL:  rapid.IntRange(0, 1<<30).Draw(t, "isl"),
				TTFT: wildDuration().Draw(t, "ttft"), ThroughputPerGPU: numbers.Draw(t, "throughput"),
			})
		}
		c, ttft, rate := wildCaption().Draw(t, "caption"), curveOf(t, tame()), curveOf(t, numbers)
		low, high := curveOf(t, numbers), curveOf(t, numbers)
		beside := Beside{Bounds: func(x float64) (float64, float64) {
			a, _ := low(x)
			b, _ := high(x)
			return a, b
		}}
		for range rapid.IntRange(0, 4).Draw(t, "batched") {
			beside.Batched.Samples = append(beside.Batched.Samples, profile.BatchedSample{
				ISL: rapid.IntRange(0, 1<<30).Draw(t, "isl"), K: rapid.Int().Draw(t, "k"),
				TTFT: wildDuration().Draw(t, "ttft"), ThroughputPerGPU: numbers.Draw(t, "throughput"),
			})
		}
		p, err := PrefillTTFTInterpolation(c, s, ttft, beside)
		holds(t, p, err)
		p, err = PrefillThroughputInterpolation(c, s, rate, ttft, beside)
		holds(t, p, err)
	})
}

func TestAnyDecodeSurfaceIsRefusedOrDrawn(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		numbers := rapid.SampledFrom([]*rapid.Generator[float64]{tame(), rapid.Float64Range(0, 1), wild()}).Draw(t, "numbers")
		s := profile.DecodeSurface{MaxKVTokens: rapid.IntRange(0, 1<<40).Draw(t, "max kv")}
		for range rapid.IntRange(0, 8).Draw(t, "samples") {
			s.Samples = append(s.Samples, profile.DecodeSample{
				KVUsage: numbers.Draw(t, "kv"), Context: numbers.Draw(t, "context"),
				ITL: wildDuration().Draw(t, "itl"), ThroughputPerGPU: numbers.Draw(t, "throughput"),
			})
		}
		f, g := curveOf(t, numbers), curveOf(t, tame())
		value := func(kv, context float64) (float64, bool) { v, in := f(kv + context); return v, in }
		itl := func(kv, context float64) (float64, bool) { v, in := g(kv * context); return v, in }
		picked := rapid.SampledFrom([]*Mark{nil, {KVUsage: 0.5, Context: 3000, Label: "TP:1 n=5"}, {KVUsage: 1e12, Context: 0}}).Draw(t, "picked")
		c := wildCaption().Draw(t, "caption")
		var p *Picture
		var err error
		if rapid.Bool().Draw(t, "throughput picture") {
			p, err = DecodeThroughputInterpolation(c, s, value, itl, picked)
		} else {
			p, err = DecodeITLInterpolation(c, s, itl, picked)
		}
		holds(t, p, err)
	})
}
