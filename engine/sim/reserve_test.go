package sim

import (
	"testing"

	"plimsoll/engine"
)

// A prompt of 6 blocks comes while another request has 5 of 10 and grows. It
// starts where its first chunk fits, is preempted and starts again, or waits
// until all of it fits.
func TestReserveFullPrompt(t *testing.T) {
	for _, c := range []struct {
		name                    string
		reserve                 bool
		second                  int // its prompt tokens
		start                   int // step that it starts in first
		preemptions, recomputed int64
	}{
		// It comes and goes in turn with steps, 63 tokens each time, until the
		// other has 7 blocks, and starts a last time when that is done.
		{"starts with its first chunk", false, 96, 2, 16, 16 * 63},
		{"waits for all of its blocks", true, 96, 62, 0, 0},
		// What was free is enough for the prompt, but not for its second token.
		{"starts where they are just enough", true, 80, 2, 1, 80},
	} {
		e := mustNew(t, Config{
			KVBlocks: 10, ReserveFullPrompt: c.reserve,
			Limits: engine.Limits{MaxNumSeqs: 4, MaxNumBatchedTokens: 64},
		}, fixed(1))
		mustAdd(t, e, Request{ID: 1, PromptTokens: 64, OutputTokens: 61})
		stepOf(t, e)
		mustAdd(t, e, Request{ID: 2, PromptTokens: c.second, OutputTokens: 2})
		start := 0
		for step := 2; !e.Idle(); step++ {
			if b, _ := stepOf(t, e); b.PrefillTokens > 0 && start == 0 {
				start = step
			}
		}
		if s := e.Stats(); start != c.start || s.Preemptions != c.preemptions || s.Recomputed != c.recomputed {
			t.Errorf("%s: in step %d, %d preemptions, %d tokens computed again; want %d, %d, %d",
				c.name, start, s.Preemptions, s.Recomputed, c.start, c.preemptions, c.recomputed)
		}
	}
}
