package interpolation

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

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
	if p := two.TTFT(2000); !p.InRange || p.Value != 30*time.Millisecond {
		t.Errorf("two samples, between: %+v, want a straight line", p)
	}
	if r := two.ThroughputPerGPU(2000); !r.InRange || !within(r.Value, 8e4, 1e-9) {
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
	p := prefill(t,
		profile.PrefillSample{ISL: 100, TTFT: 30 * time.Millisecond, ThroughputPerGPU: 400},
		profile.PrefillSample{ISL: 4000, TTFT: 162 * time.Millisecond, ThroughputPerGPU: 3000},
		profile.PrefillSample{ISL: 6205, TTFT: 498 * time.Millisecond, ThroughputPerGPU: 1500},
		profile.PrefillSample{ISL: 8000, TTFT: 321 * time.Millisecond, ThroughputPerGPU: 3100},
		profile.PrefillSample{ISL: 10000, TTFT: 400 * time.Millisecond, ThroughputPerGPU: 3100})
	for x := 4000.0; x <= 10000; x += 5 {
		if v := p.TTFT(x).Value; v < 162*time.Millisecond || v > 498*time.Millisecond {
			t.Fatalf("TTFT(%v) = %v", x, v)
		}
		if x >= 8000 {
			if v := p.TTFT(x).Value; v < 321*time.Millisecond || v > 400*time.Millisecond {
				t.Fatalf("TTFT(%v) = %v", x, v)
			}
		}
	}
}

// TestPrefillShape: through every point, between its neighbours everywhere, and
// never falling beyond the end, whatever the data.
func TestPrefillShape(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s []profile.PrefillSample
		x := 0
		for range rapid.IntRange(1, 17).Draw(t, "points") {
			x += rapid.IntRange(1, 5000).Draw(t, "step")
			s = append(s, profile.PrefillSample{
				ISL: x, TTFT: time.Duration(rapid.Int64Range(1, 1e11).Draw(t, "ttft")), ThroughputPerGPU: rapid.Float64Range(0, 1e6).Draw(t, "rate"),
			})
		}
		p := prefill(t, s...)
		for i, a := range s {
			v, r := p.TTFT(float64(a.ISL)), p.ThroughputPerGPU(float64(a.ISL))
			if v.Value != a.TTFT || !v.InRange || r.Value != a.ThroughputPerGPU {
				t.Fatalf("at ISL %d: %v, %v; measured %v, %v", a.ISL, v, r, a.TTFT, a.ThroughputPerGPU)
			}
			if i == 0 {
				continue
			}
			b := s[i-1]
			for f := range 11 {
				at := float64(b.ISL) + float64(a.ISL-b.ISL)*float64(f)/10
				v, r := p.TTFT(at).Value, p.ThroughputPerGPU(at).Value
				if v < min(a.TTFT, b.TTFT)-1 || v > max(a.TTFT, b.TTFT)+1 {
					t.Fatalf("TTFT(%v) = %v, measured %v and %v beside it", at, v, b.TTFT, a.TTFT)
				}
				lo, hi := min(a.ThroughputPerGPU, b.ThroughputPerGPU), max(a.ThroughputPerGPU, b.ThroughputPerGPU)
				if r < lo-1e-6 || r > hi+1e-6 {
					t.Fatalf("throughput(%v) = %v, measured %v and %v beside it", at, r, b.ThroughputPerGPU, a.ThroughputPerGPU)
				}
			}
		}
		end := s[len(s)-1]
		if v := p.TTFT(1.5 * float64(end.ISL)); v.InRange || v.Value <= end.TTFT {
			t.Fatalf("beyond the end: %+v after %v", v, end.TTFT)
		}
	})
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
