package replay

import (
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/sim/fleet"
	"plimsoll/planner"
)

// What a decision sees, held against the outcomes of the requests one by one and,
// for gauges, against the integrals over time that the samples stand for.
func TestObservation(t *testing.T) {
	for _, s := range []Scenario{aggregated(3), disaggregated(3, 2)} {
		s.Scrape, s.Origin = time.Second, time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC)
		p := &spy{}
		mustRun(t, steady(15), s, p)
		var all []fleet.Outcome
		c := s.Simulated()
		c.Done = func(o fleet.Outcome) { all = append(all, o) }
		f, err := fleet.New(c)
		if err != nil {
			t.Fatal(err)
		}
		var intervals []fleet.Interval
		for q := range steady(15) {
			for end := engine.FromDuration(s.Pace.Every) * engine.Picoseconds(len(intervals)+1); q.At >= end; end += engine.FromDuration(s.Pace.Every) {
				if err := f.Advance(end); err != nil {
					t.Fatal(err)
				}
				intervals = append(intervals, f.Interval())
			}
			if len(intervals) == len(p.seen) {
				break
			}
			if err := f.Offer(q); err != nil {
				t.Fatal(err)
			}
		}
		for i, o := range p.seen {
			from := time.Duration(i) * s.Pace.Every
			if !o.Start.Equal(s.Origin.Add(from)) || o.Length != s.Pace.Every || o.CacheHit.Known || o.Scaling != "" || len(o.Problems) > 0 {
				t.Fatalf("interval %d: %+v", i, o)
			}
			requestsOf(t, o, all, engine.FromDuration(from), engine.FromDuration(from+s.Pace.Every))
			gaugesOf(t, s, o, intervals[i])
		}
	}
}

// requestsOf holds figures of requests against those that came, got their first
// token and ended in an interval.
func requestsOf(t *testing.T, o planner.Observation, all []fleet.Outcome, from, to engine.Picoseconds) {
	t.Helper()
	in := func(at engine.Picoseconds) bool { return at >= from && at < to }
	var came, ended, firsts, isl, osl float64
	var ttft, e2e, longest []float64
	for _, x := range all {
		if in(x.At) {
			came, isl = came+1, isl+float64(x.ISL)
		}
		if in(x.First) {
			firsts++
			ttft = append(ttft, x.TTFT().Seconds())
		}
		if in(x.Last) {
			ended, osl = ended+1, osl+float64(x.OSL)
			e2e = append(e2e, x.E2E().Seconds())
		}
	}
	longest = slices.Sorted(slices.Values(ttft))
	p99 := longest[int(math.Ceil(0.99*firsts))-1]
	// The last interval's requests that had not ended when the oracle stopped are
	// not among the outcomes, so that it sees a few fewer.
	if d := o.Arrivals.Value - came; d != 0 && to < 9*60*engine.Second || !o.Arrivals.Known {
		t.Errorf("%v arrivals, want %v", o.Arrivals, came)
	}
	if o.Finished.Value != ended || o.OSL.Mean.Value != osl/ended || o.OSL.Count != ended || o.ISL.Mean.Value != 100 {
		t.Errorf("%v finished of OSL %v, want %v of %v", o.Finished, o.OSL.Mean, ended, osl/ended)
	}
	if to < 9*60*engine.Second && (o.TTFT.Count != firsts || !near(o.TTFT.Mean.Value.Seconds(), average(ttft), 1e-8) || math.Abs(o.TTFT.P99.Value.Seconds()/p99-1) > fleet.SketchError) {
		t.Errorf("TTFT %+v, want %v of %v, p99 %v", o.TTFT, firsts, average(ttft), p99)
	}
	if !near(o.Duration.Mean.Value.Seconds(), average(e2e), 1e-8) || o.ITL.Mean.Value < 10*ms || o.ITL.Count < 8*ended {
		t.Errorf("duration %+v, want %v; ITL %+v", o.Duration.Mean, average(e2e), o.ITL)
	}
}

func average(xs []float64) float64 {
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	return sum / float64(len(xs))
}

