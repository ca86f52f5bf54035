package profile

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// The ends of the score interval are the shares at which p is z standard errors
// away, with the standard error of the end: found here by bisection.
func TestWilsonAgainstItsDefinition(t *testing.T) {
	end := func(p, n, far float64) float64 {
		near := p
		for range 200 {
			mid := (near + far) / 2
			if math.Abs(p-mid) < 1.959963984540054*math.Sqrt(mid*(1-mid)/n) {
				near = mid
			} else {
				far = mid
			}
		}
		return near
	}
	for _, n := range []float64{1, 5, 51, 399.5, 1e5} {
		for _, p := range []float64{0, 0.02, 0.5, 0.686, 0.99, 1} {
			if i := wilson(p, n, z95); math.Abs(i.Low-end(p, n, 0)) > 1e-9 || math.Abs(i.High-end(p, n, 1)) > 1e-9 {
				t.Errorf("%v of %v: %+v, want %v to %v", p, n, i, end(p, n, 0), end(p, n, 1))
			}
		}
	}
	for n := range 1000 {
		if i := wilson(1, float64(n+1), z95); i.High != 1 {
			t.Fatalf("all of %d: %+v is rounded away from 1", n+1, i)
		}
	}
	if _, i := share(nil, 9); i != (Interval{}) {
		t.Errorf("of nothing: %+v", i)
	}
	if n, i := share([]bool{true, true, true}, 0); n != 3 || i != (Interval{}) {
		t.Errorf("of latencies that say nothing: %d, %+v", n, i)
	}
}

// Requests of one busy period are within the limit together, all of them too:
// they are no more than the latencies behind them.
func TestShareOfAllCountsAsItsLatencies(t *testing.T) {
	rs, w := served(1000, 0.7, false, rand.New(rand.NewPCG(3, 1)))
	a := Attain(rs, w, SLA{TTFT: time.Hour, Stat: Mean}, 1)
	if a.WithinTTFT != 1000 || a.TTFT.Neff <= 0 || a.TTFT.Neff > 100 || a.InTTFT != wilson(1, a.TTFT.Neff, z95) {
		t.Errorf("%d within, worth %.0f: %+v", a.WithinTTFT, a.TTFT.Neff, a.InTTFT)
	}
}

// What could have come out on the other side says so, by the figure that the SLA
// is held against; a failure is none that chance takes back.
func TestAttainmentUndecided(t *testing.T) {
	ms := time.Millisecond
	mean := SLA{TTFT: 100 * ms, ITL: 20 * ms, Stat: Mean}
	p90 := SLA{TTFT: 100 * ms, ITL: 20 * ms, Stat: P90}
	at := func(mean, half int) Distribution {
		d := time.Duration(mean) * ms
		return Distribution{N: 100, Mean: d, P90: d, Half: time.Duration(half) * ms}
	}
	wide, high := Interval{Low: 0.85, High: 0.97}, Interval{Low: 0.91, High: 1}
	for name, c := range map[string]struct {
		a     Attainment
		phase Phase
		sla   SLA
		want  bool
	}{
		"a mean far below":           {Attainment{TTFT: at(80, 10)}, Prefill, mean, false},
		"a mean just below":          {Attainment{TTFT: at(95, 10)}, Prefill, mean, true},
		"a mean just above":          {Attainment{TTFT: at(105, 10)}, Prefill, mean, true},
		"a mean without an interval": {Attainment{TTFT: at(50, 0)}, Prefill, mean, true},
		"a mean of equal ones":       {Attainment{TTFT: Distribution{N: 100, Mean: 95 * ms, Neff: 50}}, Prefill, mean, false},
		"a share without one":        {Attainment{TTFT: at(50, 1)}, Prefill, p90, true},
		"the other phase's":          {Attainment{TTFT: at(95, 10), TPOT: at(10, 1)}, Decode, mean, false},
		"decode":                     {Attainment{TPOT: at(20, 1)}, Decode, mean, true},
		"aggregated, by ITL":         {Attainment{TTFT: at(50, 1), TPOT: at(20, 1)}, Aggregated, mean, true},
		"a percentile":               {Attainment{TTFT: at(90, 0), InTTFT: wide}, Prefill, p90, true},
		"a percentile, clearly":      {Attainment{TTFT: at(90, 0), InTTFT: high}, Prefill, p90, false},
		"a percentile per request":   {Attainment{InITL: wide}, Decode, p90, true},
		"with failures":              {Attainment{TTFT: at(95, 10), FailsTooOften: true}, Prefill, mean, false},
		"growing":                    {Attainment{TTFT: at(95, 10), Growing: true}, Prefill, mean, false},
	} {
		c.a.Requests = 100
		if got := c.a.Undecided(c.phase, c.sla); got != c.want {
			t.Errorf("%s: undecided %v", name, got)
		}
		if c.a.Surely(c.phase, c.sla) && c.want {
			t.Errorf("%s: undecided, and sure", name)
		}
	}
}

