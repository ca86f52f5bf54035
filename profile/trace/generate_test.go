package trace_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/engine/enginetest"
	"plimsoll/profile"
	"plimsoll/profile/trace"
)

func poisson(rate float64, n int, seed uint64) trace.Spec {
	return trace.Spec{
		Rate: trace.Constant(rate), Gaps: trace.Gaps{Process: profile.Poisson},
		ISL: uniform{1, 4000}, OSL: trace.Fixed(100), Requests: n, Seed: seed,
	}
}

func generate(t rapid.TB, s trace.Spec) []trace.Arrival {
	t.Helper()
	tr, err := trace.Generate(s)
	if err != nil {
		t.Fatal(err)
	}
	all, err := trace.Collect(tr)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func must[T any](t rapid.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestGapsHaveTheirRateAndCV(t *testing.T) {
	const n = 200_000
	for _, c := range []struct {
		gaps trace.Gaps
		cv   float64
	}{
		{trace.Gaps{Process: profile.Constant}, 0},
		{trace.Gaps{Process: profile.Poisson}, 1},
		{trace.Gaps{Process: profile.Gamma, CV: 0.3}, 0.3},
		{trace.Gaps{Process: profile.Gamma, CV: 1}, 1},
		{trace.Gaps{Process: profile.Gamma, CV: 3}, 3},
	} {
		s := poisson(25, n, 7)
		s.Gaps = c.gaps
		st := must[trace.Stats](t)(trace.Summarize(trace.Of(generate(t, s)...)))
		// The mean of n gaps is off by CV/√n; that of the CV by about its
		// kurtosis' root, which gamma's 6·CV² + 3 bounds below 10·CV.
		if off := math.Abs(st.Rate/25 - 1); off > 5*c.cv/math.Sqrt(n)+1e-4 {
			t.Errorf("%+v: rate %v, want 25", c.gaps, st.Rate)
		}
		if off := math.Abs(st.CV - c.cv); off > 5*c.cv*10/math.Sqrt(n)+1e-6 {
			t.Errorf("%+v: cv %v, want %v", c.gaps, st.CV, c.cv)
		}
	}
}

// Where the rate changes, the number of arrivals in every part of the time is
// Poisson's of the rate's integral: within five standard deviations of it.
func TestRatesAreFollowed(t *testing.T) {
	days := 3 * 24 * time.Hour
	for name, r := range map[string]trace.Rate{
		"sine":           trace.Sine{Mean: 2, Amplitude: 1, Period: 3 * time.Hour, Phase: -math.Pi / 2},
		"burst":          must[trace.Steps](t)(trace.Burst(1, 20, time.Hour, 5*time.Minute)),
		"on and off":     must[trace.Steps](t)(trace.Burst(0, 5, 2*time.Hour, time.Hour)),
		"flat":           must[trace.Steps](t)(trace.Daily(trace.Flat, 2)),
		"business hours": must[trace.Steps](t)(trace.Daily(trace.BusinessHours, 2)),
		"global":         must[trace.Steps](t)(trace.Daily(trace.Global, 2)),
	} {
		all := generate(t, trace.Spec{Rate: r, Gaps: trace.Gaps{Process: profile.Poisson}, ISL: trace.Fixed(1), OSL: trace.Fixed(1), Duration: days, Seed: 3})
		part := 5 * time.Minute
		got := make([]float64, days/part)
		for _, a := range all {
			got[a.At/part]++
		}
		worst := 0.0
		for i := range got {
			want := 0.0 // midpoint rule, 20 points a part
			for k := range 20 {
				want += r.At(time.Duration(i)*part+time.Duration(k)*part/20+part/40) * part.Seconds() / 20
			}
			if want == 0 && got[i] > 0 {
				t.Errorf("%s: %v arrivals in a part without a rate", name, got[i])
			}
			if want > 20 {
				worst = max(worst, math.Abs(got[i]-want)/math.Sqrt(want))
			}
		}
		if worst > 5 {
			t.Errorf("%s: a part has a number of arrivals %v standard deviations off", name, worst)
		}
	}
}

func TestSineReachIsScipys(t *testing.T) {
	for _, o := range readOracles(t).Sine {
		s := trace.Sine{Mean: o.Mean, Amplitude: o.Amplitude, Period: time.Duration(o.Period) * time.Second, Phase: o.Phase}
		if got := s.Reach(o.N); math.Abs(got-o.T) > 2e-9*max(1, o.T) {
			t.Errorf("%+v: %v requests by %.12g s, scipy says %.12g", s, o.N, got, o.T)
		}
	}
}

// Reach inverts the integral of At, by a midpoint sum.
func TestReachInvertsTheRate(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		var steps []trace.Step
		for range rapid.IntRange(1, 5).Draw(t, "steps") {
			steps = append(steps, trace.Step{For: time.Duration(rapid.IntRange(1, 20).Draw(t, "for")) * time.Second, Rate: float64(rapid.IntRange(0, 3).Draw(t, "rate"))})
		}
		steps = append(steps, trace.Step{For: time.Second, Rate: 1})
		s := must[trace.Steps](t)(trace.NewSteps(true, steps...))
		n := rapid.Float64Range(0, 500).Draw(t, "n")
		reached := s.Reach(n)
		sum := 0.0
		const dt = time.Millisecond * 500 // divides every step
		whole := math.Floor(reached / dt.Seconds())
		for i := range int(whole) {
			sum += s.At(time.Duration(i)*dt+dt/2) * dt.Seconds()
		}
		sum += s.At(time.Duration(whole)*dt+dt/2) * (reached - whole*dt.Seconds())
		if math.Abs(sum-n) > 1e-6 {
			t.Fatalf("%v requests by %v s, where %v are expected", n, reached, sum)
		}
		if at := s.At(time.Duration(reached*1e9) + time.Microsecond); at == 0 {
			t.Fatalf("%v requests by %v s, where nothing arrives", n, reached)
		}
	})
}

