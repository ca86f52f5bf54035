package profile

import (
	"math"
	"strings"
	"testing"
	"time"
)

// Others matter where they leave too little: by how many cores there are, and how long
// the load lasted.
func TestContended(t *testing.T) {
	on := func(cores int, others, busy float64, elapsed time.Duration) *Machine {
		return &Machine{Cores: cores, Time: time.Duration(cores) * elapsed, Others: others, Busy: busy}
	}
	const long = 20 * time.Second
	for name, c := range map[string]struct {
		m    *Machine
		want bool
	}{
		"not known":                          {nil, false},
		"nobody":                             {on(2, 0, 1, long), false},
		"two busy loops on two cores":        {on(2, 0.8, 1, long), true},
		"a tenth of two full cores":          {on(2, 0.1, 1, long), true},
		"a hundredth of two full cores":      {on(2, 0.01, 1, long), false},
		"one loop beside a small engine":     {on(2, 0.5, 0.7, long), true},
		"a desktop on 128 cores":             {on(128, 0.02, 0.5, long), false},
		"half of 128 cores, the rest idle":   {on(128, 0.5, 0.6, long), false},
		"half of 128 cores, none idle":       {on(128, 0.5, 1, long), true},
		"a load too short to tell":           {on(2, 0.2, 1, 200*time.Millisecond), false},
		"a short load, and hardly any is us": {on(2, 0.9, 1, 200*time.Millisecond), true},
	} {
		if got := c.m.Contended(); got != c.want || got != (len(c.m.Warnings()) == 1) {
			t.Errorf("%s: %v, warnings %v", name, got, c.m.Warnings())
		}
	}
	m := on(2, 0.38, 1, long)
	if w := m.Warnings()[0]; w.Code != "machine_taken" || w.Message != "other processes took 38 % of this machine's CPU during the load; stop them, or measure again on a quiet machine" {
		t.Errorf("%+v", w)
	}
	if m.Steal = 0.3; !strings.Contains(m.Taken(), "other virtual machines (steal) took 38 %") {
		t.Error(m.Taken())
	}
}

// Erlang C of 1 server is its use; of 2 at a half, a third; of 10 at 0.8, 0.409 (Cooper,
// Introduction to Queueing Theory, 1981, table of Erlang's delay formula).
func TestWaits(t *testing.T) {
	for _, c := range []struct {
		cores     int
		use, want float64
	}{{1, 0.7, 0.7}, {2, 0.5, 1. / 3}, {10, 0.8, 0.409}, {4, 0, 0}, {4, -0.1, 0}, {4, 1, 1}, {4, 1.1, 1}} {
		if got := ErlangC(c.cores, c.use); math.Abs(got-c.want) > 1e-3 {
			t.Errorf("%d cores at %g: %g, want %g", c.cores, c.use, got, c.want)
		}
	}
}

// Loads together are as disturbed as the worst of them, and without any the mean by time.
func TestMachineOfTwoLoads(t *testing.T) {
	quiet := &Machine{Cores: 2, Time: 30 * time.Second, Others: 0.01, Busy: 0.2}
	still := &Machine{Cores: 2, Time: 10 * time.Second, Others: 0.05, Busy: 0.4}
	taken := &Machine{Cores: 2, Time: 10 * time.Second, Others: 0.5, Busy: 1}
	worse := &Machine{Cores: 2, Time: 10 * time.Second, Others: 0.6, Busy: 1}
	for _, c := range []struct{ a, b, want *Machine }{
		{nil, nil, nil},
		{nil, quiet, quiet},
		{quiet, nil, quiet},
		{quiet, taken, taken},
		{taken, quiet, taken},
		{taken, worse, worse},
		{worse, taken, worse},
		{taken, nil, taken},
		{nil, taken, taken},
	} {
		if got := c.a.With(c.b); got != c.want {
			t.Errorf("%+v with %+v: %+v", c.a, c.b, got)
		}
	}
	got := quiet.With(still)
	if got.Time != 40*time.Second || math.Abs(got.Others-0.02) > 1e-9 || math.Abs(got.Busy-0.25) > 1e-9 || quiet.Time != 30*time.Second {
		t.Errorf("%+v", got)
	}
}