// gaugesOf holds means of samples against means over time.
func gaugesOf(t *testing.T, s Scenario, o planner.Observation, v fleet.Interval) {
	t.Helper()
	running, waiting := 0, 0
	for i, p := range o.Pools {
		want, ready := v.Pools[i], float64(s.Start.Of(p.Role))
		running, waiting = running+want.Running, waiting+want.Waiting
		if p.Ready != s.Start.Of(p.Role) || p.Want != p.Ready || p.Starting+p.Draining > 0 || p.Changed || p.GPUs != s.Deployment.Pool(p.Role).GPUs {
			t.Errorf("pool %+v", p.PoolState)
		}
		// 30 samples of a mean of a few requests.
		if !near(p.Running.Value, want.RunningMean, 2) || !near(p.Queue.Value, want.WaitingMean/ready, 2) || p.QueueEnd.Value != float64(want.Waiting)/ready || !p.QueueOpen.Known {
			t.Errorf("%s runs %v, %v wait, %v at the end: want %v, %v, %v", p.Role, p.Running, p.Queue, p.QueueEnd, want.RunningMean, want.WaitingMean/ready, want.Waiting)
		}
		if !near(p.KVUsage.Value, want.KVUse, 0.02) || p.KVMost.Value < p.KVUsage.Value*(1-1e-9) || p.KVMost.Value > 1 { // both are means, summed in another order
			t.Errorf("%s uses %v of its KV, %v the most: want %v", p.Role, p.KVUsage, p.KVMost, want.KVUse)
		}
	}
	if o.Running != planner.Known(float64(running)) || o.Waiting != planner.Known(float64(waiting)) {
		t.Errorf("%v run and %v wait, want %d and %d", o.Running, o.Waiting, running, waiting)
	}
}

// Metrics that come later are the same metrics, later: their age is said, and the
// target's own word is not late.
func TestDelayedMetricsAreTheSame(t *testing.T) {
	s := aggregated(3)
	at := func(delay time.Duration) []planner.Observation {
		s.Delay = delay
		p := &spy{}
		mustRun(t, step(3, 15, 5*time.Minute), s, p)
		return p.seen
	}
	plain := func(o planner.Observation) planner.Observation {
		o.Start = time.Time{}
		scrub := func(f *planner.Figure[float64]) { f.Age = 0 }
		for _, f := range []*planner.Figure[float64]{&o.Arrivals, &o.Finished, &o.Running, &o.Waiting} {
			scrub(f)
		}
		o.ISL, o.OSL = ageless(o.ISL), ageless(o.OSL)
		o.TTFT, o.ITL, o.TPOT, o.Duration = ageless(o.TTFT), ageless(o.ITL), ageless(o.TPOT), ageless(o.Duration)
		for i := range o.Pools {
			p := &o.Pools[i]
			for _, f := range []*planner.Figure[float64]{&p.Running, &p.KVUsage, &p.KVMost, &p.Queue, &p.QueueOpen, &p.QueueEnd} {
				scrub(f)
			}
		}
		return o
	}
	now, later := at(0), at(time.Minute)
	if !reflect.DeepEqual(now[1].TTFT, ageless(now[1].TTFT)) || len(now) != 19 || len(later) != 19 {
		t.Fatalf("without a delay: %d intervals, %+v", len(now), now[1].TTFT)
	}
	for i, o := range later {
		if i == 0 {
			if o.Arrivals.Known || o.Pools[0].Running.Known || len(o.Problems) == 0 {
				t.Errorf("before anything can be seen: %+v", o)
			}
			continue
		}
		if o.Arrivals.Age != time.Minute || o.Pools[0].Ready != 3 {
			t.Errorf("interval %d: arrivals %+v, pool %+v", i, o.Arrivals, o.Pools[0].PoolState)
		}
		if i < 3 {
			continue // of the first seconds there was a look at 0, which later ones have not
		}
		if got, want := plain(o), plain(now[i-2]); !reflect.DeepEqual(got, want) {
			t.Errorf("interval %d:\n%+v\nwithout the delay, two intervals before:\n%+v", i, got, want)
		}
	}
}

// Metrics that are older than a planner takes are missing, as in serve, and the
// target's own word is not.
func TestOldMetricsAreMissing(t *testing.T) {
	for delay, known := range map[time.Duration]bool{time.Minute: true, 90 * time.Second: true, 95 * time.Second: false} {
		s := aggregated(3)
		s.Delay, s.MaxAge = delay, 90*time.Second
		p := &spy{}
		mustRun(t, steady(5), s, p)
		o := p.seen[len(p.seen)-1]
		if o.Arrivals.Known != known || o.TTFT.Mean.Known != known || o.Pools[0].Running.Known != known || o.Pools[0].Ready != 3 {
			t.Errorf("%v late: %+v", delay, o)
		}
		if said := "the newest sample is 1m35s old, more than 1m30s"; !known && !slices.Equal(o.Problems, []string{said}) {
			t.Errorf("%v late: %q, want %q", delay, o.Problems, said)
		}
	}
}

