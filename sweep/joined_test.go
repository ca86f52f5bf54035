package sweep

import (
	"math"
	"testing"
	"time"

	"plimsoll/profile"
)

// streamPart is a window of a stream whose server says with every chunk how many
// tokens there are: so many chunks of so many tokens each, a step apart.
func streamPart(from time.Duration, before, chunks, each int, step time.Duration) profile.Request {
	r := profile.Request{
		ISL: 100, OSL: 1000, PromptTokens: 100, CachedTokens: 0, UsageSeen: true, Sent: ms, First: ms,
		Before: before, OutputTokens: before + chunks*each,
	}
	for i := range chunks {
		r.Chunks = append(r.Chunks, profile.Chunk{At: from + time.Duration(i)*step})
	}
	r.Last = r.Chunks[chunks-1].At
	return r
}

// What streams gave before a window counts once, however many windows are joined.
func TestJoinedWindowsCountTokensOnce(t *testing.T) {
	for _, each := range []int{1, 3} {
		var all Measurement
		from, given := 10*ms, 5
		for range 4 {
			m := Measurement{Window: profile.Window{From: from, To: from + 20*ms}}
			for range 2 {
				m.Requests = append(m.Requests, streamPart(from, given, 21, each, ms))
			}
			all = onward(all, m)
			from, given = from+500*ms, given+21*each+40 // something else came between
		}
		s := profile.Summarize(all.Requests, all.Window)
		if want := 2 * 1000. * float64(each); math.Abs(s.TokensPerChunk-float64(each)) > 1e-9 || math.Abs(s.TokensPerSec/want-1) > 1e-9 {
			t.Errorf("chunks of %d tokens: %g tokens a chunk, %g tokens/s, want %g", each, s.TokensPerChunk, s.TokensPerSec, want)
		}
		if want := float64(ms) / float64(each); math.Abs(float64(s.TPOT.Mean)/want-1) > 1e-5 {
			t.Errorf("chunks of %d tokens: TPOT %v, ITL %v", each, s.TPOT.Mean, s.ITL.Mean)
		}
	}
}

// What the client says of every slice, each time with another figure, is said once of
// the point: of its worst slice.
func TestJoinedSlicesWarnOnce(t *testing.T) {
	for name, join := range map[string]func(a, b Measurement) Measurement{"after": after, "onward": onward} {
		var all Measurement
		for _, share := range []float64{0.07, 0.31, 0.12} {
			all = join(all, Measurement{
				Requests: []profile.Request{streamPart(10*ms, 0, 5, 1, ms)}, Window: profile.Window{From: 10 * ms, To: 14 * ms},
				Warnings: []profile.Warning{profile.Warnf("coalesced", "%.0f %% of chunks", 100*share).By(share)},
			})
		}
		if len(all.Warnings) != 1 || all.Warnings[0].Message != "31 % of chunks" {
			t.Errorf("%s: %v", name, all.Warnings)
		}
	}
}

// What the engine counts of two loads is known where it is known of both.
func TestJoinedLoadsShareTheirCache(t *testing.T) {
	load := func(requests int, cached ...float64) Measurement {
		m := Measurement{Requests: make([]profile.Request, requests)}
		if len(cached) > 0 {
			m.Cached = &cached[0]
		}
		return m
	}
	if got := after(load(1, 0.8), load(3, 0)).Cached; got == nil || math.Abs(*got-0.2) > 1e-9 {
		t.Errorf("share %v, want 0.2", got)
	}
	if got := after(Measurement{}, load(3, 0.5)).Cached; got == nil || *got != 0.5 {
		t.Errorf("share %v of the first load, want 0.5", got)
	}
	for _, m := range []Measurement{after(load(1, 0.8), load(3)), after(load(1), load(3, 0.8))} {
		if m.Cached != nil {
			t.Errorf("share %v, and of one load it is unknown", *m.Cached)
		}
	}
}
