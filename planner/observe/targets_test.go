package observe

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/planner"
	"plimsoll/planner/policy"
)

// never asserts that no interval shows less than the load, and gives how many are missing.
func never(t *testing.T, l *Live, from, to, length time.Duration, load float64, state *planner.State) (missing int) {
	t.Helper()
	for end := from; end <= to; end += length {
		if state != nil {
			sampled(t, l, *state)
		}
		o, err := l.Observe(t.Context(), begin.Add(end-length), begin.Add(end))
		switch rate := o.Arrivals.Value / length.Seconds(); {
		case err != nil || !o.Arrivals.Known:
			missing++
		case rate < 0.9*load:
			t.Errorf("at %v: %.4g requests/s are seen of %.4g", end, rate, load)
		}
	}
	return missing
}

func fleetState(ready, starting, draining int) *planner.State {
	return &planner.State{Pools: []planner.PoolState{{Role: engine.RoleAggregated, Ready: ready, Starting: starting, Draining: draining}}}
}

// Of two ready engines one is not scraped. Two others drain, or start, and are scraped:
// they were counted as the missing one, and half of the load was seen.
func TestOtherEnginesDoNotStandForALostOne(t *testing.T) {
	for name, state := range map[string]*planner.State{"drain": fleetState(2, 0, 2), "start": fleetState(2, 2, 0)} {
		s := scrapes{every: 5 * time.Second, engine: true, ups: true, until: 20 * time.Minute}
		away := []stretch{{15 * time.Minute, 19 * time.Minute}}
		pods := []pod{{rate: 10, counted: 1e6}, {rate: 10, counted: 1e6, away: away}, {counted: 1e6}, {counted: 1e6}}
		l := live(t, s.fake(t, rand.New(rand.NewPCG(7, 7)), pods), LiveOptions{})
		t.Run(name, func(t *testing.T) { never(t, l, 14*time.Minute, 17*time.Minute, 15*time.Second, 20, state) })
	}
}

// An engine of two data-parallel ranks has each series twice, and is one engine: of two
// such engines, the ranks of one were taken for both.
func TestRanksAreOneEngine(t *testing.T) {
	f := &fake{t: t}
	for e := range 2 {
		for rank := range 2 {
			s := scrapes{every: 5 * time.Second, engine: true, ups: rank == 0, until: 20 * time.Minute}
			p := pod{rate: 5, counted: 1e6}
			if e == 1 {
				p.away = []stretch{{15 * time.Minute, 19 * time.Minute}}
			}
			for _, x := range s.fake(t, rand.New(rand.NewPCG(7, uint64(e))), []pod{p}).series {
				x.labels["instance"] = fmt.Sprint("p", e)
				if x.labels["__name__"] != "up" {
					x.labels["engine"] = fmt.Sprint(rank)
				}
				f.series = append(f.series, x)
			}
		}
	}
	l := live(t, f, LiveOptions{})
	never(t, l, 10*time.Minute, 17*time.Minute, 15*time.Second, 20, fleetState(2, 0, 0))
	sampled(t, l, *fleetState(2, 0, 0))
	o := observed(t, l, 17*time.Minute+15*time.Second, 15*time.Second)
	if o.Arrivals.Known || !problem(o, "1 of 2 ready engines are seen") {
		t.Errorf("%v, arrivals %+v", o.Problems, o.Arrivals)
	}
}

// Samples that come late, by a delay of ingestion or by another clock, are no outage.
func TestLateSamplesAreSeen(t *testing.T) {
	for _, c := range []struct{ every, late time.Duration }{{time.Second, 2500 * time.Millisecond}, {5 * time.Second, 12 * time.Second}, {15 * time.Second, 20 * time.Second}} {
		const length = 15 * time.Second
		s := scrapes{every: c.every, ups: true, until: 15 * time.Minute}
		l := live(t, s.fake(t, rand.New(rand.NewPCG(7, 7)), []pod{{rate: 10, counted: 1e6}}), LiveOptions{})
		o := observed(t, l, s.until+c.late, length)
		known(t, fmt.Sprintf("arrivals, scraped every %v and %v late", c.every, c.late), o.Arrivals, 150, 5)
	}
}

