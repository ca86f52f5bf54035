package profile

import (
	"testing"
	"time"
)

// However samples of TTFT hang together, enough of them that are all far from the limit
// decide.
func TestFarFromTheLimit(t *testing.T) {
	ms := time.Millisecond
	sla := SLA{TTFT: 250 * ms, ITL: 30 * ms, Stat: P95}
	near := Distribution{N: 100, Mean: 200 * ms, Std: ms, Min: 198 * ms, P95: 202 * ms, Max: 203 * ms, Neff: 9}
	for name, c := range map[string]struct {
		change func(*Point)
		want   bool
	}{
		"far below":    {func(*Point) {}, false},
		"far above":    {func(p *Point) { p.TTFT.Mean, p.TTFT.Min, p.TTFT.Max = 400*ms, 390*ms, 410*ms }, false},
		"one beyond":   {func(p *Point) { p.TTFT.Max = 251 * ms }, true},
		"not far":      {func(p *Point) { p.TTFT.Std = 6 * ms }, true}, // 2√19 times this is 52 ms
		"just far":     {func(p *Point) { p.TTFT.Std = 5 * ms }, false},
		"too few":      {func(p *Point) { p.TTFT.N = 71 }, true},
		"of ITL":       {func(p *Point) { p.Phase, p.TPOT, p.TTFT = Decode, near, Distribution{} }, true},
		"an interval":  {func(p *Point) { p.TTFT.Std, p.TTFT.In95 = 6*ms, Interval{1, 2} }, false},
		"of an engine": {func(p *Point) { p.TTFT.Std, p.Provenance = 6*ms, Estimated }, false},
	} {
		p := Point{Phase: Prefill, Requests: 100, TTFT: near}
		if c.change(&p); p.Undecided(sla) != c.want {
			t.Errorf("%s: undecided %v", name, !c.want)
		}
	}
}
