package build

import (
	"slices"
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/profile"
	"plimsoll/profile/store"
)

// Where nobody asked for a chunk it is the kind's own, and said to be assumed.
func TestChunkOfAggregatedProfile(t *testing.T) {
	for _, c := range []struct {
		kind    engine.Kind
		version string
		memory  int64 // of the GPU, GiB; 0 = not known
		asked   int
		dp      int
		want    int
		assumed bool
	}{
		{engine.KindVLLM, "", 0, 1024, 1, 1024, false},
		{engine.KindVLLM, "", 0, 1024, 2, 2048, false},
		{engine.KindVLLM, "", 0, 0, 1, 8192, true},
		{engine.KindLlamaCpp, "", 0, 0, 1, 2048, true},
		{engine.KindVLLM, "0.28.0", 180, 0, 2, 32768, true},
		{engine.KindVLLM, "0.27.0", 180, 0, 2, 16384, true},
		{engine.KindSGLang, "0.5.5", 180, 0, 2, 16384, true},
	} {
		p := engine.Parallelism{TP: 2, DP: c.dp}
		pick := store.NewPick(engine.Config{Parallelism: p})
		s := Profile{gpu: catalog.GPU{MemoryBytes: c.memory << 30}, Recommendation: store.Recommendation{Engine: store.EngineName{Version: c.version}, Mode: store.Aggregated, Aggregated: &pick}, run: store.Run{Points: []profile.Point{
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
