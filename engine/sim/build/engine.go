package build

import (
	"plimsoll/engine"
	"plimsoll/engine/latency"
	"plimsoll/engine/sim"
)

// Engine is the engine that a latency model describes, as the simulator takes
// it. Every command that simulates one begins here, so that all of them answer
// for the same engine.
//
// An engine with attention replicas (DP) has a scheduler for each of them, and
// limits are those of one; the simulator has one scheduler over all. A replica
// with a single sequence computes its prompt without others in between, so that
// chunks make no difference there.
func Engine(m latency.Model, role engine.Role) sim.Config {
	l := m.Limits()
	if dp := m.Parallelism().DP; dp > 1 {
		if l.MaxNumSeqs == 1 {
			l.MaxNumBatchedTokens = max(l.MaxNumBatchedTokens, l.MaxModelLen)
		}
		l.MaxNumSeqs, l.MaxNumBatchedTokens = dp*l.MaxNumSeqs, dp*l.MaxNumBatchedTokens
	}
	blocks, window := m.KVCache(role)
	return sim.Config{
		Role: role, Limits: l, KVBlocks: blocks, Window: window,
		AsyncScheduling: m.AsyncScheduling(), ReserveFullPrompt: m.ReserveFullPrompt(), PrefillAlone: m.PrefillAlone(),
		States: statesOf(m),
	}
}

// statesOf is where prefix caching keeps states: in vLLM at the end of a prompt, and of a
// step within a long one, which is not counted; from 0.24 on (#37898) also where a second
// prompt leaves one (_mamba_block_aligned_split of its scheduler). What other engines do
// is not modelled.
func statesOf(m latency.Model) sim.States {
	switch r := m.Served(); {
	case !m.HasStates() || r.Kind != engine.KindVLLM:
		return ""
	case r.Since("0.24"):
		return sim.StatesAtForks
	}
	return sim.StatesAtEnds
}
