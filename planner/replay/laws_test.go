package replay

import (
	"iter"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/engine/sim/fleet"
	"plimsoll/planner"
)

// drawn is a small scenario of any kind.
func drawn(t *rapid.T) Scenario {
	s := aggregated(rapid.IntRange(0, 3).Draw(t, "start"))
	if rapid.Bool().Draw(t, "disaggregated") {
		s = disaggregated(rapid.IntRange(0, 3).Draw(t, "prefill"), rapid.IntRange(0, 3).Draw(t, "decode"))
	}
	startUp := rapid.SampledFrom([]float64{0, 7, 45}).Draw(t, "start-up")
	for i := range s.Fleet.Pools {
		p := &s.Fleet.Pools[i]
		p.StartUp = engine.FromSeconds(startUp)
		p.Engine.Noise = rapid.SampledFrom([]float64{0, 0.1}).Draw(t, "noise")
	}
	s.Length = time.Duration(rapid.IntRange(100, 600).Draw(t, "length")) * time.Second
	s.Drain = time.Duration(rapid.IntRange(0, 30).Draw(t, "drain")) * time.Second
	s.Delay = time.Duration(rapid.SampledFrom([]int{0, 3, 40}).Draw(t, "delay")) * time.Second
	s.Scrape = time.Duration(rapid.SampledFrom([]int{1, 5, 7}).Draw(t, "scrape")) * time.Second
	s.Fleet.Retry = rapid.Bool().Draw(t, "retry")
	s.Seed = rapid.Uint64().Draw(t, "seed")
	return s
}

// wander is a policy that wants anything.
func wander(seed uint64) *spy {
	r := rand.New(rand.NewPCG(seed, 3))
	return &spy{want: func(s planner.Situation) planner.Replicas {
		want := s.Have
		for _, p := range s.Deployment.Pools {
			want = want.With(p.Role, r.IntN(4))
		}
		return want
	}}
}

// recorded notes what a controller asks for.
type recorded struct {
	*controller
	plan Schedule
}

func (d *recorded) act(r *run) error {
	was := r.asked
	err := d.controller.act(r)
	if r.asked != was {
		d.plan = append(d.plan, Change{r.fleet.Now().Duration(), r.asked})
	}
	return err
}

// Whatever happens: requests are conserved, shares are shares, the timeline adds up
// to the whole, GPU-hours are within what was asked for and what drained; and the
// same decisions as a schedule, and a dumb account of them, give the same.
func TestLaws(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		s := drawn(t)
		requests := steady(rapid.Float64Range(0, 12).Draw(t, "rate"))
		whole, err := s.normal()
		if err != nil {
			t.Fatal(err)
		}
		d := &recorded{controller: newController(whole, coreOf(t, s, wander(s.Seed)))}
		got, err := replay(requests, whole, d)
		if err != nil {
			t.Fatal(err)
		}
		conserved(t, got)
		bounded(t, s, got, d.plan)
		eventful(t, s, got, d.plan)
		same := mustSchedule(t, requests, s, d.plan)
		if !reflect.DeepEqual(got, same) {
			t.Fatalf("the decisions as a schedule give\n%+v, not\n%+v", same, got)
		}
		against(t, got, dumb(t, requests, s, d.plan))
	})
}

