package interpolation

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/engine/enginetest"
	"plimsoll/profile"
)

// affine is an engine whose step takes a + b·n + k·n·context nanoseconds.
type affine struct{ a, b, k float64 }

func (e affine) itl(n, c float64) float64 { return e.a + e.b*n + e.k*n*c }

// drawAffine is an engine of 1 to 50 ms at rest, with sequences of up to 0.2 ms
// and up to 10 ns per token of context: what GPUs do, and slower.
func drawAffine(t *rapid.T) affine {
	return affine{
		a: rapid.Float64Range(1e6, 5e7).Draw(t, "a"),
		b: rapid.Float64Range(0, 2e5).Draw(t, "b"),
		k: rapid.Float64Range(0, 10).Draw(t, "k"),
	}
}

// grid measures the engine at contexts × loads from 1 to limit(context).
func (e affine) grid(contexts []float64, loads int, maxKV int, limit func(float64) float64) profile.DecodeSurface {
	s := profile.DecodeSurface{MaxKVTokens: maxKV}
	for _, c := range contexts {
		for i := range loads {
			n := 1 + (limit(c)-1)*float64(i)/float64(max(loads-1, 1))
			itl := e.itl(n, c)
			s.Samples = append(s.Samples, profile.DecodeSample{
				KVUsage: n * c / float64(maxKV), Context: c, ITL: time.Duration(math.Round(itl)), ThroughputPerGPU: n / itl * 1e9,
			})
		}
	}
	return s
}

func drawContexts(t *rapid.T) []float64 {
	c := []float64{float64(rapid.IntRange(50, 2000).Draw(t, "context"))}
	for range rapid.IntRange(1, 6).Draw(t, "more contexts") {
		c = append(c, c[len(c)-1]*rapid.Float64Range(1.15, 4).Draw(t, "ratio"))
	}
	return c
}

func mustDecode(t interface{ Fatal(args ...any) }, s profile.DecodeSurface) Decode {
	d, err := FitDecode(s, 1)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func within(got, want, rel float64) bool { return math.Abs(got-want) <= rel*math.Abs(want) }

// TestExactOnAffineEngines: between rows the prediction and the measured
// boundary are exact, under a limit on sequences and under a KV capacity.
func TestExactOnAffineEngines(t *testing.T) {
	limits := map[string]func(maxKV int) func(c float64) float64{
		"sequence limit": func(int) func(float64) float64 { return func(float64) float64 { return 256 } },
		"KV capacity":    func(maxKV int) func(float64) float64 { return func(c float64) float64 { return float64(maxKV) / c } },
	}
	for name, limit := range limits {
		t.Run(name, func(t *testing.T) {
			enginetest.Check(t, func(t *rapid.T) {
				e, contexts := drawAffine(t), drawContexts(t)
				last := contexts[len(contexts)-1]
				maxKV := int(last * rapid.Float64Range(4, 400).Draw(t, "long requests that fit"))
				top := limit(maxKV)
				d := mustDecode(t, e.grid(contexts, rapid.IntRange(2, 7).Draw(t, "loads"), maxKV, top))
				c := rapid.Float64Range(contexts[0], last).Draw(t, "asked context")
				low, high := d.InFlight(c)
				if !within(high, top(c), 1e-9) || !within(low, 1, 1e-9) {
					t.Fatalf("measured range %v–%v at context %v, want 1–%v", low, high, c, top(c))
				}
				n := low + (high-low)*rapid.Float64Range(0, 1).Draw(t, "fraction")
				got := d.ITLAt(n, c)
				if !got.InRange || got.Warnings() != nil || !within(float64(got.Value), e.itl(n, c), 1e-5) {
					t.Fatalf("ITL(%v, %v) = %+v, want %v", n, c, got, e.itl(n, c))
				}
				rate := d.ThroughputAt(n, c).Value
				if want := n / e.itl(n, c) * 1e9; !within(rate, want, 1e-4) {
					t.Fatalf("throughput(%v, %v) = %v, want %v", n, c, rate, want)
				}
			})
		})
	}
}

// TestNeverFlattersOutsideContexts: beyond the measured contexts an affine
// engine is never faster than predicted, and the prediction says that it is one.
func TestNeverFlattersOutsideContexts(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		e, contexts := drawAffine(t), drawContexts(t)
		first, last := contexts[0], contexts[len(contexts)-1]
		maxKV := int(last * 50)
		d := mustDecode(t, e.grid(contexts, 4, maxKV, func(c float64) float64 { return float64(maxKV) / c }))
		c := first * rapid.Float64Range(0.1, 0.95).Draw(t, "below")
		if rapid.Bool().Draw(t, "above instead") {
			c = last * rapid.Float64Range(1.05, 10).Draw(t, "above")
		}
		low, high := d.InFlight(c)
		n := low + (high-low)*rapid.Float64Range(0, 1).Draw(t, "fraction")
		got := d.ITLAt(n, c)
		if got.InRange || len(got.Warnings()) != 1 {
			t.Fatalf("context %v outside %v–%v is in range, warnings %v", c, first, last, got.Warnings())
		}
		if float64(got.Value) < e.itl(n, c)*(1-1e-5) {
			t.Fatalf("ITL(%v, %v) = %v, the engine takes %v", n, c, got.Value, e.itl(n, c))
		}
	})
}

