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

// What a load that was stopped cut off is not absent: a TTFT that came counts, and one that
// was late by then is late. Requests that wait in the client are in flight nowhere.
func TestAttainOfCutOffRequests(t *testing.T) {
	sla := SLA{TTFT: 300 * time.Millisecond, ITL: time.Second, Stat: P95}
	at := func(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }
	cut := func(due, sent, first, end int) Request {
		return Request{Due: at(due), Sent: at(sent), First: at(first), End: at(end), Failure: FailCanceled, OSL: 10}
	}
	rs := []Request{
		{Due: at(1000), Sent: at(1000), First: at(1200), Last: at(1300), End: at(1300), OSL: 2, OutputTokens: 2, UsageSeen: true},
		cut(1000, 1000, 1100, 2000), // its first token came in time
		cut(1000, 1000, 0, 2000),    // none came in a second
		cut(1900, 1900, 0, 2000),    // nobody knows
		cut(1000, 0, 0, 0),          // it was not sent
	}
	for i := range rs {
		rs[i].Index = i
	}
	a := Attain(rs, Window{From: 0, To: time.Minute}, sla, 1)
	if a.TTFT.N != 3 || a.WithinTTFT != 2 || a.Requests != 3 || a.Failures != 0 {
		t.Errorf("%d TTFTs, %d within, of %d", a.TTFT.N, a.WithinTTFT, a.Requests)
	}
	if want := (0.3 + 1 + 1 + 0.1) / 2; math.Abs(a.InFlight-want) > 1e-9 { // until 2 s, where the load ended
		t.Errorf("%.3f in flight, want %.3f", a.InFlight, want)
	}
}
