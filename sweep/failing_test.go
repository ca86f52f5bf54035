package sweep

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"plimsoll/engine"
	"plimsoll/profile"
)

// One failed request, as of a point of one at the warm-up or of twenty, says nothing of a
// server; three of sixty do where they are sent one at a time, and three in a row where
// nothing is answered. Of a burst some may be refused: that load is stopped, no more.
func TestFailing(t *testing.T) {
	const ok, bad, cut, lost, broken = 'o', 'x', 'c', '-', '~'
	for _, c := range []struct {
		name       string
		loads      []string // how the requests of each end
		atOnce     bool
		repeated   bool // all but the last are loads at once, of one point
		there      bool // the server still takes connections
		stop, want bool
	}{
		{name: "the only one", loads: []string{"x"}},
		{name: "one of twenty", loads: []string{"ooooooooooxooooooooo"}},
		{name: "two in a row, twice", loads: []string{"xxo", "xxo"}, stop: true, want: true}, // four of sixty
		{name: "two in a row", loads: []string{"ooxxo"}},
		{name: "nothing answered", loads: []string{"xxx"}, atOnce: true, stop: true, want: true},
		{name: "three in a row over loads", loads: []string{"x", "x", "x"}, atOnce: true, want: true},
		{name: "three of sixty over loads", loads: []string{"xoooooooooooooooooooo", "xoooooooooooooooo", "xo"}, stop: true, want: true},
		{name: "three of sixty over loads at once", loads: []string{"xoooooooooooooooooooo", "xoooooooooooooooo", "xo"}, atOnce: true},
		{name: "a burst, its end refused", loads: []string{"o" + long(60, 10, 40, 41, 42)}, atOnce: true, stop: true},
		{name: "a burst refused, then one at a time", loads: []string{"o" + long(60, 10, 40, 41, 42), "ooooox"}, atOnce: true, stop: true},
		{name: "a burst, most refused before the first answer", loads: []string{"xxxxxcccc"}, atOnce: true, stop: true},
		{name: "repeats of a burst, then one at a time", loads: []string{"xooooooooooooooooooo", "xooooooooooooooooooo", "xooooo"}, repeated: true},
		{name: "cut off by the client", loads: []string{"cccccccc"}},
		{name: "gone half-way", loads: []string{"ooooo---"}, atOnce: true, stop: true, want: true},
		{name: "gone amid streams", loads: []string{"ooooo~~~"}, atOnce: true, stop: true, want: true},
		{name: "connections lost, but not gone", loads: []string{"ooooo---"}, atOnce: true, there: true, stop: true},
		{name: "each load of sixty by itself", loads: []string{long(60, 10, 40), long(60, 10, 40), long(60, 10, 40)}},
		{name: "three of a hundred", loads: []string{long(100, 10, 20, 30)}},
		{name: "four of a hundred", loads: []string{long(100, 10, 20, 30, 40)}, stop: true, want: true},
	} {
		f := &Failing{SLA: profile.SLA{MaxFailures: 0.01}, Gone: func() bool { return !c.there }}
		stopped := false
		var err error
		for i, load := range c.loads {
			f.Begin(len(load), func() { stopped = true })
			for _, how := range load {
				q := profile.Request{}
				switch how {
				case bad:
					q.Failure = profile.FailStatus
				case lost:
					q.Failure = profile.FailConnect
				case broken:
					q.Failure = profile.FailMalformed
				case cut:
					q.Failure, q.Sent = profile.FailCanceled, 1
				case ok:
				}
				f.Done(q)
			}
			if c.repeated && i == 0 {
				continue
			}
			err = errors.Join(err, f.after("a point", !c.atOnce && (!c.repeated || i == 2)))
		}
		if errors.Is(err, ErrOverload) != c.want || stopped != c.stop {
			t.Errorf("%s: %v, stopped %v", c.name, err, stopped)
		}
	}
	if err := (*Failing)(nil).after("a point", true); err != nil {
		t.Error(err)
	}
}

// Streams that fail say something of a server only where it bore as many, as long.
func TestFailingStreams(t *testing.T) {
	type load struct {
		n, tokens, began int
		broken, whole    bool
	}
	for name, c := range map[string]struct {
		loads []load
		want  bool
	}{
		"borne before":           {[]load{{16, 100, 16, false, true}, {8, 100, 0, true, true}, {16, 50, 8, true, true}, {4, 100, 0, true, true}}, true},
		"borne at last":          {[]load{{8, 100, 7, true, true}, {16, 100, 8, true, true}, {32, 100, 16, true, true}}, true},
		"few of many":            {[]load{{32, 100, 300, true, true}, {16, 100, 1, true, true}, {8, 100, 1, true, true}}, false},
		"more than it ever bore": {[]load{{8, 100, 8, false, true}, {12, 100, 2, true, false}, {10, 100, 1, true, false}, {9, 100, 1, true, false}}, false},
		"longer ones":            {[]load{{40, 50, 40, false, true}, {32, 100, 2, true, false}, {24, 100, 1, true, false}, {20, 100, 1, true, false}}, false},
	} {
		f := &Failing{SLA: profile.SLA{MaxFailures: 0.01}}
		var err error
		for _, l := range c.loads {
			p := profile.Point{Asked: l.n, ISL: l.tokens}
			var broken *profile.Request
			if l.broken {
				broken = &profile.Request{Failure: profile.FailStatus, Status: 500}
			}
			if !l.whole {
				p.Invalid = "a stream ended"
			}
			f.stream(p, l.began, broken)
			err = errors.Join(err, f.after("a point", false))
		}
		if got, ok := errors.AsType[*FailingError](err); ok != c.want || ok && got.Last.Status != 500 {
			t.Errorf("%s: %v", name, err)
		}
	}
	(*Failing)(nil).stream(profile.Point{}, 1, nil)
}

// A warm-up request that failed is told with the point that came next, and with no other.
func TestWarmUpFailuresAreTold(t *testing.T) {
	whole := newLab(map[string]law{"TP:1": affine(1)})
	if _, _, err := run(t, whole, options(whole, 1), Known{}); err != nil {
		t.Fatal(err)
	}
	fill := 1 + slices.IndexFunc(whole.measured, func(w profile.Workload) bool { return w.Warmup })
	for phase, at := range map[profile.Phase]int{profile.Prefill: 1, profile.Decode: fill} {
		l := affine(1)
		l.failOnce = at
		b := newLab(map[string]law{"TP:1": l})
		res, _, err := run(t, b, options(b, 1), Known{})
		if err != nil {
			t.Fatal(err)
		}
		var told []profile.Point
		for _, p := range res.Points {
			if slices.Contains(codes(p.Warnings), "warm_up_failures") {
				told = append(told, p)
			}
		}
		if len(told) != 1 || told[0].Phase != phase || told[0].Stage != profile.StageSweep || told[0].Failures != 0 {
			t.Errorf("%s: told with %+v", phase, told)
			continue
		}
		i := slices.IndexFunc(told[0].Warnings, func(w profile.Warning) bool { return w.Code == "warm_up_failures" })
		want := fmt.Sprintf("1 of %s failed. No other figure counts them; the last: status: ", engine.Count(whole.measured[at-1].Requests, "warm-up request"))
		if got := told[0].Warnings[i].Message; got != want {
			t.Errorf("%s: %q, want %q", phase, got, want)
		}
	}
}

// long is a load of n requests whose failures are at the places given.
func long(n int, failures ...int) string {
	s := make([]byte, n)
	for i := range s {
		s[i] = 'o'
	}
	for _, i := range failures {
		s[i] = 'x'
	}
	return string(s)
}
