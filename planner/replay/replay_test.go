package replay

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/sim/fleet"
	"plimsoll/planner"
	"plimsoll/planner/policy"
)

func near(a, b, tolerance float64) bool { return math.Abs(a-b) <= tolerance }

// Two requests, one replica, another one from the first minute to the third: all by
// hand.
func TestScheduleByHand(t *testing.T) {
	s := aggregated(1)
	s.Pace.Every, s.Scrape = 150*time.Second, 150*time.Second
	requests := slices.Values([]fleet.Request{
		{At: engine.Second, ISL: 100, OSL: 10},                 // TTFT 0.11 s, gaps of 10 ms
		{At: 400 * engine.Second, ISL: 2000, OSL: 10},          // TTFT 2.01 s: misses
		{At: 599 * engine.Second, ISL: 100, OSL: 1000},         // ends at 609.1 s, in the drain
		{At: 600 * engine.Second, ISL: 100, OSL: 10},           // after the end
		{At: 601 * engine.Second, ISL: 100_000_000, OSL: 1000}, // not looked at
	})
	r := mustSchedule(t, requests, s, Schedule{{time.Minute, agg(2)}, {3 * time.Minute, agg(1)}})
	if r.Requests != 3 || r.Finished != 3 || r.Unfinished+r.Rejected+r.Refused != 0 {
		t.Errorf("requests %+v", r)
	}
	if a := r.Attainment; !near(a.TTFT, 2.0/3, 1e-12) || a.ITL != 1 || !near(a.Both, 2.0/3, 1e-12) {
		t.Errorf("attainment %+v", a)
	}
	if r.Windows != 3 || !near(r.UnderSLO, 2.0/3, 1e-12) || !near(r.GoodRequests, 2.0/600, 1e-12) || !near(r.GoodTokens, 1010.0/600, 1e-12) {
		t.Errorf("%d windows, %v under the SLO, goodput %v and %v", r.Windows, r.UnderSLO, r.GoodRequests, r.GoodTokens)
	}
	if !near(r.GPUHours*3600, 600+120, 1e-6) || r.Scales != 2 || r.Decisions != 0 {
		t.Errorf("%v GPU-seconds, %d scalings, %d decisions", r.GPUHours*3600, r.Scales, r.Decisions)
	}
	if p := r.Pools[0]; p.Ups != 1 || p.Downs != 1 || p.Most != 2 || p.Least != 1 {
		t.Errorf("pool %+v", p)
	}
	want := []Point{
		{To: 150 * time.Second, Arrivals: 1, MetTTFT: 1, MetITL: 1, MetBoth: 1, Pools: []PoolPoint{{Wanted: 2, Ready: 2, GPUs: 1 + 90.0/150}}},
		{From: 150 * time.Second, To: 300 * time.Second, Pools: []PoolPoint{{Wanted: 1, Ready: 1, GPUs: 1 + 30.0/150}}},
		{From: 300 * time.Second, To: 450 * time.Second, Arrivals: 1, MetITL: 1, Pools: []PoolPoint{{Wanted: 1, Ready: 1, GPUs: 1}}},
		{From: 450 * time.Second, To: 600 * time.Second, Arrivals: 1, MetTTFT: 1, MetITL: 1, MetBoth: 1, Pools: []PoolPoint{{Wanted: 1, Ready: 1, GPUs: 1}}},
	}
	if !reflect.DeepEqual(r.Timeline, want) {
		t.Errorf("timeline\n%+v, want\n%+v", r.Timeline, want)
	}
	if got := want[2].Attainment(); got != (Attainment{0, 1, 0}) {
		t.Errorf("a point's attainment %+v", got)
	}
}

// A replica that starts between two decisions is seen to.
func TestTimelineShowsStartUp(t *testing.T) {
	s := aggregated(1)
	s.Pace.Every = 3 * time.Minute
	r := mustSchedule(t, steady(1), s, Schedule{{time.Minute, agg(2)}})
	if len(r.Timeline) != 120 {
		t.Fatalf("%d points of 10m, want one each 5s", len(r.Timeline))
	}
	for _, p := range r.Timeline {
		want := PoolPoint{Wanted: 1, Ready: 1, GPUs: 1}
		switch {
		case p.To > 80*time.Second: // at which it becomes ready
			want = PoolPoint{Wanted: 2, Ready: 2, GPUs: 2}
		case p.To > 60*time.Second:
			want = PoolPoint{Wanted: 2, Ready: 1, Starting: 1, GPUs: 2}
		}
		if p.Pools[0] != want {
			t.Errorf("up to %v: %+v, want %+v", p.To, p.Pools[0], want)
		}
	}
	s.Scrape = 7 * time.Second
	if r := mustSchedule(t, steady(1), s, nil); len(r.Timeline) != 86 || r.Timeline[0].To != 7*time.Second || r.Timeline[85].To != s.Length {
		t.Errorf("points of whole looks: %+v", r.Timeline)
	}
	s.Length = 10 * 24 * time.Hour
	if got := s.point(); got != 43*7*time.Second {
		t.Errorf("points of %v in ten days", got)
	}
}

