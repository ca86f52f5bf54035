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
