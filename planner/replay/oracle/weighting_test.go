package oracle

import (
	"testing"

	"plimsoll/engine"
)

// A span has the least and the greatest weight of all bins that it touches, and
// nothing is paid for after the end.
func TestWeightsOfASpan(t *testing.T) {
	w := weighting{every: 10, weight: []float64{1, 3, 0.5, 2}, end: 38}
	for _, c := range []struct{ from, to, least, most int }{
		{0, 9, 10, 10}, {0, 10, 10, 30}, {5, 25, 5, 30}, {12, 18, 30, 30}, {30, 38, 20, 20}, {30, 39, 0, 20}, {0, 1 << 40, 0, 30},
	} {
		least, most := w.over(engine.Picoseconds(c.from), engine.Picoseconds(c.to))
		if 10*least != float64(c.least) || 10*most != float64(c.most) {
			t.Errorf("from %d to %d: %v to %v, want tenths %d to %d", c.from, c.to, least, most, c.least, c.most)
		}
	}
}
