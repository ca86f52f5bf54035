package capacity

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/engine/sim/fleet"
)

// scene is a fleet and traffic to size it for.
type scene struct {
	model, gpu     string
	tp, tp2        int // tp2: of the decode pool; 0 = aggregated
	qps            float64
	isl, p99isl    float64
	osl, p99osl    float64
	ttft, itl, e2e time.Duration
}

const ms = time.Millisecond

// scenes are chats, summaries, code, retrieval and agents on small and large
// models, at rates that take one engine and rates that take dozens.
var scenes = []scene{
	{"llama-3.1-8b", "h100-sxm", 1, 0, 20, 256, 1024, 512, 2048, 500 * ms, 50 * ms, 0},
	{"llama-3.1-8b", "h100-sxm", 1, 1, 20, 256, 1024, 512, 2048, 500 * ms, 50 * ms, 0},
	{"llama-3.1-8b", "h100-sxm", 1, 0, 3, 1024, 1024, 1024, 1024, 300 * ms, 20 * ms, 0},
	{"llama-3.1-8b", "h100-sxm", 1, 1, 3, 1024, 1024, 1024, 1024, 300 * ms, 12 * ms, 0},
	{"llama-3.1-8b", "h100-sxm", 1, 0, 50, 4096, 8192, 128, 256, 1000 * ms, 200 * ms, 0},
	{"llama-3.1-8b", "h100-sxm", 1, 1, 50, 4096, 8192, 128, 256, 1000 * ms, 30 * ms, 0},
	{"llama-3.1-8b", "h100-sxm", 1, 1, 200, 512, 2048, 128, 512, 200 * ms, 20 * ms, 0},
	{"llama-3.1-8b", "h100-sxm", 1, 0, 200, 512, 2048, 128, 512, 2000 * ms, 100 * ms, 0},
	{"llama-3.1-8b", "a100-80-sxm", 1, 0, 8, 512, 1024, 256, 512, 500 * ms, 60 * ms, 0},
	{"llama-3.1-8b", "a100-80-sxm", 1, 1, 8, 512, 1024, 256, 512, 500 * ms, 30 * ms, 0},
	{"llama-3.1-8b", "a100-80-sxm", 2, 1, 30, 1024, 4096, 256, 1024, 400 * ms, 40 * ms, 0},
	{"llama-3.1-8b", "a100-80-sxm", 1, 0, 0.5, 2048, 2048, 256, 256, 800 * ms, 100 * ms, 0},
	{"llama-3.1-8b", "h100-sxm", 1, 1, 10, 8192, 16384, 128, 256, 5000 * ms, 100 * ms, 0},
	{"llama-3.1-8b", "h100-sxm", 1, 0, 10, 8192, 8192, 32, 32, 10000 * ms, 500 * ms, 0},
	{"llama-3.1-8b", "h100-sxm", 1, 1, 10, 128, 256, 2048, 6000, 1000 * ms, 100 * ms, 0},
	{"llama-3.1-8b", "h100-sxm", 1, 0, 5, 128, 256, 2048, 2048, 1000 * ms, 100 * ms, 30 * time.Second},
	{"llama-3.1-8b", "h100-sxm", 1, 1, 5, 512, 512, 512, 512, 1000 * ms, 50 * ms, 5 * time.Second},
	{"llama-3.1-70b", "h100-sxm", 4, 0, 10, 256, 1024, 512, 2048, 500 * ms, 50 * ms, 0},
	{"llama-3.1-70b", "h100-sxm", 4, 4, 10, 256, 1024, 512, 2048, 500 * ms, 50 * ms, 0},
	{"llama-3.1-70b", "h100-sxm", 4, 4, 100, 256, 1024, 512, 2048, 500 * ms, 50 * ms, 0},
	{"llama-3.1-70b", "h100-sxm", 4, 4, 50, 8192, 16384, 256, 512, 4000 * ms, 50 * ms, 0},
	{"llama-3.1-70b", "h100-sxm", 4, 0, 5, 2048, 4096, 256, 512, 2000 * ms, 400 * ms, 0},
	{"llama-3.1-70b", "h100-sxm", 4, 8, 20, 1024, 2048, 1024, 2048, 1000 * ms, 40 * ms, 60 * time.Second},
	{"llama-3.1-70b", "h100-sxm", 8, 0, 20, 500, 500, 150, 150, 300 * ms, 60 * ms, 0},
	{"llama-3.1-70b", "h100-sxm", 8, 4, 40, 500, 2000, 150, 600, 300 * ms, 30 * ms, 0},
	{"llama-3.1-70b", "h100-sxm", 4, 0, 2, 512, 512, 512, 512, 20000 * ms, 200 * ms, 0},
	{"llama-3.1-70b", "h200-sxm", 2, 2, 4, 1024, 2048, 512, 1024, 3000 * ms, 100 * ms, 0},
	{"mixtral-8x7b", "h100-sxm", 2, 0, 10, 512, 2048, 256, 1024, 500 * ms, 80 * ms, 0},
	{"mixtral-8x7b", "h100-sxm", 2, 2, 40, 512, 2048, 256, 1024, 500 * ms, 40 * ms, 0},
	{"mixtral-8x7b", "h100-sxm", 4, 2, 20, 2048, 8192, 512, 1024, 1500 * ms, 40 * ms, 0},
	{"llama-3.1-8b", "h100-sxm", 1, 1, 300, 256, 256, 64, 64, 150 * ms, 15 * ms, 0},
	{"llama-3.1-8b", "h100-sxm", 1, 0, 100, 128, 512, 512, 2048, 400 * ms, 40 * ms, 0},
}

