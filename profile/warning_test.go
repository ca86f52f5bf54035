package profile

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
)

// What a figure was measured in says one thing of it once, and of what has degrees
// the worst.
func TestJoinWarnings(t *testing.T) {
	share := func(x float64) Warning { return Warnf("coalesced", "%.0f %%", 100*x).By(x) }
	plain := Warnf("no_usage", "no usage")
	var ws []Warning
	for _, more := range [][]Warning{{share(0.07), plain}, {share(0.12)}, {share(0.09), plain}, {Warnf("no_usage", "another text")}} {
		ws = JoinWarnings(ws, more)
	}
	if want := []Warning{share(0.12), plain, Warnf("no_usage", "another text")}; !slices.Equal(ws, want) {
		t.Errorf("%v, want %v", ws, want)
	}
	first := []Warning{share(0.07)}
	if JoinWarnings(first, []Warning{share(0.5)}); first[0] != share(0.07) {
		t.Error("what was joined was changed")
	}
}

// A degree that is no number would make the file unwritable.
func TestDegreeIsANumber(t *testing.T) {
	for _, x := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if _, err := json.Marshal(Warnf("x", "y").By(x)); err != nil {
			t.Error(err)
		}
	}
}
