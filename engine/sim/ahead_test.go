package sim

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
)

// shrinking takes less time for more context, and below zero in the end.
type shrinking struct{}

func (shrinking) StepTime(b engine.Batch) engine.Picoseconds {
	return 60 - engine.Picoseconds(b.DecodeContext)
}

func (shrinking) DecodeRun(seqs int, context int64) (first, growth engine.Picoseconds, steps int64) {
	return 60 - engine.Picoseconds(context), -engine.Picoseconds(seqs), math.MaxInt64
}

// TestSkipIsEveryStep runs two engines side by side through random workloads:
// one takes parts of its runs at once, the other every step by itself.
func TestSkipIsEveryStep(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		c := drawConfig(t)
		timer := rapid.SampledFrom([]DecodeTimer{linear{}, steady{}, shrinking{}}).Draw(t, "timer")
		fast, err := New(c, timer)
		if err != nil {
			t.Fatal(err)
		}
		slow, _ := New(c, plain{timer})
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
	if run.Ends && n == run.Steps && rapid.Bool().Draw(t, "last") {
		lastAndCompare(t, fast, slow, run)
	}
}

// lastAndCompare takes the step in which a run ends, whose time it told.
func lastAndCompare(t *rapid.T, fast, slow *Engine, run Run) {
	s, ok := slow.Begin()
	if !ok || s.Batch.DecodeSeqs != run.Seqs || s.Batch.PrefillSeqs != 0 || s.Duration != run.Whole()-run.Length(run.Steps) {
		t.Fatalf("step %+v, %v ends the run %+v", s, ok, run)
	}
	fast.BeginLast()
	if a, b := fast.End(), slow.End(); len(b) == 0 || !slices.Equal(a, b) {
		t.Fatalf("events %v, want %v, some", a, b)
	}
}

// TestBeginLastOnlyAtTheEnd: it panics where the run is not over.
func TestBeginLastOnlyAtTheEnd(t *testing.T) {
	e, err := New(Config{KVBlocks: 100}, steady{})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Add(Request{ID: 1, PromptTokens: 5, OutputTokens: 10}); err != nil {
		t.Fatal(err)
	}
	e.Begin()
	e.End()
	if run := e.Ahead(); run.Steps != 8 || !run.Ends {
		t.Fatalf("run %+v, want 8 steps and an end", run)
	}
	defer func() {
		if recover() == nil {
			t.Error("BeginLast before the end of the run")
		}
	}()
	e.BeginLast()
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

// TestRunsAreWhole: where nobody waits, a run ends right before a first or last
// token or a preemption.
func TestRunsAreWhole(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		e, err := New(drawConfig(t), steady{})
		if err != nil {
			t.Fatal(err)
		}
		for id := range rapid.Uint64Range(1, 20).Draw(t, "requests") {
			if err := e.Add(drawRequest(t, e.Config(), id)); err != nil {
				t.Fatal(err)
			}
		}
		for after := false; !e.Idle(); {
			if run := e.Ahead(); run.Steps > 0 {
				if after {
					t.Fatalf("the run %+v right after another", run)
				}
				e.Skip(run.Steps)
				after = true
				continue
			}
			before := e.Stats().Preemptions
			e.Begin()
			if events := e.End(); after && len(events) == 0 && e.Stats().Preemptions == before {
				t.Fatal("a run ended before a step like its own")
			}
			after = false
		}
	})
}

func TestNoRunAhead(t *testing.T) {
	one := Request{ID: 1, PromptTokens: 150, OutputTokens: 50}
	for _, c := range []struct {
		name  string
		cfg   Config
		timer StepTimer
		steps int // taken before
		want  bool
	}{
		{"an idle engine", Config{}, steady{}, -1, false},
		{"a request that has not started", Config{}, steady{}, 0, false},
		{"a prompt computed in part", Config{}, steady{}, 1, false},
		{"a decoding request", Config{}, steady{}, 2, true},
		{"the last token comes next", Config{}, steady{}, 50, false},
		{"with noise", Config{Noise: 0.1}, steady{}, 2, false},
		{"a timer that knows no runs", Config{}, plain{steady{}}, 2, false},
		{"a timer that breaks its word", Config{}, none{}, 2, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.cfg.KVBlocks, c.cfg.Limits.MaxNumBatchedTokens = 100, 100
			e := mustNew(t, c.cfg, c.timer)
			if c.steps >= 0 {
				mustAdd(t, e, one)
			}
			for range c.steps {
				stepOf(t, e)
			}
			if run := e.Ahead(); run.Steps > 0 != c.want {
				t.Errorf("run ahead %+v, wanted some: %v", run, c.want)
			}
			e.Begin()
			if run := e.Ahead(); run != (Run{}) {
				t.Errorf("run ahead within a step: %+v", run)
			}
		})
	}
}

// none has no steps in its runs.
type none struct{ linear }

func (none) DecodeRun(int, int64) (first, growth engine.Picoseconds, steps int64) { return 1, 1, 0 }

func TestSkipBeyondTheRunPanics(t *testing.T) {
	e := mustNew(t, Config{KVBlocks: 100}, steady{})
	mustAdd(t, e, Request{ID: 1, PromptTokens: 10, OutputTokens: 50})
	stepOf(t, e)
	n := e.Ahead().Steps
	if n != 48 {
		t.Fatalf("run of %d steps: want 48 of 50, without the first and the last", n)
	}
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	e.Skip(n + 1)
}

// TestSteadyStateAllocatesNothing: once as many requests and blocks have been
// there, no more memory is taken.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	for _, cfg := range []Config{{KVBlocks: 500}, {KVBlocks: 500, PrefixCaching: true, DRAM: Tier{Blocks: 100}, NVMe: Tier{Blocks: 100}}} {
		e := mustNew(t, cfg, steady{})
		chains := make([][]uint64, 50)
		for i := range chains {
			chains[i] = BlockHashes(prompt(640, 320, uint32(i)), 16)
		}
		id := uint64(0)
		lives := func() {
			for range len(chains) {
				id++
				if err := e.Add(Request{ID: id, PromptTokens: 640, OutputTokens: 100, Prefix: chains[id%50]}); err != nil {
					t.Fatal(err)
				}
			}
			for !e.Idle() {
				if run := e.Ahead(); run.Steps > 0 {
					e.Skip(run.Steps)
					continue
				}
				e.Begin()
				e.End()
			}
		}
		lives()
		if n := testing.AllocsPerRun(5, lives); n != 0 {
			t.Errorf("prefix caching %v: %v allocations for %d requests", cfg.PrefixCaching, n, len(chains))
		}
	}
}