// Engines told of requests until the frontend's series came: engines are not lost then,
// since nobody reads requests from them any more.
func TestOtherMetricOfRequests(t *testing.T) {
	s := scrapes{every: 5 * time.Second, engine: true, ups: true, until: 22 * time.Minute}
	f := s.fake(t, rand.New(rand.NewPCG(7, 7)), []pod{{rate: 10, counted: 1e6}, {rate: 10, counted: 1e6}})
	s.engine = false
	for _, x := range s.fake(t, rand.New(rand.NewPCG(8, 7)), []pod{{rate: 20, begin: 15 * time.Minute}}).series {
		x.labels["instance"] = "front"
		f.series = append(f.series, x)
	}
	l := live(t, f, LiveOptions{})
	never(t, l, 14*time.Minute, 16*time.Minute, 15*time.Second, 20, nil)
	if missing := never(t, l, 16*time.Minute+15*time.Second, 22*time.Minute, 15*time.Second, 20, nil); missing > 0 {
		t.Errorf("%d intervals are missing after the frontend's series came", missing)
	}
}

// An interval of three minutes has three scrapes of one a minute: it is widened to four,
// and no further than to five.
func TestThreeScrapesAreWidenedToFour(t *testing.T) {
	s := scrapes{every: time.Minute, ups: true, until: 30 * time.Minute}
	l := live(t, s.fake(t, rand.New(rand.NewPCG(7, 7)), []pod{{rate: 10, counted: 1e6}}), LiveOptions{})
	for end := 15 * time.Minute; end <= s.until; end += 3 * time.Minute {
		o := observed(t, l, end, 3*time.Minute)
		known(t, "arrivals", o.Arrivals, 1800, 1)
		if said := problem(o, "scraped too rarely for 3m0s: figures are of the 5m0s before"); said != (end == 15*time.Minute) || l.reach.length != 5*time.Minute {
			t.Errorf("at %v it looks back %v: %v", end, l.reach.length, o.Problems)
		}
	}
}

// Scrapes that end before the interval are said to have ended: the problem was "no series
// of requests" though the server had them.
func TestScrapesThatEndAreStale(t *testing.T) {
	s := scrapes{every: 5 * time.Second, ups: true, until: 15 * time.Minute}
	l := live(t, s.fake(t, rand.New(rand.NewPCG(7, 7)), []pod{{rate: 10, counted: 1e6}}), LiveOptions{})
	o := observed(t, l, s.until+40*time.Second, 15*time.Second)
	if o.Arrivals.Known || !problem(o, "Metrics are not scraped") {
		t.Errorf("%v, arrivals %+v", o.Problems, o.Arrivals)
	}
}

// A target that serves and is not scraped is a load that fell only once Prometheus no
// longer lists it: after 15 minutes 10 requests/s were seen of 20.
func TestListedTargetIsNeverForgotten(t *testing.T) {
	pods := []pod{{rate: 10, counted: 1e6}, {rate: 10, counted: 1e6, away: []stretch{{15 * time.Minute, time.Hour}}}}
	s := scrapes{every: 5 * time.Second, ups: true, until: 45 * time.Minute}
	l := live(t, s.fake(t, rand.New(rand.NewPCG(7, 7)), pods), LiveOptions{})
	never(t, l, 14*time.Minute, 44*time.Minute, 15*time.Second, 20, nil)
	if o := observed(t, l, 45*time.Minute, 15*time.Second); o.Arrivals.Known || !problem(o, `job="j", instance="p1"`) {
		t.Errorf("%v, arrivals %+v", o.Problems, o.Arrivals)
	}
	pods[1].end = 35 * time.Minute // it leaves the list
	l = live(t, s.fake(t, rand.New(rand.NewPCG(7, 7)), pods), LiveOptions{})
	never(t, l, 14*time.Minute, 35*time.Minute, 15*time.Second, 20, nil)
	if missing := never(t, l, 36*time.Minute, 44*time.Minute, 15*time.Second, 10, nil); missing > 0 {
		t.Errorf("%d intervals are missing after it left the list", missing)
	}
}

