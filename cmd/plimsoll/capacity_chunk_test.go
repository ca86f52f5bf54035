package main

import (
	"maps"
	"testing"

	"plimsoll/engine"
)

// A plan tells each engine its chunk in that engine's own words.
func TestChunkInEachEnginesWords(t *testing.T) {
	got := chunkFlags(engine.TP(2), 512)
	if want := map[engine.Kind]string{engine.KindVLLM: "--max-num-batched-tokens 512", engine.KindSGLang: "--chunked-prefill-size 512", engine.KindTRTLLM: "--max_num_tokens 512"}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
