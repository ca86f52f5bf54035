package policy

import (
	"slices"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/planner"
)

// Numbers of Kubernetes' own cases (v1.36.3, horizontal_test.go, TestScalingWithRules),
// by their names there. Events are within the period.
func TestBehaviorLimits(t *testing.T) {
	minutes := func(pods, percent, m int) Scaling {
		return Scaling{Pods: pods, Percent: percent, Period: time.Duration(m) * time.Minute}
	}
	for _, c := range []struct {
		name    string
		have, n int
		up      bool
		rules   Scaling
		events  []int
		want    int
	}{
		{"user policies", 3, 1000, true, minutes(1, 0, 1), nil, 4},
		{"user defined policies down", 1000, 3, false, minutes(20, 0, 1), nil, 980},
		{"default behavior", 10, 50, true, DefaultBehavior().Up, nil, 20},
		{"pods policy larger than percent policy", 10, 500, true, minutes(100, 100, 1), nil, 110},
		{"percent policy larger than pods policy", 10, 500, true, minutes(2, 100, 1), nil, 20},
		{"large pod policy", 10, 50, true, minutes(100, 0, 1), nil, 50},
		{"pod policy limitation", 10, 50, true, minutes(30, 0, 1), nil, 40},
		{"percent policy limitation", 10, 50, true, minutes(0, 200, 1), nil, 30},
		{"down, pods more than percent", 100, 2, false, minutes(20, 1, 1), nil, 80},
		{"down, pods 2 and percent 1", 100, 2, false, minutes(2, 1, 1), nil, 98},
		{"down, pod policy limitation", 10, 2, false, minutes(5, 0, 1), nil, 5},
		{"down, percent policy limitation", 10, 5, false, minutes(0, 50, 1), nil, 5},
		{"a lot of recent scale up events", 100, 500, true, minutes(5, 0, 2), []int{1, 5, 9}, 100},
		{"pod policy and previous scale up events", 100, 500, true, minutes(150, 0, 2), []int{1, 5, 9}, 235},
		{"percent policy and previous scale up events", 100, 500, true, minutes(0, 200, 2), []int{1, 5, 9}, 255},
		{"percent policy and previous scale up and down events", 6, 24, true, minutes(0, 300, 5), []int{4, -2}, 16},
		{"pod policy limitation and previous events", 100, 2, false, minutes(5, 0, 2), []int{-1, -5, -9}, 100},
		{"down, percent policy limitation and previous events", 100, 0, false, minutes(0, 50, 2), []int{-2, -4, -6}, 56},
		{"down, percent policy and previous scale up and down events", 10, 1, false, minutes(0, 50, 3), []int{2, -4}, 6},
		{"previous events preventing further scale down", 100, 0, false, minutes(0, 10, 2), []int{-10, -10, -10}, 100},
		{"previous events still allowing more scale down", 10, 5, false, minutes(0, 1000, 2), []int{-10, -10, -10}, 5},
	} {
		s := halfMinute(one(1), 0, c.have, 0, 0)
		s.Length = 15 * time.Second
		var b behavior
		for _, e := range c.events {
			b.Scaled = append(b.Scaled, wanted{s.End().Add(-time.Minute), planner.Replicas{Aggregated: e}})
		}
		if got := b.limited(engine.RoleAggregated, s, c.n, c.rules, c.up); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// run lets a behavior settle recommendations, one every 15 s.
func run(o Behavior, have int, recommended ...int) (got []int) {
	var b behavior
	for i, n := range recommended {
		s := halfMinute(one(0), 0, have, 0, 0)
		s.Length = 15 * time.Second
		s.Start = s.Start.Add(time.Duration(i) * s.Length)
		f := begin(s)
		f.step("target", engine.RoleAggregated, n, "wanted")
		b.settle(f, s, s.Deployment.Pools, o)
		have = f.d.Want.Aggregated
		got = append(got, have)
	}
	return got
}

// Down only to the most of the last 300 s, what it found included; a higher one of
// before is no reason to go up.
func TestBehaviorStabilizesDown(t *testing.T) {
	asked := append(slices.Repeat([]int{4}, 16), 6)
	asked = append(asked, slices.Repeat([]int{4}, 30)...)
	got := run(DefaultBehavior(), 8, asked...)
	// It found 8 at 0 s: down 300 s later, to the 6 recommended at 255 s, which are
	// too old at 555 s.
	want := append(slices.Repeat([]int{8}, 19), slices.Repeat([]int{6}, 17)...)
	want = append(want, slices.Repeat([]int{4}, 11)...)
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	b := behavior{Past: []wanted{{time.Unix(1_000_000, 0), planner.Replicas{Aggregated: 8}}}}
	s := halfMinute(one(1), 0, 4, 0, 0)
	if n := b.stabilized(engine.RoleAggregated, s.End(), 4, 2, DefaultBehavior()); n != 4 {
		t.Errorf("from 4, with 8 before: %d", n)
	}
}

// Without a behavior block the fleet at most doubles in each sync, or grows to 4, and goes
// on to what was recommended within 300 s; with one it grows by 4 or doubles in 15 s, to
// what is recommended now. Down both go as far.
func TestBehaviorGrowth(t *testing.T) {
	for _, c := range []struct {
		name        string
		o           Behavior
		have        int
		asked, want []int
	}{
		{"no block", NoBehavior(), 2, []int{20, 20, 20, 20}, []int{4, 8, 16, 20}},
		{"no block, from 1", NoBehavior(), 1, []int{20, 20, 20, 20}, []int{4, 8, 16, 20}},
		{"no block, a moment's peak", NoBehavior(), 2, []int{20, 3, 3, 3}, []int{4, 8, 16, 20}},
		{"a block", DefaultBehavior(), 2, []int{20, 20, 20, 20}, []int{6, 12, 20, 20}},
		{"a block, from 1", DefaultBehavior(), 1, []int{20, 20, 20, 20}, []int{5, 10, 20, 20}},
		{"a block, a moment's peak", DefaultBehavior(), 2, []int{20, 3, 3, 3}, []int{6, 6, 6, 6}},
		{"no block, down", NoBehavior(), 9, slices.Repeat([]int{2}, 21), append(slices.Repeat([]int{9}, 19), 2, 2)},
		{"a block, down", DefaultBehavior(), 9, slices.Repeat([]int{2}, 21), append(slices.Repeat([]int{9}, 19), 2, 2)},
	} {
		if got := run(c.o, c.have, c.asked...); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// Up only to the least of a window, too, and by 10 in each 150 s: the chart's.
func TestBehaviorStabilizesUp(t *testing.T) {
	got := run(WVABehavior(), 1, slices.Repeat([]int{40}, 38)...)
	// 1 was found at 0 s, which is too old at 240 s; the next 10 come after 150 s.
	want := append(slices.Repeat([]int{1}, 15), slices.Repeat([]int{11}, 10)...)
	want = append(append(want, slices.Repeat([]int{21}, 10)...), slices.Repeat([]int{31}, 3)...)
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// Up at most to twice as many, or by 4, in each 15 s; an interval of 30 s has two.
func TestBehaviorUpwardLimit(t *testing.T) {
	for _, c := range []struct{ have, want int }{{1, 10}, {2, 12}, {10, 40}} {
		s := halfMinute(one(1), 0, c.have, 0, 0)
		var b behavior
		if n := b.limited(engine.RoleAggregated, s, 1000, DefaultBehavior().Up, true); n != c.want {
			t.Errorf("from %d: %d, want %d", c.have, n, c.want)
		}
	}
}
