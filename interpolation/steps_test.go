package interpolation

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/profile"
)

func stepsOf(t testing.TB, p profile.PrefillSurface, d profile.DecodeSurface) Steps {
	t.Helper()
	pre, err := FitPrefill(p)
	if err != nil {
		t.Fatal(err)
	}
	dec, err := FitDecode(d, 1)
	if err != nil {
		t.Fatal(err)
	}
	return NewSteps(pre, dec, 0)
}

func h200Steps(t testing.TB) Steps {
	t.Helper()
	p, d, _ := loadH200(t)
	return stepsOf(t, p, d)
}

// roofline is an engine whose steps are known, in ns: it reads its weights in
// 6 ms, while it computes up to 300 tokens at 20 µs each, attends to a prompt's
// own past at 1 ns a pair, reads KV at 10 ns a token, and is otherwise busy for
// 2 ms. A request costs 3 ms beside, and 2 µs a token of its prompt.
type roofline struct{}

func (roofline) step(chunks [][2]int, n, c float64) float64 {
	t, tokens := 2e6+10*n*c, n
	for _, k := range chunks {
		x, past := float64(k[0]), float64(k[1])
		tokens += x
		t += (past+x)*(past+x) - past*past
	}
	return t + max(6e6, 20e3*tokens)
}

func (r roofline) ttft(x int) float64 { return 3e6 + 2e3*float64(x) + r.step([][2]int{{x, 0}}, 0, 0) }

// dense is its profile, with so many prompt lengths that the curve between them
// is the function itself.
func dense(t testing.TB) Steps {
	t.Helper()
	var p profile.PrefillSurface
	for x := 1; x <= 4001; x += 4 {
		p.Samples = append(p.Samples, profile.PrefillSample{ISL: x, TTFT: time.Duration(roofline{}.ttft(x)), ThroughputPerGPU: 1})
	}
	d := profile.DecodeSurface{MaxKVTokens: 1_000_000}
	for _, c := range []float64{10, 2000, 9000} {
		for _, n := range []float64{1, 20, 100} {
			itl := roofline{}.step(nil, n, c)
			d.Samples = append(d.Samples, profile.DecodeSample{KVUsage: n * c / 1e6, Context: c, ITL: time.Duration(itl), ThroughputPerGPU: n / itl * 1e9})
		}
	}
	return stepsOf(t, p, d)
}

func batch(chunks [][2]int, seqs int, context int64) engine.Batch {
	b := engine.Batch{DecodeSeqs: seqs, DecodeContext: context}
	for _, c := range chunks {
		b.AddChunk(c[0], c[1])
	}
	return b
}

// alone is the TTFT of a prompt that has the engine to itself.
func alone(s Steps, isl int) time.Duration {
	return (s.Overhead() + s.PerToken()*engine.Picoseconds(isl) + s.StepTime(batch([][2]int{{isl, 0}}, 0, 0))).Duration()
}

func near(a engine.Picoseconds, ns, tolerance float64) bool {
	return math.Abs(float64(a)/1e3-ns) <= tolerance
}

func TestStepsAreTheSurfacesWhereTheseSayIt(t *testing.T) {
	s := h200Steps(t)
	for _, isl := range []int{1, 50, 100, 777, 3000, 16372, 20000} {
		want, got := s.prefill.TTFT(float64(isl)).Value, alone(s, isl)
		if below := max(0, 100-isl); (got - want).Abs() > 1+time.Duration(tokenizing*below) { // of the shortest prompt
			t.Errorf("a prompt of %d tokens alone takes %v, its TTFT is %v", isl, got, want)
		}
	}
	for _, n := range []int{1, 30, 200} {
		for _, c := range []int64{10 * knot, 50 * knot} {
			want := s.decode.ITLAt(float64(n), float64(c)).Value
			if got := s.StepTime(batch(nil, n, int64(n)*c)).Duration(); got != want {
				t.Errorf("%d sequences of %d tokens take %v, ITL is %v", n, c, got, want)
			}
		}
		worst := 0.0
		for c := int64(350); c < 13_000; c += 37 {
			want := s.decode.ITLAt(float64(n), float64(c)).Value
			got := s.StepTime(batch(nil, n, int64(n)*c)).Duration()
			worst = max(worst, math.Abs(got.Seconds()/want.Seconds()-1))
		}
		if worst > 0.007 {
			t.Errorf("%d sequences: the straight lines between knots are off by %.2f %%", n, 100*worst)
		}
	}
	if got := s.StepTime(engine.Batch{}); got != 0 {
		t.Errorf("nothing to do takes %v", got.Duration())
	}
}

