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
		for i := range ready {
			ready[i] = &replica{load: rapid.IntRange(0, 3).Draw(t, "load")}
		}
		l := newLoads(ready)
		for range 20 {
			want := 0
			for i, r := range ready {
				if r.load < ready[want].load {
					want = i
				}
			}
			if got := l.least(); got != want {
				t.Fatalf("replica %d, want %d of %v", got, want, ready)
			}
			i := rapid.IntRange(0, len(ready)-1).Draw(t, "changed")
			ready[i].load = rapid.IntRange(0, 5).Draw(t, "to")
			l.set(i, ready[i].load)
		}
	})
}
