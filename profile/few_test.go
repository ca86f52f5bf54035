package profile

import (
	"math/rand/v2"
	"testing"
	"time"
)

// What misses a percentile by too few requests misses it for sure only where the whole
// interval of their share is below it: three late ones of 190 are no miss of a P99.
func TestFewRequestsMissOnlySurely(t *testing.T) {
	p99 := SLA{TTFT: 200 * time.Millisecond, ITL: 20 * time.Millisecond, Stat: P99}
	for name, c := range map[string]struct {
		phase          Phase
		sla            SLA
		late, slow     int
		ttftOf, tpotOf float64 // independent requests, 0 = not known
		want           bool    // it misses, and nothing is left untold
	}{
		"three late":                      {Prefill, p99, 3, 0, 190, 0, false},
		"eight late":                      {Prefill, p99, 8, 0, 190, 0, true},
		"eight late that hang together":   {Prefill, p99, 8, 0, 12, 0, false},
		"all late, as far as nobody says": {Prefill, p99, 190, 0, 0, 0, false},
		"late where TTFT is not asked":    {Decode, p99, 190, 0, 190, 190, false},
		"three slow":                      {Decode, p99, 0, 3, 0, 190, false},
		"eight slow":                      {Decode, p99, 0, 8, 0, 190, true},
		"eight late, aggregated":          {Aggregated, p99, 8, 0, 190, 190, true},
		"eight slow, aggregated":          {Aggregated, p99, 0, 8, 190, 190, true},
	} {
		of := func(missed int, neff float64) (d Distribution, i Interval) {
			d = Distribution{N: 190, P99: time.Second, Neff: neff}
			if neff > 0 {
				i = wilson(1-float64(missed)/190, neff, z95)
			}
			return d, i
		}
		a := Attainment{Requests: 190, ITL: Distribution{N: 9000, P99: time.Second}}
		a.TTFT, a.InTTFT = of(c.late, c.ttftOf)
		a.TPOT, a.InITL = of(c.slow, c.tpotOf)
		p := Point{Phase: c.phase, Load: &a}
		if why := p.Untold(c.sla); (why == "") != c.want || p.Meets(c.sla) {
			t.Errorf("%s: meets %v, untold %q", name, p.Meets(c.sla), why)
		}
	}
}

// An engine that just holds a percentile is seldom said to miss it, whatever the number
// of independent requests: in 2.5 % of loads in the mean, and in some more where few
// late ones are expected, since their number is whole.
func TestMissedBySeldomByChance(t *testing.T) {
	const loads = 4000
	rng := rand.New(rand.NewPCG(4, 2))
	for _, stat := range []Statistic{P90, P95, P99} {
		for _, n := range []int{10, 20, 35, 71, 190, 367} {
			if n >= SamplesFor(stat) {
				continue
			}
			missed := 0
			for range loads {
				late := 0
				for range n {
					if rng.Float64() > stat.Quantile() {
						late++
					}
				}
				if stat.MissedBy(1-float64(late)/float64(n), float64(n)) {
					missed++
				}
			}
			if share := float64(missed) / loads; share > 0.1 {
				t.Errorf("%s: %d requests are said to miss it in %.1f %% of loads that hold it", stat, n, 100*share)
			}
		}
		if !stat.MissedBy(0, 5) || stat.MissedBy(1, 1e6) || stat.MissedBy(0, 0) || Mean.MissedBy(0, 1e6) {
			t.Errorf("%s: none of five within it %v; all of a million %v", stat, stat.MissedBy(0, 5), stat.MissedBy(1, 1e6))
		}
	}
}
