package interpolation

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/engine/enginetest"
	"plimsoll/profile"
)

func prefill(t interface{ Fatal(args ...any) }, s ...profile.PrefillSample) Prefill {
	p, err := FitPrefill(profile.PrefillSurface{Samples: s})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPrefillFewSamples(t *testing.T) {
	one := prefill(t, profile.PrefillSample{ISL: 3000, TTFT: 100 * time.Millisecond, ThroughputPerGPU: 30000})
	if p := one.TTFT(3000); !p.InRange || p.Value != 100*time.Millisecond {
		t.Errorf("one sample, there: %+v", p)
	}
	if p := one.TTFT(6000); p.InRange || p.Value != 200*time.Millisecond {
		t.Errorf("one sample, twice as long: %+v, want in proportion", p)
	}
	if p := one.TTFT(100); p.InRange || p.Value != 100*time.Millisecond {
		t.Errorf("one sample, shorter: %+v, want held", p)
	}
	two := prefill(t,
		profile.PrefillSample{ISL: 1000, TTFT: 10 * time.Millisecond, ThroughputPerGPU: 1e5},
		profile.PrefillSample{ISL: 3000, TTFT: 50 * time.Millisecond, ThroughputPerGPU: 6e4})
	p := two.TTFT(2000)
	if low, high := p.Bounds(); !p.InRange || low > 25*time.Millisecond || high < 30*time.Millisecond {
		t.Errorf("two samples, between: %+v, want what a parabola from 0 to a straight line allow", p)
	}
	if r := two.ThroughputPerGPU(2000); !r.InRange || !within(r.Value, 2000/p.Value.Seconds(), 1e-6) {
		t.Errorf("two samples, throughput between: %+v", r)
	}
}

// TestUpstreamThreePointsFail: upstream saves three points and then cannot fit a
// cubic through them.
func TestUpstreamThreePointsFail(t *testing.T) {
	p := prefill(t,
		profile.PrefillSample{ISL: 100, TTFT: 20 * time.Millisecond, ThroughputPerGPU: 5e3},
		profile.PrefillSample{ISL: 1000, TTFT: 40 * time.Millisecond, ThroughputPerGPU: 25e3},
		profile.PrefillSample{ISL: 3000, TTFT: 80 * time.Millisecond, ThroughputPerGPU: 37.5e3})
	if v := p.TTFT(2000); !v.InRange || v.Value < 50*time.Millisecond || v.Value > 70*time.Millisecond {
		t.Errorf("TTFT(2000) = %+v", v)
	}
}

// TestUpstreamClipsBeyondTheRange: upstream gives the longest measured prompt's
// TTFT for every longer one.
func TestUpstreamClipsBeyondTheRange(t *testing.T) {
	s, _, _ := loadH200(t)
	p, err := FitPrefill(s)
	if err != nil {
		t.Fatal(err)
	}
	v := p.TTFT(20000)
	if v.InRange || v.Value <= 375482600*20000/16372 {
		t.Errorf("TTFT(20000) = %+v, want more than in proportion", v)
	}
	want := "ISL 20000 is outside the measured 100–16372"
	if w := v.Warnings(); len(w) != 1 || w[0].Message != want || w[0].Code != "isl_out_of_range" {
		t.Errorf("warnings %v, want %q", w, want)
	}
	edge, beyond := p.ThroughputPerGPU(16372).Value, p.ThroughputPerGPU(20000)
	if beyond.InRange || beyond.Value > edge {
		t.Errorf("throughput %+v beyond the range, %v at its end", beyond, edge)
	}
}

// TestUpstreamSplineOvershootsOutlier: a 9-point profile that upstream ships
// holds 498 ms between 162 and 321 ms, and a cubic spline swings around it.
func TestUpstreamSplineOvershootsOutlier(t *testing.T) {
	surface := profile.PrefillSurface{Samples: []profile.PrefillSample{
		{ISL: 100, TTFT: 30 * time.Millisecond, ThroughputPerGPU: 400},
		{ISL: 2000, TTFT: 92 * time.Millisecond, ThroughputPerGPU: 2700},
		{ISL: 4000, TTFT: 162 * time.Millisecond, ThroughputPerGPU: 3000},
		{ISL: 6205, TTFT: 498 * time.Millisecond, ThroughputPerGPU: 1500},
		{ISL: 8000, TTFT: 321 * time.Millisecond, ThroughputPerGPU: 3100},
		{ISL: 10000, TTFT: 400 * time.Millisecond, ThroughputPerGPU: 3100},
	}}
	p := prefill(t, surface.Samples...)
	for x := 4000.0; x <= 10000; x += 5 {
		if v := p.TTFT(x).Value; v < 155*time.Millisecond || v > 420*time.Millisecond {
			t.Fatalf("TTFT(%v) = %v", x, v)
		}
	}
	if w := p.wild; len(w) != 1 || w[0].Index != 3 || w[0].Off < 0.7 || w[0].Off > 1.3 {
		t.Errorf("wild samples: %+v, want the fourth, twice as slow as it should be", w)
	}
	m := find(CheckPrefill(surface, Facts{}), CodeWild)
	if !strings.Contains(m, "TTFT 498 ms at ISL 6205 (+") {
		t.Errorf("warning %q does not name it", m)
	}
}

// TestPrefillShape: TTFT never falls with ISL, within the measured range or
// beyond it, nor leaves what was measured, and errors are above 0, whatever the data.
func TestPrefillShape(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		var s []profile.PrefillSample
		x := 0
		least, most := time.Duration(math.MaxInt64), time.Duration(0)
		for range rapid.IntRange(1, 17).Draw(t, "points") {
			x += rapid.IntRange(1, 5000).Draw(t, "step")
			ttft := time.Duration(rapid.Int64Range(1e6, 1e11).Draw(t, "ttft"))
			s = append(s, profile.PrefillSample{ISL: x, TTFT: ttft, ThroughputPerGPU: rapid.Float64Range(0, 1e6).Draw(t, "rate")})
			least, most = min(least, ttft), max(most, ttft)
		}
		p := prefill(t, s...)
		var before time.Duration
		for i := range 300 {
			at := 1.5 * float64(x) * float64(i+1) / 300
			v, r := p.TTFT(at), p.ThroughputPerGPU(at)
			if v.Value < before || !(v.Error > 0) || !finite(v.Error) || !finite(r.Value) || r.Value < 0 {
				t.Fatalf("TTFT(%v) = %+v after %v, throughput %+v", at, v, before, r)
			}
			if low, high := p.Range(); v.InRange != (at >= low && at <= high) || v.InRange && (v.Value < least/2 || v.Value > 2*most) {
				t.Fatalf("TTFT(%v) = %+v, measured %v to %v at ISL %v to %v", at, v, least, most, low, high)
			}
			before = v.Value
		}
	})
}

