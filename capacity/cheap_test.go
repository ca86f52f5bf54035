package capacity

import (
	"math"

	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/engine/sim/fleet"
)

// cheap is a step timer of four numbers: picoseconds for the step, and for each
// prompt token, decoding sequence and token of their context.
type cheap struct{ step, prompt, seq, context engine.Picoseconds }

func (c cheap) StepTime(b engine.Batch) engine.Picoseconds {
	return c.step + c.prompt*engine.Picoseconds(b.PrefillTokens) + c.seq*engine.Picoseconds(b.DecodeSeqs) + c.context*engine.Picoseconds(b.DecodeContext)
}

func (c cheap) DecodeRun(seqs int, context int64) (first, growth engine.Picoseconds, steps int64) {
	return c.StepTime(engine.Batch{DecodeSeqs: seqs, DecodeContext: context}), c.context * engine.Picoseconds(seqs), math.MaxInt64
}

func (c cheap) slower(by engine.Picoseconds) cheap {
	return cheap{c.step * by / 100, c.prompt * by / 100, c.seq * by / 100, c.context * by / 100}
}

const (
	us    = engine.Microsecond
	milli = engine.Millisecond
)

// cheapPool is a pool of engines that hold so many sequences and KV tokens, and
// take so many prompt tokens in a step.
func cheapPool(role engine.Role, c cheap, seqs, kvTokens, chunk int) EnginePool {
	return EnginePool{
		Label: "cheap", GPU: "any", USDPerGPUHour: 1,
		Pool: fleet.Pool{
			Engine: sim.Config{Role: role, Limits: engine.Limits{MaxNumSeqs: seqs, MaxNumBatchedTokens: chunk, BlockSize: 1}, KVBlocks: kvTokens},
			Timer:  c, GPUs: 1, Router: fleet.LeastLoaded,
		},
	}
}

func together(p EnginePool) Layout {
	return Layout{Strategy: Aggregated, Pools: []EnginePool{p}}
}

func apart(prefill, decode EnginePool) Layout {
	return Layout{Strategy: Disaggregated, Pools: []EnginePool{prefill, decode}}
}

// fixed is a workload whose requests all have the same lengths.
func fixed(qps float64, isl, osl int) Workload {
	return Workload{Rate: qps, ISL: float64(isl), ISLP99: float64(isl), OSL: float64(osl), OSLP99: float64(osl), PeakToAverage: 1, Pattern: "flat"}
}
