package sweep

import (
	"testing"
	"time"

	"plimsoll/profile"
)

// A few late requests of a load too short for its percentile do not stop it: three of
// 190 are no miss of a P99, for which 368 are judged. Before the fix they were, and a
// pick that holds over an hour was infeasible by a minute's load.
func TestCertaintyOfFewRequests(t *testing.T) {
	sla := profile.SLA{TTFT: 200 * ms, ITL: 20 * ms, Stat: profile.P99}
	for name, c := range map[string]struct {
		n, late, decides int
		want             bool
	}{
		"three of 190":                       {190, 3, 0, false},
		"eight of 190":                       {190, 8, 0, true},
		"eight of 190, which hang together":  {190, 8, 4000, false},
		"all of 190, which hang together":    {190, 190, 4000, true},
		"four of 400":                        {400, 4, 0, false},
		"five of 400":                        {400, 5, 0, true},
		"eight of 400, which hang together":  {400, 8, 4000, false},
		"fifty of 400, which hang together":  {400, 50, 4000, true},
		"of as many as an interval takes":    {4000, 41, 4000, true},
		"a few less than the percentile has": {4000, 40, 4000, false},
	} {
		var asks []profile.Ask
		for i := range c.n {
			asks = append(asks, profile.Ask{Due: time.Duration(i) * time.Second})
		}
		sure, why := newCertainty(asks, openLoad{decides: c.decides}, profile.Prefill, sla), ""
		for i := range c.n {
			due, ttft := time.Duration(i+1)*time.Second, 100*ms
			if i < c.late {
				ttft = 300 * ms
			}
			if said := sure.missed(profile.Request{Index: i, Due: due, First: due + ttft, Last: due + ttft, End: due + ttft}); why == "" {
				why = said
			}
		}
		if (why != "") != c.want {
			t.Errorf("%s: %q", name, why)
		}
	}
}
