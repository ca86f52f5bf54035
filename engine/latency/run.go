package latency

import (
	"math"

	"plimsoll/engine"
)

// DecodeRun says how long the next steps of a batch that only decodes take: seqs
// sequences with context tokens in all, each growing by one token a step. For
// 0 ≤ i < steps, step i takes first + i·growth, exactly what StepTime gives for
// it; steps ≥ 1.
func (m Model) DecodeRun(seqs int, context int64) (first, growth engine.Picoseconds, steps int64) {
	u := &m.unit
	if seqs <= 0 {
		return u.time(&engine.Batch{DecodeSeqs: seqs}), 0, math.MaxInt64
	}
	p, n := u.decoding(seqs, context), int64(seqs)
	first = u.beside(&engine.Batch{DecodeSeqs: seqs}) + p.at(context)
	last := p.to - 1
	if p.each > 0 {
		last = min(last, p.from+int64(day/p.each))
	}
	if context < p.from || context > last || n > last {
		return first, 0, 1
	}
	return first, engine.Picoseconds(n) * p.each, (last-context)/n + 1
}
