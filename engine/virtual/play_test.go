package virtual

import (
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/profile"
)

// A script of equal asks of which no more than so many may be in flight is a
// workload: the same records, but that all are due at once.
func TestPlayIsMeasure(t *testing.T) {
	w := closed(100, 7, 4, 2)
	want := measure(t, make1(t, small(), 0), w).Requests
	s := profile.Script{Seed: 3, MaxInFlight: w.InFlight}
	for range want {
		s.Asks = append(s.Asks, profile.Ask{ISL: 100, OSL: 7})
	}
	e := make1(t, small(), 0)
	got, err := e.Play(t.Context(), s, nil)
	if err != nil {
		t.Fatal(err)
	}
	if last := got.Requests[len(want)-1].Last - time.Millisecond; e.Elapsed() < last || e.Elapsed() > last+10*time.Millisecond {
		t.Errorf("the engine was held for %v, its last answer ended after %v", e.Elapsed(), last)
	}
	for i, r := range got.Requests {
		if x := want[i]; r.Due != want[0].Due || r.Sent != x.Sent || r.First != x.First || r.Last != x.Last || r.OutputTokens != 7 || !r.OK() {
			t.Errorf("request %d: %+v, want %+v", i, r, x)
		}
	}
}

func TestPlayLengthsAndCache(t *testing.T) {
	c := small()
	c.PrefixCaching = true
	e := make1(t, c, 0)
	s := profile.Script{Seed: 1, Asks: []profile.Ask{
		{ISL: 64, OSL: 2, Shared: 1},
		{Due: time.Second, ISL: 64, OSL: 3, Shared: 1},
		{Due: 2 * time.Second, ISL: 64, OSL: 1},
		{Due: 3 * time.Second, ISL: 64, OSL: 1, Prompt: "x y"},
		{Due: 4 * time.Second, ISL: 64, OSL: 1, Prompt: "x y"},
	}}
	m, err := e.Play(t.Context(), s, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, hit := range []bool{false, true, false, false, true} {
		r := m.Requests[i]
		if (r.CachedTokens > 0) != hit || r.OutputTokens != s.Asks[i].OSL || r.PromptTokens != 64 {
			t.Errorf("request %d: %+v, want a hit: %v", i, r, hit)
		}
	}
	// Another script's shared prompts are those of workloads that share.
	w := profile.Workload{ISL: 64, OSL: 1, Requests: 1, InFlight: 1, Seed: 1, SharedPrompts: true}
	if r := measure(t, e, w).Requests[0]; r.CachedTokens == 0 {
		t.Error("the prompt of Shared 1 is not the first of the shared ones")
	}
}

// Requests whose prompts a prefill engine computed cost what they cost a decode engine,
// whatever an engine's role.
func TestDefectTransferredPromptsTookSteps(t *testing.T) {
	decode, both := small(), small()
	decode.Role, both.PrefixCaching = engine.RoleDecode, true
	s := profile.Script{Seed: 1, Transferred: true}
	for i := range 20 {
		s.Asks = append(s.Asks, profile.Ask{Due: time.Duration(i) * time.Millisecond, ISL: 64, OSL: 5, Shared: 1 + i%3})
	}
	played := func(c sim.Config) []profile.Request {
		m, err := make1(t, c, 0).Play(t.Context(), s, nil)
		if err != nil {
			t.Fatal(err)
		}
		return m.Requests
	}
	want, got := played(decode), played(both)
	for i := range want {
		if got[i].First != want[i].First || got[i].Last != want[i].Last {
			t.Errorf("request %d: tokens from %v to %v, on a decode engine %v to %v", i, got[i].First, got[i].Last, want[i].First, want[i].Last)
		}
	}
}

func TestPlayMaxInFlight(t *testing.T) {
	s := profile.Script{MaxInFlight: 1}
	for range 4 {
		s.Asks = append(s.Asks, profile.Ask{ISL: 100, OSL: 5})
	}
	m, err := make1(t, small(), 0).Play(t.Context(), s, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range m.Requests {
		if !r.OK() || r.Due != m.Requests[0].Due || i > 0 && r.Sent != m.Requests[i-1].End {
			t.Errorf("request %d: %+v", i, r)
		}
	}
}

func TestPlayStops(t *testing.T) {
	s := profile.Script{}
	for i := range 10 {
		s.Asks = append(s.Asks, profile.Ask{Due: time.Duration(i) * time.Second, ISL: 10, OSL: 2})
	}
	e, n := make1(t, small(), 0), 0
	m, err := e.Play(t.Context(), s, func(profile.Request) bool { n++; return n == 3 })
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range m.Requests {
		if (i < 3) != r.OK() || i >= 3 && r.Failure != profile.FailCanceled {
			t.Errorf("request %d: %+v", i, r)
		}
	}
	if again, err := e.Play(t.Context(), s, nil); err != nil || !again.Requests[9].OK() {
		t.Errorf("the engine is not idle after a load that was stopped: %v", err)
	}
}

func TestPlayRefuses(t *testing.T) {
	for want, s := range map[string]profile.Script{
		"no requests":               {},
		"request 0: ISL 0 and OSL":  {Asks: []profile.Ask{{OSL: 1}}},
		"request 1 is due at 0s, b": {Asks: []profile.Ask{{Due: 1, ISL: 1, OSL: 1}, {ISL: 1, OSL: 1}}},
	} {
		if _, err := make1(t, small(), 0).Play(t.Context(), s, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Requests of several lengths in one load have prompts of their own, also where
// index and length add up to the same.
func TestPromptsOfOneLoadAreNew(t *testing.T) {
	s := profile.Script{Seed: 1}
	for i := range 400 {
		s.Asks = append(s.Asks, profile.Ask{ISL: 64 + (400-i)%37, OSL: 1})
	}
	c := small()
	c.PrefixCaching = true
	e := make1(t, c, 0)
	m, err := e.Play(t.Context(), s, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range m.Requests {
		if r.CachedTokens > 0 {
			t.Fatalf("request %d of ISL %d: %d tokens from the prefix cache", i, r.ISL, r.CachedTokens)
		}
	}
}
