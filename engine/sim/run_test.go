package sim

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
)

// DecodeRun makes linear a DecodeTimer whose runs are cut short at odd places.
func (l linear) DecodeRun(seqs int, context int64) (first, growth engine.Picoseconds, steps int64) {
	b := engine.Batch{DecodeSeqs: seqs, DecodeContext: context}
	first = l.StepTime(b)
	b.DecodeContext += int64(seqs)
	return first, l.StepTime(b) - first, 1 + context%17
}

// plain hides a timer's knowledge of runs.
type plain struct{ StepTimer }

// steady is linear with runs as long as can be.
type steady struct{ linear }

func (s steady) DecodeRun(seqs int, context int64) (first, growth engine.Picoseconds, steps int64) {
	first, growth, _ = s.linear.DecodeRun(seqs, context)
	return first, growth, math.MaxInt64
}

// drawRun draws a run of which no step is negative.
func drawRun(t *rapid.T) Run {
	big := rapid.SampledFrom([]int64{10, 1e6, 1e12, math.MaxInt64})
	steps := rapid.Int64Range(1, big.Draw(t, "most steps")).Draw(t, "steps")
	first := rapid.Int64Range(0, big.Draw(t, "longest")).Draw(t, "first")
	least := int64(0)
	if steps > 1 {
		least = -first / (steps - 1)
	}
	growth := rapid.Int64Range(least, big.Draw(t, "steepest")).Draw(t, "growth")
	return Run{First: engine.Picoseconds(first), Growth: engine.Picoseconds(growth), Steps: steps}
}

func lengthOracle(r Run, n int64) engine.Picoseconds {
	N, one := big.NewInt(n), big.NewInt(1)
	sum := new(big.Int).Mul(N, new(big.Int).Sub(N, one))
	sum.Rsh(sum, 1)
	sum.Mul(sum, big.NewInt(int64(r.Growth)))
	sum.Add(sum, new(big.Int).Mul(N, big.NewInt(int64(r.First))))
	if !sum.IsInt64() {
		return math.MaxInt64
	}
	return engine.Picoseconds(sum.Int64())
}

// TestRunLengthAndReach holds Length against big integers and Reach against
// its definition.
func TestRunLengthAndReach(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		r := drawRun(t)
		n := rapid.Int64Range(0, r.Steps).Draw(t, "n")
		if got, want := r.Length(n), lengthOracle(r, n); got != want {
			t.Fatalf("%+v.Length(%d) = %d, want %d", r, n, got, want)
		}
		d := engine.Picoseconds(rapid.Int64().Draw(t, "d"))
		if rapid.Bool().Draw(t, "near a step's end") {
			d = r.Length(n) + engine.Picoseconds(rapid.Int64Range(-1, 1).Draw(t, "off"))
		}
		got := r.Reach(d)
		if got < 0 || got > r.Steps || got > 0 && r.Length(got-1) >= d || got < r.Steps && r.Length(got) < d {
			t.Fatalf("%+v.Reach(%d) = %d", r, d, got)
		}
	})
}
