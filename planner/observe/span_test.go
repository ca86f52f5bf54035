package observe

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/planner"
)

// pod is a process that counts requests at a steady rate from an instant on, and what
// keeps scrapes from it.
type pod struct {
	rate       float64 // requests/s
	begin, end time.Duration
	counted    float64       // before begin: it may have run for long
	restart    time.Duration // it counts from 0 again; 0: never
	away       []stretch     // its scrapes fail
	queue, kv  float64
}

// stretch is a part of the time.
type stretch struct{ from, to time.Duration }

func in(at time.Duration, all []stretch) bool {
	return slices.ContainsFunc(all, func(s stretch) bool { return at > s.from && at <= s.to })
}

func (p pod) value(at time.Duration) float64 {
	if p.restart > 0 && at >= p.restart {
		return p.rate * (at - p.restart).Seconds()
	}
	return p.counted + p.rate*(at-p.begin).Seconds()
}

// scrapes are a Prometheus' of pods.
type scrapes struct {
	every  time.Duration
	jitter float64   // of every, at most
	away   []stretch // Prometheus is
	ups    bool      // it has the series up
	engine bool      // pods are engines, not frontends
	until  time.Duration
}

// fake has what they leave.
func (s scrapes) fake(t testing.TB, r *rand.Rand, pods []pod) *fake {
	f := &fake{t: t}
	for i, p := range pods {
		name, labels := "dynamo_frontend_requests_started_total", map[string]string{"model": "m", "job": "j", "instance": fmt.Sprint("p", i)}
		if s.engine {
			name, labels = "sglang:num_requests_received_total", map[string]string{"model_name": "m", "job": "j", "instance": fmt.Sprint("p", i)}
		}
		of := func(name string) fakeSeries {
			out := fakeSeries{labels: map[string]string{"__name__": name}}
			for k, v := range labels {
				out.labels[k] = v
			}
			return out
		}
		requests, running, up := of(name), of("sglang:num_running_reqs"), of("up")
		queue, kv := of("sglang:num_queue_reqs"), of("sglang:token_usage")
		delete(up.labels, "model")
		delete(up.labels, "model_name")
		offset := time.Duration(r.Float64() * float64(s.every))
		for due := offset; due <= s.until; due += s.every {
			at := (due + time.Duration(s.jitter*r.Float64()*float64(s.every))).Truncate(time.Millisecond)
			switch {
			case in(at, s.away) || at < p.begin:
			case p.end > 0 && at >= p.end: // discovery has noticed
				for _, x := range []*fakeSeries{&requests, &running, &up, &queue, &kv} {
					x.marks = append(x.marks, at)
				}
			case in(at, p.away):
				for _, x := range []*fakeSeries{&requests, &running, &queue, &kv} {
					x.marks = append(x.marks, at)
				}
				up.at, up.values = append(up.at, at), append(up.values, 0)
			default:
				for x, v := range map[*fakeSeries]float64{&requests: p.value(at), &running: 1, &up: 1, &queue: p.queue, &kv: p.kv} {
					x.at, x.values = append(x.at, at), append(x.values, v)
				}
			}
		}
		f.series = append(f.series, requests)
		if s.engine {
			f.series = append(f.series, running, queue, kv)
		}
		if s.ups {
			f.series = append(f.series, up)
		}
	}
	return f
}

// seen are the rates, 1/s, of intervals that follow each other; NaN of those that are
// missing.
func (s scrapes) seen(t testing.TB, f *fake, length time.Duration, ready func(at time.Duration) int) (rates []float64) {
	for _, o := range s.observed(t, f, length, ready) {
		rate := math.NaN()
		if o.Arrivals.Known {
			rate = o.Arrivals.Value / length.Seconds()
		}
		rates = append(rates, rate)
	}
	return rates
}

// observed are intervals that follow each other; empty where the source fails.
func (s scrapes) observed(t testing.TB, f *fake, length time.Duration, ready func(at time.Duration) int) (all []planner.Observation) {
	l, err := NewLive(f.serve(), LiveOptions{Presets: Presets("auto")})
	if err != nil {
		t.Fatal(err)
	}
	for end := 10 * time.Minute; end <= s.until; end += length {
		if ready != nil {
			for _, at := range []time.Duration{end - length/2, end} {
				sampled(t, l, planner.State{Pools: []planner.PoolState{{Role: engine.RoleAggregated, Ready: ready(at)}}})
			}
		}
		o, _ := l.Observe(t.Context(), begin.Add(end-length), begin.Add(end))
		all = append(all, o)
	}
	return all
}

func intervals() []time.Duration {
	return []time.Duration{15 * time.Second, 30 * time.Second, time.Minute, 3 * time.Minute}
}

