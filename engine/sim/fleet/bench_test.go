package fleet

import (
	"math/rand/v2"
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/enginetest/cputime"
	"plimsoll/engine/latency"
	"plimsoll/engine/sim"
)

// llama8B is a replica of Llama 3.1 8B on one H100.
func llama8B(b *testing.B, caching bool) Pool {
	b.Helper()
	c, err := catalog.Default()
	if err != nil {
		b.Fatal(err)
	}
	m, err := c.Model("llama-3.1-8b")
	if err != nil {
		b.Fatal(err)
	}
	g, err := c.GPU("h100-sxm")
	if err != nil {
		b.Fatal(err)
	}
	l, err := latency.New(m, g, engine.Config{Model: m.Name, GPU: g.Name})
	if err != nil {
		b.Fatal(err)
	}
	limits := l.Limits()
	limits.BlockSize = 16
	return Pool{
		Engine: sim.Config{
			Limits: limits, KVBlocks: l.KVTokens() / limits.BlockSize, PrefixCaching: caching,
		},
		Timer: l, Replicas: 4,
	}
}

// arrivals is a Poisson process of 20 requests of ISL 1024 and OSL 256 a second.
type arrivals struct {
	rng *rand.Rand
	at  engine.Picoseconds
}

func (a *arrivals) next() Request {
	a.at += engine.FromSeconds(a.rng.ExpFloat64() / 20)
	return Request{At: a.at, ISL: 1024, OSL: 256}
}

// offer offers n requests.
func offer(b *testing.B, f *Fleet, n int, next func() Request) {
	for range n {
		if err := f.Offer(next()); err != nil {
			b.Fatal(err)
		}
	}
}

// fleetOf is a fleet in its steady state.
func fleetOf(b *testing.B, c Config, next func() Request) *Fleet {
	b.Helper()
	f, err := New(c)
	if err != nil {
		b.Fatal(err)
	}
	offer(b, f, 20_000, next)
	return f
}

func benchmarkFleet(b *testing.B, c Config, next func() Request) {
	f := fleetOf(b, c, next)
	b.ReportAllocs()
	b.ResetTimer()
	used := cputime.Report(b)
	offer(b, f, b.N, next)
	used()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
	b.ReportMetric(f.inFlight.area(f.now).float()/float64(f.now), "in-flight")
}

// BenchmarkRoundRobin is 4 replicas at 20 requests/s in all, without prefix
// caching.
func BenchmarkRoundRobin(b *testing.B) {
	a := arrivals{rng: rand.New(rand.NewPCG(1, 1))}
	benchmarkFleet(b, Config{Pools: []Pool{llama8B(b, false)}}, a.next)
}

// BenchmarkLeastLoaded is the same behind another router.
func BenchmarkLeastLoaded(b *testing.B) {
	a := arrivals{rng: rand.New(rand.NewPCG(1, 1))}
	p := llama8B(b, false)
	p.Router = LeastLoaded
	benchmarkFleet(b, Config{Pools: []Pool{p}}, a.next)
}

// BenchmarkKVAware has prompts of 64 blocks, of which 48 are one of 500 shared
// prefixes: more than the caches of the fleet hold.
func BenchmarkKVAware(b *testing.B) {
	a := arrivals{rng: rand.New(rand.NewPCG(1, 1))}
	prompts := make([][]uint64, 20_000)
	rng := rand.New(rand.NewPCG(2, 2))
	for i := range prompts {
		family := rng.Uint64N(500)
		for j := range 64 {
			h := sim.Mix(family, uint64(j))
			if j >= 48 {
				h = sim.Mix(uint64(i)<<16, uint64(j))
			}
			prompts[i] = append(prompts[i], h)
		}
	}
	p := llama8B(b, true)
	p.Router = KVAware
	n := 0
	benchmarkFleet(b, Config{Pools: []Pool{p}}, func() Request {
		r := a.next()
		r.Prefix = prompts[n%len(prompts)]
		n++
		return r
	})
}

// BenchmarkDisaggregated is 2 prefill and 2 decode replicas.
func BenchmarkDisaggregated(b *testing.B) {
	a := arrivals{rng: rand.New(rand.NewPCG(1, 1))}
	prefill := llama8B(b, false)
	prefill.Replicas, prefill.Engine.Role = 2, engine.RolePrefill
	decode := prefill
	decode.Engine.Role = engine.RoleDecode
	benchmarkFleet(b, Config{
		Pools:    []Pool{prefill, decode},
		Transfer: Transfer{Latency: engine.Millisecond, KV: engine.KVBytes{PerToken: 131_072}, BytesPerSecond: 50e9},
	}, a.next)
}

// BenchmarkManyReplicas is 64 replicas under the load of 4 each.
func BenchmarkManyReplicas(b *testing.B) {
	a := arrivals{rng: rand.New(rand.NewPCG(1, 1))}
	p := llama8B(b, false)
	p.Replicas = 64
	benchmarkFleet(b, Config{Pools: []Pool{p}}, func() Request {
		r := a.next()
		r.At /= 16
		return r
	})
}

// BenchmarkReport is the cost of a report of a fleet with a full series.
func BenchmarkReport(b *testing.B) {
	a := arrivals{rng: rand.New(rand.NewPCG(1, 1))}
	f := fleetOf(b, Config{Pools: []Pool{llama8B(b, false)}}, a.next)
	b.ReportAllocs()
	for range b.N {
		f.Report()
	}
}

// BenchmarkInterval is the cost of an autoscaler's look.
func BenchmarkInterval(b *testing.B) {
	a := arrivals{rng: rand.New(rand.NewPCG(1, 1))}
	f := fleetOf(b, Config{Pools: []Pool{llama8B(b, false)}}, a.next)
	b.ReportAllocs()
	for range b.N {
		f.Interval()
	}
}
