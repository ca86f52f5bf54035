package sim

import (
	"math"
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"plimsoll/engine"
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

// slow is a first step, a growth and a number of steps as drawn, none negative.
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
	rapid.Check(t, func(t *rapid.T) {
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

// TestSkipIsEveryStep runs two engines side by side through random workloads:
// one takes parts of its runs at once, the other every step by itself.
func TestSkipIsEveryStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawConfig(t)
		fast, err := New(c, linear{})
		if err != nil {
			t.Fatal(err)
		}
		slow, _ := New(c, plain{linear{}})
		c = fast.Config()
		pending := rapid.IntRange(1, 30).Draw(t, "requests")
		for ids, steps := uint64(0), 0; pending > 0 || !fast.Idle(); steps++ {
			if steps > 20_000 {
				t.Fatal("the engine makes no progress")
			}
			for pending > 0 && (fast.Idle() || rapid.IntRange(0, 3).Draw(t, "arrival") == 0) {
				ids++
				r := drawRequest(t, c, ids)
				if fast.Add(r) != nil || slow.Add(r) != nil {
					t.Fatal("a request is refused")
				}
				pending--
			}
			if rapid.IntRange(0, 30).Draw(t, "cancel") == 0 {
				id := uint64(rapid.IntRange(1, int(ids)).Draw(t, "canceled"))
				if fast.Cancel(id) != slow.Cancel(id) {
					t.Fatal("the engines do not hold the same requests")
				}
			}
			if run := fast.Ahead(); run.Steps > 0 {
				skipAndCompare(t, fast, slow, run)
			} else {
				stepAndCompare(t, fast, slow)
			}
			if fast.Stats() != slow.Stats() {
				t.Fatalf("stats %+v, want %+v", fast.Stats(), slow.Stats())
			}
		}
	})
}

// skipAndCompare takes a part of the run at once, and step by step.
func skipAndCompare(t *rapid.T, fast, slow *Engine, run Run) {
	n := rapid.Int64Range(1, run.Steps).Draw(t, "skipped")
	var elapsed engine.Picoseconds
	for range n {
		s, ok := slow.Begin()
		if !ok || s.Batch.DecodeSeqs != run.Seqs || s.Batch.PrefillSeqs != 0 {
			t.Fatalf("step %+v, %v in the run %+v", s, ok, run)
		}
		elapsed += s.Duration
		if ev := slow.End(); len(ev) != 0 {
			t.Fatalf("events %v in the run %+v", ev, run)
		}
	}
	if got := run.Length(n); got != elapsed {
		t.Fatalf("%d steps of %+v take %d, want %d", n, run, got, elapsed)
	}
	fast.Skip(n)
}

func stepAndCompare(t *rapid.T, fast, slow *Engine) {
	got, okFast := fast.Begin()
	want, okSlow := slow.Begin()
	if got != want || okFast != okSlow {
		t.Fatalf("step %+v, %v; want %+v, %v", got, okFast, want, okSlow)
	}
	if !okFast {
		return
	}
	if a, b := fast.End(), slow.End(); !slices.Equal(a, b) {
		t.Fatalf("events %v, want %v", a, b)
	}
}