func (s scene) name() string {
	return fmt.Sprintf("%s %s TP%d+%d %g/s %g(%g) %g(%g) %v %v %v", s.model, s.gpu, s.tp, s.tp2, s.qps, s.isl, s.p99isl, s.osl, s.p99osl, s.ttft, s.itl, s.e2e)
}

func (s scene) slo() SLO { return SLO{TTFT: s.ttft, ITL: s.itl, E2EP99: s.e2e} }

func (s scene) workload() Workload {
	return Workload{Rate: s.qps, ISL: s.isl, ISLP99: s.p99isl, OSL: s.osl, OSLP99: s.p99osl, PeakToAverage: 1, Pattern: "flat"}
}

func (s scene) layout(t testing.TB) Layout {
	t.Helper()
	if s.tp2 == 0 {
		return Layout{Strategy: Aggregated, Pools: []EnginePool{engines(t, s.model, s.gpu, s.tp, engine.RoleAggregated)}}
	}
	return Layout{
		Strategy: Disaggregated,
		Pools:    []EnginePool{engines(t, s.model, s.gpu, s.tp, engine.RolePrefill), engines(t, s.model, s.gpu, s.tp2, engine.RoleDecode)},
		Transfer: fleet.Transfer{KV: engine.KVBytes{PerToken: 200_000}, BytesPerSecond: 50e9 * float64(s.tp), Serial: true},
	}
}

// shares are those that miss the promise, each with a 95 % interval of both
// sides, worked out from single requests.
type shares struct{ ttft, itl, gaps, e2e share }

type share struct{ mean, half float64 }

func (s shares) worst() share {
	w := s.ttft
	for _, x := range []share{s.itl, s.e2e} {
		if x.mean > w.mean {
			w = x
		}
	}
	return w
}

