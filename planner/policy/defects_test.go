package policy

// What went wrong in other planners, by the name of the report. Where Upstream or
// Load keep the defect, because they are there to be compared with, the test says
// so and what Default does.

import (
	"math"
	"slices"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/planner"
)

func coreOf(t *testing.T, dep planner.Deployment, p planner.Policy) *planner.Core {
	t.Helper()
	c, err := planner.New(planner.Options{Deployment: dep, Policy: p, OnLoss: planner.Hold})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func pd(p, d int) planner.Replicas { return planner.Replicas{Prefill: p, Decode: d} }

// The SLA planner of 2025-06-13 made its decisions and never carried one out: the
// connector's coroutines were not awaited (dynamo 2bed47ebb). A decision that is
// another than what there is says that it is to be carried out.
func TestNoUnawaitedScaling(t *testing.T) {
	p, d := flat(t, 3000, 150, 40000, 1000, 1)
	dep := split(1, 1, 100)
	up := coreOf(t, dep, upstreamOf(t, p, d, time.Minute)).Step(busy(at(dep, pd(1, 1), time.Minute), 2000, 3000, 150).Observation)
	if !up.Act || up.Want != pd(3, 5) {
		t.Errorf("upstream: %+v", up)
	}
	on := coreOf(t, dep, loadOf(t, DefaultLoad())).Step(loaded(dep, pd(1, 1), 9, 0.95).Observation)
	if !on.Act || on.Want != pd(2, 2) {
		t.Errorf("load: %+v", on)
	}
}

// A Prometheus that failed was read as zero demand, and a busy fleet scaled down
// (dynamo#14765). What is not seen is missing: nothing is done, and the forecast
// remembers the demand.
func TestPrometheusFailureIsNotZeroDemand(t *testing.T) {
	p, d := flat(t, 3000, 150, 40000, 1000, 1)
	dep := split(1, 1, 100)
	u := upstreamOf(t, p, d, time.Minute)
	c := coreOf(t, dep, u)
	seen := busy(at(dep, pd(3, 5), time.Minute), 2000, 3000, 150)
	c.Step(seen.Observation)
	for _, lost := range []planner.Observation{at(dep, pd(3, 5), time.Minute).Observation, notNumbers(seen.Observation)} {
		got := c.Step(lost)
		if got.Act || got.Want != pd(3, 5) || !slices.Contains(got.Missing, "arrivals") {
			t.Errorf("%+v", got)
		}
		if next := u.o.Requests.Forecast(1); next != 2000 {
			t.Errorf("the failure was learned as %v requests", next)
		}
	}
	l := loadOf(t, DefaultLoad())
	if got := coreOf(t, dep, l).Step(at(dep, pd(3, 5), time.Minute).Observation); got.Act || len(got.Missing) == 0 {
		t.Errorf("load: %+v", got)
	}
}

// notNumbers is what 0/0 in a query answers.
func notNumbers(o planner.Observation) planner.Observation {
	o.Arrivals, o.ISL.Mean, o.OSL.Mean = planner.Known(math.NaN()), planner.Known(math.NaN()), planner.Known(math.NaN())
	return o
}

// Without traffic means are 0/0; upstream skipped such intervals and never scaled
// down (dynamo#3131, #6985). Arrivals known to be 0 are a demand of 0.
func TestNoTrafficScalesDown(t *testing.T) {
	p, d := flat(t, 3000, 150, 40000, 1000, 1)
	for _, c := range []struct {
		dep        planner.Deployment
		have, want planner.Replicas
	}{
		{split(1, 1, 100), pd(3, 5), pd(1, 1)},
		{single(1, 100), planner.Replicas{Aggregated: 7}, planner.Replicas{Aggregated: 1}},
	} {
		u := upstreamOf(t, p, d, time.Minute)
		u.Propose(busy(at(c.dep, c.have, time.Minute), 2000, 3000, 150))
		s := at(c.dep, c.have, time.Minute)
		s.Arrivals = planner.Known(0.0)
		got := u.Propose(s)
		chained(t, s, got)
		if got.Want != c.want || len(got.Missing) > 0 || len(got.Warnings) > 0 {
			t.Errorf("%+v", got)
		}
		if next := u.o.ISL.Forecast(1); next != 3000 {
			t.Errorf("the idle interval was learned as an ISL of %v", next)
		}
	}
}

// Below the GPUs of the least replicas upstream asks for (0,0), which ends the
// service. Here nothing changes, and a warning says why.
func TestBudgetBelowFootprintHolds(t *testing.T) {
	p, d := flat(t, 3000, 150, 40000, 1000, 1)
	for _, dep := range []planner.Deployment{split(2, 2, 3), single(4, 3)} {
		s := busy(at(dep, planner.Replicas{Prefill: 2, Decode: 1, Aggregated: 2}, time.Minute), 2000, 3000, 150)
		if dep.Aggregated() {
			s.Have = planner.Replicas{Aggregated: 2}
		} else {
			s.Have = pd(2, 1)
		}
		got := upstreamOf(t, p, d, time.Minute).Propose(s)
		chained(t, s, got)
		if got.Want != s.Have || !warned(got, "budget_below_least") {
			t.Errorf("%+v", got)
		}
	}
}

// Until 2026-01-28 upstream rounded its shares of the budget and could exceed it:
// round(3·5/8)=2 prefill engines of 1 GPU and round(3/2)=2 decode engines of 2 are
// 6 GPUs of 5.
func TestBudgetSharesAreNotRounded(t *testing.T) {
	dep := split(1, 2, 5)
	got, ok := upstreamBudget(dep, pd(4, 2))
	if !ok || dep.GPUs(got) > 5 || got != pd(2, 1) {
		t.Errorf("%s", got)
	}
}

// Rebalancing started new engines while the old ones still had their GPUs
// (dynamo#12428). The core makes growth wait for what stops.
func TestRebalanceKeepsTheBudget(t *testing.T) {
	p, d := flat(t, 3000, 150, 40000, 1000, 1)
	dep := split(1, 1, 8)
	c := coreOf(t, dep, upstreamOf(t, p, d, time.Minute))
	s := busy(at(dep, pd(1, 7), time.Minute), 4000, 3000, 15) // 5 prefill, 1 decode
	got := c.Step(s.Observation)
	if got.Want != pd(1, 1) || dep.GPUs(got.From)+got.Want.Prefill-got.From.Prefill > 8 {
		t.Fatalf("first: %+v", got)
	}
	s = busy(at(dep, got.Want, time.Minute), 4000, 3000, 15)
	s.Pools[1].Draining = 6
	if got = c.Step(s.Observation); got.Want != pd(1, 1) {
		t.Fatalf("while 6 drain: %+v", got)
	}
	s.Pools[1].Draining = 0
	if got = c.Step(s.Observation); got.Want != pd(5, 1) {
		t.Fatalf("after: %+v", got)
	}
}

// A scale-up that waits for GPUs which there are not left upstream observing
// forever, without scaling down (dynamo#14251). Upstream decides while a scaling is
// under way, as its planner did: the gate is the connector's. Load waits, as its
// planner did; Default does not.
func TestPendingScaleUpDoesNotBlockScaleDown(t *testing.T) {
	p, d := flat(t, 3000, 150, 40000, 1000, 1)
	s := busy(at(split(1, 1, 100), pd(9, 9), time.Minute), 10, 3000, 150)
	s.Pools[0].Ready, s.Pools[0].Starting, s.Pools[0].Pending = 1, 8, 8
	s.Scaling = "8 prefill replicas wait for GPUs"
	if got := upstreamOf(t, p, d, time.Minute).Propose(s); got.Want != pd(1, 1) {
		t.Errorf("%+v", got)
	}
	idle := loaded(split(1, 1, 100), pd(9, 9), 0, 0)
	idle.Scaling = s.Scaling
	if got := loadOf(t, DefaultLoad()).Propose(idle); got.Want != pd(9, 9) || ruledBy(got, engine.RolePrefill)[0] != "pause" {
		t.Errorf("load: %+v", got)
	}
}

// Scaling down without asking what one replica fewer would have to carry swings
// between 2 and 1 (dynamo#9294). Load keeps upstream's behaviour: one full
// replica becomes two, and two half-full ones become one again after the grace.
// Default goes down only where the profile says that fewer carry the demand.
func Test2to1Oscillation(t *testing.T) {
	l := loadOf(t, DefaultLoad())
	have := pd(1, 1)
	var decode []int
	for range 8 {
		d := l.Propose(loaded(split(1, 1, 8), have, 0.3, 0.96/float64(have.Decode)))
		have = d.Want
		decode = append(decode, have.Decode)
	}
	if want := []int{2, 2, 2, 1, 2, 2, 2, 1}; !slices.Equal(decode, want) {
		t.Errorf("decode replicas %v, upstream's swing is %v", decode, want)
	}
}

// Demand counted at completion is never above what the fleet can do, so that a
// saturated one stays as it is (dynamo#8861). Arrivals are what is sized for.
func TestCompletionsDoNotHideDemand(t *testing.T) {
	p, d := flat(t, 3000, 150, 40000, 1000, 1)
	s := busy(at(split(1, 1, 100), pd(1, 1), time.Minute), 4000, 3000, 150)
	s.Finished = planner.Known(400.0)
	if got := upstreamOf(t, p, d, time.Minute).Propose(s); got.Want != pd(5, 10) {
		t.Errorf("%+v", got)
	}
}

// What an operator changed by hand was not seen, and overwritten from memory
// (dynamo#4420): a step is taken from what there is.
func TestManualEditIsSeen(t *testing.T) {
	l := loadOf(t, DefaultLoad())
	l.Propose(loaded(split(1, 1, 100), pd(1, 1), 9, 0.95))
	if got := l.Propose(loaded(split(1, 1, 100), pd(6, 7), 9, 0.95)); got.Want != pd(7, 8) {
		t.Errorf("%+v", got)
	}
}

// Upstream does not see a queue (dynamo#10528): min(1, correction) only takes
// prefill engines away, and the TTFT promised sizes nothing. This keeps it. Default
// sizes prefill as a queue and adds what waits.
func TestBurstQueueAddsNothing(t *testing.T) {
	p, d := flat(t, 3000, 150, 40000, 1000, 1)
	s := busy(at(split(1, 1, 100), pd(1, 1), time.Minute), 700, 3000, 150) // 0.875 of an engine
	s.TTFT.Mean, s.Waiting = planner.Known(160*time.Second), planner.Known(5000.0)
	s.Deployment.SLA.TTFT = 101 * time.Millisecond
	got := upstreamOf(t, p, d, time.Minute).Propose(s)
	if got.Want.Prefill != 1 || math.Abs(got.Correction.Prefill.Value-1600) > 1e-9 {
		t.Errorf("%+v", got)
	}
}

// Upstream held milliseconds against seconds: the correction was 1/1000 and prefill
// sized for nothing (dynamo#2505). A fleet as its profile says has corrections of 1.
func TestCorrectionsAreOfOneUnit(t *testing.T) {
	p, d := flat(t, 3000, 150, 40000, 1000, 1)
	got := upstreamOf(t, p, d, time.Minute).Propose(busy(at(split(1, 1, 100), pd(1, 1), time.Minute), 2000, 3000, 150))
	if c := got.Correction; c.Prefill.Value != 1 || c.Decode.Value != 1 || got.Want.Prefill != 3 {
		t.Errorf("%+v", got)
	}
}

// An ITL that no load keeps makes upstream ask for about an engine per request,
// up to the budget. This keeps it, and warns.
func TestUnreachableITLExplodes(t *testing.T) {
	p, d := h200(t)
	dep := split(1, 1, 8)
	dep.SLA.ITL = time.Millisecond
	s := busy(at(dep, pd(1, 1), time.Minute), 600, 3000, 150)
	got := upstreamOf(t, p, d, time.Minute, func(o *UpstreamOptions) { o.NoCorrection = true }).Propose(s)
	if got.Want != pd(1, 7) || !warned(got, "itl_out_of_reach") {
		t.Errorf("%+v", got)
	}
}

// A floor from one bad latency kept upstream's replicas for good (dynamo#11624).
// A correction lasts until the next interval is seen.
func TestCorrectionIsForgotten(t *testing.T) {
	p, d := h200(t)
	u := upstreamOf(t, p, d, time.Minute)
	s := busy(at(split(1, 1, 100), pd(1, 1), time.Minute), 6000, 3000, 150)
	s.Deployment.SLA.ITL = 20 * time.Millisecond
	good := u.o.Decode.ITLAt(6000.0*2/60, 3075).Value
	s.ITL.Mean = planner.Known(good)
	before := u.Propose(s).Want
	s.ITL.Mean = planner.Known(3 * good)
	worse := u.Propose(s).Want
	s.ITL.Mean = planner.Known(good)
	if after := u.Propose(s).Want; worse.Decode <= before.Decode || after != before {
		t.Errorf("%s, then %s, then %s", before, worse, after)
	}
}

// Cold engines' figures poisoned upstream's capacity (dynamo#12430): Load decides
// nothing on an interval in which the number ready changed.
func TestColdStartSamplesAreLeftOut(t *testing.T) {
	s := loaded(split(1, 1, 100), pd(3, 3), 9, 0.95)
	s.Pools[1].Changed = true
	if got := loadOf(t, DefaultLoad()).Propose(s); got.Want != pd(3, 3) {
		t.Errorf("%+v", got)
	}
}

// Another autoscaler scaled up in every loop without any load (llm-d WVA #380).
func TestNoLoadNeverGrows(t *testing.T) {
	p, d := h200(t)
	dep := split(1, 1, 100)
	for name, fresh := range fresh(t, p, d) {
		c, have := coreOf(t, dep, fresh()), pd(2, 2)
		for i := range 20 {
			s := loaded(dep, have, 0, 0)
			s.Start = s.Start.Add(time.Duration(i) * s.Length)
			s.Arrivals, s.Pools[0].KVUsage = planner.Known(0.0), planner.Known(0.0)
			s.Pools[0].Running, s.Pools[1].Running = planner.Known(0.0), planner.Known(0.0)
			s.Finished, s.Running, s.Waiting = planner.Known(0.0), planner.Known(0.0), planner.Known(0.0)
			got := c.Step(s.Observation)
			if got.Want.Prefill > have.Prefill || got.Want.Decode > have.Decode {
				t.Errorf("%s: %+v", name, got)
			}
			have = got.Want
		}
		if have != pd(1, 1) {
			t.Errorf("%s ends at %s", name, have)
		}
	}
}
