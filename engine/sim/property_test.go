package sim

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
)

// linear is a step timer whose time tells the batch apart.
type linear struct{}

func (linear) StepTime(b engine.Batch) engine.Picoseconds {
	return engine.Millisecond + engine.Picoseconds(b.PrefillTokens)*engine.Microsecond +
		engine.Picoseconds(b.PrefillPairs)*engine.Nanosecond + engine.Picoseconds(b.DecodeContext)*10*engine.Nanosecond
}

func drawConfig(t *rapid.T) Config {
	seqs := rapid.IntRange(1, 8).Draw(t, "max seqs")
	c := Config{
		Role: rapid.SampledFrom([]engine.Role{engine.RoleAggregated, engine.RolePrefill, engine.RoleDecode}).Draw(t, "role"),
		Limits: engine.Limits{
			MaxNumSeqs:          seqs,
			MaxNumBatchedTokens: seqs + rapid.IntRange(0, 40).Draw(t, "budget above"),
			BlockSize:           rapid.IntRange(1, 8).Draw(t, "block size"),
		},
		KVBlocks:      rapid.IntRange(2, 40).Draw(t, "blocks"),
		PrefixCaching: rapid.Bool().Draw(t, "prefix caching"),

		AsyncScheduling:   rapid.Bool().Draw(t, "async scheduling"),
		ReserveFullPrompt: rapid.Bool().Draw(t, "reserve full prompt"),
		PrefillAlone:      rapid.Bool().Draw(t, "prefill alone"),
	}
	c.AsyncScheduling = c.AsyncScheduling && !c.PrefillAlone
	if rapid.Bool().Draw(t, "sliding window") { // shares that add up without rounding
		c.Window = engine.KVWindow{Blocks: rapid.IntRange(1, 12).Draw(t, "window"), Share: rapid.SampledFrom([]float64{0.25, 1, 6}).Draw(t, "share")}
		c.KVBlocks += c.Window.Extra(c.Window.Blocks)
	}
	if c.PrefixCaching && rapid.Bool().Draw(t, "tiers") {
		c.DRAM = Tier{Blocks: rapid.IntRange(0, 20).Draw(t, "dram"), Load: 3 * engine.Microsecond}
		c.NVMe = Tier{Blocks: rapid.IntRange(0, 20).Draw(t, "nvme"), Load: 70 * engine.Microsecond}
		if rapid.Bool().Draw(t, "windowed loads") {
			c.DRAM.Window = rapid.IntRange(0, 6).Draw(t, "blocks of the window")
			c.NVMe.Window, c.DRAM.Windowed, c.NVMe.Windowed = c.DRAM.Window, 2*engine.Microsecond, 50*engine.Microsecond
		}
	}
	return c
}

// drawRequest makes a request that fits, its prompt from few distinct prefixes.
func drawRequest(t *rapid.T, c Config, id uint64) Request {
	prompt := rapid.IntRange(1, c.MaxTokens()-1).Draw(t, "prompt")
	tokens := make([]uint32, prompt)
	fork := rapid.IntRange(0, prompt).Draw(t, "fork")
	for i := fork; i < prompt; i++ {
		tokens[i] = uint32(rapid.IntRange(1, 3).Draw(t, "family"))
	}
	return Request{
		ID:           id,
		PromptTokens: prompt,
		Prefix:       BlockHashes(tokens, c.Limits.BlockSize),
		OutputTokens: rapid.IntRange(1, c.MaxTokens()-prompt).Draw(t, "output"),
		WarmUp:       rapid.IntRange(0, 4).Draw(t, "warm-up") == 0,
	}
}

