//go:build full

package profile

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// Services that vary more than exponential ones are remembered for longer, as prompts
// of many lengths are: by a memory that ended at c² = 1, 77 % and 82 % of these
// intervals held the truth.
func TestIntervalsOfAQueueThatVariesCover(t *testing.T) {
	const runs, c2 = 400, 4
	often := (1 + math.Sqrt((c2-1.0)/(c2+1))) / 2 // a short service, of a hyperexponential one with balanced means
	for _, busy := range []float64{0.5, 0.8} {
		truth := time.Duration((1 + busy/(2*(1-busy))*(1+c2)) * float64(service)) // Pollaczek–Khinchine
		rng := rand.New(rand.NewPCG(1, 2))
		given, held := 0, 0
		for range runs {
			rs, w := servedIn(QueueRequests(busy, 2), busy, rng, func() float64 {
				if rng.Float64() < often {
					return rng.ExpFloat64() / (2 * often)
				}
				return rng.ExpFloat64() / (2 * (1 - often))
			})
			a := Attain(rs, w, SLA{TTFT: time.Hour, Stat: Mean}, 1)
			if a.TTFT.Half > 0 {
				given++
				if (a.TTFT.Mean - truth).Abs() <= a.TTFT.Half {
					held++
				}
			}
		}
		t.Logf("used %.1f, c² = %d, %d requests: %d of %d are given an interval, %d of them hold the truth", busy, c2, QueueRequests(busy, 2), given, runs, held)
		if given < runs*7/10 || 100*held < 86*given {
			t.Error("want 70 % and more, and 86 %")
		}
	}
}
