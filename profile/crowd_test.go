package profile

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// decoded is what n requests after others get of an engine that decodes all that
// are there, one token of each per step of a + b·n, at a Poisson rate, with the
// window in which they are due.
func decoded(n int, a, b time.Duration, rate float64, rng *rand.Rand) ([]Request, Window) {
	const osl, before = 50, 1500
	rs := make([]Request, before+n+500)
	at := 0.0
	for i := range rs {
		at += rng.ExpFloat64() / rate
		due := time.Duration(at * 1e9)
		rs[i] = Request{Index: i, Due: due, Sent: due, OutputTokens: osl}
	}
	var running []int
	left := make([]int, len(rs))
	for now, next := time.Duration(0), 0; next < len(rs) || len(running) > 0; {
		for next < len(rs) && (rs[next].Due <= now || len(running) == 0) {
			now = max(now, rs[next].Due)
			rs[next].First, left[next] = now, osl-1
			running, next = append(running, next), next+1
		}
		now += a + b*time.Duration(len(running))
		kept := running[:0]
		for _, i := range running {
			if left[i]--; left[i] > 0 {
				kept = append(kept, i)
			} else {
				rs[i].Last, rs[i].End = now, now
			}
		}
		running = kept
	}
	return rs, Window{From: rs[before].Due, To: rs[before+n-1].Due}
}

// What a load shows of slack is ITL alone over that under it, where steps lengthen
// by a line; all of it where they do not.
func TestSlackOfALoad(t *testing.T) {
	const a, b = 6600 * time.Microsecond, 200 * time.Microsecond
	for _, rate := range []float64{40, 60, 80} {
		rs, w := decoded(20_000, a, b, rate, rand.New(rand.NewPCG(1, 1)))
		want := float64(a+b) / float64(Attain(rs, w, SLA{Stat: Mean}, 1).TPOT.Mean)
		if got := slackOf(rs, w); math.Abs(got-want) > 0.05 {
			t.Errorf("%v requests/s: slack %.3f, want %.3f", rate, got, want)
		}
	}
	rs, w := decoded(2000, a, 0, 40, rand.New(rand.NewPCG(1, 1)))
	if got := slackOf(rs, w); got < 0.99 {
		t.Errorf("steps of one length: slack %.3f", got)
	}
	if got := slackOf(nil, w); got != 1 {
		t.Errorf("of nothing: %v", got)
	}
}
