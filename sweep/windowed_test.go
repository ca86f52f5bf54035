package sweep

import (
	"math"
	"testing"

	"plimsoll/engine"
	"plimsoll/profile"
)

// windowed is an engine whose model has six layers with a window of 1,024 tokens for
// each without: what a sequence takes is counted apart from engine.WindowedKV.
func windowed() law {
	l := affine(1)
	l.seqs = 1024
	l.windowed = engine.WindowedKV{Blocks: 60_000, BlockSize: 16, Window: engine.KVWindow{Blocks: 65, Share: 6}}
	l.kv = l.windowed.TokensAt(3150)
	return l
}

func (l law) blocksOf(tokens float64) int {
	taken := 0
	for at := 0.0; at < tokens; at += float64(l.block) {
		taken++
		if at < float64(l.windowed.Window.Blocks*l.block) {
			taken += int(l.windowed.Window.Share)
		}
	}
	return taken
}

// Every row of a surface counted its room by the capacity at the target's length: with
// sliding windows rows of short contexts had levels that did not fit, their KV use read
// a fifth of what it was, and rows of long contexts ended before the cache was full.
func TestDefectWindowedRowsFitTheCache(t *testing.T) {
	for _, search := range []Search{Adaptive, Grid} {
		l := windowed()
		b := newLab(map[string]law{"TP:1": l})
		o := options(b, 1)
		o.Search, o.SLA.ITL, o.Candidates[0].Limits.MaxNumSeqs = search, 500*ms, l.seqs
		res, _, err := run(t, b, o, Known{})
		if err != nil {
			t.Fatal(err)
		}
		most := map[[2]int]int{}
		for _, p := range res.Points {
			if p.Phase != profile.Decode || p.Load != nil {
				continue
			}
			total := float64(l.windowed.Blocks)
			if whole := p.Asked * l.blocksOf(float64(p.ISL+p.OSL)); float64(whole) > total {
				t.Errorf("%s: %s takes %d blocks of %.0f", search, p.ID, whole, total)
			}
			use := p.InFlight * float64(l.blocksOf(p.Context)) / total
			if lost := float64(l.block) / p.Context; p.KVUsage > 1 || p.KVUsage > use*1.001 || p.KVUsage < use*(1-lost-0.001) {
				t.Errorf("%s: KV use of %s is %.3f, its blocks are %.3f", search, p.ID, p.KVUsage, use)
			}
			most[[2]int{p.ISL, p.OSL}] = max(most[[2]int{p.ISL, p.OSL}], p.Asked)
		}
		for at, n := range most {
			if room := l.windowed.Blocks / l.blocksOf(float64(at[0]+at[1])); n != min(room, l.seqs, gridTop(search)) {
				t.Errorf("%s: the row of %d + %d tokens ends at %d in flight, want %d", search, at[0], at[1], n, min(room, l.seqs))
			}
		}
		checkReadable(t, res)
	}
}

func gridTop(s Search) int {
	if s == Grid {
		return gridMost
	}
	return math.MaxInt
}

// checkReadable is what readers of a file with one max_kv_tokens need.
func checkReadable(t *testing.T, res Result) {
	t.Helper()
	s := res.DecodeSurface
	loads := map[int]bool{}
	for _, p := range res.Points {
		loads[p.Asked] = true
	}
	for _, p := range s.Samples {
		n := p.KVUsage * float64(s.MaxKVTokens) / p.Context
		if p.KVUsage > 1 || math.Abs(n-math.Round(n)) > 1e-6 || !loads[int(math.Round(n))] {
			t.Errorf("x %.3f at context %.0f of %d tokens reads as %v in flight", p.KVUsage, p.Context, s.MaxKVTokens, n)
		}
	}
	if contexts, _ := rowsOf(s); len(contexts) < 3 || contexts[0] > 400 || contexts[len(contexts)-1] < 10_000 {
		t.Errorf("rows at %v tokens", contexts)
	}
}