// TestCleanPrefillIsMetClosely: without noise the curve passes through the
// samples, though they are of no form that the trend has.
func TestCleanPrefillIsMetClosely(t *testing.T) {
	s, want := bowed().prompts(17, clean)
	p := prefill(t, s.Samples...)
	for i, x := range s.Samples {
		if got := p.TTFT(float64(x.ISL)); !within(float64(got.Value), want[i], 0.002) || got.Error > 0.02 {
			t.Errorf("ISL %d: %+v, measured %v", x.ISL, got, x.TTFT)
		}
	}
}

func TestPrefillNotNumbers(t *testing.T) {
	s, _, _ := loadH200(t)
	p, err := FitPrefill(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, -5} {
		v, r := p.TTFT(x), p.ThroughputPerGPU(x)
		if v.InRange || v.Warnings() == nil || v.Value < 300*time.Millisecond || !finite(r.Value) || r.InRange {
			t.Errorf("TTFT(%v) = %+v, throughput %+v", x, v, r)
		}
	}
	if v := p.TTFT(1e300); v.Value != math.MaxInt64 {
		t.Errorf("TTFT(1e300) = %v, want the longest duration", v.Value)
	}
}

func TestFitPrefillRefuses(t *testing.T) {
	ok := profile.PrefillSample{ISL: 100, TTFT: time.Millisecond, ThroughputPerGPU: 1}
	for want, second := range map[string]profile.PrefillSample{
		"ISL 100 after 100": ok,
		"ISL 99 after 100":  {ISL: 99, TTFT: 1, ThroughputPerGPU: 1},
		"ISL -1":            {ISL: -1, TTFT: 1, ThroughputPerGPU: 1},
		"TTFT 0s":           {ISL: 200, ThroughputPerGPU: 1},
		"throughput NaN":    {ISL: 200, TTFT: 1, ThroughputPerGPU: math.NaN()},
		"throughput -1":     {ISL: 200, TTFT: 1, ThroughputPerGPU: -1},
	} {
		_, err := FitPrefill(profile.PrefillSurface{Samples: []profile.PrefillSample{ok, second}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if _, err := FitPrefill(profile.PrefillSurface{}); err == nil {
		t.Error("an empty surface fits")
	}
}

func BenchmarkTTFT(b *testing.B) {
	s, _, _ := loadH200(b)
	p, err := FitPrefill(s)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		p.TTFT(3000)
	}
}
