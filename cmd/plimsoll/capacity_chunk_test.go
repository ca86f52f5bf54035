package main

import (
	"maps"
	"strings"
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

// Where the default has longer gaps between tokens, the answer says so.
func TestChunkWordsGaps(t *testing.T) {
	p := planChunk{Tokens: 1024, Default: 8192, AtDefault: &defaultChunk{RPS: 122, GapP99Ms: 240}}
	if words, want := p.words(25), "it holds ≈ 122 requests/s, with gaps between tokens of 240 instead of 25 ms at p99"; !strings.HasSuffix(words, want) {
		t.Errorf("%q, want %q at its end", words, want)
	}
	if words := p.words(240); strings.Contains(words, "gaps") {
		t.Errorf("gaps as long: %q", words)
	}
}