// Chunks of a prompt, each alone in its step, take as long as the prompt whole
// and the fixed part of each step more.
func TestChunksSumToTheirPrompt(t *testing.T) {
	s := h200Steps(t)
	enginetest.Check(t, func(t *rapid.T) {
		isl := rapid.IntRange(200, 16_000).Draw(t, "isl")
		size := rapid.IntRange(150, 9000).Draw(t, "chunk")
		sum, more := s.Overhead()+s.PerToken()*engine.Picoseconds(isl), -1
		for done := 0; done < isl; done += size {
			sum += s.StepTime(batch([][2]int{{min(size, isl-done), done}}, 0, 0))
			more++
		}
		low := s.prefill.TTFT(float64(isl)).Value
		high := low + time.Duration(float64(more)*s.weights.full)
		if got := sum.Duration(); got < low-100*time.Nanosecond || got > high+100*time.Nanosecond {
			t.Fatalf("chunks of %d take %v, the prompt of %d whole %v, and %v with its further steps", size, got, isl, low, high)
		}
	})
}

// The split of TTFT finds the engine behind a profile: what tokens hide behind
// the weights, whoever's they are, and what each prompt pays for itself.
func TestStepsFindTheEngine(t *testing.T) {
	s := dense(t)
	if got := s.Overhead().Duration(); (got - 3*time.Millisecond).Abs() > 20*time.Microsecond {
		t.Errorf("overhead %v, want 3 ms", got)
	}
	for _, tc := range []struct {
		chunks [][2]int
		n      int
		c      int64
	}{
		{[][2]int{{500, 0}}, 10, 1024},
		{[][2]int{{100, 0}}, 100, 1024},
		{[][2]int{{300, 0}, {300, 0}}, 10, 1024},
		{[][2]int{{60, 0}, {60, 0}, {60, 0}, {60, 0}, {60, 0}, {60, 0}, {60, 0}, {60, 0}}, 0, 0},
		{[][2]int{{500, 1000}}, 10, 1024},
		{[][2]int{{16, 1024}}, 10, 1024},
		{[][2]int{{100, 0}, {900, 2000}, {50, 700}}, 4, 512},
		{[][2]int{{300, 0}, {100, 0}}, 0, 0},
	} {
		want := roofline{}.step(tc.chunks, float64(tc.n), float64(tc.c))
		if got := s.StepTime(batch(tc.chunks, tc.n, int64(tc.n)*tc.c)); !near(got, want, 0.005*want) {
			t.Errorf("%v beside %d × %d: %v, want %.0f ns", tc.chunks, tc.n, tc.c, got.Duration(), want)
		}
	}
}

// A profile whose engine cut its prompts gives the steps that it cut them to.
func TestDefectChunksOfAProfileWereNoise(t *testing.T) {
	const chunk = 512
	var p profile.PrefillSurface
	for _, x := range []int{100, 300, 547, 800, 1024, 1500, 2100, 3000, 4001} {
		ttft, past := 3e6+2e3*float64(x), 0
		for ; past < x; past += chunk {
			ttft += roofline{}.step([][2]int{{min(chunk, x-past), past}}, 0, 0)
		}
		p.Samples = append(p.Samples, profile.PrefillSample{ISL: x, TTFT: time.Duration(ttft), ThroughputPerGPU: 1})
	}
	whole := dense(t)
	pre, err := FitPrefill(p)
	if err != nil {
		t.Fatal(err)
	}
	s := NewSteps(pre, whole.decode, chunk)
	for _, tc := range []struct {
		chunk [2]int
		n     int
	}{{[2]int{512, 0}, 0}, {[2]int{512, 512}, 10}, {[2]int{200, 1024}, 60}, {[2]int{512, 3000}, 30}} {
		want := roofline{}.step([][2]int{tc.chunk}, float64(tc.n), 1024)
		if got := s.StepTime(batch([][2]int{tc.chunk}, tc.n, int64(tc.n)*1024)); !near(got, want, 0.03*want) {
			t.Errorf("%v beside %d: %v, want %.0f ns", tc.chunk, tc.n, got.Duration(), want)
		}
	}
}

