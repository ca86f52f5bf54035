package engine

import (
	"slices"
	"testing"
)

func TestChunks(t *testing.T) {
	for _, c := range []struct{ isl, cached, most, chunks int }{
		{1, 0, 1, 1}, {10, 0, 10, 1}, {10, 0, 4, 3}, {10, 3, 4, 2}, {10, 10, 4, 0}, {0, 0, 4, 0},
	} {
		got := slices.Collect(Chunks(c.isl, c.cached, c.most))
		tokens, pairs := 0, int64(0)
		for i, b := range got {
			if b.PrefillSeqs != 1 || b.PrefillPast != int64(c.cached+tokens) || b.PrefillTokens > c.most || b.PrefillTokens < 1 {
				t.Errorf("%+v: chunk %d is %+v", c, i, b)
			}
			tokens, pairs = tokens+b.PrefillTokens, pairs+b.PrefillPairs
		}
		// However it is cut, each token attends to itself and to all before it.
		var want int64
		for i := c.cached; i < c.isl; i++ {
			want += int64(i) + 1
		}
		if len(got) != c.chunks || tokens != c.isl-c.cached || pairs != want {
			t.Errorf("%+v: %d chunks of %d tokens and %d pairs, want %d pairs", c, len(got), tokens, pairs, want)
		}
	}
}
