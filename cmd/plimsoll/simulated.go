package main

import (
	"plimsoll/engine"
	"plimsoll/engine/latency"
	"plimsoll/engine/sim"
)

// simulatedEngine is the engine that a latency model describes, as the simulator takes
// it. Every command that simulates one begins here, so that all of them answer
// for the same engine.
func simulatedEngine(m latency.Model, role engine.Role) sim.Config {
	l := m.Limits()
	return sim.Config{
		Role: role, Limits: l, KVBlocks: m.KVTokens() / l.BlockSize,
		AsyncScheduling: m.AsyncScheduling(), ReserveFullPrompt: m.ReserveFullPrompt(),
	}
}