// Prometheus is away for a while, whenever that is: 35 requests/s were seen as 4.154, and
// afterwards they are seen again.
func TestPrometheusAwayIsNoFallingLoad(t *testing.T) {
	for _, length := range []time.Duration{15 * time.Second, 3 * time.Minute} {
		for from := 14 * time.Minute; from < 17*time.Minute; from += 7 * time.Second {
			s := scrapes{every: 5 * time.Second, away: []stretch{{from, from + 40*time.Second}}, until: 22 * time.Minute}
			all := s.seen(t, s.fake(t, rand.New(rand.NewPCG(uint64(from), 0)), []pod{{rate: 35, counted: 1e6}}), length, nil)
			missing := 0
			for _, rate := range all {
				if math.IsNaN(rate) {
					missing++
				} else if math.Abs(rate-35) > 0.1 {
					t.Errorf("away from %v on, in intervals of %v: %.4g requests/s are seen of 35", from, length, rate)
				}
			}
			if most := 1 + int(time.Minute/length); missing > most {
				t.Errorf("away from %v on, %d intervals of %v are missing, want %d at most", from, missing, length, most)
			}
		}
	}
}

// Prometheus comes back, and has scraped some engines again and others not yet, which it
// still answers for with what they said before: 9.86 requests/s were seen as 7.68.
func TestHalfTheEnginesScrapedAgain(t *testing.T) {
	const back = 10*time.Minute + 30*time.Second
	pods := []pod{{rate: 1}, {rate: 2, counted: 1e6}, {rate: 1, counted: 1e6}, {rate: 6, counted: 1e6}}
	for early := time.Duration(0); early < time.Second; early += 50 * time.Millisecond {
		s := scrapes{every: time.Second, jitter: 0.1, engine: true, away: []stretch{{9 * time.Minute, back - early}}, until: 12 * time.Minute}
		for i, rate := range s.seen(t, s.fake(t, rand.New(rand.NewPCG(7, 7)), pods), 15*time.Second, func(time.Duration) int { return len(pods) }) {
			if rate < 0.9*10 {
				t.Errorf("back %v before an interval's end: %.4g requests/s are seen of 10 in interval %d", early, rate, i)
			}
		}
	}
}

// A busy target is away as the planner starts, and only a quiet one is seen: the busy
// one's requests are those that it had before, not as many as the quiet one's.
func TestAwayBeforeTheFirstLook(t *testing.T) {
	away := []stretch{{9 * time.Minute, 14 * time.Minute}}
	pods := []pod{{rate: 3, away: away}, {rate: 1}, {rate: 18}}
	s := scrapes{every: time.Second, until: 16 * time.Minute}
	pods[2].away = []stretch{{9 * time.Minute, 12 * time.Minute}}
	for i, rate := range s.seen(t, s.fake(t, rand.New(rand.NewPCG(7, 7)), pods), 30*time.Second, nil) {
		if rate < 0.9*22 {
			t.Errorf("%.4g requests/s are seen of 22 in interval %d", rate, i)
		}
	}
}

// Whatever scrapes fail, of one target, of many or of all, a steady load is never seen as
// one that fell.
func TestNoGapsLookLikeFallingLoad(t *testing.T) {
	enginetest.Check(t, func(r *rapid.T) {
		s := scrapes{
			every:  rapid.SampledFrom([]time.Duration{time.Second, 5 * time.Second, 15 * time.Second, 30 * time.Second, time.Minute}).Draw(r, "scrape interval"),
			jitter: rapid.Float64Range(0, 0.1).Draw(r, "jitter"),
			ups:    rapid.Bool().Draw(r, "up is there"), engine: rapid.Bool().Draw(r, "engines"), until: 22 * time.Minute,
		}
		gaps := rapid.Custom(func(r *rapid.T) stretch {
			from := time.Duration(rapid.Int64Range(int64(9*time.Minute), int64(s.until)).Draw(r, "from"))
			return stretch{from, from + time.Duration(rapid.Int64Range(0, int64(6*time.Minute)).Draw(r, "length"))}
		})
		s.away = rapid.SliceOfN(gaps, 0, 3).Draw(r, "Prometheus is away")
		pods, all := []pod{}, 0.0
		for range rapid.IntRange(1, 4).Draw(r, "targets") {
			p := pod{queue: 0.6, kv: 0.7, rate: rapid.Float64Range(1, 20).Draw(r, "rate"), counted: rapid.SampledFrom([]float64{0, 1e6}).Draw(r, "counted"), away: rapid.SliceOfN(gaps, 0, 2).Draw(r, "its scrapes fail")}
			pods, all = append(pods, p), all+p.rate
		}
		f := s.fake(t, rand.New(rand.NewPCG(rapid.Uint64().Draw(r, "seed"), 0)), pods)
		length := rapid.SampledFrom(intervals()).Draw(r, "interval")
		var ready func(time.Duration) int
		if rapid.Bool().Draw(r, "the target says what is ready") {
			ready = func(time.Duration) int { return len(pods) }
		}
		for i, o := range s.observed(t, f, length, ready) {
			if rate := o.Arrivals.Value / length.Seconds(); o.Arrivals.Known && (rate < 0.9*all || rate > 1.11*all) {
				r.Fatalf("interval %d of %v: %.4g requests/s are seen of %.4g", i, length, rate, all)
			}
			for _, p := range o.Pools {
				if p.Queue.Known && p.Queue.Value < 0.9*0.6 || p.KVUsage.Known && p.KVUsage.Value < 0.9*0.7 || p.KVMost.Known && p.KVMost.Value < 0.9*0.7 {
					r.Fatalf("interval %d of %v: a queue of %v is seen of 0.6, KV use of %v of 0.7", i, length, p.Queue, p.KVUsage)
				}
			}
		}
	})
}

