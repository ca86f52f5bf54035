package oracle

import (
	"testing"

	"plimsoll/engine/enginetest"

	"pgregory.net/rapid"
)

// A curve is concave and nowhere above the values; concave values stay as they are.
func TestConcaveIsBelowItsValues(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "n")
		at, values := make([]int, n), make([]float64, n)
		slope := 50.0
		smooth := rapid.Bool().Draw(t, "smooth")
		for i := range at {
			values[i] = rapid.Float64Range(0, 100).Draw(t, "value")
			if i == 0 {
				continue
			}
			at[i] = at[i-1] + rapid.IntRange(1, 9).Draw(t, "width")
			if smooth {
				slope *= rapid.Float64Range(0, 1).Draw(t, "bend")
				values[i] = values[i-1] + slope*float64(at[i]-at[i-1])
			}
		}
		c := concave(at, values)
		for i := range at {
			if got := c.of(at[i]); got > values[i]+1e-9 {
				t.Fatalf("%v at %d, above %v of %v", got, at[i], values[i], values)
			} else if smooth && got < values[i]-1e-9 {
				t.Fatalf("%v at %d, below %v of %v, which are concave", got, at[i], values[i], values)
			}
			if i > 1 && rise(at, c.value, i-2, i-1) < rise(at, c.value, i-1, i)-1e-9 {
				t.Fatalf("%v at %v is not concave", c.value, at)
			}
		}
	})
}
