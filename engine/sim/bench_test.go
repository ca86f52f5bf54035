package sim

import (
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/enginetest/cputime"
)

// BenchmarkDecodeStep shows that a step costs the same whatever the batch.
func BenchmarkDecodeStep(b *testing.B) {
	for _, n := range []int{1, 64, 1024} {
		b.Run(map[int]string{1: "1", 64: "64", 1024: "1024"}[n], func(b *testing.B) {
			e := mustNew(b, Config{KVBlocks: 1 << 40, Limits: engine.Limits{MaxNumSeqs: n, MaxNumBatchedTokens: 1 << 20, MaxModelLen: 1 << 40}}, fixed(1))
			for id := range uint64(n) {
				mustAdd(b, e, Request{ID: id, PromptTokens: 100, OutputTokens: 1 << 39})
			}
			stepOf(b, e)
			b.ReportAllocs()
			for b.Loop() {
				e.Begin() // not stepOf: Helper costs more than a step
				e.End()
			}
		})
	}
}

// BenchmarkServing is the whole life of requests at a steady load.
func BenchmarkServing(b *testing.B) {
	e := mustNew(b, Config{KVBlocks: 25_600, PrefixCaching: true}, fixed(1))
	tokens := prompt(3000, 1500, 0)
	b.ReportAllocs()
	id := uint64(0)
	for b.Loop() {
		id++
		tokens[1500] = uint32(id)
		mustAdd(b, e, request(id, tokens, 150))
		for e.Waiting() > 0 || e.Running() >= 64 {
			e.Begin()
			e.End()
		}
	}
}

// BenchmarkRequest is the whole life of a request, ISL 1024 and OSL 256, with
// ten in flight, in runs of steps: without prefix caching; the same one step after
// another; with 64 blocks of which every second request finds a half; and that
// above two tiers.
func BenchmarkRequest(b *testing.B) {
	const inFlight, isl, osl = 10, 1024, 256
	for _, c := range []struct {
		name string
		cfg  Config
	}{
		{"plain", Config{KVBlocks: 4096}},
		{"stepped", Config{KVBlocks: 4096}},
		{"prefix", Config{KVBlocks: 4096, PrefixCaching: true}},
		{"tiers", Config{KVBlocks: 4096, PrefixCaching: true, DRAM: Tier{Blocks: 8192, Load: engine.Microsecond}, NVMe: Tier{Blocks: 65536, Load: engine.Millisecond}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			e := mustNew(b, c.cfg, steady{})
			chains := benchChains(20_000, isl/16, c.cfg.PrefixCaching)
			next := 0
			add := func() {
				next++
				r := Request{ID: uint64(next), PromptTokens: isl, OutputTokens: osl - next%7, Prefix: chains[next%len(chains)]}
				if err := e.Add(r); err != nil {
					b.Fatal(err)
				}
			}
			finish := func(n int) {
				for n > 0 {
					if run := e.Ahead(); run.Steps > 0 && c.name != "stepped" {
						e.Skip(run.Steps)
						continue
					}
					e.Begin()
					for _, ev := range e.End() {
						if ev.Last {
							add()
							n--
						}
					}
				}
			}
			for range inFlight {
				add()
				finish(1) // spreads them
			}
			for e.Running()+e.Waiting() < inFlight {
				add()
			}
			finish(4 * len(chains))
			b.ReportAllocs()
			b.ResetTimer()
			used := cputime.Report(b)
			finish(b.N)
			used()
			b.StopTimer()
			s := e.Stats()
			b.ReportMetric(float64(s.PrefixHits)/float64(max(s.PrefixQueries, 1)), "hits")
		})
	}
}

// benchChains are prompts of which every second one begins as the one before.
func benchChains(n, blocks int, on bool) [][]uint64 {
	chains := make([][]uint64, n)
	for i := range chains {
		if !on {
			continue
		}
		tokens := make([]uint32, 16*blocks)
		for k := range tokens {
			tokens[k] = uint32(i)
			if k < len(tokens)/2 {
				tokens[k] = uint32(i / 2)
			}
		}
		chains[i] = BlockHashes(tokens, 16)
	}
	return chains
}

// BenchmarkOverlap is a router's question about a prompt of 64 cached blocks,
// and its answer in time.
func BenchmarkOverlap(b *testing.B) {
	e := mustNew(b, Config{KVBlocks: 4096, PrefixCaching: true}, steady{})
	chain := benchChains(1, 64, true)[0]
	mustAdd(b, e, Request{ID: 1, PromptTokens: 1024, OutputTokens: 1, Prefix: chain})
	runAll(e)
	b.ReportAllocs()
	for b.Loop() {
		if e.Overlap(chain) != 64 {
			b.Fatal("blocks are missing")
		}
	}
}

// BenchmarkReach is the search for an arrival in a run of a thousand steps.
func BenchmarkReach(b *testing.B) {
	run := Run{First: 10 * engine.Millisecond, Growth: 100 * engine.Nanosecond, Steps: 1000}
	b.ReportAllocs()
	for b.Loop() {
		if run.Reach(5*engine.Second) != 499 {
			b.Fatal("wrong step")
		}
	}
}