func TestStepsOnceEnd(t *testing.T) {
	once := must[trace.Steps](t)(trace.NewSteps(false, trace.Step{For: time.Second}, trace.Step{For: 2 * time.Second, Rate: 3}))
	s := poisson(1, 1000, 1)
	s.Rate, s.Gaps = once, trace.Gaps{Process: profile.Constant}
	all := generate(t, s)
	if len(all) != 6 || all[0].At != time.Second || all[5].At >= 3*time.Second {
		t.Errorf("three a second from 1 s to 3 s: got %v", all)
	}
}

func TestPatternsHaveMeanOne(t *testing.T) {
	for _, p := range []trace.Pattern{trace.Flat, trace.BusinessHours, trace.Global} {
		hours := must[[24]float64](t)(p.Hours())
		sum := 0.0
		for _, h := range hours {
			sum += h
		}
		if math.Abs(sum-24) > 1e-9 {
			t.Errorf("%s: the hours sum to %v", p, sum)
		}
	}
	if _, err := trace.Daily("weekend", 1); err == nil || !strings.Contains(err.Error(), `pattern "weekend" is unknown: want flat, business_hours or global`) {
		t.Errorf("unknown pattern: %v", err)
	}
}

func TestSameSeedSameTrace(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		s := poisson(10, 200, rapid.Uint64().Draw(t, "seed"))
		s.Prefixes = trace.Prefixes{Groups: 3, Tokens: 100, BlockTokens: 16, Share: 0.5, Zipf: 1}
		tr := must[trace.Trace](t)(trace.Generate(s))
		first, again := must[[]trace.Arrival](t)(trace.Collect(tr)), must[[]trace.Arrival](t)(trace.Collect(tr))
		if !slices.EqualFunc(first, again, sameButLine) {
			t.Fatal("the second pass differs from the first")
		}
		s.OSL = uniform{1, 9}
		for i, a := range generate(t, s) {
			if a.At != first[i].At || a.ISL != first[i].ISL || !slices.Equal(a.Blocks, first[i].Blocks) {
				t.Fatal("other output lengths changed more than those")
			}
		}
		s.Seed++
		if slices.EqualFunc(first, generate(t, s), sameButLine) {
			t.Fatal("another seed gives the same trace")
		}
	})
}

func TestArrivalsAreInOrderAndWithinDuration(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		s := poisson(1, 300, rapid.Uint64().Draw(t, "seed"))
		s.Gaps = trace.Gaps{Process: profile.Gamma, CV: rapid.Float64Range(0.01, 20).Draw(t, "cv")}
		s.Rate = trace.Sine{
			Mean:      rapid.Float64Range(1e-3, 1e5).Draw(t, "mean"),
			Amplitude: rapid.Float64Range(0, 1).Draw(t, "amplitude"),
			Period:    time.Duration(rapid.Int64Range(1, 1e15).Draw(t, "period")),
			Phase:     rapid.Float64Range(-3, 3).Draw(t, "phase"),
		}
		s.Duration = time.Duration(rapid.Int64Range(1, 1e15).Draw(t, "duration"))
		last := time.Duration(0)
		for _, a := range generate(t, s) {
			if a.At < last || a.At >= s.Duration {
				t.Fatalf("an arrival at %v after one at %v, in %v", a.At, last, s.Duration)
			}
			last = a.At
		}
	})
}

