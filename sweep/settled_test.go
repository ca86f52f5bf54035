package sweep

import (
	"testing"
	"time"

	"plimsoll/profile"
)

// Whether the best so far will stay the pick is asked by the rule that picks: what
// cannot be told from it goes to the fewer GPUs.
func TestSettledByTheRuleOfTies(t *testing.T) {
	for _, c := range []struct {
		other int     // GPUs of the one to come, beside the 2 that were measured
		ratio float64 // of what is expected of it to what was measured
		half  time.Duration
		want  bool
	}{
		{1, 0.98, ms / 2, false}, // as good by noise, on fewer GPUs
		{1, 0.90, ms / 2, true},
		{1, 0.98, 0, false}, // a model does not tell a tie
		{1, 0.94, 0, true},
		{4, 1.02, ms / 2, true},
		{4, 1.10, ms / 2, false},
		{4, 1.02, 0, false},
	} {
		b := newLab(three())
		o := options(b, c.other, 2)
		r := newRunner(o, b, &notes{}, Known{}, nil)
		for _, cfg := range o.Candidates {
			r.layouts = append(r.layouts, newLayout(cfg))
		}
		coming, s := r.layouts[0].decode, r.layouts[1].decode
		expected := o.value(o.expected(profile.Decode, coming.cfg, 1), o.Rank)
		const itl = 10 * ms
		p := profile.Point{
			ID: "measured", Stage: profile.StageSweep, Phase: profile.Decode, Config: s.cfg, Requests: 10,
			TPOT: profile.Distribution{N: 10, Mean: itl, Half: c.half}, ThroughputPerGPU: expected / c.ratio, InFlight: 2 * itl.Seconds() * expected / c.ratio,
		}
		r.book.begin(s)
		s.account.points = []profile.Point{p}
		r.mark(r.layouts[1], profile.Decode)
		if got := r.settledOn(s); got != c.want {
			t.Errorf("TP:%d expected at %.2f of TP:2 ± %v: settled %v, want %v", c.other, c.ratio, c.half, got, c.want)
		}
	}
}
