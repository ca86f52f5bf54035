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
// server; three of sixty do, and three in a row.
func TestDefectOneFailedRequestEndedAProfile(t *testing.T) {
	const ok, bad, cut = 'o', 'x', 'c'
	for _, c := range []struct {
		name  string
		loads []string // how the requests of each end
		want  bool
	}{
		{"the only one", []string{"x"}, false},
		{"one of twenty", []string{"ooooooooooxooooooooo"}, false},
		{"two in a row, twice", []string{"xxo", "xxo"}, true}, // four of sixty
		{"two in a row", []string{"ooxxo"}, false},
		{"three in a row", []string{"ooxxxo"}, true},
		{"three in a row over loads", []string{"x", "x", "x"}, true},
		{"three of sixty over loads", []string{"xoooooooooooooooooooo", "xoooooooooooooooo", "xo"}, true},
		{"cut off by the client", []string{"cccccccc"}, false},
		{"each load of sixty by itself", []string{long(60, 10, 40), long(60, 10, 40), long(60, 10, 40)}, false},
		{"four of a hundred", []string{long(100, 10, 20, 30, 40)}, false},
		{"five of a hundred", []string{long(100, 10, 20, 30, 40, 50)}, true},
	} {
		for _, live := range []bool{false, true} {
			f := &Failing{Share: 0.05}
			stopped := false
			var err error
			for _, load := range c.loads {
				var rs []profile.Request
				for _, how := range load {
					q := profile.Request{}
					switch how {
					case bad:
						q.Failure = profile.FailStatus
					case cut:
						q.Failure = profile.FailCanceled
					case ok:
					}
					rs = append(rs, q)
				}
				if live {
					f.Begin(len(rs), func() { stopped = true })
					for _, q := range rs {
						f.Done(q)
					}
				}
				err = errors.Join(err, f.after("a point", rs))
			}
			if errors.Is(err, ErrOverload) != c.want || live && stopped != c.want {
				t.Errorf("%s, live %v: %v, stopped %v", c.name, live, err, stopped)
			}
		}
	}
	if err := (*Failing)(nil).after("a point", []profile.Request{{Failure: profile.FailStatus}}); err != nil {
		t.Error(err)
	}
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
