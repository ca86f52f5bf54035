package sim

import (
	"testing"

	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
)

// checkBooks recounts every block from who holds it, between steps.
func checkBooks(t *rapid.T, e *Engine) {
	c := &e.cache
	refs, private := map[int32]int32{}, 0
	for s := e.running.head; s != nil; s = s.next {
		held := s.held
		if s.decoding {
			held = e.blocks(int(s.base + int64(e.step) - 1))
		}
		private += held - len(s.shared) + s.window
		for _, i := range s.shared {
			refs[i]++
		}
	}
	used := 0
	for i := range refs {
		if c.blocks[i].refs != refs[i] || c.blocks[i].level != hbm {
			t.Fatalf("block %+v is used %d times", c.blocks[i], refs[i])
		}
		used++
	}
	if private != c.private || used != c.used {
		t.Fatalf("%d private blocks and %d used ones, counted as %d and %d", private, used, c.private, c.used)
	}
	cached := [levels]int{hbm: used}
	for l := range levels {
		for i := c.blocks[l].next; i != int32(l); i = c.blocks[i].next {
			b := c.blocks[i]
			if b.refs != 0 || b.level != l || c.byHash.get(b.hash) != i || c.blocks[b.next].prev != i {
				t.Fatalf("block %d in ring %d: %+v", i, l, b)
			}
			cached[l]++
		}
	}
	if cached != c.cached || c.byHash.n != cached[hbm]+cached[dram]+cached[nvme] {
		t.Fatalf("%d blocks by level, counted as %d, %d by name", cached, c.cached, c.byHash.n)
	}
	spare := 0
	for i := c.spare; i != 0; i = c.blocks[i].next {
		spare++
	}
	if len(c.blocks) != int(levels)+c.byHash.n+spare {
		t.Fatalf("%d slots for %d blocks and %d spare ones", len(c.blocks), c.byHash.n, spare)
	}
	s := e.Stats()
	if free := s.KVTotal - s.KVUsed - s.KVCached; s.KVUsed != private+used || free < 0 {
		t.Fatalf("used %d + cached %d + free %d blocks of %d", s.KVUsed, s.KVCached, free, s.KVTotal)
	}
}

// TestNothingIsLost holds the books of requests, tokens and blocks, whatever
// the names of blocks: these are any few numbers, not the hash chains that they
// should be.
func TestNothingIsLost(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		e, err := New(drawConfig(t), linear{})
		if err != nil {
			t.Fatal(err)
		}
		c := e.Config()
		var in, out, canceled int
		var tokens int64
		name := rapid.Uint64Range(0, 12)
		pending := rapid.IntRange(1, 20).Draw(t, "requests")
		for pending > 0 || !e.Idle() {
			if pending > 0 && (e.Idle() || rapid.IntRange(0, 3).Draw(t, "arrival") == 0) {
				in++
				pending--
				r := drawRequest(t, c, uint64(in))
				for i := range r.Prefix {
					r.Prefix[i] = name.Draw(t, "name")
				}
				if err := e.Add(r); err != nil {
					t.Fatal(err)
				}
			}
			if rapid.IntRange(0, 20).Draw(t, "cancel") == 0 && e.Cancel(rapid.Uint64Range(1, uint64(in)).Draw(t, "canceled")) {
				canceled++
			}
			if run := e.Ahead(); run.Steps > 0 {
				e.Skip(run.Steps)
				tokens += run.Steps * int64(run.Seqs)
			} else if _, ok := e.Begin(); ok {
				for _, ev := range e.End() {
					if ev.Last {
						out++
						tokens++
					}
				}
				for range e.Decoding() {
					tokens++
				}
			}
			checkBooks(t, e)
			if in != out+canceled+e.Running()+e.Waiting() || e.Stats().OutputTokens != tokens {
				t.Fatalf("%d requests in, %d out, %d canceled, %d tokens; %+v", in, out, canceled, tokens, e.Stats())
			}
		}
	})
}

// Every prompt token is either computed or found in the cache where nothing is
// lost to preemption.
func TestPromptTokensAreComputedOrFound(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		c := drawConfig(t)
		c.Role = engine.RoleAggregated
		e, err := New(c, linear{})
		if err != nil {
			t.Fatal(err)
		}
		for id := range rapid.Uint64Range(1, 12).Draw(t, "requests") {
			r := drawRequest(t, e.Config(), id)
			r.WarmUp = false
			if err := e.Add(r); err != nil {
				t.Fatal(err)
			}
		}
		var computed, load int64
		for {
			s, ok := e.Begin()
			if !ok {
				break
			}
			computed += int64(s.Batch.PrefillTokens)
			load += int64(s.Load)
			e.End()
		}
		s := e.Stats()
		if s.Preemptions > 0 {
			return
		}
		if s.PromptTokens != computed+s.PrefixHits {
			t.Fatalf("%d prompt tokens, %d computed, %d found", s.PromptTokens, computed, s.PrefixHits)
		}
		size := int64(e.Config().Limits.BlockSize)
		inDRAM, inNVMe := s.PrefixHitsDRAM/size, s.PrefixHitsNVMe/size
		most := inDRAM*int64(c.DRAM.Load) + inNVMe*int64(c.NVMe.Load)
		least := most - inDRAM*int64(c.DRAM.Windowed) - inNVMe*int64(c.NVMe.Windowed)
		if load < least || load > most || inDRAM+inNVMe <= int64(c.DRAM.Window) && load != most {
			t.Fatalf("%d ps of loads, want %d to %d, and all of it within a window of %d blocks", load, least, most, c.DRAM.Window)
		}
	})
}
