package interpolation

import (
	"math"
	"testing"
	"time"

	"plimsoll/engine/enginetest/cputime"
	"plimsoll/profile"
)

// Further defects of upstream's that a re-implementation could share, by name.

// TestUpstreamUnscaledAxesSliver: upstream triangulates KV use from 0 to 1
// against contexts up to 13,585, and a cubic over slivers may go below 0. A unit
// of context must not matter, nor may anything be faster than an idle engine.
func TestUpstreamUnscaledAxesSliver(t *testing.T) {
	_, s, _ := loadH200(t)
	scaled := s
	scaled.MaxKVTokens *= 1000
	scaled.Samples = nil
	for _, p := range s.Samples {
		p.Context *= 1000
		scaled.Samples = append(scaled.Samples, p)
	}
	one, other := mustDecode(t, s), mustDecode(t, scaled)
	for c := 350.0; c <= 13_585; c += 123 {
		for kv := 0.0; kv <= 1; kv += 0.03 {
			a, b := one.ITL(kv, c), other.ITL(kv, 1000*c)
			if a.Value < 4*time.Millisecond || !within(float64(a.Value), float64(b.Value), 0.01) {
				t.Fatalf("ITL(%v, %v) = %v, with contexts in another unit %v", kv, c, a.Value, b.Value)
			}
		}
	}
}

// TestUpstreamLookupIsQuantized: upstream reads a grid of 1 % of the KV cache by
// 1/99 of the longest context.
func TestUpstreamLookupIsQuantized(t *testing.T) {
	_, s, _ := loadH200(t)
	d := mustDecode(t, s)
	for i := range 20 {
		kv := 0.3 + 0.0005*float64(i)
		if a, b := d.ITL(kv, 5000).Value, d.ITL(kv+0.0005, 5000).Value; b <= a || b > a+a/50 {
			t.Errorf("ITL is %v at KV use %v, %v at 0.05 %% more", a, kv, b)
		}
		c := 5000 + 5*float64(i)
		if a, b := d.ITLAt(80, c).Value, d.ITLAt(80, c+5).Value; b == a {
			t.Errorf("ITL is %v at contexts %v and %v", a, c, c+5)
		}
	}
}

// TestUpstreamClipsContexts: upstream answers for every longer context with the
// longest measured one.
func TestUpstreamClipsContexts(t *testing.T) {
	_, s, _ := loadH200(t)
	d := mustDecode(t, s)
	at, far := d.ITLAt(60, 13_585), d.ITLAt(60, 27_000)
	if far.InRange || far.Value < at.Value*3/2 || far.Error < at.Error+0.3 || len(far.Warnings()) == 0 {
		t.Errorf("context 27000: %+v, at the longest measured %+v", far, at)
	}
}

// TestUpstreamThroughputOfABurst: throughput of a burst of N requests counts its
// ramps, so that throughput times ITL is less than N. It is predicted as measured,
// and ITL is not bent by it.
func TestUpstreamThroughputOfABurst(t *testing.T) {
	e := affine{a: 5e6, b: 2e4, k: 1}
	s := e.grid([]float64{500, 2000, 8000}, 6, 500_000, func(c float64) float64 { return min(256, 500_000/c) })
	for i := range s.Samples {
		s.Samples[i].ThroughputPerGPU *= 0.8
	}
	d := mustDecode(t, s)
	got := d.ThroughputAt(30, 3000)
	if want := 0.8 * 30 / e.itl(30, 3000) * 1e9; !within(got.Value, want, 1e-4) || d.wild != nil {
		t.Errorf("throughput %v, want %v; wild %v", got.Value, want, d.wild)
	}
}

// TestOneWildSampleDoesNotBend: wherever a sample is three times as slow, the
// surface elsewhere stays what it is, and the sample is named.
func TestOneWildSampleDoesNotBend(t *testing.T) {
	e := modelled(t, "Llama-3.1-8B", "H100-SXM", 1, 0, 1024)
	good, _ := e.loads(sixContexts, 7, noisy)
	before := mustDecode(t, good)
	for i := range good.Samples {
		bad := profile.DecodeSurface{MaxKVTokens: good.MaxKVTokens, Samples: append([]profile.DecodeSample(nil), good.Samples...)}
		bad.Samples[i].ITL *= 3
		bad.Samples[i].ThroughputPerGPU /= 3
		after := mustDecode(t, bad)
		if w := after.wild; len(w) == 0 || w[0].Index != i || w[0].Off < 1 {
			t.Errorf("sample %d is not named: %+v", i, w)
		}
		for _, l := range []Load{{3, 500}, {50, 2000}, {40, 5000}, {30, 9000}, {20, 13_000}} {
			a, b := before.ITLAt(l.InFlight, l.Context).Value, after.ITLAt(l.InFlight, l.Context).Value
			if !within(float64(a), float64(b), 0.06) {
				t.Errorf("sample %d: ITL at %+v is %v, without the spike %v", i, l, b, a)
			}
		}
	}
}

// TestExpertsDoNotKinkAtARow: a mixture of experts fills with the first few
// sequences, and rows are measured at different loads: between them ITL must be
// that of the load asked for.
func TestExpertsDoNotKinkAtARow(t *testing.T) {
	e := modelled(t, "Qwen3-30B-A3B", "H100-SXM", 1, 0, 1024)
	s, _ := e.loads(sixContexts, 7, clean)
	d := mustDecode(t, s)
	for _, n := range []float64{1, 2, 4, 8, 16, 32} {
		for c := 400.0; c < 13_500; c += 97 {
			if got, want := d.ITLAt(n, c).Value, e.itl(n, c); !within(float64(got), want, 0.03) {
				t.Fatalf("ITL(%v, %v) = %v, want %v", n, c, got, time.Duration(want))
			}
		}
	}
}

// TestErrorsCoverNineOfTen on surfaces of other noise than the table's.
func TestErrorsCoverNineOfTen(t *testing.T) {
	held, in := 0, 0
	e := modelled(t, "Llama-3.1-8B", "H100-SXM", 1, 0, 512)
	for seed := range uint64(3) {
		for _, noise := range []float64{0.01, 0.08} {
			s, _ := e.loads(sixContexts, 5, flaw{seed: 10 + seed, noise: noise, wild: -1})
			l, err := LeaveOneOutDecode(s, 1)
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range l.Samples {
				held++
				if r := float64(x.Measured) / float64(x.Predicted); math.Abs(math.Log(r)) <= math.Log1p(x.Stated) {
					in++
				}
				if x.InRange && x.Stated > 8*noise {
					t.Errorf("noise %v: sample %d is predicted to %.0f %%", noise, x.Index, 100*x.Stated)
				}
			}
		}
	}
	t.Logf("%d of %d", in, held)
	if share := float64(in) / float64(held); share < 0.85 { // chance takes up to two standard deviations
		t.Errorf("%.1f %% of samples lie within their stated error, want 90 %%", 100*share)
	}
}

func BenchmarkFitDecode(b *testing.B) {
	_, s, _ := loadH200(b)
	b.ReportAllocs()
	for b.Loop() {
		mustDecode(b, s)
	}
}

func BenchmarkFitPrefill(b *testing.B) {
	s, _, _ := loadH200(b)
	b.ReportAllocs()
	for b.Loop() {
		prefill(b, s.Samples...)
	}
}

func BenchmarkLeaveOneOutDecode(b *testing.B) {
	_, s, _ := loadH200(b)
	b.ReportAllocs()
	defer cputime.Report(b)()
	for b.Loop() {
		if _, err := LeaveOneOutDecode(s, 1); err != nil {
			b.Fatal(err)
		}
	}
}
