package latency

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
)

// Every model, layout and window: a run's steps are StepTime's, bit for bit.
func TestDecodeRunIsStepTime(t *testing.T) {
	cat := tables(t)
	enginetest.Check(t, func(t *rapid.T) {
		lm := anyModel(t, cat)
		seqs := rapid.IntRange(0, 5000).Draw(t, "seqs")
		context := rapid.OneOf(
			rapid.Int64Range(-3, 1<<20), rapid.Int64Range(0, 1<<62),
			rapid.Int64Range(math.MaxInt64-1e6, math.MaxInt64),
		).Draw(t, "context")
		first, growth, steps := lm.DecodeRun(seqs, context)
		if steps < 1 || growth < 0 {
			t.Fatalf("growth %d over %d steps", growth, steps)
		}
		at := func(i int64) engine.Picoseconds {
			return lm.StepTime(engine.Batch{DecodeSeqs: seqs, DecodeContext: context + i*int64(seqs)})
		}
		most := steps - 1
		if seqs > 0 {
			most = min(most, (math.MaxInt64-max(context, 0))/int64(seqs))
		}
		for _, i := range []int64{0, 1, 2, 1000, most / 2, most - 1, most} {
			if i < 0 || i > most {
				continue
			}
			if got, want := first+engine.Picoseconds(i)*growth, at(i); got != want {
				t.Fatalf("step %d of %d: %d ps, StepTime %d", i, steps, got, want)
			}
		}
	})
}
