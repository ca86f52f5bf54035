package load

import (
	"strings"
	"testing"
	"time"

	"plimsoll/profile"
)

const msec = time.Millisecond

func play(t *testing.T, c *Client, s profile.Script, stop func(profile.Request) bool) []profile.Request {
	t.Helper()
	rs, _, err := c.Play(t.Context(), s, stop)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rs {
		ordered(t, r)
	}
	return rs
}

func TestPlayLengthsAndInstants(t *testing.T) {
	f := &fake{}
	c := client(t, Options{BaseURL: f.start(t).URL, TokenIDs: true, Model: "m"})
	rs := play(t, c, profile.Script{Seed: 1, Asks: []profile.Ask{
		{ISL: 10, OSL: 2}, {ISL: 20, OSL: 3, Due: 20 * msec}, {ISL: 20, OSL: 1, Due: 20 * msec, Shared: 2}, {ISL: 20, OSL: 1, Due: 40 * msec, Shared: 2},
	}}, nil)
	for i, want := range []struct{ isl, osl int }{{10, 2}, {20, 3}, {20, 1}, {20, 1}} {
		r := rs[i]
		if !r.OK() || r.PromptTokens != want.isl || r.OutputTokens != want.osl || r.Sent < r.Due {
			t.Errorf("request %d: %+v, want %+v", i, r, want)
		}
	}
	if d := rs[3].Due - rs[0].Due; d != 40*msec {
		t.Errorf("the last was due %v after the first, want 40 ms", d)
	}
	prompts := map[string]int{}
	for _, q := range f.streams() {
		prompts[string(q.Prompt)]++
	}
	if len(prompts) != 3 {
		t.Errorf("%d different prompts, want 3: two share one", len(prompts))
	}
}

// A prompt of the user's own goes out as it is, and the server's count of it is
// no failure.
func TestPlayText(t *testing.T) {
	const text = "Why is the sky \"blue\"?\nSay so in <b>one</b> line."
	for _, api := range []Endpoint{Completions, Chat} {
		f := &fake{}
		c := client(t, Options{BaseURL: f.start(t).URL, Model: "m", Endpoint: api})
		rs := play(t, c, profile.Script{Asks: []profile.Ask{{ISL: 100, OSL: 4, Prompt: text}}}, nil)
		if r := rs[0]; !r.OK() || r.PromptTokens != 10 || r.OutputTokens != 4 {
			t.Errorf("%s: %+v", api, r)
		}
		if q := f.streams(); len(q) != 1 || q[0].text != text {
			t.Errorf("%s: sent %+v", api, q)
		}
	}
}

// No more than so many at once, and who waits for a place waits on the clock
// that counts: from when it was due.
func TestPlayMaxInFlight(t *testing.T) {
	c := client(t, Options{BaseURL: (&fake{stall: 30 * msec}).start(t).URL, TokenIDs: true, Model: "m"})
	rs := play(t, c, profile.Script{MaxInFlight: 1, Asks: []profile.Ask{{ISL: 8, OSL: 1}, {ISL: 8, OSL: 1}, {ISL: 8, OSL: 1}}}, nil)
	for i, r := range rs {
		if !r.OK() || i > 0 && r.Sent < rs[i-1].End {
			t.Errorf("request %d was sent at %v, the one before ended at %v", i, r.Sent, rs[i-1].End)
		}
	}
	if rs[2].TTFTFromDue() < 2*30*msec {
		t.Errorf("the third waited for two others and its TTFT is %v from due", rs[2].TTFTFromDue())
	}
}

func TestPlayStops(t *testing.T) {
	c := client(t, Options{BaseURL: (&fake{}).start(t).URL, TokenIDs: true, Model: "m"})
	asks := make([]profile.Ask, 50)
	for i := range asks {
		asks[i] = profile.Ask{ISL: 8, OSL: 1, Due: time.Duration(i) * 100 * msec}
	}
	told := 0
	rs := play(t, c, profile.Script{Asks: asks}, func(profile.Request) bool { told++; return told == 3 })
	canceled := 0
	for _, r := range rs {
		if r.Failure == profile.FailCanceled {
			canceled++
		}
	}
	if told != 3 || canceled != 47 {
		t.Errorf("asked %d times, %d of 50 canceled: want 3 and 47", told, canceled)
	}
}

// TestFault13PrefixCacheAccidentallyHitByAScript: no prompt of a script is known to a
// cache unless the script says so, not even from an equal script before.
func TestFault13PrefixCacheAccidentallyHitByAScript(t *testing.T) {
	f := &fake{}
	c := client(t, Options{BaseURL: f.start(t).URL, TokenIDs: true, Model: "m"})
	s := profile.Script{Seed: 1, Asks: []profile.Ask{{ISL: 64, OSL: 1}, {ISL: 64, OSL: 1}, {ISL: 64, OSL: 1}}}
	play(t, c, s, nil)
	play(t, c, s, nil)
	heads := map[string]bool{}
	for _, q := range f.streams() {
		ids := strings.SplitN(string(q.Prompt), ",", 3)
		heads[ids[0]+","+ids[1]] = true
	}
	if len(heads) != 6 {
		t.Errorf("%d different heads of 6 prompts", len(heads))
	}
}

func TestPlayRefuses(t *testing.T) {
	c := client(t, Options{BaseURL: "http://127.0.0.1:1"})
	for _, tt := range []struct {
		s    profile.Script
		want string
	}{
		{profile.Script{}, "0 requests are out of range"},
		{profile.Script{Asks: []profile.Ask{{ISL: 0, OSL: 1}}}, "request 0: isl 0 and osl 1 are out of range"},
		{profile.Script{Asks: []profile.Ask{{ISL: 1, OSL: 1, Due: 2}, {ISL: 1, OSL: 1, Due: 1}}}, "request 1 is due at 1ns, before"},
		{profile.Script{Asks: []profile.Ask{{ISL: 1, OSL: 1, Shared: -1}}}, "shared -1"},
		{profile.Script{MaxInFlight: -1, Asks: []profile.Ask{{ISL: 1, OSL: 1}}}, "want none below 0"},
	} {
		if _, _, err := c.Play(t.Context(), tt.s, nil); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", tt.s, err, tt.want)
		}
	}
}