func conserved(t failing, r Result) {
	t.Helper()
	if r.Requests != r.Finished+r.Rejected+r.Refused+r.Unfinished {
		t.Fatalf("%d requests are not all accounted for: %+v", r.Requests, r)
	}
	a := r.Attainment
	for _, x := range []float64{a.TTFT, a.ITL, a.Both, r.UnderSLO} {
		if !(x >= 0 && x <= 1) {
			t.Fatalf("shares %+v, %v", a, r.UnderSLO)
		}
	}
	if a.Both > min(a.TTFT, a.ITL) || r.GoodRequests*r.Length.Seconds() > float64(r.Finished)+1e-6 {
		t.Fatalf("attainment %+v, goodput %v", a, r.GoodRequests)
	}
	var arrivals, both int64
	gpus := 0.0
	at := time.Duration(0)
	for _, p := range r.Timeline {
		if p.From != at || p.To <= p.From || p.MetBoth > min(p.MetTTFT, p.MetITL) || max(p.MetTTFT, p.MetITL) > p.Arrivals {
			t.Fatalf("a point after %v: %+v", at, p)
		}
		at = p.To
		arrivals, both = arrivals+p.Arrivals, both+p.MetBoth
		for _, q := range p.Pools {
			gpus += q.GPUs * (p.To - p.From).Hours()
		}
	}
	if at != r.Length || arrivals != r.Requests || r.Requests > 0 && !near(float64(both), a.Both*float64(r.Requests), 1e-6) || !near(gpus, r.GPUHours, 1e-9) {
		t.Fatalf("the timeline to %v has %d arrivals, %d met, %v GPU-hours; the whole %d, %v, %v", at, arrivals, both, gpus, r.Requests, a.Both, r.GPUHours)
	}
}

// bounded holds GPU-hours against the replicas asked for. What was asked to stop
// may drain for as long as a request may take.
func bounded(t *rapid.T, s Scenario, r Result, plan Schedule) {
	for i, pool := range s.Fleet.Pools {
		asked, from, was, stopped := 0.0, time.Duration(0), s.Start.Of(pool.Engine.Role), 0
		for _, c := range append(slices.Clone(plan), Change{s.Length, planner.Replicas{}}) {
			asked += float64(was) * (c.At - from).Hours()
			from = c.At
			n := c.Want.Of(pool.Engine.Role)
			stopped += max(0, was-n)
			was = n
		}
		asked *= float64(max(1, pool.GPUs))
		most := asked + float64(stopped*max(1, pool.GPUs))*s.Length.Hours()
		if got := r.Pools[i].GPUHours; got < asked-1e-9 || got > most+1e-9 {
			t.Fatalf("%v GPU-hours of the %s pool: want %v to %v", got, pool.Engine.Role, asked, most)
		}
	}
}

// eventful holds the events against the decisions: each changes a pool to what was
// asked for.
func eventful(t *rapid.T, s Scenario, r Result, plan Schedule) {
	changes := 0
	for _, p := range r.Pools {
		changes += p.Ups + p.Downs
	}
	size := s.Start
	for _, e := range r.Events {
		if size.Of(e.Role) != e.From || e.Failed {
			t.Fatalf("%+v, of %s", e, size)
		}
		size = size.With(e.Role, e.To)
		changes--
	}
	if changes != 0 || len(plan) > 0 && size != plan[len(plan)-1].Want {
		t.Fatalf("%d changes are not among the events, the last is %s: %+v", changes, size, r.Events)
	}
}

// account is a second one, of outcomes one by one and of replicas as they are seen
// every tenth of a second.
type account struct {
	outcomes   []fleet.Outcome
	gpuSeconds float64
	changes    int
}

const blink = 100 * engine.Millisecond

func dumb(t *rapid.T, requests iter.Seq[fleet.Request], s Scenario, plan Schedule) account {
	var a account
	c := s.Simulated()
	c.Done = func(o fleet.Outcome) { a.outcomes = append(a.outcomes, o) }
	f, err := fleet.New(c)
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	end := engine.FromDuration(s.Length)
	next, stop := iter.Pull(requests)
	defer stop()
	q, ok := next()
	for at := blink; at <= end; at += blink {
		// Half-way stands for the whole blink.
		middle := false
		for {
			when, what := at, "" // the first thing to do within the blink
			if !middle {
				when, what = at-blink/2, "look"
			}
			if len(plan) > 0 && engine.FromDuration(plan[0].At) < at && engine.FromDuration(plan[0].At) <= when {
				when, what = engine.FromDuration(plan[0].At), "scale"
			}
			if ok && q.At < at && q.At < when {
				when, what = q.At, "offer"
			}
			switch what {
			case "look":
				must(f.Advance(when))
				for _, r := range f.AppendReplicas(nil) {
					for _, p := range c.Pools {
						if p.Engine.Role == r.Role {
							a.gpuSeconds += blink.Seconds() * float64(p.GPUs)
						}
					}
				}
				middle = true
				continue
			case "scale":
				for _, p := range c.Pools {
					must(f.Scale(p.Engine.Role, plan[0].Want.Of(p.Engine.Role), when))
				}
				plan, a.changes = plan[1:], a.changes+1
				continue
			case "offer":
				must(f.Offer(q))
				q, ok = next()
				continue
			}
			break
		}
	}
	must(f.Finish(end + engine.FromDuration(s.Drain)))
	return a
}