// longRun is a simulation of its own: every request's latency, those of the
// first fifth left out, and the fleet emptied at the end. Only gaps between
// tokens come from the fleet's sketch: a request does not tell them.
func longRun(t testing.TB, l Layout, replicas []int, traffic Traffic, slo SLO, requests int, seed uint64) shares {
	t.Helper()
	const parts = 20
	config := l.fleet(replicas, seed)
	outcomes := make([]fleet.Outcome, requests+1)
	config.Done = func(o fleet.Outcome) { outcomes[o.Number] = o }
	f, err := fleet.New(config)
	if err != nil {
		t.Fatal(err)
	}
	source, err := traffic.requests(seed, requests)
	if err != nil {
		t.Fatal(err)
	}
	var gaps []float64
	n := 0
	for r := range source {
		if n++; n > requests/5 && n%(requests*4/5/parts) == 0 {
			if v := f.Interval(); n > requests/5+requests*4/5/parts {
				gaps = append(gaps, v.ITL.Above(int64(engine.FromDuration(slo.ITL)))/float64(max(1, v.ITL.Count())))
			}
		}
		if err := f.Offer(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Finish(fleet.Forever); err != nil {
		t.Fatal(err)
	}
	kept := outcomes[requests/5+1:]
	late := func(promise time.Duration, of func(fleet.Outcome) engine.Picoseconds) share {
		var misses []float64
		for part := range slices.Chunk(kept, len(kept)/parts) {
			n := 0.0
			for _, o := range part {
				if o.Status != fleet.Finished || promise > 0 && of(o) > engine.FromDuration(promise) {
					n++
				}
			}
			misses = append(misses, n/float64(len(part)))
		}
		return interval(misses)
	}
	return shares{ttft: late(slo.TTFT, fleet.Outcome.TTFT), itl: late(slo.ITL, fleet.Outcome.TPOT), gaps: interval(gaps), e2e: late(slo.E2EP99, fleet.Outcome.E2E)}
}

func interval(xs []float64) share {
	mean, squares := 0.0, 0.0
	for _, x := range xs {
		mean += x / float64(len(xs))
	}
	for _, x := range xs {
		squares += (x - mean) * (x - mean)
	}
	return share{mean, 2.1 * math.Sqrt(squares/float64(len(xs)*(len(xs)-1)))}
}

func TestSizedFleetsHold(t *testing.T) {
	// Every sixteenth scene, and with the tag full all of them for seven times as long.
	requests, every := 60_000, 16
	if enginetest.Full {
		requests, every = 400_000, 1
	}
	below, open, spare := 0, 0, 0 // smaller fleets; of them, those that could be on either side, and those that hold
	for i := every / 2; i < len(scenes); i += every {
		s := scenes[i]
		t.Run(s.name(), func(t *testing.T) {
			l, slo := s.layout(t), s.slo()
			traffic, err := s.workload().PeakTraffic()
			if err != nil {
				t.Fatal(err)
			}
			got, err := Size(l, traffic, slo, SizeOptions{Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			if got.Infeasible != nil {
				t.Fatalf("infeasible: %s", got.Infeasible.Why)
			}
			at := longRun(t, l, got.Replicas, traffic, slo, requests, 99)
			t.Logf("%v: TTFT %.2f ± %.2f %%, ITL %.2f ± %.2f, E2E %.2f ± %.2f; single gaps %.2f; itself %.2f, %.2f, %.2f; %v", got.Replicas,
				100*at.ttft.mean, 100*at.ttft.half, 100*at.itl.mean, 100*at.itl.half, 100*at.e2e.mean, 100*at.e2e.half, 100*at.gaps.mean,
				100*got.At.TTFT.Missed, 100*got.At.ITL.Missed, 100*got.At.E2E.Missed, got.Warnings)
			if w := at.worst(); w.mean-w.half > allowed {
				t.Errorf("%v misses %.2f ± %.2f %%", got.Replicas, 100*w.mean, 100*w.half)
			}
			for _, b := range got.Below {
				w := longRun(t, l, b.Replicas, traffic, slo, requests, 99).worst()
				t.Logf("below %v: own %.2f %%, check %.2f ± %.2f %%", b.Replicas, 100*b.worst().Missed, 100*w.mean, 100*w.half)
				switch below++; {
				case w.mean+w.half < allowed: // a bound of 95 % is now and then an engine too many
					spare++
					if b.worst().Missed < 0.8*allowed {
						t.Errorf("%v misses only %.2f ± %.2f %%", b.Replicas, 100*w.mean, 100*w.half)
					}
				case w.mean-w.half <= allowed:
					open++
				}
			}
		})
	}
	t.Logf("%d of %d smaller fleets are too near to 1 %% to tell", open, below)
	if spare > below/10 {
		t.Errorf("%d of %d smaller fleets hold too", spare, below)
	}
	if every == 1 && open > below/5 {
		t.Errorf("%d of %d smaller fleets are too near to 1 %% to tell", open, below)
	}
}
