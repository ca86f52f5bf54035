package engine

import (
	"strings"
	"testing"

	"plimsoll/engine/enginetest"

	"pgregory.net/rapid"
)

func TestParseParallelism(t *testing.T) {
	for s, want := range map[string]Parallelism{
		"TP:4": TP(4), "tp4": TP(4), " Tp:4 ": TP(4), "TP:4 PP:2": {TP: 4, PP: 2, DP: 1, EP: 1}, "tp4pp2": {TP: 4, PP: 2, DP: 1, EP: 1},
		"TEP:8": {TP: 8, PP: 1, DP: 1, EP: 8}, "tep8": {TP: 8, PP: 1, DP: 1, EP: 8}, "DEP:8": {TP: 1, PP: 1, DP: 8, EP: 8},
		"DEP:8 PP:2": {TP: 1, PP: 2, DP: 8, EP: 8}, "TP:2 DP:4 EP:8": {TP: 2, PP: 1, DP: 4, EP: 8}, "ep8 dp4 tp2": {TP: 2, PP: 1, DP: 4, EP: 8},
		"PP:2": {TP: 1, PP: 2, DP: 1, EP: 1}, "TEP:1": TP(1), "DP:2": {TP: 1, PP: 1, DP: 2, EP: 1},
	} {
		if got, err := ParseParallelism(s); err != nil || got != want {
			t.Errorf("%q: %+v, %v, want %+v", s, got, err, want)
		}
	}
	for s, want := range map[string]string{
		"": "want a layout", "TP": "TP wants a whole number", "TP:0": "from 1 to 4096", "TP:5000": "from 1 to 4096", "TP:-1": "TP wants",
		"TP:4,TP:2": "want parts such as", "TP:4 TP:2": "TP is listed twice", "XP:4": "want parts such as", "4": "want parts such as",
		"TEP:8 TP:2": "only PP goes with", "TEP:8 DEP:8": "only PP goes with", "TP:2 EP:4": "TP·DP = 2", "TP:99999999999999999999": "TP wants",
	} {
		if got, err := ParseParallelism(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v, %v, want %q", s, got, err, want)
		}
	}
}

// Every layout that an engine can have reads back from its label and its slug.
func TestParseIsTheInverseOfLabel(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 64)
		p := Parallelism{TP: n.Draw(t, "tp"), PP: n.Draw(t, "pp"), DP: n.Draw(t, "dp"), EP: 1}
		if rapid.Bool().Draw(t, "experts spread") {
			p.EP = p.TP * p.DP
		}
		for _, s := range []string{p.Label(), p.Slug(), strings.ToLower(p.Label())} {
			if got, err := ParseParallelism(s); err != nil || got != p {
				t.Fatalf("%q: %+v, %v, want %+v", s, got, err, p)
			}
		}
	})
}

func FuzzParseParallelism(f *testing.F) {
	for _, s := range []string{"TP:4", "tep8", "TP:4 PP:2", "DEP:8 PP:2", "TP:2 DP:4 EP:8", ":", "TP:  4", "tp4tp"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := ParseParallelism(s)
		if err != nil {
			return
		}
		if again, err := ParseParallelism(p.Label()); err != nil || again != p || p != p.Normal() {
			t.Errorf("%q: %+v, read back %+v, %v", s, p, again, err)
		}
	})
}