func TestSpecsOutOfRangeAreRefused(t *testing.T) {
	for want, change := range map[string]func(*trace.Spec){
		"a trace needs a rate":                      func(s *trace.Spec) { s.Rate = nil },
		"rate: rate 0 is out of range":              func(s *trace.Spec) { s.Rate = trace.Constant(0) },
		"rate: rate NaN is out of range":            func(s *trace.Spec) { s.Rate = trace.Constant(math.NaN()) },
		"rate: no steps":                            func(s *trace.Spec) { s.Rate = trace.Steps{} },
		"amplitude 2 is out of range: want 0 to 1":  func(s *trace.Spec) { s.Rate = trace.Sine{Mean: 1, Amplitude: 2, Period: 1} },
		"period 0s is out of range":                 func(s *trace.Spec) { s.Rate = trace.Sine{Mean: 1} },
		"gaps: arrival \"\" is unknown":             func(s *trace.Spec) { s.Gaps.Process = "" },
		"gaps: cv 0 is out of range: want above 0":  func(s *trace.Spec) { s.Gaps.Process = profile.Gamma },
		"osl: length 0 is out of range":             func(s *trace.Spec) { s.OSL = trace.Fixed(0) },
		"0 requests in 0s: want a number":           func(s *trace.Spec) { s.Requests = 0 },
		"groups 0 is out of range: want 1 to 10485": func(s *trace.Spec) { s.Prefixes.Tokens = 1 },
	} {
		s := poisson(1, 1, 1)
		change(&s)
		if _, err := trace.Generate(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	for want, err := range map[string]error{
		"step 2: rate -1 is out of range": second(trace.NewSteps(true, trace.Step{For: 1, Rate: 1}, trace.Step{For: 1, Rate: -1})),
		"step 1 lasts 0s":                 second(trace.NewSteps(true, trace.Step{Rate: 1})),
		"the rate is 0 in every step":     second(trace.NewSteps(true, trace.Step{For: 1})),
		"a burst of 1s every 1s":          second(trace.Burst(1, 2, time.Second, time.Second)),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// draws are n lengths.
func draws(l trace.Lengths, n int) []float64 {
	r := rand.New(rand.NewPCG(1, 2))
	out := make([]float64, n)
	for i := range out {
		out[i] = float64(l.Draw(r))
	}
	return out
}

func TestCovered(t *testing.T) {
	burst := must[trace.Steps](t)(trace.Burst(1, 4, time.Minute, 20*time.Second)) // 2 a second on average
	day := must[trace.Steps](t)(trace.Daily(trace.BusinessHours, 10))
	for name, tc := range map[string]struct {
		spec  trace.Spec
		until time.Duration
		mean  float64
	}{
		"requests":               {trace.Spec{Rate: trace.Constant(5), Requests: 10}, 2 * time.Second, 5},
		"duration":               {trace.Spec{Rate: trace.Constant(5), Duration: time.Minute}, time.Minute, 5},
		"the earlier of both":    {trace.Spec{Rate: trace.Constant(5), Requests: 10, Duration: time.Second}, time.Second, 5},
		"whole periods":          {trace.Spec{Rate: burst, Duration: 3 * time.Minute}, 3 * time.Minute, 2},
		"whole periods, counted": {trace.Spec{Rate: burst, Requests: 360}, 3 * time.Minute, 2},
		"only the quiet part":    {trace.Spec{Rate: burst, Duration: 30 * time.Second}, 30 * time.Second, 1},
		"a night":                {trace.Spec{Rate: day, Requests: 36_000}, 5 * time.Hour, 2},
		"a sine's first half":    {trace.Spec{Rate: trace.Sine{Mean: 10, Amplitude: 1, Period: time.Minute}, Duration: 30 * time.Second}, 30 * time.Second, 10 * (1 + 2/math.Pi)},
	} {
		until, mean := tc.spec.Covered()
		if (until-tc.until).Abs() > time.Microsecond || math.Abs(mean/tc.mean-1) > 1e-6 {
			t.Errorf("%s: %v a second until %v, want %v until %v", name, mean, until, tc.mean, tc.until)
		}
	}
}

// uniform is every length from the first to the second equally often.
type uniform [2]int

func (u uniform) Draw(r *rand.Rand) int { return u[0] + r.IntN(u[1]-u[0]+1) }
func (u uniform) Validate() error       { return nil }
