package latency

import (
	"math"

	"plimsoll/engine"
)

// DecodeRun says how long the next steps of a batch that only decodes take: seqs
// sequences with context tokens in all, each growing by one token a step. For
// 0 ≤ i < steps, step i takes first + i·growth, exactly what StepTime gives for
// it; steps ≥ 1. A run ends where the sequences fill their sliding window, and
// where a term reaches its bound of a day.
func (m Model) DecodeRun(seqs int, context int64) (first, growth engine.Picoseconds, steps int64) {
	first = m.StepTime(engine.Batch{DecodeSeqs: seqs, DecodeContext: context})
	if seqs <= 0 {
		return first, 0, math.MaxInt64
	}
	if context < 0 {
		return first, 0, 1
	}
	u, n := &m.unit, int64(seqs)
	growing := [4]engine.Picoseconds{u.kvFull, u.attendFull, u.kvWindow, u.attendWindow}
	last := int64(math.MaxInt64) // the most context up to which the step grows alike
	if edge := u.inWindow(math.MaxInt64, n); growing[2]+growing[3] > 0 && edge < math.MaxInt64 {
		if context > edge {
			growing[2], growing[3] = 0, 0
		} else {
			last = edge
		}
	}
	for _, each := range growing {
		if each > 0 {
			growth += many(n, each)
			last = min(last, int64(day/each))
		}
	}
	if context > last {
		return first, 0, 1
	}
	return first, growth, (last-context)/n + 1
}
