//go:build full

package profile

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// dealt is what n requests get of an engine of several queues: each joins the
// emptiest, or any where blind is set. Services take 100 ms in each.
func dealt(n, queues int, busy float64, blind bool, rng *rand.Rand) ([]Request, Window) {
	const before = 2000
	rs := make([]Request, before+n)
	at, free := time.Duration(0), make([]time.Duration, queues)
	for i := range rs {
		at += time.Duration(rng.ExpFloat64() / busy / float64(queues) * float64(service))
		k := slices.Index(free, slices.Min(free))
		if blind {
			k = rng.IntN(queues)
		}
		free[k] = max(free[k], at) + service
		f := free[k]
		rs[i] = Request{Due: at, Sent: at, First: f, Last: f, End: f, OutputTokens: 1, Chunks: []Chunk{{At: f}}}
	}
	return rs, Window{From: rs[before].Due, To: at + 1}
}

// An engine of several attention replicas is hardly ever without anybody who waits
// for a first token, and its TTFT has an interval all the same: of one that holds
// the truth; none where requests are dealt out blindly, whose queues seem fuller.
func TestQueuesOfReplicas(t *testing.T) {
	const runs, queues = 200, 8
	sla := SLA{TTFT: time.Second, Stat: Mean}
	for _, blind := range []bool{false, true} {
		for _, busy := range []float64{0.7, 0.8} {
			long, w := dealt(200_000, queues, busy, blind, rand.New(rand.NewPCG(9, 9)))
			truth := Attain(long, w, sla, queues).TTFT.Mean
			n := QueueRequests(busy, 0)
			rng := rand.New(rand.NewPCG(1, 2))
			given, held, asOne := 0, 0, 0
			for range runs {
				rs, w := dealt(n, queues, busy, blind, rng)
				a := Attain(rs, w, sla, queues)
				if !Attain(rs, w, sla, 1).TooShort(Prefill, sla) {
					asOne++
				}
				if a.TooShort(Prefill, sla) {
					continue
				}
				given++
				if (a.TTFT.Mean - truth).Abs() <= a.TTFT.Half {
					held++
				}
			}
			t.Logf("blind %-5v used %.1f: %d of %d loads of %d are given an interval (%d as if of one queue), %d of them hold the truth", blind, busy, given, runs, n, asOne, held)
			if !blind && (given < runs*8/10 || asOne > runs/10) || 100*held < 90*given {
				t.Errorf("want an interval, and 95 %% that hold the truth")
			}
		}
	}
}
