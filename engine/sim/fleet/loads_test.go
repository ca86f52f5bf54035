package fleet

import (
	"testing"

	"plimsoll/engine/enginetest"

	"pgregory.net/rapid"
)

// TestLoadsFindTheLeast: as a look at all replicas does, the first of equals.
func TestLoadsFindTheLeast(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		ready := make([]*replica, rapid.IntRange(1, 40).Draw(t, "replicas"))
		draw := func(r *replica) {
			r.load, r.turn = rapid.IntRange(0, 5).Draw(t, "load"), rapid.IntRange(0, 3).Draw(t, "turn")
			r.prompts = rapid.IntRange(0, r.load).Draw(t, "prompts")
		}
		for i := range ready {
			ready[i] = &replica{place: i}
			draw(ready[i])
		}
		l := newLoads(ready)
		for range 20 {
			want := ready[0]
			for _, r := range ready {
				if r.score() < want.score() || r.score() == want.score() && r.turn < want.turn {
					want = r
				}
			}
			if got := ready[l.least()]; got != want {
				t.Fatalf("replica %d, want %d of %v", got.place, want.place, ready)
			}
			r := rapid.SampledFrom(ready).Draw(t, "changed")
			draw(r)
			l.set(r)
		}
	})
}
