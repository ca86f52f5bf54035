//go:build full

package profile

import (
	"math/rand/v2"
	"testing"
	"time"
)

// An engine whose steps lengthen with what they hold remembers its requests for
// longer than they stay. Where a load is as long as FlightRequests says, nearly all
// get an interval, and 95 % of those hold the truth; as if steps were of one
// length, it would be two thirds.
func TestIntervalsOfSharedStepsCover(t *testing.T) {
	const a, b, runs = 6600 * time.Microsecond, 200 * time.Microsecond, 200
	for _, rate := range []float64{44, 70} { // of 100 at most
		long, w := decoded(150_000, a, b, rate, rand.New(rand.NewPCG(9, 9)))
		truth := Attain(long, w, SLA{Stat: Mean}, 1)
		n := FlightRequests(truth.InFlight, slackOf(long, w))
		given, held, short := 0, 0, 0
		for seed := range uint64(runs) {
			rs, w := decoded(n, a, b, rate, rand.New(rand.NewPCG(seed, 1)))
			d := Attain(rs, w, SLA{Stat: Mean}, 1).TPOT
			if d.Neff > 0 {
				given++
				if (d.Mean - truth.TPOT.Mean).Abs() <= d.Half {
					held++
				}
			}
			rs, w = decoded(n/5, a, b, rate, rand.New(rand.NewPCG(seed, 2)))
			if Attain(rs, w, SLA{Stat: Mean}, 1).TPOT.Neff > 0 {
				short++
			}
		}
		t.Logf("%v requests/s, %.0f in flight: %d of %d loads of %d are given an interval, %.1f %% of those hold the truth; %d of a fifth", rate, truth.InFlight, given, runs, n, 100*float64(held)/float64(max(given, 1)), short)
		if given < runs*8/10 || held < given*90/100 || short > 0 {
			t.Errorf("want 80 %% given, 90 %% of them with the truth, and none of a fifth")
		}
	}
}
