package sweep

import (
	"errors"
	"testing"

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
