package observe

import (
	"fmt"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/planner"
)

// rarely is a fake whose engine gets rate requests/s and is scraped every so often,
// until its target is lost.
func rarely(t *testing.T, every, until time.Duration, rate float64) *fake {
	f := &fake{t: t}
	for name, value := range map[string]func(time.Duration) float64{
		"vllm:request_success_total": rising(rate), "vllm:num_requests_running": constant(3), "vllm:num_requests_waiting": constant(0), "vllm:kv_cache_usage_perc": constant(0.5),
	} {
		f.add(name, every, until, value, "model_name", "m", "instance", "a")
	}
	f.histogram("vllm:request_prompt_tokens", every, until, map[string]float64{"1000": rate, "+Inf": rate}, 600*rate, "model_name", "m", "instance", "a")
	return f
}

// A planner that decides more often than metrics are scraped sees what comes.
func TestScrapedMoreRarelyThanDecided(t *testing.T) {
	const pulse = 15 * time.Second
	for _, every := range []time.Duration{time.Second, 4 * time.Second, 5 * time.Second, 10 * time.Second, 15 * time.Second, 20 * time.Second, 30 * time.Second, 45 * time.Second, time.Minute} {
		l, said := live(t, rarely(t, every, hour, 10), LiveOptions{}), 0
		for end := half; end < half+10*time.Minute; end += pulse + 7*time.Millisecond {
			o := observed(t, l, end, pulse)
			known(t, fmt.Sprintf("arrivals at %v, scraped every %v", end, every), o.Arrivals, 150, 51) // the fake's increase() is of one scrape more
			known(t, "ISL", o.ISL.Mean, 600, 0.1)
			known(t, "running", o.Running, 3, 0)
			if problem(o, "scraped too rarely") {
				said++
			}
		}
		if said > 1 {
			t.Errorf("scraped every %v it looked for a longer window %d times", every, said)
		}
		if far := 4 * every; l.reach.length > 2*far {
			t.Errorf("scraped every %v it looks back %v", every, l.reach.length)
		}
	}
}

// What is scraped no more is not taken for a load that falls away.
func TestLostTargetIsNoFallingLoad(t *testing.T) {
	const pulse = 15 * time.Second
	for _, every := range []time.Duration{5 * time.Second, 15 * time.Second, time.Minute} {
		l := live(t, rarely(t, every, half, 10), LiveOptions{})
		low := 0
		for end := half - 5*time.Minute; end < half+20*time.Minute; end += pulse {
			o, err := l.Observe(t.Context(), begin.Add(end-pulse), begin.Add(end))
			if err == nil && o.Arrivals.Known && o.Arrivals.Value < 100 {
				low++
			}
			if end > half+DefaultMaxAge && (err == nil && o.Arrivals.Known) {
				t.Errorf("scraped every %v, %v after the last scrape: %+v", every, end-half, o.Arrivals)
			}
		}
		if low > 2 {
			t.Errorf("scraped every %v it saw a load that fell for %d intervals", every, low)
		}
	}
}

// A scrape interval that becomes longer is learned anew.
func TestScrapedMoreRarelyFromThenOn(t *testing.T) {
	f := rarely(t, 5*time.Second, half, 10)
	for i, s := range rarely(t, time.Minute, hour, 10).series {
		for k, at := range s.at {
			if at > half {
				f.series[i].at, f.series[i].values = append(f.series[i].at, at), append(f.series[i].values, s.values[k])
			}
		}
	}
	l, seen := live(t, f, LiveOptions{}), 0
	for end := half - 5*time.Minute; end < half+15*time.Minute; end += 15 * time.Second {
		o, err := l.Observe(t.Context(), begin.Add(end-15*time.Second), begin.Add(end))
		if end > half+10*time.Minute && err == nil && o.Arrivals.Known {
			seen++
		}
	}
	if seen < 19 {
		t.Errorf("of 20 intervals, ten minutes later, it saw %d", seen)
	}
}

// Engines that are ready and not seen serve too: the others' sum is no load that fell
// (a NetworkPolicy, a label that is another now, a timeout of the busiest).
func TestPartlySeenIsNoFallingLoad(t *testing.T) {
	f := &fake{t: t}
	for i := range 8 {
		until := hour
		if i >= 2 {
			until = half
		}
		from := len(f.series)
		f.engine("m", fmt.Sprint("e", i), until, 1, 600)
		for k := range f.series[from:] {
			f.series[from+k].stale = i >= 2
		}
	}
	l := live(t, f, LiveOptions{})
	see := func(end time.Duration, ready int) planner.Observation {
		t.Helper()
		state := planner.State{Pools: []planner.PoolState{{Role: engine.RoleAggregated, Want: ready, Ready: ready}}}
		if err := l.Sample(t.Context(), state); err != nil {
			t.Fatal(err)
		}
		return observed(t, l, end, time.Minute)
	}
	for end := half - 10*time.Minute; end <= half; end += time.Minute {
		known(t, "arrivals of all", see(end, 8).Arrivals, 8*60, 48)
	}
	for end := half + time.Minute; end < half+10*time.Minute; end += time.Minute {
		o := see(end, 8)
		p, _ := o.Pool(engine.RoleAggregated)
		if o.Arrivals.Known || o.Running.Known || p.Running.Known || p.KVUsage.Known || p.Queue.Known || !problem(o, "2 of 8 ready engines are seen") {
			t.Errorf("%v after six targets were lost: %+v", end-half, o)
		}
	}
	known(t, "arrivals once two are ready", see(half+10*time.Minute, 2).Arrivals, 2*60, 12)
	// New engines are found and scraped within a while.
	for end := half + 11*time.Minute; end < half+13*time.Minute; end += time.Minute {
		known(t, "arrivals where two more are new", see(end, 4).Arrivals, 2*60, 12)
	}
}

// A list of engines that does not grow with the fleet says so.
func TestListIsNotTheFleet(t *testing.T) {
	a, b := startWorker(t, engine.RoleAggregated), startWorker(t, engine.RoleAggregated)
	e := watch(t, EnginesOptions{}, a, b)
	see := func(minutes, ready, requests int) planner.Observation {
		t.Helper()
		s := planner.State{Pools: []planner.PoolState{{Role: engine.RoleAggregated, Want: ready, Ready: ready}}}
		for _, w := range []*worker{a, b} {
			w.says(vllmText(state{model: "m", running: 3}, some(requests)))
		}
		if err := e.source.Sample(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		return observed(t, e.source, time.Duration(minutes)*time.Minute, time.Minute)
	}
	see(1, 2, 5)
	for i := 2; i < 6; i++ {
		if o := see(i, 2, 5*i); !o.Arrivals.Known || !o.Running.Known {
			t.Errorf("of all engines: %+v", o)
		}
	}
	for i := 6; i < 8; i++ {
		if o := see(i, 6, 5*i); !o.Arrivals.Known {
			t.Errorf("of engines that are new: %+v", o)
		}
	}
	if o := see(8, 6, 50); o.Arrivals.Known || o.Running.Known || !problem(o, "2 of 6 ready engines are seen") {
		t.Errorf("of two of six: %+v", o)
	}
}