// Decisions that the budget holds back are counted: none without one, and all of a
// policy that always wants more than there may be.
func TestDecisionsHeldBackByTheBudget(t *testing.T) {
	for _, c := range []struct{ budget, held int }{{-1, 0}, {3, 0}, {2, 19}} {
		s := aggregated(2)
		s.Deployment.Budget.Max = c.budget
		r := mustRun(t, steady(1), s, policy.Static{Replicas: agg(3)})
		if r.Decisions != 19 || r.HeldBack != c.held {
			t.Errorf("a budget of %d: %d of %d decisions are held back, want %d", c.budget, r.HeldBack, r.Decisions, c.held)
		}
	}
}

// Gaps that are too long miss, however early the first token came.
func TestSlowTokensMiss(t *testing.T) {
	s := aggregated(2)
	s.Deployment.SLA.ITL = 5 * ms
	if r := mustSchedule(t, steady(1), s, nil); r.Attainment != (Attainment{1, 0, 0}) || r.UnderSLO != 0 || r.GoodTokens != 0 {
		t.Errorf("%+v, %v under the SLO", r.Attainment, r.UnderSLO)
	}
}

// A GPU counts while its replica starts and while it drains.
func TestStartUpAndDrainingCount(t *testing.T) {
	s := aggregated(1)
	// A request of 1000 tokens from 50 s on holds its replica until 60.1 s.
	requests := slices.Values([]fleet.Request{{At: 50 * engine.Second, ISL: 100, OSL: 1000}})
	r := mustSchedule(t, requests, s, Schedule{{55 * time.Second, agg(0)}, {100 * time.Second, agg(1)}, {110 * time.Second, agg(0)}})
	if !near(r.GPUHours*3600, 60.1+10, 1e-6) || r.Attainment.Both != 1 {
		t.Errorf("%v GPU-seconds, %+v", r.GPUHours*3600, r.Attainment)
	}
}

// What has not finished when the drain ends misses all of the SLA, its TTFT too.
func TestUnfinishedRequestsAreMisses(t *testing.T) {
	s := aggregated(1)
	s.Drain = 0
	requests := slices.Values([]fleet.Request{{At: 599 * engine.Second, ISL: 100, OSL: 1000}})
	if r := mustSchedule(t, requests, s, nil); r.Unfinished != 1 || r.Attainment != (Attainment{}) || r.UnderSLO != 0 {
		t.Errorf("%d unfinished, %+v", r.Unfinished, r.Attainment)
	}
	s.Drain = 11 * time.Second
	if r := mustSchedule(t, requests, s, nil); r.Unfinished != 0 || r.Attainment.Both != 1 {
		t.Errorf("with a drain: %d unfinished, %+v", r.Unfinished, r.Attainment)
	}
}

func TestRejectedAndRefusedRequestsAreMisses(t *testing.T) {
	s := aggregated(0) // nobody serves: what comes waits
	s.Fleet.MaxInFlight = 10
	r := mustSchedule(t, steady(1), s, nil)
	if r.Refused != r.Requests-10 || r.Unfinished != 10 || r.Attainment.TTFT != 0 || !slices.ContainsFunc(r.Warnings, coded("refused")) {
		t.Errorf("%d of %d refused, %d unfinished: %+v", r.Refused, r.Requests, r.Unfinished, r.Warnings)
	}
	s = aggregated(1)
	s.Fleet.Pools[0].Engine.Limits.MaxModelLen = 50
	if r := mustSchedule(t, steady(1), s, nil); r.Rejected != r.Requests || r.Requests < 500 || r.Attainment.Both != 0 || !slices.ContainsFunc(r.Warnings, coded("rejected")) {
		t.Errorf("%d of %d rejected: %+v", r.Rejected, r.Requests, r.Warnings)
	}
}

// A replay of nothing misses nothing, and pays for what stands.
func TestNothingComes(t *testing.T) {
	r := mustRun(t, steady(0), aggregated(2), &spy{})
	if r.Requests != 0 || r.Attainment != (Attainment{1, 1, 1}) || r.UnderSLO != 1 || !near(r.GPUHours, 2.0/6, 1e-9) || r.Decisions != 19 {
		t.Errorf("%+v", r)
	}
}

// Replicas outside the bounds are mended at once, before any interval.
func TestBoundsAreKeptFromTheStart(t *testing.T) {
	s := aggregated(1)
	s.Deployment.Pools[0].Min = 3
	p := &spy{}
	r := mustRun(t, steady(0), s, p)
	if r.Pools[0].Ups != 1 || r.Pools[0].Most != 3 || p.seen[0].Pools[0].Want != 3 || !near(r.GPUHours, 0.5, 1e-9) {
		t.Errorf("%+v", r.Pools[0])
	}
}

