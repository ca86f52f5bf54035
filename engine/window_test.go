package engine

import "testing"

// Longest is the largest number of blocks that fits, by trying each.
func TestLongestWithinAWindow(t *testing.T) {
	for _, w := range []KVWindow{{}, {Blocks: 3, Share: 1}, {Blocks: 5, Share: 6}, {Blocks: 7, Share: 0.4}} {
		for blocks := range 60 {
			want := 0
			for n := range blocks + 1 {
				if n+w.Extra(n) <= blocks {
					want = n
				}
			}
			if got := w.Longest(blocks); got != want {
				t.Errorf("%+v: %d of %d blocks, want %d", w, got, blocks, want)
			}
		}
	}
}

// The capacity in tokens grows with the length of sequences, and that many fit.
func TestWindowedKV(t *testing.T) {
	c := WindowedKV{Blocks: 60_000, BlockSize: 16, Window: KVWindow{Blocks: 65, Share: 6}}
	if !c.Known() || (WindowedKV{Blocks: 10}).Known() {
		t.Error("a cache without windows has one capacity")
	}
	last := 0
	for tokens := 16; tokens < 100_000; tokens *= 2 {
		n, got := c.Sequences(tokens), c.TokensAt(float64(tokens))
		blocks := tokens / c.BlockSize
		if each := blocks + c.Window.Extra(blocks); n*each > c.Blocks || (n+1)*each <= c.Blocks {
			t.Errorf("%d sequences of %d tokens", n, tokens)
		}
		if got < last || got/tokens != n {
			t.Errorf("%d tokens in sequences of %d, %d in shorter ones; %d fit", got, tokens, last, n)
		}
		last = got
	}
}

// A state takes its blocks from the first token on, and no more later; the longest
// sequence is what is left, and blocks for tokens alone are all of them.
func TestKVState(t *testing.T) {
	w := KVState(6.5)
	for _, blocks := range []int{1, 2, 100} {
		if got := w.Extra(blocks); got != 7 {
			t.Errorf("a sequence of %d blocks takes %d for its state, want 7", blocks, got)
		}
	}
	if w.Extra(0) != 0 || w.Longest(100) != 93 || w.All(100) != 100 || (KVWindow{Blocks: 3, Share: 3}).All(100) != 25 || (KVWindow{}).All(100) != 100 {
		t.Errorf("%d, %d, %d", w.Extra(0), w.Longest(100), w.All(100))
	}
	if b := (KVBytes{PerToken: 10, State: 500}); b.Of(1) != 510 || b.Of(100) != 1500 {
		t.Errorf("%.0f and %.0f bytes", b.Of(1), b.Of(100))
	}
}