func ageless[T float64 | time.Duration](s planner.Spread[T]) planner.Spread[T] {
	for _, f := range []*planner.Figure[T]{&s.Mean, &s.P50.Figure, &s.P90.Figure, &s.P95.Figure, &s.P99.Figure} {
		f.Age = 0
	}
	return s
}

// A step of the load is decided on Delay later, and costs what it must.
func TestDelayDelays(t *testing.T) {
	const jump = 5 * time.Minute
	before := 2.0
	for _, delay := range []time.Duration{0, 30 * time.Second, time.Minute, 2 * time.Minute} {
		s := aggregated(1)
		s.Delay = delay
		p := &spy{want: byRate(4)}
		r := mustRun(t, step(3, 15, jump), s, p)
		decided := time.Duration(0)
		for _, o := range p.seen {
			if o.Arrivals.Value > 300 {
				decided = o.End().Sub(time.Unix(0, 0))
				break
			}
		}
		if want := jump + s.Pace.Every + delay; decided != want {
			t.Errorf("delay %v: the step is seen after %v, want %v", delay, decided, want)
		}
		if r.Attainment.Both >= before {
			t.Errorf("delay %v: attainment %v, not below %v", delay, r.Attainment.Both, before)
		}
		before = r.Attainment.Both
	}
}

// Of a pool in which no engine serves nothing is known, and its queue is not 0.
func TestNobodyServes(t *testing.T) {
	p := &spy{}
	mustRun(t, steady(1), disaggregated(1, 0), p)
	o := p.seen[3]
	prefill, _ := o.Pool(engine.RolePrefill)
	decode, _ := o.Pool(engine.RoleDecode)
	if !prefill.KVUsage.Known || decode.KVUsage.Known || decode.Queue.Known || decode.Running.Known || !o.Running.Known {
		t.Errorf("%+v", o)
	}
	p = &spy{}
	mustRun(t, steady(1), aggregated(0), p)
	if o := p.seen[3]; o.Running.Known || o.Waiting.Known || o.Arrivals.Value < 15 || o.Arrivals.Value > 45 || o.TTFT.Mean.Known {
		t.Errorf("%+v", o)
	}
}

// Engines that start hold nothing, and are in no mean; a queue is by the replicas
// that were ready in its interval, and at its beginning what it was then.
func TestStartingReplicasAreInNoMean(t *testing.T) {
	s := aggregated(2)
	s.Scrape, s.Fleet.Pools[0].StartUp, s.Fleet.Pools[0].Engine.Limits.MaxNumSeqs = time.Second, 29*engine.Second, 1
	p := &spy{}
	p.want = func(planner.Situation) planner.Replicas { return agg(6) }
	mustRun(t, steady(30), s, p)
	second := p.seen[1].Pools[0] // two engines of 5 requests/s each: the queue grows by 20 a second
	if !near(second.KVUsage.Value, 7.0/1000, 0.003) || !near(second.Queue.Value, 422, 60) || !near(second.QueueOpen.Value, 290, 50) || !near(second.QueueEnd.Value, 563, 80) {
		t.Errorf("while four start: %+v", second)
	}
	if third := p.seen[2].Pools[0]; third.Ready != 6 || !near(third.QueueEnd.Value, 200, 40) {
		t.Errorf("when they are there: %+v", third)
	}
}

// Who is turned away has come, and gone.
func TestRefusedRequestsAreSeen(t *testing.T) {
	s := aggregated(1)
	s.Fleet.MaxInFlight = 10
	for _, s.Delay = range []time.Duration{0, 30 * time.Second} {
		p := &spy{}
		mustRun(t, steady(30), s, p)
		if o := p.seen[2]; !near(o.Arrivals.Value, 900, 100) || !near(o.Finished.Value, 900, 100) {
			t.Errorf("%v came, %v ended", o.Arrivals.Value, o.Finished.Value)
		}
	}
}

