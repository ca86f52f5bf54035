package sim

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
)

// fixed takes the same time for every step.
type fixed engine.Picoseconds

func (f fixed) StepTime(engine.Batch) engine.Picoseconds { return engine.Picoseconds(f) }

func mustNew(t testing.TB, c Config, st StepTimer) *Engine {
	t.Helper()
	e, err := New(c, st)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func mustAdd(t testing.TB, e *Engine, rs ...Request) {
	t.Helper()
	for _, r := range rs {
		if err := e.Add(r); err != nil {
			t.Fatal(err)
		}
	}
}

// stepOf makes one step, which there must be.
func stepOf(t testing.TB, e *Engine) (engine.Batch, []Event) {
	t.Helper()
	s, ok := e.Begin()
	if !ok {
		t.Fatal("the engine has nothing to do")
	}
	return s.Batch, e.End()
}

// life is what a request went through, in virtual time.
type life struct {
	first, last engine.Picoseconds
	cached      int
}

// runAll makes steps until the engine is idle.
func runAll(e *Engine) (lives map[uint64]life, elapsed engine.Picoseconds) {
	lives = map[uint64]life{}
	for {
		s, ok := e.Begin()
		if !ok {
			return lives, elapsed
		}
		elapsed += s.Duration
		for _, ev := range e.End() {
			l := lives[ev.ID]
			if ev.First {
				l.first = elapsed
			}
			if ev.Last {
				l.last = elapsed
			}
			l.cached = ev.CachedTokens
			lives[ev.ID] = l
		}
	}
}

// prompt is n tokens of which the first shared are the same for every family.
func prompt(n, shared int, family uint32) []uint32 {
	p := make([]uint32, n)
	for i := shared; i < n; i++ {
		p[i] = family
	}
	return p
}

func request(id uint64, tokens []uint32, output int) Request {
	return Request{ID: id, PromptTokens: len(tokens), Prefix: BlockHashes(tokens, 16), OutputTokens: output}
}

func TestChunkedPrefill(t *testing.T) {
	e := mustNew(t, Config{KVBlocks: 100, Limits: engine.Limits{MaxNumSeqs: 4, MaxNumBatchedTokens: 100}}, fixed(1))
	mustAdd(t, e, Request{ID: 1, PromptTokens: 10, OutputTokens: 5}, Request{ID: 2, PromptTokens: 150, OutputTokens: 2}, Request{ID: 3, PromptTokens: 50, OutputTokens: 1})
	chunk := func(decodes int, context int, chunks ...int) engine.Batch {
		b := engine.Batch{DecodeSeqs: decodes, DecodeContext: int64(context)}
		for i := 0; i < len(chunks); i += 2 {
			b.AddChunk(chunks[i], chunks[i+1])
		}
		return b
	}
	for i, want := range []engine.Batch{
		chunk(0, 0, 10, 0, 90, 0),   // the first prompt whole, the second cut
		chunk(1, 11, 60, 90, 39, 0), // decode first, then the rest, then the third
		chunk(2, 12+151, 11, 39),    // everyone decodes but the third
		chunk(1, 13), chunk(1, 14),  // the second got two tokens, the third its only one
	} {
		if got, _ := stepOf(t, e); got != want {
			t.Errorf("step %d: %+v, want %+v", i+1, got, want)
		}
	}
	if _, ok := e.Begin(); ok {
		t.Error("the engine should be idle")
	}
}

func TestPrefixReuse(t *testing.T) {
	for _, c := range []struct {
		name   string
		on     bool
		second []uint32
		cached int
	}{
		{"the same prompt: all full blocks", true, prompt(100, 0, 1), 96},
		{"a longer prompt", true, append(prompt(100, 0, 1), 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1), 96},
		{"a common head of 40: two blocks", true, prompt(100, 40, 2), 32},
		{"nothing in common", true, prompt(100, 0, 2), 0},
		{"switched off", false, prompt(100, 0, 1), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			first := prompt(100, 0, 1)
			if strings.HasPrefix(c.name, "a common head") {
				first = prompt(100, 40, 1)
			}
			e := mustNew(t, Config{KVBlocks: 100, PrefixCaching: c.on}, fixed(1))
			mustAdd(t, e, request(1, first, 3))
			runAll(e)
			mustAdd(t, e, request(2, c.second, 3))
			b, _ := stepOf(t, e)
			if want := len(c.second) - c.cached; b.PrefillTokens != want || b.PrefillPast != int64(c.cached) {
				t.Errorf("computed %d after %d, want %d after %d", b.PrefillTokens, b.PrefillPast, want, c.cached)
			}
			lives, _ := runAll(e)
			if lives[2].cached != c.cached {
				t.Errorf("cached tokens %d, want %d", lives[2].cached, c.cached)
			}
			s := e.Stats()
			queries := int64(100 + len(c.second))
			if !c.on {
				queries = 0
			}
			if s.PrefixHits != int64(c.cached) || s.PrefixQueries != queries {
				t.Errorf("hits %d of %d, want %d of %d", s.PrefixHits, s.PrefixQueries, c.cached, queries)
			}
		})
	}
}