// No step takes less than a decode step of one sequence, be there ever so little
// of a prompt left to compute.
func TestNoStepIsShorterThanADecodeStep(t *testing.T) {
	for name, s := range map[string]Steps{"h200": h200Steps(t), "dense": dense(t)} {
		one := s.StepTime(batch(nil, 1, 1))
		enginetest.Check(t, func(t *rapid.T) {
			b := batch([][2]int{{rapid.IntRange(1, 4000).Draw(t, "chunk"), rapid.IntRange(0, 20_000).Draw(t, "past")}}, 0, 0)
			for range rapid.IntRange(0, 4).Draw(t, "more") {
				b.AddChunk(rapid.IntRange(1, 100).Draw(t, "chunk"), rapid.IntRange(0, 9000).Draw(t, "past"))
			}
			if got := s.StepTime(b); float64(got) < 0.9999*float64(one) {
				t.Fatalf("%s: %+v takes %v, a decode step of one sequence %v", name, b, got.Duration(), one.Duration())
			}
		})
	}
}

// Whatever was measured: a prompt that has the engine to itself takes its TTFT,
// or a step's least time, and every step is one that virtual time can hold.
func TestStepsOfAnySurface(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		var p profile.PrefillSurface
		isl := 0
		for range rapid.IntRange(1, 12).Draw(t, "prompts") {
			isl += rapid.IntRange(1, 3000).Draw(t, "longer")
			p.Samples = append(p.Samples, profile.PrefillSample{ISL: isl, TTFT: time.Duration(rapid.Int64Range(1, 1e10).Draw(t, "ttft")), ThroughputPerGPU: 1})
		}
		d := profile.DecodeSurface{MaxKVTokens: 1_000_000}
		for range rapid.IntRange(1, 12).Draw(t, "loads") {
			d.Samples = append(d.Samples, profile.DecodeSample{
				KVUsage: rapid.Float64Range(1e-4, 1).Draw(t, "kv"), Context: rapid.Float64Range(10, 9000).Draw(t, "context"),
				ITL: time.Duration(rapid.Int64Range(1, 1e9).Draw(t, "itl")), ThroughputPerGPU: 1,
			})
		}
		pre, err := FitPrefill(p)
		if err != nil {
			t.Skip(err)
		}
		dec, err := FitDecode(d, 1)
		if err != nil {
			t.Skip(err)
		}
		s := NewSteps(pre, dec, 0)
		for _, x := range p.Samples {
			got, ttft := alone(s, x.ISL), pre.TTFT(float64(x.ISL)).Value
			if want := max(ttft, picoseconds(s.least+s.overhead+s.prompts.outside*float64(x.ISL)).Duration()); (got - want).Abs() > 5 {
				t.Fatalf("a prompt of %d tokens alone takes %v, want %v", x.ISL, got, want)
			}
		}
		n := rapid.IntRange(0, 500).Draw(t, "decoding")
		b := batch([][2]int{{rapid.IntRange(1, 9000).Draw(t, "chunk"), rapid.IntRange(0, 9000).Draw(t, "past")}, {5, 0}}, n, int64(n)*300)
		decode := s.StepTime(engine.Batch{DecodeSeqs: n, DecodeContext: b.DecodeContext})
		if got := s.StepTime(b); got < decode || got < picoseconds(s.least) || got > 3*engine.Day {
			t.Fatalf("%+v takes %v, decoding alone %v", b, got.Duration(), decode.Duration())
		}
	})
}

