package pages_test

import (
	"strings"
	"testing"
	"time"

	"plimsoll/plots/pages"
	"plimsoll/profile"
)

// A warning of another side is folded under one that says the same but for its
// numbers, and under no other of the same kind.
func TestWarningsAreFoldedByWhatTheySay(t *testing.T) {
	t.Parallel()
	c := profiled(point(profile.Prefill, 4, 80*time.Millisecond, 9000), point(profile.Decode, 1, 8*time.Millisecond, 900))
	for _, w := range [][2]string{
		{"A", "prefill: TP:8 is within a factor of 2.10"},
		{"A", "decode: TP:4 is within a factor of 1.80"},
		{"B", "prefill: TP:4 is within a factor of 3"},
		{"B", "decode: TP:4 is within a factor of 1.80"},
		{"B", "decode: DEP:4 is within a factor of 1.80"},
	} {
		c.Warnings = append(c.Warnings, pages.Warning{Warning: profile.Warnf("close", "%s", w[1]), Of: w[0]})
	}
	got := strings.Join(strings.Fields(between(t, unescaped(t, c), `id="warnings">5 warnings</h2>`, "</section>")), " ")
	want := `<ul> <li><b>A</b>: prefill: TP:8 is within a factor of 2.10 <details><summary>likewise of B</summary><ul> <li><b>B</b>: prefill: TP:4 is within a factor of 3</li> </ul></details></li>` +
		` <li><b>A</b>: decode: TP:4 is within a factor of 1.80 <details><summary>likewise of B</summary><ul> <li><b>B</b>: decode: TP:4 is within a factor of 1.80</li> </ul></details></li>` +
		` <li><b>B</b>: decode: DEP:4 is within a factor of 1.80</li> </ul>`
	if got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