// A prompt that fills its blocks exactly must not be served whole from the cache.
func TestLastPromptTokenIsAlwaysComputed(t *testing.T) {
	e := mustNew(t, Config{KVBlocks: 100, PrefixCaching: true}, fixed(1))
	mustAdd(t, e, request(1, prompt(64, 0, 1), 1))
	runAll(e)
	mustAdd(t, e, request(2, prompt(64, 0, 1), 1))
	if b, _ := stepOf(t, e); b.PrefillTokens != 16 {
		t.Errorf("computed %d tokens of a cached prompt, want its last block of 16", b.PrefillTokens)
	}
}

func TestLeastRecentlyUsedIsEvicted(t *testing.T) {
	// 10 blocks: two prompts of 4 blocks and a token stay cached; a third of 5 evicts the older.
	e := mustNew(t, Config{KVBlocks: 10, PrefixCaching: true}, fixed(1))
	for _, id := range []uint64{1, 2, 1, 3} { // the first prompt is used again
		mustAdd(t, e, request(id, prompt(65, 0, uint32(id)), 1))
		runAll(e)
	}
	for _, c := range []struct {
		id     uint64
		cached int
	}{{1, 64}, {3, 64}, {2, 16}} { // of the second prompt, only the tail had to go
		mustAdd(t, e, request(c.id, prompt(65, 0, uint32(c.id)), 1))
		lives, _ := runAll(e)
		if got := lives[c.id].cached; got != c.cached {
			t.Errorf("prompt %d: %d tokens cached, want %d", c.id, got, c.cached)
		}
	}
}

func TestPreemptionRecomputesTheLatestArrival(t *testing.T) {
	// Each of two requests needs 3 blocks in the end, and there are 5.
	e := mustNew(t, Config{KVBlocks: 5}, fixed(engine.Millisecond))
	mustAdd(t, e, Request{ID: 1, PromptTokens: 20, OutputTokens: 28}, Request{ID: 2, PromptTokens: 20, OutputTokens: 28})
	var recomputed []int
	tokens := 0
	for {
		s, ok := e.Begin()
		if !ok {
			break
		}
		if tokens > 0 && s.Batch.PrefillTokens > 0 {
			recomputed = append(recomputed, s.Batch.PrefillTokens)
		}
		for range e.End() {
			tokens++
		}
	}
	// Prompt and 13 tokens fill 2 blocks and begin a third: the second lost its
	// place with 33 tokens known, and came back when the first was done.
	if want := []int{33}; !slices.Equal(recomputed, want) {
		t.Errorf("recomputed %v tokens, want %v", recomputed, want)
	}
	if s := e.Stats(); s.Preemptions != 1 || s.OutputTokens != 56 || s.KVUsed != 0 {
		t.Errorf("stats %+v: want 1 preemption, 56 tokens, no blocks", s)
	}
}

