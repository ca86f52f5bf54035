package recommend

import (
	"testing"

	"plimsoll/profile"
)

// A pick that nothing more could be sent to is said to be no boundary of the SLA.
func TestPickAtTheCap(t *testing.T) {
	const said = "decode: 64 in flight is the most that TP:1 "
	for name, c := range map[string]struct {
		limit func(*profile.Point)
		more  []profile.Point
		want  string
	}{
		"nothing known":    {func(*profile.Point) {}, nil, ""},
		"sequences":        {func(p *profile.Point) { p.MaxSeqs = 64 }, nil, said + "runs at once (--max-num-seqs): the SLA's boundary was not reached"},
		"asked for":        {func(p *profile.Point) { p.Config.Limits.MaxNumSeqs = 64 }, nil, said + "runs at once (--max-num-seqs): the SLA's boundary was not reached"},
		"sent":             {func(p *profile.Point) { p.MaxSeqs, p.Cap = 1024, 64 }, nil, said + "is ever sent (--max-in-flight): the SLA's boundary was not reached"},
		"KV cache":         {func(p *profile.Point) { p.MaxKV = 64*1100 + 1099 }, nil, said + "has KV cache for: the SLA's boundary was not reached"},
		"room for one":     {func(p *profile.Point) { p.MaxSeqs, p.Cap, p.MaxKV = 65, 65, 65*1100 }, nil, ""},
		"more misses":      {func(p *profile.Point) { p.MaxKV = 64*1100 + 1099 }, []profile.Point{at(70, 30)}, ""},
		"more is not told": {func(p *profile.Point) { p.MaxKV = 64*1100 + 1099 }, []profile.Point{invalid(at(70, 10))}, ""},
	} {
		p := at(64, 10)
		c.limit(&p)
		for i := range c.more {
			c.more[i].Config = p.Config
		}
		ch := choose(t, profile.Decode, sla(200*ms, 20*ms), ByThroughput, append(c.more, at(1, 5), p)...)
		if got := warned(ch, "at_cap"); got != c.want {
			t.Errorf("%s: %q", name, got)
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
