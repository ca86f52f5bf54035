package policy

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"plimsoll/engine/enginetest"

	"pgregory.net/rapid"
)

// simulated waits of an M/G/n queue, first come first served.
func simulated(q queue, n, requests int, service func(*rand.Rand) float64) []float64 {
	r := rand.New(rand.NewPCG(1, 2))
	free, now := make([]float64, n), 0.0
	waits := make([]float64, 0, requests)
	for i := range requests + requests/10 {
		now += r.ExpFloat64() / q.rate
		first := 0
		for k := range free {
			if free[k] < free[first] {
				first = k
			}
		}
		start := max(now, free[first])
		free[first] = start + service(r)
		if i >= requests/10 {
			waits = append(waits, start-now)
		}
	}
	slices.Sort(waits)
	return waits
}

func mean(xs []float64) float64 {
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	return sum / float64(len(xs))
}

// The formula is exact for exponential service and for one deterministic
// server's mean; elsewhere it is an approximation, held to a stated error.
func TestQueueAgainstSimulation(t *testing.T) {
	for _, c := range []struct {
		name            string
		rate, cv2       float64
		n               int
		meanOff, p99Off float64
	}{
		{"M/M/1", 0.7, 1, 1, 0.05, 0.05},
		{"M/M/4", 3.2, 1, 4, 0.05, 0.05},
		{"M/M/16", 14, 1, 16, 0.06, 0.06},
		{"M/D/1", 0.8, 0, 1, 0.05, 0.15},
		{"M/D/4", 3.4, 0, 4, 0.15, 0.2},
	} {
		q := queue{rate: c.rate, mean: 1, cv2: c.cv2}
		waits := simulated(q, c.n, 400_000, func(r *rand.Rand) float64 {
			if c.cv2 == 0 {
				return 1
			}
			return r.ExpFloat64()
		})
		if want, got := mean(waits), q.wait(c.n, 0); math.Abs(got/want-1) > c.meanOff {
			t.Errorf("%s: mean wait %.4f, simulated %.4f", c.name, got, want)
		}
		if want, got := waits[len(waits)*99/100], q.wait(c.n, 0.99); math.Abs(got/want-1) > c.p99Off {
			t.Errorf("%s: p99 wait %.4f, simulated %.4f", c.name, got, want)
		}
	}
}

// servers is what trying every number gives, and never fewer for more work.
func TestServers(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		q := queue{rate: rapid.Float64Range(0.01, 200).Draw(t, "rate"), mean: rapid.Float64Range(0.01, 1).Draw(t, "mean"), cv2: rapid.Float64Range(0, 3).Draw(t, "cv2")}
		p := rapid.SampledFrom([]float64{0, 0.5, 0.9, 0.99}).Draw(t, "p")
		limit := rapid.Float64Range(0.001, 2).Draw(t, "limit")
		n := q.servers(limit, p)
		want := 1
		for q.wait(want, p) > limit {
			want++
		}
		if n != want {
			t.Fatalf("%+v within %v: %d, want %d", q, limit, n, want)
		}
		more := q
		more.rate *= 1.1
		if more.servers(limit, p) < n {
			t.Fatalf("%+v: fewer servers for more requests", q)
		}
	})
}
