package trace_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/engine/enginetest"
	"plimsoll/profile/trace"
)

// common is how many ids two chains share from their heads.
func common(a, b []uint64) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

func TestReblockingKeepsSharing(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		coarse := rapid.SampledFrom([]int{16, 24, 512}).Draw(t, "coarse")
		fine := rapid.SampledFrom([]int{1, 16, 17, 512, 700}).Draw(t, "fine")
		prompt := func(name string) trace.Arrival {
			ids := rapid.SliceOfN(rapid.Uint64Range(0, 1), 1, 6).Draw(t, name)
			short := rapid.IntRange(0, coarse-1).Draw(t, "short") // of the last block
			return trace.Arrival{ISL: len(ids)*coarse - short, OSL: 1, Blocks: ids, BlockTokens: coarse}
		}
		a, b := prompt("a"), prompt("b")
		fa, fb := trace.Reblock(a, fine), trace.Reblock(b, fine)
		if len(fa) != a.ISL/fine {
			t.Fatalf("%d tokens make %d full blocks of %d", a.ISL, len(fa), fine)
		}
		shared := common(a.Blocks, b.Blocks)
		tokens := min(shared*coarse, a.ISL, b.ISL)
		if got, least := common(fa, fb), tokens/fine; got < least {
			t.Fatalf("%d tokens shared, %d of %d blocks", tokens, got, least)
		}
		// A block that reaches into what differs is another one, and so are all after it.
		if got := common(fa, fb); shared < min(len(a.Blocks), len(b.Blocks)) && got*fine > shared*coarse {
			t.Fatalf("%d blocks of %d shared, where %d tokens are", got, fine, shared*coarse)
		}
		for i := common(fa, fb); i < min(len(fa), len(fb)); i++ {
			if fa[i] == fb[i] {
				t.Fatal("chains that parted meet again")
			}
		}
	})
}

func TestReblockOfUnknownTokens(t *testing.T) {
	a := trace.Arrival{ISL: 600, Blocks: []uint64{1}, BlockTokens: 512}
	if got := len(trace.Reblock(a, 16)); got != 32 {
		t.Errorf("512 of 600 tokens are known: %d blocks of 16, want 32", got)
	}
	if got := trace.Reblock(trace.Arrival{ISL: 600}, 16); got != nil {
		t.Errorf("an arrival without blocks has %v", got)
	}
	all := collect(t, trace.Reblocked(trace.Of(a, trace.Arrival{ISL: 9}), 16))
	if all[0].BlockTokens != 16 || len(all[0].Blocks) != 32 || all[1].BlockTokens != 0 || all[1].Blocks != nil {
		t.Errorf("got %v", all)
	}
	defer func() {
		if recover() == nil {
			t.Error("blocks of 0 tokens: no panic")
		}
	}()
	trace.Reblock(a, 0)
}

func TestPrefixesAreShared(t *testing.T) {
	const n = 20_000
	s := poisson(1, n, 11)
	s.ISL = uniform{10, 400}
	s.Prefixes = trace.Prefixes{Groups: 4, Tokens: 100, BlockTokens: 16, Share: 0.75, Zipf: 1}
	heads := map[uint64]int{}
	tails := map[uint64]bool{}
	long := 0
	for _, a := range generate(t, s) {
		if len(a.Blocks) != a.ISL/16 || a.BlockTokens != 16 {
			t.Fatalf("%d tokens in %d blocks of %d", a.ISL, len(a.Blocks), a.BlockTokens)
		}
		if len(a.Blocks) < 7 {
			continue
		}
		long++
		heads[a.Blocks[5]]++              // the last block within 100 tokens
		for _, id := range a.Blocks[6:] { // the block across the prefix's end is unique too
			if tails[id] {
				t.Fatal("a block after the prefix occurs twice")
			}
			tails[id] = true
		}
	}
	var groups []int
	for _, c := range heads {
		if c > 1 {
			groups = append(groups, c)
		}
	}
	slices.Sort(groups)
	slices.Reverse(groups)
	if len(groups) != 4 {
		t.Fatalf("%d groups: %v", len(groups), groups)
	}
	for g, c := range groups { // weights 1, 1/2, 1/3, 1/4 of 25/12
		want := 0.75 / float64(g+1) * 12 / 25
		if got := float64(c) / float64(long); math.Abs(got-want) > 5*math.Sqrt(want/float64(long)) {
			t.Errorf("group %d has %v of the prompts, want %v", g, got, want)
		}
	}
}

// A prompt shorter than its group's prefix is the head of it.
func TestShortPromptsAreHeadsOfThePrefix(t *testing.T) {
	s := poisson(1, 500, 2)
	s.ISL = uniform{1, 200}
	s.Prefixes = trace.Prefixes{Groups: 1, Tokens: 1000, BlockTokens: 8, Share: 1}
	var longest []uint64
	all := generate(t, s)
	for _, a := range all {
		if len(a.Blocks) > len(longest) {
			longest = a.Blocks
		}
	}
	for _, a := range all {
		if common(a.Blocks, longest) != len(a.Blocks) {
			t.Fatalf("%d tokens are not the head of the prefix", a.ISL)
		}
	}
}

func TestCopiesShareNoBlocks(t *testing.T) {
	_, all := open(t, "testdata/mooncake.jsonl", trace.Options{})
	ids := func(tr trace.Trace) map[uint64]bool {
		seen := map[uint64]bool{}
		for _, a := range collect(t, tr) {
			for _, id := range a.Blocks {
				seen[id] = true
			}
		}
		return seen
	}
	one := trace.Of(all...)
	three := ids(must[trace.Trace](t)(trace.Superpose(one, 3, time.Second, 1)))
	if want := 3 * len(ids(one)); len(three) != want {
		t.Errorf("%d blocks of a trace and two copies of it, want %d", len(three), want)
	}
}