// TestSeenContexts: contexts as they are measured scatter around what was asked.
func TestSeenContexts(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		e := drawAffine(t)
		contexts := []float64{350, 3000, 6000, 9000, 12000}[:rapid.IntRange(2, 5).Draw(t, "rows")]
		s := e.grid(contexts, 6, 900000, func(c float64) float64 { return 900000 / c })
		for i := range s.Samples {
			p := &s.Samples[i]
			n := p.KVUsage * 900000 / p.Context
			p.Context *= 1 + rapid.Float64Range(-0.03, 0.03).Draw(t, "scatter") + 1e-5*float64(i) // no two alike
			p.KVUsage = n * p.Context / 900000
			p.ITL = time.Duration(math.Round(e.itl(n, p.Context)))
		}
		d := mustDecode(t, s)
		if len(d.rows) != len(contexts) {
			t.Fatalf("%d rows, want %d", len(d.rows), len(contexts))
		}
		low, high := d.Contexts()
		c := rapid.Float64Range(low, high).Draw(t, "context")
		_, top := d.InFlight(c)
		n := 1 + (top-1)*rapid.Float64Range(0, 1).Draw(t, "fraction")
		if got := d.ITLAt(n, c); c > contexts[0]*1.03 && c < contexts[len(contexts)-1]*0.97 && !within(float64(got.Value), e.itl(n, c), 1e-4) {
			t.Fatalf("ITL(%v, %v) = %v, want %v", n, c, got.Value, e.itl(n, c))
		}
	})
}

// drawRising is a surface whose ITL rises with load in every row, and otherwise
// obeys no law at all.
func drawRising(t *rapid.T) profile.DecodeSurface {
	s := profile.DecodeSurface{MaxKVTokens: 1_000_000}
	for _, c := range drawContexts(t) {
		n, itl := rapid.Float64Range(0.5, 5).Draw(t, "first n"), rapid.Float64Range(1e5, 1e7).Draw(t, "first ITL")
		for range rapid.IntRange(1, 7).Draw(t, "loads") {
			s.Samples = append(s.Samples, profile.DecodeSample{
				KVUsage: n * c / 1e6, Context: c, ITL: time.Duration(itl), ThroughputPerGPU: n / itl * 1e9,
			})
			n += rapid.Float64Range(0.1, 100).Draw(t, "more n")
			itl *= rapid.Float64Range(1, 3).Draw(t, "more ITL")
		}
	}
	return s
}

// TestITLDoesNotFallWithLoad where the data does not.
func TestITLDoesNotFallWithLoad(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		s := drawRising(t)
		d := mustDecode(t, s)
		c := rapid.Float64Range(s.Samples[0].Context*0.5, s.Samples[len(s.Samples)-1].Context*2).Draw(t, "context")
		_, high := d.InFlight(c)
		before := d.ITLAt(0, c).Value
		for i := range 200 {
			n := 1.3 * high * float64(i+1) / 200
			now := d.ITLAt(n, c).Value
			if now < before {
				t.Fatalf("ITL falls to %v from %v at n=%v context %v", now, before, n, c)
			}
			before = now
		}
	})
}

