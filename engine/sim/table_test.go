package sim

import (
	"testing"

	"plimsoll/engine/enginetest"

	"pgregory.net/rapid"
)

// TestTableIsAMap holds a table against the built-in map, with few keys, some
// of which collide.
func TestTableIsAMap(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		var got table[int32]
		want := map[uint64]int32{}
		stride := rapid.SampledFrom([]uint64{1, 16, 1 << 60, 0xf1de83e19937733d}).Draw(t, "stride") // the last undoes the hash: homes in a row
		keys := rapid.Uint64Range(0, 40)
		for range rapid.IntRange(0, 200).Draw(t, "operations") {
			k := stride * keys.Draw(t, "key")
			if rapid.Bool().Draw(t, "put") {
				v := rapid.Int32Range(1, 9).Draw(t, "value")
				got.put(k, v)
				want[k] = v
			} else {
				got.remove(k)
				delete(want, k)
			}
			if got.n != len(want) || 2*got.n > len(got.entries) {
				t.Fatalf("%d of %d places taken, want %d keys and a half at most", got.n, len(got.entries), len(want))
			}
			for i := range uint64(41) {
				if got.get(i*stride) != want[i*stride] {
					t.Fatalf("key %d: %d, want %d", i*stride, got.get(i*stride), want[i*stride])
				}
			}
		}
	})
}
