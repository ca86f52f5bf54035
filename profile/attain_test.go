package profile

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"plimsoll/engine/enginetest"

	"pgregory.net/rapid"
)

// queue is an M/D/1 queue's requests: one token each, service after service.
func queue(n int, rate float64, service time.Duration, seed uint64) []Request {
	rng := rand.New(rand.NewPCG(seed, 1))
	var rs []Request
	at, free := time.Millisecond, time.Duration(0)
	for i := range n {
		free = max(free, at) + service
		rs = append(rs, Request{
			Index: i, ISL: 100, OSL: 1, Due: at, Sent: at, First: free, Last: free, End: free,
			PromptTokens: 100, OutputTokens: 1, UsageSeen: true, Chunks: []Chunk{{At: free}},
		})
		at += time.Duration(rng.ExpFloat64() / rate * 1e9)
	}
	return rs
}

// The mean wait of an M/D/1 queue is ρD/(2(1−ρ)) (Pollaczek–Khinchine).
func TestAttainAgainstTheFormula(t *testing.T) {
	const d = 100 * time.Millisecond
	sla := SLA{TTFT: 300 * time.Millisecond, ITL: time.Second, Stat: Mean}
	rs := queue(40_000, 7, d, 1)
	a := Attain(rs, full(rs, time.Second), sla, 1)
	if want := 0.1 + 0.7*0.1/(2*0.3); math.Abs(a.TTFT.Mean.Seconds()/want-1) > 0.03 {
		t.Errorf("mean TTFT %v, want %.4f s", a.TTFT.Mean, want)
	}
	if math.Abs(a.Achieved/7-1) > 0.02 || math.Abs(a.InFlight/a.Little-1) > 0.01 || a.Growing {
		t.Errorf("achieved %.2f/s, in flight %.2f, by Little's law %.2f, growing %v", a.Achieved, a.InFlight, a.Little, a.Growing)
	}
	if !a.Holds(Prefill, sla) || a.WithinTTFT == a.Requests || a.Within != a.WithinTTFT || a.WithinITL != a.Requests {
		t.Errorf("holds %v; within TTFT %d, ITL %d, both %d of %d", a.Holds(Prefill, sla), a.WithinTTFT, a.WithinITL, a.Within, a.Requests)
	}
	if n := a.TTFT.Half; n <= 0 || math.Abs(a.TTFT.Mean.Seconds()-0.21667) > 3*n.Seconds() {
		t.Errorf("interval ± %v", n)
	}
}

// A rate above the engine's misses even where its latencies do not show it yet.
func TestAttainSeesAGrowingQueue(t *testing.T) {
	loose := SLA{TTFT: time.Hour, ITL: time.Hour, Stat: Mean}
	for seed := range uint64(20) {
		rs := queue(400, 15, 100*time.Millisecond, seed)
		if a := Attain(rs, full(rs, time.Second), loose, 1); !a.Growing || a.Holds(Prefill, loose) {
			t.Errorf("seed %d: 15 requests/s at an engine of 10 do not grow: in flight %.1f", seed, a.InFlight)
		}
		rs = queue(400, 5, 100*time.Millisecond, seed)
		if a := Attain(rs, full(rs, time.Second), loose, 1); a.Growing {
			t.Errorf("seed %d: 5 requests/s at an engine of 10 are said to grow", seed)
		}
	}
}

// Near saturation the queue wanders, which is no growth; above it growth is found.
func TestGrowsSeldomByChance(t *testing.T) {
	const loads = 200
	share := func(rate float64, requests int) float64 {
		n := 0
		for seed := range uint64(loads) {
			rs := queue(requests, rate, 100*time.Millisecond, seed) // 10 requests/s at most
			if Attain(rs, full(rs, 2*time.Second), SLA{Stat: Mean}, 1).Growing {
				n++
			}
		}
		return float64(n) / loads
	}
	for _, requests := range []int{200, 500, 1100} {
		for _, rate := range []float64{7, 9, 9.5, 9.8} {
			if got := share(rate, requests); got > 0.03 {
				t.Errorf("%v requests/s at an engine of 10: %.0f %% of loads of %d are said to grow", rate, 100*got, requests)
			}
		}
	}
	for rate, requests := range map[float64]int{15: 400, 12: 1100} {
		if got := share(rate, requests); got < 0.95 {
			t.Errorf("%v requests/s at an engine of 10: %.0f %% of loads of %d are said to grow", rate, 100*got, requests)
		}
	}
}

// TestFault04CoordinatedOmissionUnderLoad: who waits in the client waits on the clock of
// the promise.
func TestFault04CoordinatedOmissionUnderLoad(t *testing.T) {
	rs := queue(100, 1, 10*time.Millisecond, 1)
	for i := range rs {
		rs[i].Sent = rs[i].First - time.Millisecond // the client held it back
		rs[i].Due -= 500 * time.Microsecond
	}
	a := Attain(rs, full(rs, time.Millisecond), SLA{TTFT: 5 * time.Millisecond, ITL: 1, Stat: Mean}, 1)
	if a.Service.Mean != time.Millisecond || a.TTFT.Mean < 10*time.Millisecond || a.WithinTTFT != 0 {
		t.Errorf("service %v, from due %v, %d within", a.Service.Mean, a.TTFT.Mean, a.WithinTTFT)
	}
}

