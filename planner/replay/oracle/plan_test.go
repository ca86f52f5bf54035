package oracle

import (
	"reflect"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/sim/fleet"
	"plimsoll/profile"
)

// burst is 5 engines' load for 20 s, after a quiet time with half of one.
func burst(startUp engine.Picoseconds) Case {
	p := steady(100 * engine.Millisecond)
	p.StartUp = startUp
	var requests []fleet.Request
	for _, r := range evenly(20*engine.Millisecond, 100*engine.Second) {
		in := r.At >= 50*engine.Second && r.At < 70*engine.Second
		if in || r.At%(200*engine.Millisecond) == 0 {
			requests = append(requests, r)
		}
	}
	return Case{
		Fleet:    fleet.Config{Pools: []fleet.Pool{p}, SLA: profile.SLA{TTFT: time.Second, ITL: time.Second}},
		Requests: requests, Every: 2 * engine.Second, Bins: 50, Attainment: 0.99, Bounds: []Bounds{{1, 20}},
	}
}

// Somebody who knows the future starts before the need, and drains after it.
func TestPlanStartsBeforeTheNeed(t *testing.T) {
	c := burst(10 * engine.Second)
	p, err := Plan(c, c.Simulate, 400)
	if err != nil {
		t.Fatal(err)
	}
	if !p.Reaches {
		t.Fatalf("the plan %v reaches %v", p.Schedule, p.Outcome.Attainment)
	}
	s := p.Schedule[0]
	if s[15] != 1 || s[22] < 4 || s[45] != 1 {
		t.Errorf("plan %v: want 1 replica until about 40 s, 5 or so from then to 70 s, and 1 again", s)
	}
	// One replica for 100 s, and four more for 20 s, that start in 10 s each.
	if got := 3600 * p.Outcome.GPUHours; got > 1.1*220 {
		t.Errorf("the plan takes %v GPU s, want 220 or so", got)
	}
}

// The same case gives the same plan, within as many simulations as are allowed.
func TestPlanIsDeterministicAndBounded(t *testing.T) {
	c := burst(3 * engine.Second)
	for _, most := range []int{1, 2, 7, 40} {
		calls := 0
		count := func(s Schedule) (Outcome, error) {
			calls++
			return c.Simulate(s)
		}
		a, err := Plan(c, count, most)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Plan(c, c.Simulate, most)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(a, b) {
			t.Errorf("%d simulations: two plans of the same case: %v and %v", most, a, b)
		}
		if calls > most || calls != a.Simulations {
			t.Errorf("%d simulations where %d are allowed and %d are said", calls, most, a.Simulations)
		}
	}
}

// What no fleet can do is said, with the schedule that comes closest.
func TestPlanSaysWhatCannotBeReached(t *testing.T) {
	c := burst(0)
	c.Bounds[0].Max = 2
	p, err := Plan(c, c.Simulate, 20)
	if err != nil {
		t.Fatal(err)
	}
	if p.Reaches || p.Schedule[0][30] != 2 {
		t.Errorf("plan %v reaches %v: want all 2 replicas, and to be told that they are too few", p.Schedule, p.Outcome.Attainment)
	}
}

// Faults of a case are named.
func TestCheck(t *testing.T) {
	for name, spoil := range map[string]func(*Case){
		"attainment": func(c *Case) { c.Attainment = 1.1 },
		"bins":       func(c *Case) { c.Bins = 0 },
		"requests":   func(c *Case) { c.Requests = nil },
		"order":      func(c *Case) { c.Requests = []fleet.Request{{At: 2, ISL: 1, OSL: 1}, {At: 1, ISL: 1, OSL: 1}} },
		"late":       func(c *Case) { c.Requests = []fleet.Request{{At: c.end(), ISL: 1, OSL: 1}} },
		"bounds":     func(c *Case) { c.Bounds = []Bounds{{3, 2}} },
		"pools":      func(c *Case) { c.Bounds = nil },
		"budget":     func(c *Case) { c.Budget = -1 },
		"drain":      func(c *Case) { c.Drain = -1 },
		"noise":      func(c *Case) { c.Fleet.Pools[0].Engine.Noise = 0.1 },
	} {
		c := burst(0)
		spoil(&c)
		if c.Check() == nil {
			t.Errorf("%s: no complaint", name)
		}
		if _, err := Plan(c, c.Simulate, 1); err == nil {
			t.Errorf("%s: a plan was given", name)
		}
	}
}