// What happens every day leaves the planner its sight.
func TestEverydayScrapesAreEnough(t *testing.T) {
	const at, until = 15 * time.Minute, 25 * time.Minute
	old := func(rate float64) pod { return pod{rate: rate, counted: 1e6} }
	failing := func(n int, every time.Duration) pod {
		p := old(2)
		for k := range n {
			from := 10*time.Minute + time.Duration(k)*4*time.Minute + 7*time.Second
			p.away = append(p.away, stretch{from, from + every})
		}
		return p
	}
	for _, c := range []struct {
		name   string
		pods   func(every time.Duration) []pod
		ready  func(time.Duration) int
		events int // each may take an interval, and two scrapes
	}{
		{name: "one", pods: func(time.Duration) []pod { return []pod{old(4)} }},
		{name: "four", pods: func(time.Duration) []pod { return []pod{old(1), old(2), old(3), old(4)} }},
		{name: "one whose scrapes fail now and then", pods: func(every time.Duration) []pod { return []pod{failing(3, every)} }},
		{name: "two of which one's scrapes fail now and then", pods: func(every time.Duration) []pod { return []pod{old(2), failing(3, every)} }, events: 3},
		{name: "ten of which one is away", pods: func(time.Duration) []pod {
			pods := []pod{{rate: 1, counted: 1e6, away: []stretch{{at, until}}}}
			for range 10 {
				pods = append(pods, old(1))
			}
			return pods
		}},
		{name: "one pod of three is another", pods: func(time.Duration) []pod {
			return []pod{old(3), old(3), {rate: 3, counted: 1e6, end: at}, {rate: 3, begin: at}}
		}, events: 2},
		{name: "one process of three begins anew", pods: func(every time.Duration) []pod {
			return []pod{old(3), old(3), {rate: 3, counted: 1e6, restart: at, away: []stretch{{at - every, at}}}}
		}, events: 1},
		{name: "from one to two", pods: func(time.Duration) []pod { return []pod{old(3), {rate: 3, begin: at}} }, events: 2},
		{name: "from four to two", pods: func(time.Duration) []pod {
			return []pod{old(3), old(3), {rate: 1, counted: 1e6, end: at}, {rate: 1, counted: 1e6, end: at}}
		}, events: 2},
		{name: "from four to two, as ready says", pods: func(time.Duration) []pod {
			return []pod{old(3), old(3), {rate: 1, counted: 1e6, end: at}, {rate: 1, counted: 1e6, end: at}}
		}, ready: func(now time.Duration) int {
			if now < at {
				return 4
			}
			return 2
		}, events: 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, every := range []time.Duration{5 * time.Second, 15 * time.Second, time.Minute} {
				events := c.events
				if 2*every > DefaultMaxAge { // one scrape that fails leaves none that is new enough
					events = max(events, 3)
				}
				for _, length := range intervals() {
					s := scrapes{every: every, jitter: 0.1, ups: c.ready == nil, engine: c.ready != nil, until: until}
					missing, all := 0, s.seen(t, s.fake(t, rand.New(rand.NewPCG(7, 7)), c.pods(every)), length, c.ready)
					for _, rate := range all {
						if math.IsNaN(rate) {
							missing++
						}
					}
					if float64(missing) > float64(events)*(1+2*float64(every)/float64(length)) {
						t.Errorf("scraped every %v, %d of %d intervals of %v are missing", every, missing, len(all), length)
					}
				}
			}
		})
	}
}
