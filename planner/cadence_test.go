package planner

import (
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
)

func second(s int) time.Time { return time.Unix(int64(s), 0) }

func TestOnGrid(t *testing.T) {
	for _, c := range []struct{ last, now, want int }{{0, 5, 10}, {0, 10, 10}, {0, 11, 20}, {0, 20, 20}, {0, 99, 100}} {
		if got := OnGrid(second(c.last), 10*time.Second, second(c.now)); !got.Equal(second(c.want)) {
			t.Errorf("after %d at %d: %d, want %d", c.last, c.now, got.Unix(), c.want)
		}
	}
}

// decisions are when a cadence decides, looked at every second for so many, with
// a target that scales for takes seconds after each decision.
func decisions(p Pace, seconds, takes int) (at []int, news string) {
	c, until := p.Begin(second(0)), 0
	for now := 1; now <= seconds; now++ {
		var s State
		if now < until {
			s.Scaling = "starting"
		}
		wait, grown := c.See(s, second(now))
		news += grown
		if wait {
			continue
		}
		ready, late := c.Ready(second(now))
		news += late
		if !ready {
			continue
		}
		at = append(at, now)
		c.Take(second(now))
		c.Asked(second(now))
		until = now + takes
		c.Plan(second(now))
	}
	return at, news
}

func TestCadence(t *testing.T) {
	for _, c := range []struct {
		name  string
		pace  Pace
		takes int
		want  []int
		news  string
	}{
		{"scaling is quick", Pace{Every: 30 * time.Second}, 10, []int{30, 60, 90, 120, 150, 180}, ""},
		{"scaling outlasts the interval: it is waited for, then the interval grows", Pace{Every: 30 * time.Second}, 45, []int{30, 75, 120, 165}, "decisions now come every 45s"},
		{"scaling never ends: it is waited for once", Pace{Every: 30 * time.Second}, 1000, []int{30, 150}, "up to 2m0s"},
		{"scaling outlasts the interval of a policy that counts on it", Pace{Every: 30 * time.Second, Steady: true}, 45, []int{30, 60, 90, 120, 150, 180}, ""},
		{"blocking", Pace{Every: 30 * time.Second, Blocking: true, Timeout: time.Hour}, 45, []int{30, 75, 120, 165}, ""},
		{"steady", Pace{Every: 30 * time.Second, Steady: true}, 45, []int{30, 60, 90, 120, 150, 180}, ""},
		{"blocking, but not for ever", Pace{Every: 30 * time.Second, Blocking: true, Timeout: 70 * time.Second}, 1000, []int{30, 101}, ""},
	} {
		at, news := decisions(c.pace, 180, c.takes)
		if len(at) > len(c.want) {
			at = at[:len(c.want)]
		}
		if !slices.Equal(at, c.want) || !strings.Contains(news, c.news) {
			t.Errorf("%s: decided at %v, want %v; said %q", c.name, at, c.want, news)
		}
	}
}

// A decision that a scaling put off is followed by a whole interval, not by what was
// left of its own.
func TestIntervalAfterADecisionPutOff(t *testing.T) {
	for _, p := range []Pace{{Every: 30 * time.Second}, {Every: 30 * time.Second, Blocking: true, Timeout: time.Hour}} {
		for takes := 31; takes < 200; takes++ {
			c, last := p.Begin(second(0)), 0
			for now := 1; now <= 600; now++ {
				var s State
				if now >= 30 && now < 30+takes {
					s.Scaling = "starting"
				}
				if wait, _ := c.See(s, second(now)); wait {
					continue
				}
				if ready, _ := c.Ready(second(now)); !ready {
					continue
				}
				if length := second(now).Sub(c.Take(second(now))); length < p.Every {
					t.Fatalf("%+v, scaling takes %d s: the interval that ends at %d is of %v", p, takes, now, length)
				}
				if last == 0 {
					c.Asked(second(now))
				}
				last = now
				c.Plan(second(now))
			}
		}
	}
}

// An interval says whether the replicas ready were the same all the time, once.
func TestWatch(t *testing.T) {
	state := func(ready int) State {
		return State{Pools: []PoolState{{Role: engine.RoleDecode, Want: 3, Ready: ready}}, Scaling: "starting"}
	}
	var w Watch
	seen := Observation{Arrivals: Known(7.0), Pools: []PoolObservation{{PoolState: PoolState{Role: engine.RoleDecode}, KVUsage: Known(0.5)}}}
	for i, c := range []struct {
		ready   []int
		changed bool
	}{{[]int{2, 2}, false}, {[]int{3, 3}, true}, {[]int{3}, false}, {[]int{2, 3}, true}} {
		for _, n := range c.ready {
			w.See(state(n))
		}
		o := w.Complete(seen, state(3), second(60*i), second(60*i+60))
		p, ok := o.Pool(engine.RoleDecode)
		if !ok || p.Changed != c.changed || p.Ready != 3 || p.Want != 3 || p.KVUsage != Known(0.5) {
			t.Errorf("interval %d: %+v", i, p)
		}
		if !o.Start.Equal(second(60*i)) || o.Length != time.Minute || o.Scaling != "starting" || o.Arrivals != Known(7.0) {
			t.Errorf("interval %d: %+v", i, o)
		}
	}
}
