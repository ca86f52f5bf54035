package serve

import (
	"strings"
	"testing"
	"time"

	"plimsoll/planner"
)

// What finds no place is said once for each time that it does.
func TestPlaceless(t *testing.T) {
	t.Parallel()
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	stuck := planner.State{Pools: []planner.PoolState{{Want: 4, Ready: 2, Starting: 2, Pending: 2}}, Scaling: "prefill: 2 without a place"}
	starting := planner.State{Pools: []planner.PoolState{{Want: 4, Ready: 2, Starting: 2}}, Scaling: "prefill: 2 starting"}
	var p placeless
	for i, step := range []struct {
		at   int // s
		s    planner.State
		says bool
	}{
		{0, starting, false},
		{30, starting, false}, // a start takes what it takes
		{31, stuck, false},
		{40, stuck, false},
		{41, stuck, true},
		{60, stuck, false},
		{61, starting, false},
		{62, stuck, false},
		{71, stuck, false},
		{72, stuck, true},
	} {
		news := p.see(step.s, begin.Add(time.Duration(step.at)*time.Second), 10*time.Second)
		if (news != "") != step.says || step.says && !strings.Contains(news, "prefill: 2 without a place") {
			t.Errorf("step %d, after %d s: says %q", i, step.at, news)
		}
	}
}
