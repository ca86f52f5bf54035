package main

import (
	"slices"
	"testing"
	"time"

	"plimsoll/capacity"
	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/engine/sim/fleet"
)

// steps take as long for each prompt token and each sequence.
type steps struct{ prompt, seq engine.Picoseconds }

func (s steps) StepTime(b engine.Batch) engine.Picoseconds {
	return engine.Millisecond + s.prompt*engine.Picoseconds(b.PrefillTokens) + s.seq*engine.Picoseconds(b.DecodeSeqs)
}

func priced(gpu string, prompt, seq engine.Picoseconds, usd capacity.USD) candidate {
	l := capacity.Layout{Strategy: capacity.Disaggregated}
	for _, role := range []engine.Role{engine.RolePrefill, engine.RoleDecode} {
		l.Pools = append(l.Pools, capacity.EnginePool{
			Label: gpu, GPU: gpu, USDPerGPUHour: usd,
			Pool: fleet.Pool{Engine: sim.Config{Role: role, Limits: engine.Limits{MaxNumSeqs: 10, BlockSize: 16}, KVBlocks: 10_000}, Timer: steps{prompt, seq}, GPUs: 1, Router: fleet.LeastLoaded},
		})
	}
	return candidate{layout: l}
}

// A candidate whose own plan is dear is sized where one of its pools, together
// with another candidate's, may be cheap.
func TestBoundsKeepWhatAPoolOfItMayMakeCheap(t *testing.T) {
	const us = engine.Microsecond
	w := capacity.Workload{Rate: 100, ISL: 1000, ISLP99: 1000, OSL: 100, OSLP99: 100, PeakToAverage: 1, Pattern: "flat"}
	traffic, err := w.PeakTraffic()
	if err != nil {
		t.Fatal(err)
	}
	z := sizing{capacityOptions: capacityOptions{demand: demand{slo: capacity.SLO{TTFT: time.Second, ITL: 50 * time.Millisecond}}}, traffic: traffic}
	// A computes prompts fast and decodes slowly, B the other way round; C does neither.
	cs := []candidate{priced("C", 200*us, 4000*us, 1), priced("A", 20*us, 4000*us, 1), priced("B", 200*us, 400*us, 1)}
	of := func() map[string]capacity.USD {
		out := map[string]capacity.USD{}
		for _, b := range z.bounds(cs) {
			out[b.layout.Pools[0].GPU] = b.usd
		}
		return out
	}
	own := map[string]capacity.USD{}
	for _, c := range cs {
		own[c.layout.Pools[0].GPU] = c.layout.FloorUSD(traffic, z.slo)
	}
	if got := of(); got["A"] != own["A"] || got["B"] != own["B"] || got["C"] != own["C"] {
		t.Errorf("bounds %v, each by itself %v", got, own)
	}
	z.mixedGPUs = true
	a, b := cs[1].layout.PoolFloorsUSD(traffic, z.slo), cs[2].layout.PoolFloorsUSD(traffic, z.slo)
	if got := of(); got["A"] != a[0]+b[1] || got["B"] != a[0]+b[1] || got["C"] < got["A"] {
		t.Errorf("bounds %v with different GPUs, want %g of A and B", got, a[0]+b[1])
	}
	if first := z.bounds(cs)[0]; !slices.Contains([]string{"A", "B"}, first.layout.Pools[0].GPU) {
		t.Errorf("%s comes first", first.layout.Pools[0].GPU)
	}
}

// Of plans that hold the SLO at no size the nearest to it comes first, after those that
// do, and last one that served nobody.
func TestPlansNearestToTheSLOFirst(t *testing.T) {
	z := sizing{capacityOptions: capacityOptions{demand: demand{slo: capacity.SLO{TTFT: time.Second, ITL: 50 * time.Millisecond}}}}
	missing := func(name string, ttft, itl time.Duration) sizedPlan {
		return sizedPlan{Plan: capacity.Plan{Layout: name, Infeasible: &capacity.Infeasible{TTFT: ttft, ITL: itl}}}
	}
	holds := sizedPlan{Plan: capacity.Plan{Layout: "holds"}}
	plans := []sizedPlan{missing("nobody", 0, 0), missing("3 times the ITL", time.Second, 150*time.Millisecond), holds, missing("twice the TTFT", 2*time.Second, 10*time.Millisecond)}
	slices.SortStableFunc(plans, z.cheaper)
	var order []string
	for _, p := range plans {
		order = append(order, p.Layout)
	}
	if want := []string{"holds", "twice the TTFT", "3 times the ITL", "nobody"}; !slices.Equal(order, want) {
		t.Errorf("%q, want %q", order, want)
	}
}