// Decisions come every interval; a start-up that outlasts it is waited for, as in
// serve, and makes the interval grow.
func TestScalingOutlastsTheInterval(t *testing.T) {
	s := aggregated(1)
	s.Fleet.Pools[0].StartUp = 45 * engine.Second
	s.Length = 3 * time.Minute
	p := &spy{want: func(s planner.Situation) planner.Replicas { return agg(s.Have.Aggregated + 1) }}
	mustRun(t, steady(1), s, p)
	var at []time.Duration
	for _, o := range p.seen {
		at = append(at, o.End().Sub(time.Unix(0, 0)))
	}
	if want := []time.Duration{30 * time.Second, 80 * time.Second, 130 * time.Second}; !slices.Equal(at, want) {
		t.Errorf("decided at %v, want %v", at, want)
	}
}

// The trace before virtual time 0 is told to the core by intervals, and counts for
// nothing.
func TestWarmup(t *testing.T) {
	s := aggregated(2)
	s.Origin, s.Warmup = time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC), 100*time.Second
	requests := slices.Values([]fleet.Request{
		{At: 9 * engine.Second, ISL: 1, OSL: 1}, // before the first whole interval
		{At: 15 * engine.Second, ISL: 100, OSL: 10},
		{At: 39 * engine.Second, ISL: 300, OSL: 30},
		{At: 90 * engine.Second, ISL: 50, OSL: 5},
		{At: 100 * engine.Second, ISL: 100, OSL: 10},
	})
	p := &spy{}
	r := mustRun(t, requests, s, p)
	var want []planner.Observation
	for i, x := range [][3]float64{{2, 200, 20}, {0, 0, 0}, {1, 50, 5}} {
		want = append(want, planner.Told(s.Origin.Add(time.Duration(i-3)*30*time.Second), 30*time.Second, x[0], x[1], x[2]))
	}
	if !reflect.DeepEqual(p.told, want) {
		t.Errorf("told\n%+v, want\n%+v", p.told, want)
	}
	if r.Requests != 1 || p.seen[0].Arrivals.Value != 1 || !p.seen[0].Start.Equal(s.Origin) {
		t.Errorf("%d requests; the first interval %+v", r.Requests, p.seen[0])
	}
	if r := mustSchedule(t, requests, s, nil); r.Requests != 1 {
		t.Errorf("a schedule saw %d requests", r.Requests)
	}
}

func TestNonsenseIsRefused(t *testing.T) {
	for want, change := range map[string]func(*Scenario){
		"the length is 0s":                 func(s *Scenario) { s.Length = 0 },
		"the length is 2400h":              func(s *Scenario) { s.Length = 2400 * time.Hour },
		"the drain is":                     func(s *Scenario) { s.Drain = -1 },
		"the warm-up is":                   func(s *Scenario) { s.Warmup = -1 },
		"the time between decisions":       func(s *Scenario) { s.Pace.Every = 0 },
		"the scaling timeout":              func(s *Scenario) { s.Pace.Blocking = true },
		"the time between looks":           func(s *Scenario) { s.Scrape = time.Minute },
		"the metrics' delay":               func(s *Scenario) { s.Delay = -1 },
		"starts with -1 replicas":          func(s *Scenario) { s.Start.Aggregated = -1 },
		"has 2 GPUs, in the deployment 1":  func(s *Scenario) { s.Fleet.Pools[0].GPUs = 2 },
		"has 1 GPUs, in the deployment 0":  func(s *Scenario) { s.Deployment.Pools[0].Role = engine.RoleDecode },
		"1 pools, the deployment 2":        func(s *Scenario) { s.Deployment = disaggregated(1, 1).Deployment },
		"the TTFT to keep is 0s":           func(s *Scenario) { s.Deployment.SLA.TTFT = 0 },
		"request 1: ISL of 0 tokens":       func(*Scenario) {},
		"change 1 is at 10m0s":             func(*Scenario) {},
		"change 2 wants -1 aggregated":     func(*Scenario) {},
		"change 2 is at 1s: want 0 to":     func(*Scenario) {},
		"the planner is for pools":         func(*Scenario) {},
		"request 2 arrives at 1s, before ": func(*Scenario) {},
	} {
		s, plan, requests := aggregated(1), Schedule{}, steady(1)
		change(&s)
		switch {
		case strings.HasPrefix(want, "request 1"):
			requests = slices.Values([]fleet.Request{{}})
		case strings.HasPrefix(want, "request 2"):
			requests = slices.Values([]fleet.Request{{At: 2 * engine.Second, ISL: 1, OSL: 1}, {At: engine.Second, ISL: 1, OSL: 1}})
		case strings.HasPrefix(want, "change 1"):
			plan = Schedule{{10 * time.Minute, agg(1)}}
		case strings.HasPrefix(want, "change 2 wants"):
			plan = Schedule{{0, agg(1)}, {1, agg(-1)}}
		case strings.HasPrefix(want, "change 2"):
			plan = Schedule{{time.Second, agg(1)}, {time.Second, agg(2)}}
		case strings.HasPrefix(want, "the planner"):
			other := aggregated(1)
			other.Deployment.SLA.TTFT++
			if _, err := Run(requests, s, coreOf(t, other, &spy{})); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want it to say %q", err, want)
			}
			continue
		}
		if _, err := RunSchedule(requests, s, plan); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want it to say %q", err, want)
		}
	}
}
