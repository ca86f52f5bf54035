package oracle

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/latency"
	"plimsoll/engine/sim"
	"plimsoll/engine/sim/fleet"
	"plimsoll/interpolation"
	"plimsoll/profile"
)

// llama8B is a pool of Llama 3.1 8B on one H100 each.
func llama8B(tb testing.TB, role engine.Role, startUp engine.Picoseconds) fleet.Pool {
	tb.Helper()
	c, err := catalog.Default()
	if err != nil {
		tb.Fatal(err)
	}
	m, err := c.Model("llama-3.1-8b")
	if err != nil {
		tb.Fatal(err)
	}
	g, err := c.GPU("h100-sxm")
	if err != nil {
		tb.Fatal(err)
	}
	l, err := latency.New(m, g, engine.Config{Model: m.Name, GPU: g.Name})
	if err != nil {
		tb.Fatal(err)
	}
	limits := l.Limits()
	limits.BlockSize = 16
	return fleet.Pool{
		Engine: sim.Config{Role: role, Limits: limits, KVBlocks: l.KVTokens() / limits.BlockSize, ReserveFullPrompt: true},
		Timer:  l, StartUp: startUp, Overhead: l.Overhead(), Router: fleet.LeastLoaded,
	}
}

// measured is the same engine timed by a profile of it, as a sweep would make one.
func measured(tb testing.TB, role engine.Role) fleet.Pool {
	tb.Helper()
	p := llama8B(tb, role, 0)
	m, ok := p.Timer.(latency.Model)
	if !ok {
		tb.Fatalf("a timer of type %T", p.Timer)
	}
	var prefill profile.PrefillSurface
	for _, isl := range []int{100, 400, 1000, 2000, 4000, 8000, 16000} {
		prefill.Samples = append(prefill.Samples, profile.PrefillSample{ISL: isl, TTFT: m.TTFT(isl, isl), ThroughputPerGPU: 1})
	}
	kv := p.Engine.KVBlocks * p.Engine.Limits.BlockSize
	decode := profile.DecodeSurface{MaxKVTokens: kv}
	for _, context := range []float64{100, 1000, 4000, 9000} {
		for _, n := range []int{1, 8, 30, 100, 250} {
			itl := m.ITL(n, context)
			decode.Samples = append(decode.Samples, profile.DecodeSample{
				KVUsage: float64(n) * context / float64(kv), Context: context, ITL: itl, ThroughputPerGPU: float64(n) / itl.Seconds(),
			})
		}
	}
	pre, err := interpolation.FitPrefill(prefill)
	if err != nil {
		tb.Fatal(err)
	}
	dec, err := interpolation.FitDecode(decode, 1)
	if err != nil {
		tb.Fatal(err)
	}
	p.Timer = interpolation.NewSteps(pre, dec)
	return p
}

// load is a Poisson process whose rate changes, of requests with log-normal
// lengths.
type load struct {
	rate     func(seconds float64) float64
	most     float64 // the highest rate
	isl, osl float64 // medians
	seconds  float64
	seed     uint64
}

func (l load) requests() []fleet.Request {
	rng := rand.New(rand.NewPCG(l.seed, 3))
	length := func(median float64) int {
		return min(max(int(median*math.Exp(0.6*rng.NormFloat64())), 1), 8000)
	}
	var out []fleet.Request
	for at := 0.0; ; {
		at += rng.ExpFloat64() / l.most
		if at >= l.seconds {
			return out
		}
		if rng.Float64()*l.most > l.rate(at) {
			continue
		}
		out = append(out, fleet.Request{ID: uint64(len(out)), At: engine.FromSeconds(at), ISL: length(l.isl), OSL: length(l.osl)})
	}
}

// sine is a load that swings between 20 % and 100 % of its peak, once in period.
func sine(peak, seconds, period float64) load {
	return load{
		rate: func(s float64) float64 { return peak * (0.6 - 0.4*math.Cos(2*math.Pi*s/period)) },
		most: peak, isl: 1000, osl: 200, seconds: seconds, seed: 1,
	}
}

// caseOf is a case of pools under a load.
func caseOf(pools []fleet.Pool, requests []fleet.Request, every, end engine.Picoseconds, most int) Case {
	c := Case{
		Fleet:    fleet.Config{Pools: pools, SLA: profile.SLA{TTFT: 2 * time.Second, ITL: 25 * time.Millisecond}},
		Requests: requests, Every: every, Bins: int((end + every - 1) / every), Attainment: 0.99, Drain: 600 * engine.Second,
	}
	for range pools {
		c.Bounds = append(c.Bounds, Bounds{1, most})
	}
	return c
}

// steady is an engine of one prompt a step, without anything hidden.
func steady(every engine.Picoseconds) fleet.Pool {
	return fleet.Pool{
		Engine: sim.Config{KVBlocks: 64, Limits: engine.Limits{MaxNumSeqs: 4, MaxNumBatchedTokens: 64, BlockSize: 4}},
		Timer:  affine{token: every / 64}, Replicas: 1,
	}
}

// prompts of 64 tokens, one every so often.
func evenly(every, end engine.Picoseconds) []fleet.Request {
	var out []fleet.Request
	for at := engine.Picoseconds(0); at < end; at += every {
		out = append(out, fleet.Request{At: at, ISL: 64, OSL: 1})
	}
	return out
}
