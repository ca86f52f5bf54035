package observe

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/planner"
)

func live(t testing.TB, f *fake, o LiveOptions) *Live {
	t.Helper()
	if o.Presets == nil {
		o.Presets = Presets("auto")
	}
	l, err := NewLive(f.serve(), o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// observed is the interval of so long that ends so long after begin.
func observed(t testing.TB, l planner.Source, end, length time.Duration) planner.Observation {
	t.Helper()
	o, err := l.Observe(t.Context(), begin.Add(end-length), begin.Add(end))
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// problem reports whether one of the problems has the words, or the figure before their
// colon and the reason after it.
func problem(o planner.Observation, words string) bool {
	what, why, _ := strings.Cut(words, ": ")
	return slices.ContainsFunc(o.Problems, func(p string) bool {
		figures, reason, _ := strings.Cut(p, ": ")
		return strings.Contains(p, words) || (figures == "all figures" || slices.Contains(strings.Split(figures, ", "), what)) && strings.HasPrefix(reason, why)
	})
}

func known(t testing.TB, what string, f planner.Figure[float64], want, within float64) {
	t.Helper()
	if !f.Known || !(math.Abs(f.Value-want) <= within) {
		t.Errorf("%s is %+v, want %v ± %v", what, f, want, within)
	}
}

func latency(t testing.TB, what string, f planner.Figure[time.Duration], want, within time.Duration) {
	t.Helper()
	known(t, what, planner.Figure[float64]{Value: f.Value.Seconds(), Known: f.Known}, want.Seconds(), within.Seconds())
}

func TestLive(t *testing.T) {
	f := &fake{t: t}
	f.engine("m", "a", hour, 1, 600)
	f.engine("m", "b", hour, 3, 200)
	l := live(t, f, LiveOptions{})
	state := planner.State{Pools: []planner.PoolState{{Role: engine.RoleAggregated, Ready: 2}}}
	if err := l.Sample(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	o := observed(t, l, hour/2, 30*time.Second)
	known(t, "arrivals", o.Arrivals, 120, 0.1)
	known(t, "finished", o.Finished, 120, 0.1)
	known(t, "running", o.Running, 6, 0)
	known(t, "waiting", o.Waiting, 0, 0)
	// Weighted by requests: (1·600 + 3·200) / 4, where the mean over engines is 400.
	known(t, "ISL", o.ISL.Mean, 300, 0.1)
	known(t, "p50 of ISL", o.ISL.P50.Figure, 500, 1e-6)
	known(t, "p90 of ISL", o.ISL.P90.Figure, 900, 1)
	known(t, "OSL", o.OSL.Mean, 40, 0.1)
	latency(t, "TTFT", o.TTFT.Mean, 50*time.Millisecond, time.Microsecond)
	latency(t, "p95 of TTFT", o.TTFT.P95.Figure, 97*time.Millisecond, time.Millisecond)
	latency(t, "ITL", o.ITL.Mean, 20*time.Millisecond, time.Microsecond)
	if !o.TTFT.P99.Open || !o.TTFT.P99.Above(99*time.Millisecond) || o.TTFT.P99.Above(101*time.Millisecond) || !problem(o, "TTFT: the p99 is above 100ms") {
		t.Errorf("p99 of TTFT above its buckets: %+v, problems %q", o.TTFT.P99, o.Problems)
	}
	if o.Duration.Mean.Known {
		t.Errorf("a duration that nobody measured: %+v", o.Duration)
	}
	p, ok := o.Pool(engine.RoleAggregated)
	if !ok {
		t.Fatal("no pool")
	}
	known(t, "running of the pool", p.Running, 6, 0)
	known(t, "KV use", p.KVUsage, 0.5, 0)
	known(t, "KV use of the fullest", p.KVMost, 0.5, 0)
	known(t, "queue", p.Queue, 0, 0)
	known(t, "first queue", p.QueueOpen, 0, 0)
	known(t, "last queue", p.QueueEnd, 0, 0)
}

// VictoriaMetrics counts from the sample before a range, a new series from 0, and what rose
// while a target was away; an instant is 30 s ago unless it is asked otherwise.
func TestLiveVictoriaMetrics(t *testing.T) {
	const end = hour / 2
	// Two requests/s, and ten in the last 30 s. The scrapes cover 25 s of these.
	load := func(at time.Duration) float64 { return 2*at.Seconds() + 8*max(0, (at-end+thirty).Seconds()) }
	for name, c := range map[string]struct {
		more    func(f *fake)
		want    float64
		unknown bool
	}{
		"scrapes that fall 2 s apart": {want: 310, more: func(f *fake) { f.away("b", 2*time.Second, rising(1.0/3), 0, 0) }},
		"an engine that comes": {want: 386, more: func(f *fake) {
			f.away("b", end-10*time.Second, func(at time.Duration) float64 { return 4 * (8 + at.Seconds()) }, 0, 0)
		}},
		"an engine that comes back":   {unknown: true, more: func(f *fake) { f.away("b", 0, rising(10), end-200*time.Second, end-15*time.Second) }},
		"a small one that comes back": {want: 318, more: func(f *fake) { f.away("b", 0, rising(1), end-200*time.Second, end-15*time.Second) }},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{t: t, victoria: true}
			f.engine("m", "a", end, 2, 600)
			f.series = slices.DeleteFunc(f.series, func(s fakeSeries) bool { return s.labels["__name__"] == "vllm:time_to_first_token_seconds_count" })
			f.add("vllm:time_to_first_token_seconds_count", scrape, end, load, "model_name", "m", "instance", "a")
			c.more(f)
			l := live(t, f, LiveOptions{})
			observed(t, l, end-thirty, thirty)
			o := observed(t, l, end, thirty)
			if c.unknown == o.Arrivals.Known {
				t.Fatalf("arrivals %+v, %q", o.Arrivals, o.Problems)
			}
			if !c.unknown {
				known(t, "arrivals", o.Arrivals, c.want, 3)
			}
		})
	}
}

// away adds requests of an engine whose first scrape is at an instant, and which is not
// scraped for a while.
func (f *fake) away(name string, from time.Duration, load func(time.Duration) float64, gone, back time.Duration) {
	s := fakeSeries{labels: map[string]string{"__name__": "vllm:time_to_first_token_seconds_count", "model_name": "m", "instance": name}}
	for at := from; at <= hour/2; at += scrape {
		if at <= gone || at >= back {
			s.at, s.values = append(s.at, at), append(s.values, load(at-from))
		}
	}
	f.series = append(f.series, s)
}
