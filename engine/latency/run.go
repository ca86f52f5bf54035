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
	u := &m.unit
	first = u.step(&engine.Batch{DecodeSeqs: seqs, DecodeContext: context})
	seqs, context = u.busiestDecode(seqs, context)
	n := int64(seqs)
	if seqs <= 0 {
		return first, 0, math.MaxInt64
	}
	p := u.inside
	if u.inside != u.outside {
		if edge := u.inWindow(math.MaxInt64, n); context > edge {
			p = u.outside
		} else {
			p.most = min(p.most, edge)
		}
	}
	if context < 0 || context > p.most || n > p.most { // n·each is within its bounds otherwise
		return first, 0, 1
	}
	return first, engine.Picoseconds(n) * p.each, (p.most-context)/n + 1
}

// pace is how a step that decodes grows with its sequences: by each per token
// of context, up to most tokens, where a term reaches its bound of a day.
type pace struct {
	each engine.Picoseconds
	most int64
}

// paceOf is that of terms that take so long per token.
func paceOf(terms ...engine.Picoseconds) pace {
	p := pace{most: math.MaxInt64}
	for _, each := range terms {
		if each > 0 {
			p.each += each
			p.most = min(p.most, int64(day/each))
		}
	}
	return p
}
