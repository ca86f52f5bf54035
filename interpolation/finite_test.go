package interpolation

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/engine/enginetest"
	"plimsoll/profile"
)

// TestFallingPrefillHasAnError: of two samples the second was 100 times as fast.
// A term that only a third would have told of was given room after the slow one,
// and the error of the fast one overflowed to no number.
func TestFallingPrefillHasAnError(t *testing.T) {
	p := prefill(t,
		profile.PrefillSample{ISL: 1, TTFT: 127736568, ThroughputPerGPU: 1},
		profile.PrefillSample{ISL: 3516, TTFT: time.Millisecond, ThroughputPerGPU: 1})
	for x := 0.5; x < 10000; x *= 1.5 {
		if v := p.TTFT(x); !(v.Error > 0) || v.Error > 2*clueless {
			t.Errorf("TTFT(%v) = %+v", x, v)
		}
	}
}

// sound is that a prediction is a number with bounds about it, in range or not.
func sound[T time.Duration | float64](p Prediction[T], inRange bool) bool {
	low, high := p.Bounds()
	return finite(float64(p.Value)) && p.Value >= 0 && finite(p.Error) && p.Error > 0 &&
		low >= 0 && low <= p.Value && p.Value <= high && p.InRange == inRange && (p.Warnings() == nil) == inRange
}

// drawTime is any time that a file can hold: lawless ones, or near a straight line.
func drawTime(t *rapid.T, lawless bool, x float64) time.Duration {
	if lawless {
		return time.Duration(math.Exp(rapid.Float64Range(0, 43).Draw(t, "log ns")))
	}
	return time.Duration((5e6 + 2e4*x) * rapid.Float64Range(0.9, 1.1).Draw(t, "noise"))
}

// drawWide is a number of any size up to most.
func drawWide(t *rapid.T, most float64, name string) float64 {
	return math.Exp(rapid.Float64Range(0, math.Log(most)).Draw(t, name))
}

// TestPrefillIsNumbers: predictions of any prefill surface are numbers.
func TestPrefillIsNumbers(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		lawless := rapid.Bool().Draw(t, "lawless")
		var s []profile.PrefillSample
		isl := 0
		for range rapid.IntRange(1, 9).Draw(t, "points") {
			isl += int(drawWide(t, 1e6, "step"))
			s = append(s, profile.PrefillSample{ISL: isl, TTFT: drawTime(t, lawless, float64(isl)), ThroughputPerGPU: drawWide(t, 1e9, "rate") - 1})
		}
		p := prefill(t, s...)
		low, high := p.Range()
		for _, x := range []float64{low, high, (low + high) / 2, low / 3, 3 * high, 1e12, drawWide(t, 2*high, "x")} {
			in := x >= low && x <= high
			if v, r := p.TTFT(x), p.ThroughputPerGPU(x); !sound(v, in) || !sound(r, in) {
				t.Fatalf("at ISL %v, measured %v to %v: %+v, %+v", x, low, high, v, r)
			}
		}
	})
}

// TestDecodeIsNumbers: predictions of any decode surface are numbers.
func TestDecodeIsNumbers(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		lawless := rapid.Bool().Draw(t, "lawless")
		s := profile.DecodeSurface{MaxKVTokens: int(drawWide(t, 1e7, "capacity"))}
		contexts := rapid.SliceOfN(rapid.Float64Range(1, 1e5), 1, 4).Draw(t, "contexts")
		for range rapid.IntRange(1, 12).Draw(t, "points") {
			c, n := rapid.SampledFrom(contexts).Draw(t, "context"), drawWide(t, 2000, "load")
			s.Samples = append(s.Samples, profile.DecodeSample{
				KVUsage: n * c / float64(s.MaxKVTokens), Context: c, ITL: drawTime(t, lawless, n), ThroughputPerGPU: drawWide(t, 1e6, "rate") - 1,
			})
		}
		d := mustDecode(t, s)
		first, last := d.Contexts()
		for _, c := range []float64{first, last, (first + last) / 2, first / 3, 3 * last} {
			low, high := d.InFlight(c)
			in := c >= first && c <= last
			for _, n := range []float64{high, (low + high) / 2, 3 * high, drawWide(t, 1e6, "n")} {
				covered := in && n <= high*(1+loadTolerance) && (low <= 1+loadTolerance || n >= low*(1-loadTolerance))
				if v, r := d.ITLAt(n, c), d.ThroughputAt(n, c); !sound(v, covered) || !sound(r, covered) {
					t.Fatalf("%v in flight at context %v, measured %v to %v: %+v, %+v", n, c, low, high, v, r)
				}
			}
			if b := d.BestThroughput(10*time.Millisecond, c); !finite(b.ThroughputPerGPU) || !(b.InFlight > 0) || !finite(b.Error) || !(b.Error > 0) {
				t.Fatalf("at context %v the best is %+v", c, b)
			}
		}
	})
}

// TestITLOverIsITLAt: over any load, numbers or not, within what was measured or
// beyond.
func TestITLOverIsITLAt(t *testing.T) {
	_, surface, _ := loadH200(t)
	d := mustDecode(t, surface)
	for _, context := range []float64{-1, 1, 300, 1800, 2500.5, 1e6, math.NaN()} {
		over := d.ITLOver(context)
		for _, n := range []float64{-1, 0, 0.3, 1, 7.5, 40, 1e4, math.Inf(1), math.NaN()} {
			if got, want := over(n), d.ITLAt(n, context).Value; got != want {
				t.Errorf("ITL of %v in flight at a context of %v: %v, want %v", n, context, got, want)
			}
		}
	}
}

// Rows that contradict each other are read at other loads than their bend, whose
// sum may lie below nothing: no request is that fast.
func TestContradictingRowsPredictNoNegativeTime(t *testing.T) {
	s := profile.DecodeSurface{MaxKVTokens: 1_000_000}
	for _, p := range []struct {
		kv, context float64
		itl         time.Duration
	}{
		{0.001953125, 32, 42023},
		{0.00390625, 24, 335},
		{1, 216, 2122},
		{0.001953125, 256, 2},
		{1, 211.5, 1275},
		{1, 32, 167843},
		{0.03125, 1226, 5},
		{0.0009765625, 16, 213},
		{0.125, 10, 4306},
		{0.11944580078125, 37, 270},
		{0.0001, 128, 1},
	} {
		s.Samples = append(s.Samples, profile.DecodeSample{KVUsage: p.kv, Context: p.context, ITL: p.itl, ThroughputPerGPU: 1})
	}
	d := mustDecode(t, s)
	for c := 1.0; c < 4000; c *= 1.3 {
		b, _ := d.blend(c)
		for n := 1.0; n < 100_000; n *= 3 {
			if itl := b.itl(n); itl <= 0 {
				t.Fatalf("ITL of %g requests at a context of %g: %g ns", n, c, itl)
			}
		}
	}
}
