package recommend

import (
	"strings"
	"testing"

	"plimsoll/profile"
)

// A pick that nothing more could be sent to is said to be no boundary of the SLA.
func TestPickAtTheCap(t *testing.T) {
	const said = "decode: the search at TP:1 was ended by the "
	for name, c := range map[string]struct {
		limit func(*profile.Point)
		more  []profile.Point
		want  string
	}{
		"nothing known":    {func(*profile.Point) {}, nil, ""},
		"sequences":        {func(p *profile.Point) { p.MaxSeqs = 64 }, nil, said + "engine's limit of 64 sequences, before the SLA (raise --max-num-seqs)"},
		"asked for":        {func(p *profile.Point) { p.Config.Limits.MaxNumSeqs = 64 }, nil, said + "engine's limit of 64 sequences, before the SLA (raise --max-num-seqs)"},
		"sent":             {func(p *profile.Point) { p.MaxSeqs, p.Cap = 1024, 64 }, nil, said + "client's limit of 64 in flight, before the SLA (raise --max-in-flight)"},
		"KV cache":         {func(p *profile.Point) { p.MaxKV = 64*1100 + 1099 }, nil, said + "KV cache of 71499 tokens, before the SLA (raise --memory-fraction)"},
		"room for one":     {func(p *profile.Point) { p.MaxSeqs, p.Cap, p.MaxKV = 65, 65, 65*1100 }, nil, ""},
		"more misses":      {func(p *profile.Point) { p.MaxKV = 64*1100 + 1099 }, []profile.Point{at(70, 30)}, ""},
		"more is not told": {func(p *profile.Point) { p.MaxKV = 64*1100 + 1099 }, []profile.Point{invalid(at(70, 10))}, ""},
	} {
		p := at(64, 10)
		c.limit(&p)
		for i := range c.more {
			c.more[i].Config = p.Config
		}
		ch := choose(t, profile.Decode, sla(200*ms, 20*ms), BySingle, append(c.more, at(1, 5), p)...)
		if got := warned(ch, "at_cap"); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
		if tail := strings.TrimPrefix(c.want, "decode: the search at TP:1 was "); !strings.HasSuffix(ch.Why, tail) {
			t.Errorf("%s: picked %q", name, ch.Why)
		}
	}
}

// A configuration whose search a limit ended lost to one that had none: that is said of
// it, at its highest load alone.
func TestLostAtTheCap(t *testing.T) {
	capped := []profile.Point{at(1, 5), at(32, 8), at(64, 10)}
	for i := range capped {
		capped[i].MaxSeqs = 64
	}
	better := decode(2, 400, 15*ms)
	better.Asked, better.ISL, better.OSL = 400, 1000, 100
	for _, rank := range []Rank{BySingle, BySustained} {
		ch := choose(t, profile.Decode, sla(200*ms, 20*ms), rank, append(capped, better)...)
		for _, r := range ch.Rejected {
			if said := strings.Contains(r.Reason, "; ended by the engine's limit of 64 sequences, before the SLA (raise --max-num-seqs)"); said != (r.InFlight == 64) {
				t.Errorf("%s: at %.0f in flight: %q", rank, r.InFlight, r.Reason)
			}
		}
		if ch.Picked.Label() != "TP:2" || warned(ch, "at_cap") != "" {
			t.Errorf("%s: picked %s, warned %q", rank, ch.Picked.Label(), warned(ch, "at_cap"))
		}
	}
}

// at is TP:1's decode point of n in flight whose ITL is so many ms.
func at(n, itl int) profile.Point {
	p := decode(1, float64(n), seconds(float64(itl)/1000))
	p.Asked, p.ISL, p.OSL = n, 1000, 100
	return p
}

func invalid(p profile.Point) profile.Point {
	p.Invalid = "the client was the bottleneck"
	return p
}