func TestCancelFreesThePlaceAtOnce(t *testing.T) {
	e := mustNew(t, Config{KVBlocks: 10, Limits: engine.Limits{MaxNumSeqs: 1}}, fixed(1))
	mustAdd(t, e, Request{ID: 1, PromptTokens: 16, OutputTokens: 100}, Request{ID: 2, PromptTokens: 16, OutputTokens: 1})
	stepOf(t, e)
	if !e.Cancel(1) || e.Cancel(1) || e.Cancel(99) {
		t.Error("Cancel must say whether the engine held the request")
	}
	if s := e.Stats(); s.Running != 0 || s.Waiting != 1 || s.KVUsed != 0 {
		t.Errorf("after the cancelation: %+v", s)
	}
	if _, ev := stepOf(t, e); len(ev) != 1 || ev[0].ID != 2 {
		t.Errorf("events %v, want the second request's", ev)
	}
}

func TestCancelWithinAStepHoldsFromItsEnd(t *testing.T) {
	e := mustNew(t, Config{KVBlocks: 10}, fixed(1))
	mustAdd(t, e, Request{ID: 1, PromptTokens: 16, OutputTokens: 100})
	if _, ok := e.Begin(); !ok || !e.Cancel(1) {
		t.Fatal("no step, or no request")
	}
	e.End()
	if s := e.Stats(); s.Running != 0 || s.KVUsed != 0 {
		t.Errorf("after the step: %+v", s)
	}
}

func TestWarmUpPromptsTakeNoTime(t *testing.T) {
	e := mustNew(t, Config{KVBlocks: 2000, PrefixCaching: true, Limits: engine.Limits{MaxNumSeqs: 2, MaxNumBatchedTokens: 64}}, fixed(engine.Second))
	for id := range uint64(5) {
		r := request(id, prompt(3000, 0, uint32(id)), 1)
		r.WarmUp = true
		mustAdd(t, e, r)
	}
	lives, elapsed := runAll(e)
	if elapsed != 0 || len(lives) != 5 {
		t.Errorf("5 warm-ups: %d done in %v, want 5 in no time", len(lives), elapsed)
	}
	mustAdd(t, e, request(9, prompt(3000, 0, 3), 1))
	if b, _ := stepOf(t, e); b.PrefillTokens != 3000%16 {
		t.Errorf("computed %d tokens after the warm-up, want %d", b.PrefillTokens, 3000%16)
	}
	r := request(10, prompt(16, 0, 9), 3)
	r.WarmUp = true
	mustAdd(t, e, r)
	if _, elapsed := runAll(e); elapsed != 2*engine.Second {
		t.Errorf("a warm-up of 3 tokens took %v, want 2 s for the tokens after the first", elapsed)
	}
}

func TestRoles(t *testing.T) {
	timer := linear{}
	r := Request{ID: 1, PromptTokens: 1000, OutputTokens: 10}
	for _, c := range []struct {
		role             engine.Role
		prefill, decodes int // tokens computed, tokens decoded
	}{
		{engine.RoleAggregated, 1000, 9},
		{engine.RolePrefill, 1000, 0},
		{engine.RoleDecode, 0, 10},
	} {
		t.Run(string(c.role), func(t *testing.T) {
			e := mustNew(t, Config{Role: c.role, KVBlocks: 100}, timer)
			mustAdd(t, e, r)
			var sum engine.Batch
			for {
				s, ok := e.Begin()
				if !ok {
					break
				}
				sum.PrefillTokens += s.Batch.PrefillTokens
				sum.DecodeSeqs += s.Batch.DecodeSeqs
				sum.DecodeContext += s.Batch.DecodeContext
				e.End()
			}
			if sum.PrefillTokens != c.prefill || sum.DecodeSeqs != c.decodes {
				t.Errorf("computed %d, decoded %d; want %d, %d", sum.PrefillTokens, sum.DecodeSeqs, c.prefill, c.decodes)
			}
			if c.role == engine.RoleAggregated {
				// The mean context of a decoding request is ISL + OSL/2.
				if mean := float64(sum.DecodeContext) / float64(sum.DecodeSeqs); mean != 1005 {
					t.Errorf("mean context %v, want 1005", mean)
				}
			}
		})
	}
}