func TestSpread2(t *testing.T) {
	for _, c := range []struct{ mean, p99, want float64 }{
		{100, 100, 0}, // all alike
		{100, 0, 1},   // does not say
		{100, 1e9, math.Expm1(Z99 * Z99)},
	} {
		if got := Spread2(c.mean, c.p99); math.Abs(got-c.want) > 1e-9*c.want {
			t.Errorf("Spread2(%v, %v) = %v, want %v", c.mean, c.p99, got, c.want)
		}
	}
	// Round trip through a lognormal's own figures.
	for _, sigma := range []float64{0.1, 0.5, 1, 1.5} {
		m := math.Exp(sigma * sigma / 2)
		p99 := math.Exp(Z99 * sigma)
		if got, want := Spread2(m, p99), math.Expm1(sigma*sigma); math.Abs(got/want-1) > 1e-6 {
			t.Errorf("sigma %v: %v, want %v", sigma, got, want)
		}
	}
}

// Requests that come at any time and run for as many steps as their answers have tokens,
// looked at now and then: what those that run have generated.
func TestContextOfRunningRequests(t *testing.T) {
	const prompt, mean, until, every = 10, 200.0, 40_000_000, 97
	for _, ratio := range []float64{1, 2, 4, 6} { // p99 over mean
		spread2 := Spread2(mean, ratio*mean)
		rng, sigma := rand.New(rand.NewPCG(1, 2)), math.Sqrt(math.Log1p(spread2))
		tokens, running := 0.0, 0.0
		for range 1_000_000 {
			begins, length := rng.Float64()*until, mean*math.Exp(sigma*rng.NormFloat64()-sigma*sigma/2)
			for at := math.Ceil(begins/every) * every; at < begins+length; at += every {
				tokens, running = tokens+prompt+at-begins, running+1
			}
		}
		if got, want := Context(prompt, mean, spread2), tokens/running; math.Abs(got/want-1) > 0.02 {
			t.Errorf("p99/mean %v: %.1f tokens, those that run have %.1f", ratio, got, want)
		}
	}
	if got := Context(0, 2, 1e6); got != 11 {
		t.Errorf("of answers of which one in a hundred says nothing: %v", got)
	}
}

// Shares are ranks without steps: with whole ranks the tails are at most 5 %, with the next
// ones more.
func TestSharesAreRanks(t *testing.T) {
	for _, n := range []float64{300, 1000, 20_000} {
		lo, hi := Shares(n, 0.99)
		below := func(rank float64) float64 { return binomialCDF(int(rank)-1, int(n), 0.99) } // P(fewer than rank are below)
		if l := below(math.Floor(lo * n)); l > miss90 || below(math.Floor(lo*n)+2) < miss90 {
			t.Errorf("n %v: low %v, %v", n, lo*n, l)
		}
		if h := 1 - below(math.Ceil(hi*n)+1); h > miss90 || 1-below(math.Ceil(hi*n)-1) < miss90 {
			t.Errorf("n %v: high %v, %v", n, hi*n, h)
		}
	}
	if _, hi := Shares(298, 0.99); hi != 1 {
		t.Errorf("298 samples end at %v", hi)
	}
	if lo, hi := Shares(0, 0.99); lo != 0 || hi != 1 {
		t.Errorf("none: %v to %v", lo, hi)
	}
}