// New engines count from their start: a fleet that grows is seen, all of it. Engines that
// are found late count what they get, and not all that they ever had.
func TestAGrowingFleetIsSeen(t *testing.T) {
	for _, g := range []struct{ from, to int }{{1, 4}, {2, 6}} {
		for _, length := range []time.Duration{15 * time.Second, time.Minute, 3 * time.Minute} {
			for k, late := range []time.Duration{0, 9 * time.Second, 28 * time.Second, 49 * time.Second} {
				growing(t, g.from, g.to, 13*time.Minute+late, []time.Duration{15 * time.Second, 5 * time.Second}[k%2], length, k > 1)
			}
		}
	}
}

// growing asserts that intervals of a length see a fleet that grows at an instant, of
// engines that begin then, or are found then.
func growing(t *testing.T, from, to int, at, every, length time.Duration, found bool) {
	t.Helper()
	pods := make([]pod, to)
	for i := range pods {
		if pods[i] = (pod{rate: 3, counted: 1e6}); i >= from {
			pods[i].begin = at
			if !found {
				pods[i].counted = 0
			}
		}
	}
	s := scrapes{every: every, jitter: 0.1, ups: true, engine: true, until: 16 * time.Minute}
	for i, o := range s.observed(t, s.fake(t, rand.New(rand.NewPCG(7, 7)), pods), length, nil) {
		end, old, grown := 10*time.Minute+time.Duration(i)*length, 3*float64(from), 3*float64(to-from)
		part := func(d time.Duration) float64 { return min(1, max(0, d.Seconds()/length.Seconds())) }
		scrape := every * 11 / 10 // what came is scraped as late as that
		least, most := old+grown*part(end-at-scrape), old+grown*part(end-at+scrape)
		if 4*every > length { // the window is longer
			least = old
		}
		if found && end > at {
			most = old + grown
		}
		if rate := o.Arrivals.Value / length.Seconds(); !o.Arrivals.Known || rate < 0.9*least || rate > 1.1*most {
			t.Errorf("from %d to %d at %v, scraped every %v: %.4g requests/s are seen of %.4g to %.4g in the %v to %v: %v", from, to, at, every, rate, least, most, length, end, o.Problems)
		}
	}
}

// Of four prefill engines with a queue three are not scraped for nine tenths of the
// window: their queue is no smaller for that, and none goes.
func TestGaugesOfAPartOfTheWindow(t *testing.T) {
	p, err := policy.NewLoad(policy.DefaultLoad())
	if err != nil {
		t.Fatal(err)
	}
	have := planner.Replicas{Aggregated: 4}
	for _, away := range [][]stretch{{{15 * time.Minute, 15*time.Minute + 54*time.Second}}, {{15*time.Minute + 6*time.Second, 16*time.Minute + 6*time.Second}}} {
		for _, all := range []bool{false, true} {
			s := scrapes{every: 2 * time.Second, ups: true, engine: true, until: 17 * time.Minute}
			pods := make([]pod, 4)
			for i := range pods {
				if pods[i] = (pod{rate: 1e-3, counted: 1e6, queue: 0.6, kv: 0.7}); i > 0 {
					pods[i].away = away
				}
			}
			if all {
				s.away = away
			} else {
				pods[0].rate = 10
			}
			l := live(t, s.fake(t, rand.New(rand.NewPCG(7, 7)), pods), LiveOptions{})
			for end := 14 * time.Minute; end <= s.until; end += time.Minute {
				sampled(t, l, *fleetState(4, 0, 0))
				o := observed(t, l, end, time.Minute)
				seen := &o.Pools[0]
				seen.PoolState = fleetState(4, 0, 0).Pools[0]
				if seen.Queue.Known && seen.Queue.Value < 0.9*0.6 || seen.KVUsage.Known && seen.KVUsage.Value < 0.9*0.7 {
					t.Errorf("at %v a queue of %v is seen of 0.6, KV use of %v of 0.7", end, seen.Queue, seen.KVUsage)
				}
				dep := planner.Deployment{Pools: []planner.Pool{{Role: engine.RoleAggregated, GPUs: 1, Min: 1}}, Budget: planner.Budget{Max: -1, Min: -1}}
				if d := p.Propose(planner.Situation{Observation: o, Deployment: dep, Have: have}); d.Want.Aggregated < 4 {
					t.Errorf("at %v %s becomes %s: %+v", end, have, d.Want, d.Steps)
				}
			}
		}
	}
}