// TestFault11FailedRequestsInStatsUnderLoad: a failure counts as one, and in nothing else.
func TestFault11FailedRequestsInStatsUnderLoad(t *testing.T) {
	rs := queue(300, 1, 10*time.Millisecond, 1)
	sla := SLA{TTFT: time.Second, ITL: time.Second, Stat: Mean}
	good := Attain(rs, full(rs, time.Second), sla, 1)
	rs[100].Failure, rs[100].First, rs[100].Last = FailStatus, 0, 0
	bad := Attain(rs, full(rs, time.Second), sla, 1)
	if bad.Failures != 1 || bad.Requests != good.Requests || bad.TTFT.N != good.TTFT.N-1 || bad.Within != good.Within-1 || bad.Holds(Prefill, sla) {
		t.Errorf("%+v", bad)
	}
}

// What is counted never exceeds what it is counted of, whatever the records.
func TestAttainProperties(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		rs := queue(rapid.IntRange(0, 60).Draw(t, "n"), rapid.Float64Range(0.1, 100).Draw(t, "rate"), time.Duration(rapid.IntRange(1, 1e9).Draw(t, "service")), rapid.Uint64().Draw(t, "seed"))
		for i := range rs {
			if rapid.Bool().Draw(t, "fails") {
				rs[i].Failure = rapid.SampledFrom([]Failure{FailCanceled, FailTimeout}).Draw(t, "how")
			}
		}
		sla := SLA{TTFT: time.Duration(rapid.IntRange(1, 1e9).Draw(t, "ttft")), ITL: 1, Stat: P90}
		a := Attain(rs, full(rs, time.Duration(rapid.IntRange(0, 1e9).Draw(t, "residence"))), sla, 1)
		if i := a.InTTFT; i != (Interval{}) && (i.Low < 0 || i.High > 1 || i.Low >= i.High || float64(a.WithinTTFT) < i.Low*float64(a.Requests)-1e-9 || float64(a.WithinTTFT) > i.High*float64(a.Requests)+1e-9) {
			t.Errorf("%d of %d within: %+v", a.WithinTTFT, a.Requests, i)
		}
		if a.Within > a.WithinTTFT || a.WithinTTFT+a.Failures > a.Requests || a.InFlight < 0 || math.IsNaN(a.InFlight+a.Little+a.Achieved+a.TokensPerSec) {
			t.Errorf("%+v", a)
		}
	})
}

// A percentile rests on independent requests: those of one queue are worth fewer
// than there are, wherever that is known.
func TestFewIndependentRequests(t *testing.T) {
	ms := time.Millisecond
	sla := SLA{TTFT: 100 * ms, ITL: 20 * ms, Stat: P99}
	d := func(neff float64) Distribution { return Distribution{N: 1000, P99: 10 * ms, Neff: neff} }
	for name, c := range map[string]struct {
		a     Attainment
		phase Phase
		want  bool
	}{
		"enough":                    {Attainment{Requests: 400, TTFT: d(400)}, Prefill, false},
		"worth fewer":               {Attainment{Requests: 1000, TTFT: d(50)}, Prefill, true},
		"fewer":                     {Attainment{Requests: 300, TTFT: d(0)}, Prefill, true},
		"what they are is not said": {Attainment{Requests: 1000, TTFT: d(0)}, Prefill, false},
		"of the other phase":        {Attainment{Requests: 1000, TTFT: d(50), TPOT: d(400)}, Decode, false},
		"of both":                   {Attainment{Requests: 1000, TTFT: d(400), TPOT: d(50)}, Aggregated, true},
	} {
		if c.a.Few(c.phase, sla) != c.want || c.want == c.a.Holds(c.phase, sla) && c.a.TPOT.N+c.a.TTFT.N > 1000 {
			t.Errorf("%s: few %v, holds %v", name, c.a.Few(c.phase, sla), c.a.Holds(c.phase, sla))
		}
	}
	sla.Stat = Mean
	for n, few := range map[int]bool{0: true, 1: true, 4: true, 5: false} {
		a := Attainment{Requests: n, TTFT: Distribution{N: n, Mean: ms}}
		if a.Few(Prefill, sla) != few || a.Holds(Prefill, sla) == few {
			t.Errorf("the mean of %d requests: few %v, holds %v", n, a.Few(Prefill, sla), a.Holds(Prefill, sla))
		}
	}
	if (Attainment{Requests: 100, TTFT: d(3)}).Few(Prefill, sla) {
		t.Error("what a mean's requests are worth is in its interval")
	}
}

// full is the window of a load from two residence times after its beginning until
// one before its last request is due; empty where it does not last so long.
func full(rs []Request, residence time.Duration) Window {
	if len(rs) == 0 {
		return Window{}
	}
	w := Window{From: rs[0].Due + 2*residence, To: rs[len(rs)-1].Due - residence}
	if w.From >= w.To {
		return Window{}
	}
	return w
}

// Requests that were sent when they were due have one TTFT, and one interval of it; what
// hangs together in no known way has none.
func TestAttainIntervalsOfOneQueue(t *testing.T) {
	rs := queue(2_000, 8, 100*time.Millisecond, 1)
	a := Attain(rs, full(rs, time.Second), SLA{TTFT: time.Second, ITL: time.Second, Stat: Mean}, 1)
	if a.TTFT.Half <= 0 || a.Service != a.TTFT {
		t.Errorf("from sending %v ± %v (%.0f), from due %v ± %v (%.0f)", a.Service.Mean, a.Service.Half, a.Service.Neff, a.TTFT.Mean, a.TTFT.Half, a.TTFT.Neff)
	}
	if a.E2E.Half != 0 || a.ITL.Half != 0 {
		t.Errorf("end to end ± %v, ITL ± %v", a.E2E.Half, a.ITL.Half)
	}
}