// TestBestThroughputIsTheLargestLoad against a scan of every load.
func TestBestThroughputIsTheLargestLoad(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		s := drawRising(t)
		d := mustDecode(t, s)
		c := rapid.Float64Range(s.Samples[0].Context, s.Samples[len(s.Samples)-1].Context).Draw(t, "context")
		limit := time.Duration(math.Exp(rapid.Float64Range(math.Log(1e4), math.Log(1e9)).Draw(t, "log limit")))
		low, high := d.InFlight(c)
		best := d.BestThroughput(limit, c)
		if best.InFlight < low*(1-1e-9) || best.InFlight > high*(1+1e-9) {
			t.Fatalf("chose %v, measured %v–%v", best.InFlight, low, high)
		}
		if got := d.ITLAt(best.InFlight, c).Value; got != best.ITL {
			t.Fatalf("ITL %v at the choice, predicted %v", best.ITL, got)
		}
		if best.Feasible != (best.ITL <= limit) {
			t.Fatalf("feasible %v with ITL %v and limit %v", best.Feasible, best.ITL, limit)
		}
		for i := range 500 {
			n := low + (high-low)*float64(i)/499
			itl := d.ITLAt(n, c).Value
			switch {
			case best.Feasible && n > best.InFlight*(1+1e-6) && itl < limit:
				t.Fatalf("n=%v keeps %v too (%v), chose %v", n, limit, itl, best.InFlight)
			case !best.Feasible && itl < best.ITL:
				t.Fatalf("n=%v has ITL %v, less than the least %v", n, itl, best.ITL)
			}
		}
	})
}

// TestUpstreamUnequalNoiseFalls: upstream's row at context 350 has 46.6, 40.9,
// 42.6 ms at 1049, 1311, 1573 in flight, by its labels; by its throughput 900,
// 788 and 808 ran. The fit follows the rows that do not contradict themselves,
// never falls, and says that it is unsure there.
func TestUpstreamUnequalNoiseFalls(t *testing.T) {
	_, s, _ := loadH200(t)
	d := mustDecode(t, s)
	b := d.BestThroughput(42*time.Millisecond, 350)
	if !b.Feasible || b.ITL > 42*time.Millisecond || b.InFlight < 700 || b.InFlight > 900 {
		t.Errorf("chose %+v, want about 787 in flight, where 42.5 ms were measured", b)
	}
	top := d.BestThroughput(time.Second, 350)
	if math.Abs(top.InFlight-1573) > 1e-6 || top.ITL < 60*time.Millisecond || !within(top.ThroughputPerGPU, 18968.9, 0.05) || top.Error < 0.1 {
		t.Errorf("chose %+v, want the top of the row, slower than labelled, its throughput as measured", top)
	}
}

// Upstream's defects that a re-implementation could share, by name.

func TestUpstreamUnreachableSLAExplodes(t *testing.T) {
	_, s, _ := loadH200(t)
	b := mustDecode(t, s).BestThroughput(2*time.Millisecond, 3000)
	if b.Feasible || b.ITL < 4*time.Millisecond {
		t.Errorf("ITL 2 ms is said to be reachable: %+v", b)
	}
	if !within(b.InFlight, 1, 1e-6) {
		t.Errorf("the least ITL is at one in flight, chose %v", b.InFlight)
	}
}

func TestUpstreamNearestFillClaimsUnmeasuredKV(t *testing.T) {
	_, s, _ := loadH200(t)
	d := mustDecode(t, s)
	if b := d.BestThroughput(time.Second, 350); b.KVUsage > 0.583 {
		t.Errorf("claims KV usage %v at context 350, measured to 0.5826", b.KVUsage)
	}
	p := d.ITL(0.9, 350)
	if p.InRange || p.Value < 42*time.Millisecond {
		t.Errorf("KV usage 0.9 at context 350: %+v", p)
	}
	want := "2430 requests in flight is outside the measured 1–1573"
	if w := p.Warnings(); len(w) != 1 || w[0].Message != want || w[0].Code != "load_out_of_range" {
		t.Errorf("warnings %v, want %q", w, want)
	}
}

func TestUpstreamOneContextRowCrashes(t *testing.T) {
	e := affine{a: 5e6, b: 1e4, k: 1}
	d := mustDecode(t, e.grid([]float64{3075}, 5, 400000, func(float64) float64 { return 64 }))
	if p := d.ITLAt(30, 3080); !p.InRange || !within(float64(p.Value), e.itl(30, 3075), 0.01) {
		t.Errorf("at its own context: %+v", p)
	}
	p := d.ITLAt(30, 6000)
	if w := p.Warnings(); p.InRange || len(w) != 1 || w[0].Message != "context 6000 was not measured, only 3075" {
		t.Errorf("elsewhere: %+v, warnings %v", p, w)
	}
	b := d.BestThroughput(time.Second, 6000)
	if w := b.Warnings(); len(w) != 1 || w[0].Code != "context_out_of_range" {
		t.Errorf("best elsewhere: %+v, warnings %v", b, w)
	}
}