func against(t *rapid.T, got Result, a account) {
	var ttft, itl, both, unfinished int64
	came, kept := map[int]float64{}, map[int]float64{}
	for _, o := range a.outcomes {
		minute := int(o.At / (60 * engine.Second))
		came[minute]++
		if o.Status == fleet.Unfinished {
			unfinished++
		}
		if o.Status != fleet.Finished {
			continue
		}
		first := o.First-o.At <= engine.Second
		gaps := o.Last-o.First <= 200*engine.Millisecond*engine.Picoseconds(o.OSL-1)
		if first {
			ttft++
		}
		if gaps {
			itl++
		}
		if first && gaps {
			both++
			kept[minute]++
		}
	}
	under := 0
	for minute, n := range came {
		if kept[minute] >= 0.99*n {
			under++
		}
	}
	if got.Windows != len(came) || !near(got.UnderSLO*float64(got.Windows), float64(under), 1e-9) && got.Windows > 0 {
		t.Fatalf("%v of %d minutes under the SLO, want %d of %d", got.UnderSLO, got.Windows, under, len(came))
	}
	want := shares(int64(len(a.outcomes)), ttft, itl, both)
	if got.Attainment != want || got.Requests != int64(len(a.outcomes)) || got.Unfinished != unfinished {
		t.Fatalf("attainment %+v of %d (%d unfinished), want %+v of %d (%d)", got.Attainment, got.Requests, got.Unfinished, want, len(a.outcomes), unfinished)
	}
	// Each replica comes and goes within a blink of when it was seen to.
	if slack := blink.Seconds() * 2 * 2 * 3 * float64(a.changes+1); math.Abs(got.GPUHours*3600-a.gpuSeconds) > slack {
		t.Fatalf("%v GPU-seconds, seen were %v", got.GPUHours*3600, a.gpuSeconds)
	}
}

// The same seed gives the same, another one another.
func TestSeed(t *testing.T) {
	s := aggregated(3)
	s.Fleet.Pools[0].Engine.Noise = 0.2
	one := mustRun(t, steady(5), s, wander(1))
	if !reflect.DeepEqual(one, mustRun(t, steady(5), s, wander(1))) {
		t.Error("the same seed gives another result")
	}
	s.Seed++
	if other := mustRun(t, steady(5), s, wander(1)); other.TTFT == one.TTFT {
		t.Error("another seed gives the same result")
	}
	noisy := mustSchedule(t, steady(5), s, nil)
	s.Seed++
	if other := mustSchedule(t, steady(5), s, nil); other.TTFT == noisy.TTFT {
		t.Error("another seed gives the same noise")
	}
}

// More replicas never cost less, and a fleet that has more of them all the time, at
// a load that one can hardly carry, serves more.
func TestMoreReplicas(t *testing.T) {
	cost, kept := -1.0, -1.0
	for n := range 5 {
		r := mustSchedule(t, steady(20), aggregated(n), nil)
		if r.GPUHours <= cost || r.Attainment.Both < kept {
			t.Errorf("%d replicas: %v GPU-hours after %v, %v attained after %v", n, r.GPUHours, cost, r.Attainment.Both, kept)
		}
		cost, kept = r.GPUHours, r.Attainment.Both
	}
	if kept < 0.99 {
		t.Errorf("4 replicas attain %v", kept)
	}
}