// Replicas that come and go are seen, as the target says them.
func TestScalingIsSeen(t *testing.T) {
	s := aggregated(1)
	s.Fleet.Pools[0].StartUp = 25 * engine.Second
	row := []int{2, 2, 1, 1, 1}
	p := &spy{}
	p.want = func(planner.Situation) planner.Replicas { return agg(row[min(len(p.seen), len(row))-1]) }
	// Streams of 100 s keep what drains.
	mustRun(t, slices.Values(func() (all []fleet.Request) {
		for i := range 200 {
			all = append(all, fleet.Request{At: engine.Picoseconds(i) * 2 * engine.Second, ISL: 1, OSL: 10_000})
		}
		return all
	}()), s, p)
	if o := p.seen[1].Pools[0]; !o.Changed || o.Want != 2 || o.Ready != 2 {
		t.Errorf("after the second one came: %+v", o)
	}
	if o := p.seen[2].Pools[0]; o.Changed || o.Ready != 2 {
		t.Errorf("with two: %+v", o)
	}
	if o := p.seen[3]; !o.Pools[0].Changed || o.Pools[0].Ready != 1 || o.Pools[0].Draining != 1 || o.Pools[0].Want != 1 || o.Scaling != "aggregated: 0 start, 1 drain" {
		t.Errorf("while one drains: %+v %q", o.Pools[0], o.Scaling)
	}
}

// Each replica that serves is seen by itself: the highest of an interval's looks. One
// that is gone at the last look is not.
func TestReplicasSeen(t *testing.T) {
	p := poolSums{role: engine.RoleDecode, each: map[int]replicaSums{}}
	of := func(n, waiting int, kv float64) fleet.Replica {
		return fleet.Replica{Number: n, Role: engine.RoleDecode, State: fleet.Ready, Waiting: waiting, KVUse: kv}
	}
	starting := of(9, 0, 0)
	starting.State = fleet.Starting
	p.add([]fleet.Replica{of(3, 5, 0.2), of(4, 0, 0.9), starting}, true)
	p.add([]fleet.Replica{of(3, 1, 0.6), of(7, 2, 0.1)}, false)
	want := []planner.ReplicaObservation{{Number: 3, KVUsage: 0.6, Waiting: 5}, {Number: 7, KVUsage: 0.1, Waiting: 2}}
	if got := p.replicas(); !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}

// The share of prompts that prefix caches held is that of the engines that read prompts:
// 5 blocks of 16 tokens of each prompt of 100 are the same. Without a cache nobody knows.
func TestCacheHitsAreSeen(t *testing.T) {
	shared := func(yield func(fleet.Request) bool) {
		for q := range steady(5) {
			if q.Prefix = []uint64{1, 2, 3, 4, 5}; !yield(q) {
				return
			}
		}
	}
	for _, s := range []Scenario{aggregated(2), disaggregated(2, 2)} {
		for _, caches := range []bool{true, false} {
			for i := range s.Fleet.Pools {
				s.Fleet.Pools[i].Engine.PrefixCaching = caches
			}
			p := &spy{}
			mustRun(t, shared, s, p)
			for _, o := range p.seen[1:] {
				if o.CacheHit.Known != caches || caches && !near(o.CacheHit.Value, 0.8, 1e-9) {
					t.Fatalf("%d pools, caches %v: %+v", len(s.Fleet.Pools), caches, o.CacheHit)
				}
			}
		}
	}
}

// Policies see percentiles in the buckets of an engine's histograms, and the same means.
func TestPercentilesAreSeenInBuckets(t *testing.T) {
	seen := func(b planner.Bounds) planner.Observation {
		s, p := aggregated(3), &spy{}
		s.Bounds = b
		mustRun(t, steady(5), s, p)
		return p.seen[len(p.seen)-1]
	}
	exact := seen(planner.Bounds{})
	got := seen(planner.Bounds{TTFT: []float64{0.001, 10}, TPOT: []float64{0.0001, 1}, ISL: []float64{1, 1e6}})
	for what, x := range map[string][2]planner.Spread[time.Duration]{"TTFT": {exact.TTFT, got.TTFT}, "TPOT": {exact.TPOT, got.TPOT}} {
		if p := x[1].P99; !p.Known || p.Low == p.High || p.Low >= x[0].P99.Value || p.High < x[0].P99.Value || len(x[1].Buckets) != 2 {
			t.Errorf("p99 of %s is %v, in buckets %v", what, x[0].P99, p)
		}
		if off := x[1].Mean.Value - x[0].Mean.Value; off.Abs() > time.Microsecond || x[0].Count != x[1].Count {
			t.Errorf("%s: mean %v of %v, in buckets %v of %v", what, x[0].Mean.Value, x[0].Count, x[1].Mean.Value, x[1].Count)
		}
	}
	if !reflect.DeepEqual(got.ITL, exact.ITL) || got.ISL.P99.Low != 1 {
		t.Errorf("ITL without bounds %+v, ISL %+v", got.ITL, got.ISL)
	}
}
