package engine

import "testing"

func TestLabels(t *testing.T) {
	for _, tt := range []struct {
		p           Parallelism
		label, slug string
		gpus        int
	}{
		{Parallelism{}, "TP:1", "tp1", 1},
		{TP(4), "TP:4", "tp4", 4},
		{Parallelism{TP: 4, PP: 2}, "TP:4 PP:2", "tp4pp2", 8},
		{Parallelism{TP: 8, EP: 8}, "TEP:8", "tep8", 8},
		{Parallelism{DP: 8, EP: 8}, "DEP:8", "dep8", 8},
		{Parallelism{TP: 2, DP: 4}, "TP:2 DP:4", "tp2dp4", 8},
		{Parallelism{TP: 2, DP: 4, EP: 8}, "TP:2 DP:4 EP:8", "tp2dp4ep8", 8},
	} {
		if l, s, g := tt.p.Label(), tt.p.Slug(), tt.p.GPUs(); l != tt.label || s != tt.slug || g != tt.gpus {
			t.Errorf("%+v: %q %q on %d GPUs, want %q %q on %d", tt.p, l, s, g, tt.label, tt.slug, tt.gpus)
		}
	}
	if (Parallelism{TP: 2}).Normal() != TP(2) {
		t.Error("equal layouts do not compare equal")
	}
}

// A batch's sums are what adding up its sequences one by one gives.
func TestBatchSums(t *testing.T) {
	var b Batch
	if !b.Empty() {
		t.Error("a new batch is not empty")
	}
	b.AddChunk(3, 10)
	b.AddChunk(2, 0)
	b.AddDecode(100)
	b.AddDecode(7)
	pairs := int64(0)
	for _, c := range []struct{ n, past int }{{3, 10}, {2, 0}} {
		for i := 1; i <= c.n; i++ { // token i of a chunk attends to all before it and itself
			pairs += int64(c.past + i)
		}
	}
	want := Batch{PrefillSeqs: 2, PrefillTokens: 5, PrefillPast: 10, PrefillPairs: pairs, DecodeSeqs: 2, DecodeContext: 107}
	if b != want || b.Empty() {
		t.Errorf("got %+v, want %+v", b, want)
	}
}

func TestDTypeBytes(t *testing.T) {
	for d, want := range map[DType]float64{"": 2, BF16: 2, FP8: 1, FP4: 0.5} {
		if got := d.Bytes(); got != want {
			t.Errorf("%q: %g bytes, want %g", d, got, want)
		}
	}
}