func TestADecodeEngineRecomputesAfterPreemption(t *testing.T) {
	e := mustNew(t, Config{Role: engine.RoleDecode, KVBlocks: 5}, fixed(1))
	mustAdd(t, e, Request{ID: 1, PromptTokens: 20, OutputTokens: 28}, Request{ID: 2, PromptTokens: 20, OutputTokens: 28})
	prefilled := 0
	for {
		s, ok := e.Begin()
		if !ok {
			break
		}
		prefilled += s.Batch.PrefillTokens
		e.End()
	}
	if s := e.Stats(); s.Preemptions != 1 || prefilled != 33 || s.OutputTokens != 56 {
		t.Errorf("stats %+v, %d tokens recomputed: want 1 preemption and 33", s, prefilled)
	}
}

func TestTooLong(t *testing.T) {
	for _, c := range []struct {
		name           string
		role           engine.Role
		blocks, model  int
		prompt, output int
		limit          int // 0 = accepted
	}{
		{"fills the model", engine.RoleAggregated, 100, 64, 60, 4, 0},
		{"beyond the model", engine.RoleAggregated, 100, 64, 60, 5, 64},
		{"beyond the cache", engine.RoleAggregated, 4, 1000, 60, 5, 64},
		{"no overflow", engine.RoleAggregated, 4, 1000, math.MaxInt, math.MaxInt, 64},
		{"a prefill engine produces one", engine.RolePrefill, 100, 64, 60, 1000, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := mustNew(t, Config{Role: c.role, KVBlocks: c.blocks, Limits: engine.Limits{MaxModelLen: c.model}}, fixed(1))
			err := e.Add(Request{ID: 1, PromptTokens: c.prompt, OutputTokens: c.output})
			var tooLong *TooLongError
			switch {
			case c.limit == 0 && err != nil:
				t.Error(err)
			case c.limit != 0 && (!errors.As(err, &tooLong) || tooLong.Limit != c.limit):
				t.Errorf("error %v, want a TooLongError with limit %d", err, c.limit)
			}
		})
	}
}

func TestBadRequests(t *testing.T) {
	e := mustNew(t, Config{KVBlocks: 10}, fixed(1))
	mustAdd(t, e, Request{ID: 1, PromptTokens: 1, OutputTokens: 1})
	for _, c := range []struct {
		r    Request
		want string
	}{
		{Request{ID: 1, PromptTokens: 1, OutputTokens: 1}, "in the engine already"},
		{Request{ID: 2, OutputTokens: 1}, "prompt of 0 tokens"},
		{Request{ID: 2, PromptTokens: 1}, "output of 0 tokens"},
		{Request{ID: 2, PromptTokens: 31, OutputTokens: 1, Prefix: make([]uint64, 2)}, "full blocks only"},
	} {
		if err := e.Add(c.r); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Add(%+v) = %v, want %q", c.r, err, c.want)
		}
	}
}

func TestBadConfigs(t *testing.T) {
	for _, c := range []struct {
		c    Config
		want string
	}{
		{Config{}, "kv cache of 0 blocks"},
		{Config{KVBlocks: 1, Role: "both"}, `role "both"`},
		{Config{KVBlocks: 1, Noise: math.NaN()}, "noise NaN"},
		{Config{KVBlocks: 1, Noise: -0.1}, "noise -0.1"},
		{Config{KVBlocks: 1, Limits: engine.Limits{MaxNumSeqs: -1}}, "max-num-seqs -1"},
		{Config{KVBlocks: 1, Limits: engine.Limits{BlockSize: -1}}, "block size -1"},
		{Config{KVBlocks: 1, Limits: engine.Limits{BlockSize: 1}}, "max-model-len 1"},
		{Config{KVBlocks: 1, Limits: engine.Limits{MaxNumSeqs: 8, MaxNumBatchedTokens: 4}}, "below max-num-seqs 8"},
	} {
		if _, err := New(c.c, fixed(1)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("New(%+v) = %v, want %q", c.c, err, c.want)
		}
	}
	if _, err := New(Config{KVBlocks: 1}, nil); err == nil {
		t.Error("no timer, no error")
	}
}

