package prices

import (
	"errors"
	"strings"
	"testing"
)

func TestGiven(t *testing.T) {
	canonical := func(name string) (string, error) {
		if strings.HasPrefix(name, "no") {
			return "", errors.New("unknown GPU")
		}
		return strings.ToUpper(name), nil
	}
	for text, want := range map[string]map[string]float64{
		"2.5":                  {"H100-SXM": 2.5, "L4": 2.5},
		"0":                    {"H100-SXM": 0, "L4": 0},
		" h100-sxm=2.5, l4=0 ": {"H100-SXM": 2.5, "L4": 0},
	} {
		g, err := ParseGiven(text, canonical)
		if err != nil || !g.Any() || g.ForAll() == strings.Contains(text, "=") {
			t.Errorf("%q: %+v, %v", text, g, err)
		}
		for gpu, usd := range want {
			if got, ok := g.Of(gpu); !ok || got != usd {
				t.Errorf("%q: %s costs %v (%v), want %v", text, gpu, got, ok, usd)
			}
		}
		if _, ok := g.Of("T4"); ok != g.ForAll() {
			t.Errorf("%q: T4 has a price: %v", text, ok)
		}
	}
	for _, text := range []string{"", "-1", "x", "NaN", "1e9", "2,3", "l4=", "=2", "l4=1,2", "l4=1,L4=2", "nothing=2", "l4=-1"} {
		if g, err := ParseGiven(text, canonical); err == nil {
			t.Errorf("%q: %+v", text, g)
		}
	}
	if (Given{}).Any() {
		t.Error("nothing was said")
	}
}
