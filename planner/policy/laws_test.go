package policy

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/interpolation"
	"plimsoll/planner"
)

// fresh makes each policy anew.
func fresh(t testing.TB, p interpolation.Prefill, d interpolation.Decode) map[string]func() planner.Policy {
	t.Helper()
	targets := []PoolTarget{
		{Role: engine.RolePrefill, Metric: MetricWaiting, Value: 1},
		{Role: engine.RoleDecode, Metric: MetricKV, Value: 0.7},
		{Role: engine.RoleAggregated, Metric: MetricRunning, Value: 50},
	}
	return map[string]func() planner.Policy{
		"hpa": func() planner.Policy { return NewHPA(HPAOptions{targets, DefaultBehavior()}) },
		"keda": func() planner.Policy {
			return NewKEDA(KEDAOptions{triggers(MetricWaiting, 1, MetricRunning, 16), DefaultBehavior(), false})
		},
		"article":  func() planner.Policy { return newArticle() },
		"wva":      func() planner.Policy { return wva(WVABehavior()) },
		"static":   func() planner.Policy { return Static{planner.Replicas{Prefill: 1, Decode: 1, Aggregated: 1}} },
		"upstream": func() planner.Policy { return upstreamOf(t, p, d, time.Minute) },
		"default": func() planner.Policy {
			o := NewDefaultOptions()
			o.Prefill, o.Decode, o.ISL, o.OSL, o.StableFor = p, d, 3000, 150, time.Minute
			o.Rate, o.ISLs, o.OSLs = &last{}, &last{}, &last{}
			q, err := NewDefault(o)
			if err != nil {
				t.Fatal(err)
			}
			return q
		},
		"load": func() planner.Policy { return loadOf(t, DefaultLoad()) },
	}
}

func anyDeployment(r *rapid.T) planner.Deployment {
	budget := rapid.SampledFrom([]int{-1, 16, 24, 200}).Draw(r, "budget")
	if rapid.Bool().Draw(r, "aggregated") {
		return single(rapid.SampledFrom([]int{1, 2, 8}).Draw(r, "GPUs"), budget)
	}
	d := split(rapid.SampledFrom([]int{1, 2, 8}).Draw(r, "prefill GPUs"), rapid.SampledFrom([]int{1, 4, 8}).Draw(r, "decode GPUs"), budget)
	d.Pools[0].Min = rapid.IntRange(0, 1).Draw(r, "least prefill")
	return d
}

// anyFigure is a number that is missing or makes no sense now and then.
func anyFigure(r *rapid.T, name string, low, high float64) planner.Figure[float64] {
	switch rapid.IntRange(0, 20).Draw(r, name+" is") {
	case 0:
		return planner.Figure[float64]{}
	case 1:
		return planner.Known(rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), -1, 0, 1e300}).Draw(r, name))
	}
	return planner.Known(rapid.Float64Range(low, high).Draw(r, name))
}

func anyTime(r *rapid.T, name string, high time.Duration) planner.Figure[time.Duration] {
	switch rapid.IntRange(0, 20).Draw(r, name+" is") {
	case 0:
		return planner.Figure[time.Duration]{}
	case 1:
		return planner.Known(rapid.SampledFrom([]time.Duration{-1, 0, 1, math.MaxInt64}).Draw(r, name))
	}
	return planner.Known(time.Duration(rapid.Int64Range(0, int64(high)).Draw(r, name)))
}

func anySituation(r *rapid.T, dep planner.Deployment, have planner.Replicas, start time.Time) planner.Situation {
	s := at(dep, have, rapid.SampledFrom([]time.Duration{time.Minute, time.Minute, 30 * time.Second}).Draw(r, "length"))
	s.Start = start
	s.Arrivals, s.Waiting = anyFigure(r, "arrivals", 0, 3000), anyFigure(r, "waiting", 0, 10)
	s.ISL.Mean, s.OSL.Mean = anyFigure(r, "ISL", 1, 20000), anyFigure(r, "OSL", 1, 3000)
	s.TTFT.Mean, s.ITL.Mean = anyTime(r, "TTFT", 5*time.Second), anyTime(r, "ITL", 200*time.Millisecond)
	s.Duration.Mean = anyTime(r, "duration", time.Minute)
	for i := range s.Pools {
		p := &s.Pools[i]
		p.Queue, p.QueueOpen, p.QueueEnd = anyFigure(r, "queue", 0, 3), anyFigure(r, "first", 0, 3), anyFigure(r, "last", 0, 3)
		p.KVUsage, p.KVMost, p.Running = anyFigure(r, "KV", 0, 1), anyFigure(r, "fullest", 0, 1), anyFigure(r, "running", 0, 200)
		p.Ready = rapid.IntRange(0, p.Want).Draw(r, "ready")
		p.Starting = p.Want - p.Ready
	}
	s.Scaling = rapid.SampledFrom([]string{"", "", "", "starting"}).Draw(r, "scaling")
	return s
}

// Whatever is seen, the core's decision is within the budget once what ran was,
// and a policy without its figures asks for nothing.
func TestNeverMoreThanTheBudget(t *testing.T) {
	p, d := h200(t)
	for name, fresh := range fresh(t, p, d) {
		t.Run(name, func(t *testing.T) {
			enginetest.Check(t, func(r *rapid.T) {
				dep := anyDeployment(r)
				c, err := planner.New(planner.Options{Deployment: dep, Policy: fresh(), OnLoss: planner.Hold})
				if err != nil {
					r.Fatal(err)
				}
				s := anySituation(r, dep, dep.Least(), time.Unix(1_000_000, 0))
				for range rapid.IntRange(1, 12).Draw(r, "intervals") {
					got := c.Step(s.Observation)
					if b := dep.Budget.Max; b >= 0 && got.GPUs > b {
						r.Fatalf("%d GPUs of %d: %+v", got.GPUs, b, got)
					}
					if len(got.Missing) > 0 && got.Want != got.From {
						r.Fatalf("missing %v, and still %s becomes %s", got.Missing, got.From, got.Want)
					}
					s = anySituation(r, dep, got.Want, s.End())
				}
			})
		})
	}
}

// More requests never ask for fewer replicas, before the budget; and none that
// are more by a replica's capacity ask for as few.
func TestUpstreamMoreDemandNeverFewer(t *testing.T) {
	p, d := h200(t)
	enginetest.Check(t, func(r *rapid.T) {
		dep := split(1, 1, -1)
		if rapid.Bool().Draw(r, "aggregated") {
			dep = single(1, -1)
		}
		isl, osl := rapid.Float64Range(100, 16000).Draw(r, "ISL"), rapid.Float64Range(2, 2000).Draw(r, "OSL")
		low := rapid.Float64Range(1, 5000).Draw(r, "requests")
		high := low * rapid.Float64Range(1, 10).Draw(r, "times")
		want := func(requests float64) planner.Decision {
			u := upstreamOf(t, p, d, time.Minute, func(o *UpstreamOptions) { o.NoCorrection = true })
			return u.Propose(busy(at(dep, dep.Least(), time.Minute), requests, isl, osl))
		}
		a, b := want(low), want(high)
		for i, c := range a.Capacity {
			few, more := a.Want.Of(c.Role), b.Want.Of(c.Role)
			if more < few || math.Floor((high-low)/60/c.Rate.Value) > float64(more-few)+1 {
				r.Fatalf("%s: %d replicas for %v requests, %d for %v; one carries %v/s (%+v)", c.Role, few, low, more, high, c.Rate.Value, b.Capacity[i])
			}
		}
	})
}
