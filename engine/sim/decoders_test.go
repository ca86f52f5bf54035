package sim

import (
	"testing"

	"plimsoll/engine/enginetest"

	"pgregory.net/rapid"
)

// TestDecodersKnowTheirNextLast holds the heap against a look at everyone.
func TestDecodersKnowTheirNextLast(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		d := decoders{growing: make([]int, 4)}
		var in []*sequence
		last := map[*sequence]uint64{}
		for i := range rapid.IntRange(1, 100).Draw(t, "operations") {
			step := uint64(i)
			if len(in) == 0 || rapid.IntRange(0, 2).Draw(t, "join") > 0 {
				s := &sequence{Request: Request{PromptTokens: 5, OutputTokens: rapid.IntRange(200, 240).Draw(t, "output")}, target: 5, order: step}
				d.join(s, step)
				in = append(in, s)
				last[s] = step + uint64(s.OutputTokens) - 1
			} else {
				k := rapid.IntRange(0, len(in)-1).Draw(t, "who")
				d.leave(in[k], step)
				in = append(in[:k], in[k+1:]...)
			}
			var first *sequence
			for _, s := range in {
				if d.heap[s.rank].s != s {
					t.Fatalf("rank %d is somebody else's", s.rank)
				}
				if first == nil || last[s] < last[first] { // in is in order of arrival
					first = s
				}
			}
			if len(d.heap) != len(in) || first != nil && (d.heap[0].s != first || d.nextLast() != last[first]) {
				t.Fatalf("the heap of %d begins with %+v, want %+v of %d", len(d.heap), d.heap[0], first, len(in))
			}
		}
	})
}
