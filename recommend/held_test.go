package recommend

import (
	"math/rand/v2"
	"testing"
	"time"

	"plimsoll/profile"
)

// gated is the mean TTFT of n requests after others at an engine whose steps take
// all who wait, up to batch of them, a second for each, at a Poisson rate; late of
// them are above limit.
func gated(rng *rand.Rand, rate float64, batch, n int, limit float64) (mean, late float64) {
	const before = 500
	var due []float64
	for at := 0.0; len(due) < before+n; at += rng.ExpFloat64() / rate {
		due = append(due, at)
	}
	free := 0.0
	for i := 0; i < len(due); {
		start := max(free, due[i])
		k := i
		for k < len(due) && k < i+batch && due[k] <= start {
			k++
		}
		free = start + float64(k-i)
		for ; i < k; i++ {
			if ttft := free - due[i]; i >= before {
				mean += ttft / float64(n)
				if ttft > limit {
					late += 1 / float64(n)
				}
			}
		}
	}
	return mean, late
}

// Loads at the recommended rate hold the SLA in most cases, and not at a quarter
// more: it is neither met at the limit nor far from it.
func TestRecommendedPrefillRateHolds(t *testing.T) {
	const loads = 400
	for _, batch := range []int{1, 3, 1000} {
		for _, slack := range []float64{0.3, 1, 2} {
			limit := time.Duration((1 + slack) * float64(time.Second))
			for _, stat := range []profile.Statistic{profile.Mean, profile.P90} {
				limit := limit
				if stat != profile.Mean {
					limit *= 2
				}
				rate := SustainableUtilization(Service{Mean: time.Second, At: time.Second, Batch: float64(batch)}, limit, stat)
				held := func(rate float64) (share float64) {
					rng := rand.New(rand.NewPCG(1, 1))
					for range loads {
						mean, late := gated(rng, rate, batch, max(heldOver, profile.QueueRequests(rate, 0)), limit.Seconds())
						if stat == profile.Mean && mean <= limit.Seconds() || stat != profile.Mean && late <= 0.1 {
							share += 1.0 / loads
						}
					}
					return share
				}
				at, above := held(rate), held(min(0.97, 1.25*rate))
				t.Logf("%4d at once, %s of %v: ρ = %.3f is held by %3.0f %% of loads, %.3f by %3.0f %%", batch, stat, limit, rate, 100*at, min(0.97, 1.25*rate), 100*above)
				if at < 0.8 || batch > 1 && above > 0.5 { // one at a time, nobody is behind
					t.Errorf("want 80 %% and more, and below 50 %%")
				}
			}
		}
	}
}
