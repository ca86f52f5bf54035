package build

import (
	"slices"
	"testing"

	"plimsoll/engine"
	"plimsoll/profile"
	"plimsoll/profile/store"
)

// Where nobody asked for a chunk it is the kind's own, and said to be assumed.
func TestChunkOfAggregatedProfile(t *testing.T) {
	for _, c := range []struct {
		kind    engine.Kind
		asked   int
		dp      int
		want    int
		assumed bool
	}{
		{engine.KindVLLM, 1024, 1, 1024, false}, {engine.KindVLLM, 1024, 2, 2048, false}, {engine.KindVLLM, 0, 1, 8192, true}, {engine.KindLlamaCpp, 0, 1, 2048, true},
	} {
		p := engine.Parallelism{TP: 2, DP: c.dp}
		pick := store.NewPick(engine.Config{Parallelism: p})
		s := Profile{Recommendation: store.Recommendation{Mode: store.Aggregated, Aggregated: &pick}, run: store.Run{Points: []profile.Point{
			{Phase: profile.Aggregated, Config: engine.Config{Kind: c.kind, Parallelism: engine.TP(1), Limits: engine.Limits{MaxNumBatchedTokens: 64}}},
			{Phase: profile.Aggregated, Config: engine.Config{Kind: c.kind, Parallelism: p, Limits: engine.Limits{MaxNumBatchedTokens: c.asked}}},
		}}}
		got, assumed := s.Chunk()
		said := slices.ContainsFunc(s.Assumed(), func(w profile.Warning) bool { return w.Code == "chunk_assumed" })
		if got != c.want || assumed != c.assumed || said != c.assumed {
			t.Errorf("%+v: chunk %d, assumed %v, said %v", c, got, assumed, said)
		}
	}
}
