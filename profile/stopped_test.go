package profile

import (
	"math"
	"slices"
	"testing"
	"time"
)

// stoppedAt is a load as it is where it was stopped: what had not ended is canceled,
// there, or without an end where it was not sent.
func stoppedAt(rs []Request, at time.Duration, unsentEnd time.Duration) []Request {
	out := slices.Clone(rs)
	for i, r := range out {
		if r.End <= at {
			continue
		}
		out[i] = Request{Index: r.Index, ISL: r.ISL, OSL: r.OSL, Due: r.Due, Failure: FailCanceled, End: unsentEnd}
		if r.Due <= at {
			out[i].Sent, out[i].End = r.Due, at
		}
	}
	return out
}

// The figures of a load that was stopped are those of the time that it was played for:
// before the fix canceled requests were in flight to the end of the planned window, and
// what had been served was divided by it.
func TestAttainOfAStoppedLoad(t *testing.T) {
	sla := SLA{TTFT: 300 * time.Millisecond, ITL: time.Second, Stat: Mean}
	rs := queue(4000, 15, 100*time.Millisecond, 1) // 10 requests/s are served
	planned := full(rs, time.Second)
	const at = 30 * time.Second
	for name, unsent := range map[string]time.Duration{"in virtual time": at, "over HTTP": 0} {
		a := Attain(stoppedAt(rs, at, unsent), planned, sla, 1)
		want := Attain(rs, Window{planned.From, at}, sla, 1) // what a window up to there saw
		if a.Window != at-planned.From || a.Offered != want.Offered || a.Achieved != want.Achieved || a.TokensPerSec != want.TokensPerSec {
			t.Errorf("%s: %v, offered %.2f/s, achieved %.2f/s, %.2f tokens/s; the window itself has %v, %.2f, %.2f, %.2f",
				name, a.Window, a.Offered, a.Achieved, a.TokensPerSec, want.Window, want.Offered, want.Achieved, want.TokensPerSec)
		}
		if math.Abs(a.InFlight-want.InFlight) > 1e-6 || math.Abs(a.Achieved-10) > 0.1 || math.Abs(a.Offered-15) > 2 || !a.Growing {
			t.Errorf("%s: %.2f in flight, of %.2f; achieved %.2f/s, offered %.2f/s, growing %v", name, a.InFlight, want.InFlight, a.Achieved, a.Offered, a.Growing)
		}
	}
}

func TestPlayed(t *testing.T) {
	s := time.Second
	w := Window{10 * s, 50 * s}
	ended := Request{Due: 5 * s, End: 20 * s}
	canceled := func(end time.Duration) Request { return Request{Due: 12 * s, End: end, Failure: FailCanceled} }
	for name, c := range map[string]struct {
		rs   []Request
		want time.Duration
	}{
		"all of it":                 {[]Request{ended, {Due: 6 * s, End: 90 * s}}, 50 * s},
		"to where one was canceled": {[]Request{ended, canceled(25 * s), canceled(26 * s), canceled(0)}, 25 * s},
		"nobody was under way":      {[]Request{ended, canceled(0)}, 20 * s},
		"it ended before":           {[]Request{ended, canceled(3 * s)}, 10 * s},
		"it was over":               {[]Request{ended, canceled(60 * s)}, 50 * s},
		"a timeout stops nothing":   {[]Request{ended, {Due: 6 * s, End: 15 * s, Failure: FailTimeout}}, 50 * s},
		"nothing was sent":          {nil, 50 * s},
	} {
		if got := Played(c.rs, w); got.From != w.From || got.To != c.want {
			t.Errorf("%s: %+v, want it to end at %v", name, got, c.want)
		}
	}
}