func TestNoiseIsSeededAndKeepsTheMean(t *testing.T) {
	const n = 20_000
	run := func(seed uint64) (mean engine.Picoseconds, all []engine.Picoseconds) {
		e := mustNew(t, Config{KVBlocks: n, Noise: 0.1, Seed: seed}, fixed(10*engine.Millisecond))
		mustAdd(t, e, Request{ID: 1, PromptTokens: 1, OutputTokens: n})
		for {
			s, ok := e.Begin()
			if !ok {
				return mean / n, all
			}
			mean += s.Duration
			all = append(all, s.Duration)
			e.End()
		}
	}
	mean, a := run(7)
	_, b := run(7)
	_, other := run(8)
	if !slices.Equal(a, b) || slices.Equal(a, other) {
		t.Error("the seed must decide the jitter, and nothing else")
	}
	// Standard error of the mean: 10 % / √20000 = 0.07 %; 5 of them.
	if off := (mean - 10*engine.Millisecond).Duration().Abs(); off > 35*time.Microsecond {
		t.Errorf("mean step %v, want 10 ms", mean)
	}
	var squares float64
	for _, d := range a {
		squares += math.Pow(math.Log(d.Milliseconds()/10)+0.005, 2) // about the mean of log: −σ²/2
	}
	if sd := math.Sqrt(squares / n); math.Abs(sd-0.1) > 0.005 {
		t.Errorf("jitter %.4f, want 0.1", sd)
	}
}

func TestBlockHashes(t *testing.T) {
	a, b := prompt(100, 40, 1), prompt(100, 40, 2)
	ha, hb := BlockHashes(a, 16), BlockHashes(b, 16)
	if len(ha) != 6 || !slices.Equal(ha[:2], hb[:2]) {
		t.Errorf("chains %x and %x should share 2 of 6", ha, hb)
	}
	for i := 2; i < 6; i++ {
		if ha[i] == hb[i] {
			t.Errorf("block %d: equal hashes after different tokens", i)
		}
	}
	if BlockHashes(a[:15], 16) != nil {
		t.Error("a part of a block has no hash")
	}
}

// Where layers keep a state, prompts that begin alike for 2,500 of 4,000 tokens share
// nothing, or all whole blocks from the third on; one that goes on from all of another
// shares that one's.
func TestWhereStatesAreKept(t *testing.T) {
	const block = 1056
	for _, c := range []struct {
		states States
		prefix int // tokens of a first prompt that others have
		cached []int
	}{
		{"", 2500, []int{0, 2112, 2112}},
		{StatesAtEnds, 2500, []int{0, 0, 0}},
		{StatesAtForks, 2500, []int{0, 0, 2112}},
		{StatesAtEnds, 4000, []int{0, 3168, 3168}},
		{StatesAtForks, 4000, []int{0, 3168, 3168}},
	} {
		e := mustNew(t, Config{KVBlocks: 100, Limits: engine.Limits{BlockSize: block}, PrefixCaching: true, States: c.states}, fixed(1))
		chain := func(prompt, tokens int) (hashes []uint64) {
			for i := range tokens / block {
				id := i
				if (i+1)*block > c.prefix {
					id += 100 * prompt
				}
				hashes = append(hashes, uint64(id+1))
			}
			return hashes
		}
		for i, want := range c.cached {
			isl := 4000
			if c.prefix == isl {
				isl += 500 * i
			}
			mustAdd(t, e, Request{ID: uint64(i), PromptTokens: isl, OutputTokens: 1, Prefix: chain(i+1, isl)})
			lives, _ := runAll(e)
			if got := lives[uint64(i)].cached; got != want {
				t.Errorf("%q, %d tokens shared: prompt %d finds %d tokens, want %d", c.states, c.prefix, i+1, got, want)
			}
		}
	}
}
