package sweep

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
)

// ranked are the records of a burst on an engine whose replicas take one prompt
// after another: rank says which replica has request i.
func ranked(n int, prefill, itl time.Duration, rank func(i int) int) Measurement {
	var m Measurement
	free := map[int]time.Duration{}
	for i := range n {
		r := profile.Request{Index: i, ISL: 1000, OSL: burstOSL, PromptTokens: 1000, OutputTokens: burstOSL, UsageSeen: true, Due: ms, Sent: ms}
		r.First = max(free[rank(i)], ms) + prefill
		for k := range burstOSL {
			r.Chunks = append(r.Chunks, profile.Chunk{At: r.First + time.Duration(k)*itl})
		}
		r.Last = r.Chunks[burstOSL-1].At
		r.End, free[rank(i)] = r.Last, r.Last
		m.Requests = append(m.Requests, r)
	}
	return m
}

// The formula takes a replica's own prefill out of the burst, whatever its
// decoding costs; throughput is that of all replicas.
func TestBurstIsOnePrefill(t *testing.T) {
	dep := engine.Config{Parallelism: engine.Parallelism{DP: 8, EP: 8}}
	for _, prefill := range []time.Duration{10 * ms, 300 * ms} {
		for _, itl := range []time.Duration{ms, 30 * ms} {
			p := summarizeBurst(ranked(32, prefill, itl, func(i int) int { return i % 8 }), dep)
			if p.TTFT.Mean != prefill || p.TTFT.N != 1 || p.Requests != 32 || p.InFlight != 8 || p.Context != 1000 {
				t.Errorf("prefill %v, ITL %v: %+v", prefill, itl, p)
			}
			if want := 8 * 1000 / prefill.Seconds() / 8; math.Abs(p.ThroughputPerGPU-want) > 1e-6*want {
				t.Errorf("prefill %v: %v tokens/s/GPU, want %v", prefill, p.ThroughputPerGPU, want)
			}
			if slices.Contains(codes(p.Warnings), "burst_order") {
				t.Errorf("warnings %v", p.Warnings)
			}
		}
	}
	two := engine.Config{Parallelism: engine.Parallelism{TP: 2, DP: 2, EP: 4}}
	if p := summarizeBurst(ranked(8, 100*ms, ms, func(i int) int { return i % 2 }), two); math.Abs(p.ThroughputPerGPU-2*1000/0.1/4) > 1e-6 {
		t.Errorf("%v tokens/s/GPU of two replicas on four GPUs", p.ThroughputPerGPU)
	}
}

// Where the premise does not hold, that is said: prompts that went to one replica
// alone, or were all computed together.
func TestBurstThatIsNone(t *testing.T) {
	dep := engine.Config{Parallelism: engine.Parallelism{DP: 8, EP: 8}}
	skewed := summarizeBurst(ranked(32, 100*ms, 10*ms, func(int) int { return 0 }), dep)
	together := ranked(32, 100*ms, ms, func(i int) int { return i })
	for name, p := range map[string]profile.Point{"skewed": skewed, "together": summarizeBurst(together, dep)} {
		if !slices.Contains(codes(p.Warnings), "burst_order") {
			t.Errorf("%s: TTFT %v, warnings %v", name, p.TTFT.Mean, p.Warnings)
		}
	}
	if p := summarizeBurst(ranked(32, 10*ms, 40*ms, func(i int) int { return i }), dep); p.TTFT.N != 0 || p.ThroughputPerGPU != 0 {
		t.Errorf("less than nothing: %+v", p)
	}
	for i := range together.Requests {
		together.Requests[i].Failure = profile.FailStatus
	}
	if p := summarizeBurst(together, dep); p.Failures != 32 || p.TTFT.N != 0 || p.Meets(profile.SLA{TTFT: time.Hour, Stat: profile.Mean}) {
		t.Errorf("all failed: %+v", p)
	}
}