func TestDecodeOfOnePoint(t *testing.T) {
	d := mustDecode(t, profile.DecodeSurface{MaxKVTokens: 1000, Samples: []profile.DecodeSample{
		{KVUsage: 0.5, Context: 100, ITL: 10 * time.Millisecond, ThroughputPerGPU: 500},
	}})
	if p := d.ITLAt(5, 100); !p.InRange || p.Value != 10*time.Millisecond {
		t.Errorf("at the point: %+v", p)
	}
	if p := d.ITLAt(4, 100); p.InRange || p.Value != 10*time.Millisecond {
		t.Errorf("below the point: %+v", p)
	}
	if r := d.ThroughputAt(5, 100); !within(r.Value, 500, 1e-9) {
		t.Errorf("throughput %v, want 500", r.Value)
	}
	if b := d.BestThroughput(10*time.Millisecond, 100); !b.Feasible || !within(b.InFlight, 5, 1e-9) || !within(b.KVUsage, 0.5, 1e-9) {
		t.Errorf("best %+v", b)
	}
}

func TestThroughputIsAsMeasured(t *testing.T) {
	_, s, _ := loadH200(t)
	d := mustDecode(t, s)
	for i, p := range s.Samples {
		wild := slices.ContainsFunc(d.wild, func(w Wild) bool { return w.Index == i })
		got := d.ThroughputPerGPU(p.KVUsage, p.Context)
		if low, high := got.Bounds(); !wild && (p.ThroughputPerGPU < low || p.ThroughputPerGPU > high || !within(got.Value, p.ThroughputPerGPU, 0.12)) {
			t.Errorf("row %d: %v, %v to %v, measured %v", i, got.Value, low, high, p.ThroughputPerGPU)
		}
	}
	if w := d.wild; len(w) != 3 || w[0].Index != 6 || w[0].Off > -0.4 || w[1].Index != 5 || w[2].Index != 22 {
		t.Errorf("wild: %+v, want the two mislabelled worst and 11.7 ms at 19 in flight, where 9.8 is usual", w)
	}
}

func TestDecodeNotNumbers(t *testing.T) {
	_, s, _ := loadH200(t)
	d := mustDecode(t, s)
	nan, inf := math.NaN(), math.Inf(1)
	for _, q := range [][2]float64{{nan, 3000}, {inf, 3000}, {-1, 3000}, {0.5, nan}, {0.5, inf}, {0.5, 0}, {0.5, -1}, {nan, nan}} {
		p, r := d.ITL(q[0], q[1]), d.ThroughputPerGPU(q[0], q[1])
		if p.InRange || r.InRange || p.Warnings() == nil || p.Value < 30*time.Millisecond || !finite(r.Value) {
			t.Errorf("ITL(%v) = %+v, throughput %+v", q, p, r)
		}
		if b := d.BestThroughput(10*time.Millisecond, q[1]); q[1] != 3000 && b.Warnings() == nil {
			t.Errorf("best at context %v says nothing", q[1])
		}
	}
}