// TestAgainstOracle holds every step of random workloads, with arrivals and
// cancelations between and within steps, against the dumb scheduler, and both
// against the laws of an engine.
func TestAgainstOracle(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		c := drawConfig(t)
		c.HoldKV = rapid.Bool().Draw(t, "hold KV")
		e, err := New(c, linear{})
		if err != nil {
			t.Fatal(err)
		}
		c = e.Config()
		o := newOracle(c)
		produced, wanted := map[uint64]int{}, map[uint64]int{}
		var ids uint64
		add := func() {
			ids++
			r := drawRequest(t, c, ids)
			wanted[ids] = c.Output(r.OutputTokens)
			if err := e.Add(r); err != nil {
				t.Fatal(err)
			}
			o.add(r)
		}
		cancel := func() (id uint64, held bool) {
			id = uint64(rapid.IntRange(1, int(ids)).Draw(t, "canceled"))
			_, live := wanted[id]
			live = live || slices.ContainsFunc(o.held, func(s *oracleSeq) bool { return s.ID == id })
			if e.Cancel(id) != live {
				t.Fatalf("Cancel(%d) = %v", id, !live)
			}
			delete(wanted, id)
			return id, live
		}
		release := func() {
			if len(o.held) > 0 {
				id := rapid.SampledFrom(o.held).Draw(t, "released").ID
				if !e.Release(id) {
					t.Fatalf("request %d is not held", id)
				}
				o.cancel(id)
			}
		}
		pending := rapid.IntRange(1, 30).Draw(t, "requests")
		for steps := 0; pending > 0 || len(wanted) > 0; steps++ {
			if steps > 20_000 {
				t.Fatal("the engine makes no progress")
			}
			for pending > 0 && (len(wanted) == 0 || rapid.IntRange(0, 2).Draw(t, "arrival") == 0) {
				add()
				pending--
			}
			if rapid.IntRange(0, 30).Draw(t, "cancel") == 0 {
				if id, ok := cancel(); ok {
					o.cancel(id)
				}
			}
			step, ok := e.Begin()
			batch, okOracle := o.begin()
			if ok != okOracle || step.Batch != batch {
				t.Fatalf("Begin = %+v, %v; want %+v, %v", step.Batch, ok, batch, okOracle)
			}
			if !ok {
				compareStats(t, c, e.Stats(), o.state())
				release()
				continue
			}
			checkStep(t, c, step, o.load)
			compareStats(t, c, e.Stats(), o.state())
			if pending > 0 && rapid.IntRange(0, 5).Draw(t, "arrival in step") == 0 {
				add()
				pending--
			}
			if rapid.IntRange(0, 2).Draw(t, "release in step") == 0 {
				release()
			}
			inStep := uint64(0)
			if rapid.IntRange(0, 30).Draw(t, "cancel in step") == 0 {
				id, ok := cancel()
				switch {
				case ok && slices.ContainsFunc(o.held, func(s *oracleSeq) bool { return s.ID == id }):
					o.cancel(id) // it has no part in the step
				case ok:
					inStep = id
				}
			}
			tokens := endAndCompare(t, e, o, inStep)
			for _, id := range tokens {
				produced[id]++
				if n, ok := wanted[id]; ok && produced[id] == n {
					delete(wanted, id)
				}
			}
			compareStats(t, c, e.Stats(), o.state())
			chain := drawRequest(t, c, 0).Prefix
			if c.PrefixCaching && e.Overlap(chain) != o.overlap(chain) {
				t.Fatalf("overlap %d with %v, want %d", e.Overlap(chain), chain, o.overlap(chain))
			}
		}
		for len(o.held) > 0 {
			release()
		}
		if s := e.Stats(); s.Running+s.Waiting+s.Held+s.KVUsed != 0 {
			t.Fatalf("an idle engine holds %+v", s)
		}
		if _, ok := e.Begin(); ok {
			t.Fatal("an idle engine has a step")
		}
	})
}

func checkStep(t *rapid.T, c Config, s Step, load engine.Picoseconds) {
	if s.Batch.PrefillTokens+s.Batch.DecodeSeqs > c.Limits.MaxNumBatchedTokens {
		t.Fatalf("batch %+v is above the budget of %d", s.Batch, c.Limits.MaxNumBatchedTokens)
	}
	if s.Batch.PrefillSeqs+s.Batch.DecodeSeqs > c.Limits.MaxNumSeqs {
		t.Fatalf("batch %+v is above max-num-seqs %d", s.Batch, c.Limits.MaxNumSeqs)
	}
	want := load
	if !s.Batch.Empty() {
		want += linear{}.StepTime(s.Batch)
	}
	if s.Duration != want || s.Load != load {
		t.Fatalf("batch %+v takes %v, %v of it loading; want %v, %v", s.Batch, s.Duration, s.Load, want, load)
	}
}

// compareStats holds the stats against the oracle's and both against what
// must hold of any.
func compareStats(t *rapid.T, c Config, got, want Stats) {
	if got != want {
		t.Fatalf("stats %+v, want %+v", got, want)
	}
	if got.KVUsed < 0 || got.KVCached < 0 || got.KVUsed+got.KVCached > got.KVTotal ||
		got.DRAMCached > c.DRAM.Blocks || got.NVMeCached > c.NVMe.Blocks ||
		got.PrefixHits > got.PrefixQueries || got.PrefixHitsDRAM+got.PrefixHitsNVMe > got.PrefixHits {
		t.Fatalf("impossible stats %+v", got)
	}
}

// endAndCompare ends the step in both and returns who got a token.
func endAndCompare(t *rapid.T, e *Engine, o *oracle, canceled uint64) []uint64 {
	events := slices.Clone(e.End())
	var tokens []uint64
	for _, ev := range events {
		if ev.Last {
			tokens = append(tokens, ev.ID)
		}
	}
	tokens = slices.AppendSeq(tokens, e.Decoding())
	wantTokens, wantEvents := o.end()
	if canceled != 0 {
		o.cancel(canceled)
		wantTokens = slices.DeleteFunc(wantTokens, func(id uint64) bool { return id == canceled })
		tokens = slices.DeleteFunc(tokens, func(id uint64) bool { return id == canceled })
	}
	slices.Sort(tokens)
	slices.Sort(wantTokens)
	if !slices.Equal(tokens, wantTokens) {
		t.Fatalf("tokens for %v, want %v", tokens, wantTokens)
	}
	byID := func(a, b Event) int { return cmp.Compare(a.ID, b.ID) }
	slices.SortFunc(events, byID)
	slices.SortFunc(wantEvents, byID)
	if !slices.Equal(events, wantEvents) {
		t.Fatalf("events %v, want %v", events, wantEvents)
	}
	return tokens
}