func TestDecodeRunIsStepTime(t *testing.T) {
	for name, s := range map[string]Steps{"h200": h200Steps(t), "dense": dense(t)} {
		t.Run(name, func(t *testing.T) {
			enginetest.Check(t, func(t *rapid.T) {
				n := rapid.IntRange(1, 1200).Draw(t, "sequences")
				c := rapid.Int64Range(0, 40_000).Draw(t, "context")*int64(n) + rapid.Int64Range(0, int64(n)-1).Draw(t, "more")
				first, growth, steps := s.DecodeRun(n, c)
				if steps < 1 || growth < 0 || first <= 0 {
					t.Fatalf("first %d, growth %d, %d steps", first, growth, steps)
				}
				for i := range steps {
					got := s.StepTime(engine.Batch{DecodeSeqs: n, DecodeContext: c + i*int64(n)})
					if want := first + engine.Picoseconds(i)*growth; got != want {
						t.Fatalf("step %d takes %d, the run says %d", i, got, want)
					}
				}
			})
		})
	}
	s := h200Steps(t)
	for _, c := range []int64{-1, math.MaxInt64} {
		if first, _, steps := s.DecodeRun(3, c); first <= 0 || steps != 1 {
			t.Errorf("context %d: %d, %d steps", c, first, steps)
		}
	}
}

// A table changes nothing, within it, at its edges, and beyond.
func TestTabledStepsAreTheSame(t *testing.T) {
	s := h200Steps(t)
	tabled := map[[2]int]Steps{}
	for _, size := range [][2]int{{0, 0}, {1, 1}, {8, 640}, {40, 5000}} {
		tabled[size] = s.Tabled(size[0], size[1])
	}
	enginetest.Check(t, func(t *rapid.T) {
		b := engine.Batch{DecodeSeqs: rapid.IntRange(0, 60).Draw(t, "sequences"), PrefillTokens: rapid.IntRange(0, 3).Draw(t, "chunk")}
		b.DecodeContext = rapid.Int64Range(0, 7000).Draw(t, "context") * int64(b.DecodeSeqs)
		b.PrefillSeqs = b.PrefillTokens
		for size, other := range tabled {
			if got, want := other.StepTime(b), s.StepTime(b); got != want {
				t.Fatalf("a table of %v: %+v takes %d, without %d", size, b, got, want)
			}
			f1, g1, n1 := s.DecodeRun(b.DecodeSeqs, b.DecodeContext)
			if f2, g2, n2 := other.DecodeRun(b.DecodeSeqs, b.DecodeContext); f1 != f2 || g1 != g2 || n1 != n2 {
				t.Fatalf("a table of %v: a run of %d, %d, %d, without %d, %d, %d", size, f2, g2, n2, f1, g1, n1)
			}
		}
	})
}

func TestStepsGrowWithTheBatch(t *testing.T) {
	s := h200Steps(t)
	enginetest.Check(t, func(t *rapid.T) {
		n, p := rapid.IntRange(1, 8000).Draw(t, "chunk"), rapid.IntRange(0, 8000).Draw(t, "past")
		seqs := rapid.IntRange(1, 300).Draw(t, "decoding")
		context := int64(seqs) * rapid.Int64Range(1, 12_000).Draw(t, "context")
		a := s.StepTime(batch([][2]int{{n, p}}, seqs, context))
		for what, b := range map[string]engine.Batch{
			"a longer chunk":    batch([][2]int{{n + 10, p}}, seqs, context),
			"a second chunk":    batch([][2]int{{n, p}, {n, p}}, seqs, context),
			"one more sequence": batch([][2]int{{n, p}}, seqs+1, context+context/int64(max(seqs, 1))+1),
		} {
			// Between rows of measured points with noise in them, 1 % is not a fall.
			if z := s.StepTime(b); float64(z) < 0.99*float64(a) {
				t.Fatalf("%s: %v after %v", what, z.Duration(), a.Duration())
			}
		}
	})
}

