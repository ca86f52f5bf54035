package fleet

import (
	"testing"

	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
)

// A prompt whose layers keep only a window moves in no more time than one that they keep
// whole, in as much where it is within the window, and a longer one in no less.
func TestWindowedTransfer(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		whole := Transfer{KV: engine.KVBytes{PerToken: rapid.Float64Range(1, 1e6).Draw(t, "bytes per token")}, BytesPerSecond: rapid.Float64Range(1e8, 1e12).Draw(t, "bytes per second")}
		part := whole
		part.KV.Windowed = whole.KV.PerToken * rapid.Float64Range(0.01, 1).Draw(t, "share of the layers")
		part.KV.Window = rapid.IntRange(1, 10_000).Draw(t, "window")
		tokens := rapid.IntRange(1, 100_000).Draw(t, "tokens")
		got, most := part.Span(tokens), whole.Span(tokens)
		if got > most || tokens <= part.KV.Window && got != most {
			t.Errorf("%d tokens, %+v: %v, %v without a window", tokens, part.KV, got, most)
		}
		if next := part.Span(tokens + 1); next < got {
			t.Errorf("%+v: %v for %d tokens, %v for one more", part.KV, got, tokens, next)
		}
	})
}