func TestFitDecodeRefuses(t *testing.T) {
	ok := profile.DecodeSample{KVUsage: 0.1, Context: 100, ITL: time.Millisecond, ThroughputPerGPU: 1}
	with := func(change func(*profile.DecodeSample)) profile.DecodeSurface {
		bad := ok
		change(&bad)
		return profile.DecodeSurface{MaxKVTokens: 1000, Samples: []profile.DecodeSample{ok, bad}}
	}
	for name, c := range map[string]struct {
		s    profile.DecodeSurface
		gpus int
		want string
	}{
		"no GPUs":        {with(func(*profile.DecodeSample) {}), 0, "0 GPUs"},
		"no capacity":    {profile.DecodeSurface{Samples: []profile.DecodeSample{ok}}, 1, "KV capacity 0"},
		"empty":          {profile.DecodeSurface{MaxKVTokens: 1}, 1, "no samples"},
		"NaN usage":      {with(func(s *profile.DecodeSample) { s.KVUsage = math.NaN() }), 1, "sample 1: KV usage NaN"},
		"zero usage":     {with(func(s *profile.DecodeSample) { s.KVUsage = 0 }), 1, "KV usage 0"},
		"zero context":   {with(func(s *profile.DecodeSample) { s.Context = 0 }), 1, "context 0"},
		"infinite":       {with(func(s *profile.DecodeSample) { s.Context = math.Inf(1) }), 1, "context +Inf"},
		"zero ITL":       {with(func(s *profile.DecodeSample) { s.ITL = 0 }), 1, "ITL 0s"},
		"bad throughput": {with(func(s *profile.DecodeSample) { s.ThroughputPerGPU = -1 }), 1, "throughput -1"},
		"absurd load":    {with(func(s *profile.DecodeSample) { s.KVUsage = 1e300 }), 1, "requests in flight"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := FitDecode(c.s, c.gpus); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestRepeatedLoadsArePooled(t *testing.T) {
	// gonum panics on repeated x.
	s := affine{a: 1e6, b: 1e4, k: 0}.grid([]float64{100, 1000}, 3, 1_000_000, func(float64) float64 { return 64 })
	again := slices.Clone(s.Samples)
	for i := range again {
		again[i].ITL += 2000
	}
	s.Samples = append(s.Samples, again...)
	if got := mustDecode(t, s).ITLAt(1, 100).Value; (got - 1_011_000).Abs() > 10 {
		t.Errorf("ITL %v, want the mean of 1.010 and 1.012 ms", got)
	}
}

func TestPredictionAllocatesNothing(t *testing.T) {
	ps, ds, _ := loadH200(t)
	d := mustDecode(t, ds)
	p, err := FitPrefill(ps)
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]func(){
		"TTFT": func() { p.TTFT(20000) }, "ITL": func() { d.ITL(0.9, 400) }, "throughput": func() { d.ThroughputPerGPU(0.2, 4000) },
		"best": func() { d.BestThroughput(10*time.Millisecond, 3150) },
	} {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}

func FuzzFitDecode(f *testing.F) {
	f.Add(0.1, 350.0, int64(4e6), 200.0, 0.3, 3000.0, int64(2e7), 900.0, 945029, 0.2, 1000.0)
	f.Add(1e-9, 1.0, int64(1), 0.0, 1e9, 1e9, int64(math.MaxInt64), 1e300, 1, 0.0, 0.0)
	f.Fuzz(func(t *testing.T, x1, y1 float64, z1 int64, r1, x2, y2 float64, z2 int64, r2 float64, maxKV int, kv, c float64) {
		surface := profile.DecodeSurface{MaxKVTokens: maxKV, Samples: []profile.DecodeSample{
			{KVUsage: x1, Context: y1, ITL: time.Duration(z1), ThroughputPerGPU: r1},
			{KVUsage: x2, Context: y2, ITL: time.Duration(z2), ThroughputPerGPU: r2},
			{KVUsage: x1 + x2, Context: y2, ITL: time.Duration(z2/2 + z1/2), ThroughputPerGPU: r2},
		}}
		if w := CheckDecode(surface, Facts{GPUs: 1}); !slices.Contains(codes(w), CodeFewPoints) {
			t.Errorf("three points are not few: %v", w)
		}
		d, err := FitDecode(surface, 1)
		if err != nil {
			return
		}
		if p := d.ITL(kv, c); p.Value < 0 || (p.InRange && p.Warnings() != nil) {
			t.Errorf("ITL(%v, %v) = %+v", kv, c, p)
		}
		if b := d.BestThroughput(time.Duration(z1), c); b.Feasible && b.ITL > time.Duration(z1) {
			t.Errorf("best %+v breaks %v", b, time.Duration(z1))
		}
	})
}

func BenchmarkITL(b *testing.B) {
	_, s, _ := loadH200(b)
	d := mustDecode(b, s)
	b.ReportAllocs()
	for b.Loop() {
		d.ITL(0.3, 4000)
	}
}

func BenchmarkBestThroughput(b *testing.B) {
	_, s, _ := loadH200(b)
	d := mustDecode(b, s)
	b.ReportAllocs()
	for b.Loop() {
		d.BestThroughput(10*time.Millisecond, 3150)
	}
}

// Less than one request on average is an engine that idles in between: whoever
// runs, runs alone, and no faster than alone.
func TestLoadBelowOneRunsAlone(t *testing.T) {
	d, err := FitDecode(profile.DecodeSurface{MaxKVTokens: 100_000, Samples: []profile.DecodeSample{
		{KVUsage: 0.01, Context: 1000, ITL: 5 * time.Millisecond, ThroughputPerGPU: 200},
		{KVUsage: 0.10, Context: 1000, ITL: 14 * time.Millisecond, ThroughputPerGPU: 714},
	}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	alone, half := d.ITLAt(1, 1000), d.ITLAt(0.5, 1000)
	if half.Value != alone.Value || !half.InRange {
		t.Errorf("ITL %v at half a request, %v at one; in range %v", half.Value, alone.Value, half.InRange)
	}
	if a, h := d.ThroughputAt(1, 1000).Value, d.ThroughputAt(0.5, 1000).Value; h < 0.49*a || h > 0.51*a {
		t.Errorf("half a request gives %v tokens/s, one %v", h, a)
	}
}