func TestStepsFromOneSample(t *testing.T) {
	s := stepsOf(t,
		profile.PrefillSurface{Provenance: profile.Measured, Samples: []profile.PrefillSample{{ISL: 1000, TTFT: 50 * time.Millisecond, ThroughputPerGPU: 2e4}}},
		profile.DecodeSurface{Provenance: profile.Measured, MaxKVTokens: 1e5, Samples: []profile.DecodeSample{{KVUsage: 0.1, Context: 1000, ITL: 8 * time.Millisecond, ThroughputPerGPU: 1250}}})
	if got := s.StepTime(batch([][2]int{{500, 0}}, 10, 10_000)); !near(got, 33e6, 1) {
		t.Errorf("half the prompt beside ten sequences takes %v, want 8 + 25 ms", got.Duration())
	}
	if s.Provenance() != profile.Estimated {
		t.Errorf("steps from measured surfaces are %s", s.Provenance())
	}
	if w := s.Outside(1000, 10, 1000); len(w) != 0 {
		t.Errorf("the measured point: %v", w)
	}
	if w := s.Outside(2000, 30, 5000); len(w) != 3 {
		t.Errorf("far from the measured point: %v", w)
	}
}

func TestCoarseLoadsAreNamed(t *testing.T) {
	s := h200Steps(t) // whose ITL rises from 4.4 ms at 1 request to 19.1 at 263
	for load, want := range map[float64]int{0.5: 0, 30: 1, 262: 1, 400: 0, 5000: 0} {
		if w := s.Coarse(load, 300); len(w) != want {
			t.Errorf("%v requests in flight: %v, want %d warnings", load, w, want)
		}
	}
	if w := dense(t).Coarse(60, 2000); len(w) != 0 {
		t.Errorf("an engine whose ITL rises little: %v", w)
	}
}

func BenchmarkDecodeRun(b *testing.B) {
	s := h200Steps(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s.DecodeRun(30, int64(30*(1000+i%5000)))
	}
}

func BenchmarkTabledDecodeRun(b *testing.B) {
	s := h200Steps(b).Tabled(64, 8192)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s.DecodeRun(30, int64(30*(1000+i%5000)))
	}
}

func BenchmarkMixedStepTime(b *testing.B) {
	s := h200Steps(b)
	step := batch([][2]int{{1024, 0}}, 30, 60_000)
	b.ReportAllocs()
	for b.Loop() {
		s.StepTime(step)
	}
}

// Near its knee a measured TTFT may leave the split's straight lines, so that what a
// prompt pays for itself falls there: the tokens before a chunk save nothing for that.
func TestTokensBeforeAChunkSaveNothing(t *testing.T) {
	var p profile.PrefillSurface // the latency model's Llama-3.1-70B, TP 4 on H100
	for _, x := range []struct {
		isl int
		ms  float64
	}{{100, 26.77}, {277, 29.94}, {389, 36.01}, {547, 46.12}, {1080, 80.43}, {1517, 108.81}, {3000, 206.8}, {5909, 406.49}, {8301, 595.32}, {16383, 1216.13}} {
		p.Samples = append(p.Samples, profile.PrefillSample{ISL: x.isl, TTFT: time.Duration(x.ms * 1e6), ThroughputPerGPU: 1})
	}
	d := profile.DecodeSurface{MaxKVTokens: 1_000_000, Samples: []profile.DecodeSample{{KVUsage: 0.001, Context: 1000, ITL: 18 * time.Millisecond, ThroughputPerGPU: 1}}}
	s := stepsOf(t, p, d)
	prompts := func(past int) engine.Batch {
		var chunks [][2]int
		for range 16 {
			chunks = append(chunks, [2]int{64, past})
		}
		return batch(chunks, 0, 0)
	}
	first := s.StepTime(prompts(0))
	for past := 10; past < 20_000; past += 10 {
		if got := s.StepTime(prompts(past)); got < first {
			t.Fatalf("16 chunks of 64 tokens take %v after %d tokens each, and %v as prompts' first", got.Duration(), past, first.Duration())
		}
	}
}