// A sweep sends the burst to engines with replicas, asks them for one sequence on
// each, and keeps a record of every request.
func TestReplicasAreMeasuredByABurst(t *testing.T) {
	long := affine(4)
	long.ttft = func(isl int) time.Duration { return 200*ms + affine(4).ttft(isl) }
	b := newLab(map[string]law{"DEP:4": long, "TP:4": affine(4)})
	o := options(b, 4)
	o.Candidates = append(o.Candidates, o.Candidates[0])
	o.Candidates[1].Parallelism = engine.Parallelism{TP: 1, PP: 1, DP: 4, EP: 4}
	kept := map[string]int{}
	n := &recorded{kept: kept}
	l := launchFunc(func(ctx context.Context, cfg engine.Config) (*Instance, error) {
		if dep := cfg.Parallelism.DP > 1; dep && !cfg.PrefixCaching && cfg.Limits.MaxNumSeqs != 1 || !dep && cfg.Limits.MaxNumSeqs != 64 {
			t.Errorf("%s, caching %v: %d sequences at once", cfg.Parallelism.Label(), cfg.PrefixCaching, cfg.Limits.MaxNumSeqs)
		}
		return b.Launch(ctx, cfg)
	})
	if _, err := Run(t.Context(), o, l, n, Known{}, nil); err != nil {
		t.Fatal(err)
	}
	if kept["sweep/prefill/dep4/isl3000"] != 16 || kept["sweep/prefill/tp4/isl3000"] != fewestPrompts {
		t.Errorf("records %v", kept)
	}
	bursts, warmups := 0, 0
	for _, w := range b.measured {
		if w.OSL == burstOSL && w.InFlight == 4 && w.Requests == 2*4 { // two on each replica
			warmups++
		}
		if w.OSL == burstOSL && w.InFlight == 16 && w.Requests == 16 && !w.SharedPrompts {
			bursts++
		}
	}
	if bursts == 0 || warmups != bursts {
		t.Errorf("%d bursts, %d warmed up", bursts, warmups)
	}
	for _, s := range Plan(o) {
		if s.Stage == profile.StageSweep && s.Phase == profile.Prefill && strings.HasPrefix(s.Label, "DEP") && s.Cost.Requests != 16+2*4 {
			t.Errorf("planned %+v", s)
		}
	}
}

// recorded counts the records of every point.
type recorded struct {
	notes
	kept map[string]int
}

func (r *recorded) Point(p profile.Point, rs []profile.Request, spent Cost) error {
	r.kept[p.ID] = len(rs)
	return r.notes.Point(p, rs, spent)
}

// Decode goes by whole rounds over the replicas, on the search, the grid and the
// surface; a replica that holds no request says so with its own capacity.
func TestReplicasDecodeInRounds(t *testing.T) {
	for _, search := range []Search{Adaptive, Grid} {
		long := affine(4)
		long.ttft = func(int) time.Duration { return time.Second }
		b := newLab(map[string]law{"DEP:4": long})
		o := options(b)
		o.Search = search
		o.Candidates = []engine.Config{{Kind: engine.KindSim, Model: "m", Parallelism: engine.Parallelism{TP: 1, PP: 1, DP: 4, EP: 4}, Limits: engine.Limits{MaxNumSeqs: 16, BlockSize: 16}}}
		res, _, err := run(t, b, o, Known{})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, p := range res.Points {
			if p.Phase == profile.Decode {
				if n++; p.Asked%4 != 0 || p.Asked > 64 {
					t.Errorf("%s: %d in flight", search, p.Asked)
				}
			}
		}
		if n < 8 {
			t.Errorf("%s: %d decode points: this shows nothing", search, n)
		}
		small := long
		small.kv = 10_000 // three requests by the sum, none on a replica
		b.laws["DEP:4"] = small
		res, _, err = run(t, b, o, Known{})
		if !errors.Is(err, ErrNothing) || len(res.Skips) != 1 || !strings.HasPrefix(res.Skips[0].Reason, "the KV cache of 2500 tokens in each attention replica is too small for one request") {
			t.Errorf("%s: %v, skips %v", search, err, res.Skips)
		}
	}
}

// A server that already runs can't be told to take one sequence on each replica: it has one
// prompt for each at a time, and nothing but prompts.
func TestReplicasOfAnEndpoint(t *testing.T) {
	b := newLab(map[string]law{"TP:1 DP:4": affine(1)})
	o := options(b, 4)
	o.Candidates[0].Parallelism, o.Candidates[0].Kind = engine.Parallelism{TP: 1, PP: 1, DP: 4, EP: 1}, engine.KindEndpoint
	res, _, err := run(t, b, o, Known{})
	if err != nil {
		t.Fatal(err)
	}
	p := res.Prefill.Picked.Point
	ttft := affine(1).ttft(4 * o.ISL)
	if want := 4 * float64(o.ISL) / ttft.Seconds() / 4; p.Asked != 4 || p.OSL != 1 || p.TTFT.Mean != ttft || math.Abs(p.ThroughputPerGPU/want-1) > 1e-6 {
		t.Errorf("%d prompts of %d tokens out: TTFT %v, %v tokens/s/GPU, want %v and %v", p.Asked, p.OSL, p.TTFT.Mean, p.ThroughputPerGPU, ttft, want)
	}
	for _, w := range b.measured {
		if w.OSL == burstOSL {
			t.Errorf("a burst: %+v", w)
		}
	}
}
