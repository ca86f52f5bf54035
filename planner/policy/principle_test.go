package policy

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/planner"
	"plimsoll/profile"
)

// missing is a minute of requests of which 5 % miss TTFT, of p99.
func missing(rate float64, have planner.Replicas, change ...func(*planner.Situation)) planner.Situation {
	return minute(rate, have, append([]func(*planner.Situation){func(s *planner.Situation) {
		s.Deployment.SLA.Stat = profile.P99
		s.TTFT = exponential(150*ms, 117*ms, 60*rate)
		s.ITL = exponential(10*ms, ms, 60*rate)
	}}, change...)...)
}

// The margin is not learned while what it asks for is refused, starts or has just come,
// and its end is not reached while a bound keeps more than it asks for.
func TestMarginIsNotWoundUp(t *testing.T) {
	refused := func(s *planner.Situation) { s.Have.Prefill = 2 }
	for name, c := range map[string]struct {
		change func(*planner.Situation)
		learns bool
	}{
		"what it wants": {func(*planner.Situation) {}, true},
		"refused":       {refused, false},
		"starting":      {func(s *planner.Situation) { s.Pools[0].Starting = 1 }, false},
		"just come":     {func(s *planner.Situation) { s.Pools[0].Changed = true }, false},
	} {
		p := standard(t, off)
		p.m.Asked, p.m.Wanted = planner.Replicas{Prefill: 4, Decode: 4}, []wanted{{}}
		s := missing(10, planner.Replicas{Prefill: 4, Decode: 4}, c.change)
		p.learnMargin(s, p.demand(10))
		if got := p.m.Margin.Prefill > 0; got != c.learns {
			t.Errorf("%s: margin %v", name, p.m.Margin.Prefill)
		}
	}
	p := standard(t, off)
	p.m.Asked, p.m.Wanted = planner.Replicas{Prefill: 1, Decode: 1}, []wanted{{}}
	for range 1000 { // bounds that keep four
		p.learnMargin(minute(10, planner.Replicas{Prefill: 4, Decode: 4}, func(s *planner.Situation) {
			s.Deployment.SLA.Stat = profile.P99
			s.TTFT, s.ITL = exponential(100*ms, ms, 600), exponential(10*ms, ms, 600)
		}), p.demand(10))
	}
	if m := p.m.Margin; m.Prefill != 0 || m.Decode != 0 {
		t.Errorf("bounds that bind below make %+v", m)
	}
}

// The margin weighs an interval by its requests: a quiet hour without misses does not
// take back what a busy one taught.
func TestMarginWeighsByRequests(t *testing.T) {
	var busy, quiet margin
	for range 120 {
		busy.weigh(50, time.Minute)
		quiet.weigh(50, time.Minute)
	}
	if few, many := quiet.weigh(1, time.Minute), busy.weigh(60, time.Minute); few > 0.03 || many < 1.1 || many > mostWeight {
		t.Errorf("of a fiftieth of the requests %v, of a fifth more %v", few, many)
	}
}

// Growth is for what was just seen where forecasts lag behind it: in tokens, since
// longer prompts are a load as well.
func TestGrowthIsForWhatWasSeen(t *testing.T) {
	p := standard(t, off, func(o *DefaultOptions) { o.Rate, o.ISLs, o.OSLs = constant{5}, constant{500}, constant{100} })
	s := minute(40, pd(2, 2))
	var d planner.Decision
	seen, ok := p.observe(s, &d)
	need := p.expect(s, seen, &d)
	if !ok || need.prompts*need.isl < 40*990*0.999 || need.answers*need.osl < 40*100*0.999 {
		t.Errorf("%+v", need)
	}
}

// constant forecasts a value whatever was seen.
type constant struct{ value float64 }

func (constant) Observe(float64)                {}
func (c constant) Forecast(int) float64         { return c.value }
func (constant) Save() (json.RawMessage, error) { return json.RawMessage("{}"), nil }
func (constant) Restore(json.RawMessage) error  { return nil }

// What waits for decode asks for no prefill replica, and replicas of one pool that start
// are no help to the other.
func TestBacklogIsOfItsPool(t *testing.T) {
	p := standard(t, off)
	s := minute(10, pd(4, 4), func(s *planner.Situation) {
		s.Waiting = planner.Known(400.0)
		s.Pools[0].QueueEnd, s.Pools[1].QueueEnd = planner.Known(0.0), planner.Known(100.0)
	})
	if q := p.backlog(s); q.prefill != 0 || math.Abs(q.decode-400.0/60) > 1e-9 || q.aggregated != 0 {
		t.Errorf("%+v", q)
	}
	s.Pools[0].Starting = 1
	if q := p.backlog(s); q.decode == 0 {
		t.Errorf("prefill starts: %+v", q)
	}
	s.Pools[1].Starting = 1
	if q := p.backlog(s); q.decode != 0 {
		t.Errorf("decode starts: %+v", q)
	}
	s = minute(10, pd(4, 4), func(s *planner.Situation) { s.Waiting = planner.Known(60.0) })
	if q := p.backlog(s); q.prefill != 1 || q.decode != 1 {
		t.Errorf("nobody says where: %+v", q)
	}
}

// A breach makes a fleet grow by its share of it, not by one replica whatever it has;
// a queue that shrinks is being served.
func TestReactionIsProportional(t *testing.T) {
	for _, c := range []struct{ have, least, most int }{{4, 5, 5}, {40, 42, 43}, {200, 208, 214}} {
		have := planner.Replicas{Prefill: c.have, Decode: c.have}
		p := standard(t, off)
		s := missing(10, have)
		s.TTFT.Count = 1e6
		var d planner.Decision
		if n := p.react(s, p.demand(10), have, &d).Prefill; n < c.least || n > c.most {
			t.Errorf("%d replicas, 5 %% of the requests miss: %d", c.have, n)
		}
		s.Pools[0].QueueOpen, s.Pools[0].QueueEnd = planner.Known(5.0), planner.Known(1.0)
		if n := p.react(s, p.demand(10), have, &d).Prefill; n > c.have+1+c.have/40 {
			t.Errorf("%d replicas, whose queue shrinks: %d", c.have, n)
		}
	}
}

// A warm-up teaches the reserve what loads do, not the forecasters alone.
func TestWarmUpWarmsTheReserve(t *testing.T) {
	p := standard(t, off)
	for i := range 200 {
		rate := 20.0
		if i%10 == 9 {
			rate = 27
		}
		s := minute(rate, pd(4, 4), func(s *planner.Situation) { s.Warmup, s.Pools = true, nil })
		if d := p.Propose(s); d.Want != s.Have || slices.ContainsFunc(d.Steps, func(s planner.Step) bool { return !strings.Contains(s.Why, "warms") && s.Role != "" }) {
			t.Fatalf("a warm-up decides %+v", d)
		}
	}
	if got := p.m.Prompts.above(20*990, 1.5, noise{}) / (20 * 990); math.Abs(got-0.35) > 0.02 {
		t.Errorf("loads that jump by 0.35 make a reserve of %v", got)
	}
}
