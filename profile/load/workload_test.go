package load

import (
	"strings"
	"testing"

	"plimsoll/profile"
)

func TestValidate(t *testing.T) {
	good := closed(1, 1)
	if err := Validate(good); err != nil {
		t.Fatal(err)
	}
	with := func(f func(*profile.Workload)) profile.Workload { w := good; f(&w); return w }
	for _, c := range []struct {
		w    profile.Workload
		want string
	}{
		{with(func(w *profile.Workload) { w.ISL = 0 }), "isl 0"},
		{with(func(w *profile.Workload) { w.ISL = MaxTokens + 1 }), "isl 16777217"},
		{with(func(w *profile.Workload) { w.OSL = -1 }), "osl -1"},
		{with(func(w *profile.Workload) { w.Requests = 0 }), "requests 0"},
		{with(func(w *profile.Workload) { w.InFlight = 0 }), "in-flight 0"},
		{with(func(w *profile.Workload) { w.Timeout = -1 }), "timeout -1ns"},
	} {
		err := Validate(c.w)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want a complaint about %q", err, c.want)
		}
	}
}
