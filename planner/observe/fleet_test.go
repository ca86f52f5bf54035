package observe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/planner"
)

// watched is a source over some endpoints that a test changes.
type watched struct {
	t      testing.TB
	list   *listing
	source *Engines
}

func watch(t testing.TB, o EnginesOptions, workers ...*worker) *watched {
	t.Helper()
	w := &watched{t: t, list: &listing{}}
	for _, one := range workers {
		w.list.endpoints = append(w.list.endpoints, one.endpoint)
	}
	o.List = w.list.list
	w.source = engines(t, o)
	return w
}

// look samples; that some endpoints fail is no error, that all do is.
func (w *watched) look() {
	w.t.Helper()
	if err := w.source.Sample(w.t.Context(), planner.State{}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *watched) observe() planner.Observation {
	return observed(w.t, w.source, time.Minute, time.Minute)
}

// However requests are split over engines, the figures are those of one engine
// with all of them: no mean of means, no percentile of percentiles.
func TestAnySplitIsTheSame(t *testing.T) {
	lengths := rapid.IntRange(1, 9000)
	seconds := rapid.Custom(func(t *rapid.T) time.Duration {
		return time.Duration(rapid.IntRange(1, 50_000).Draw(t, "ms")) * time.Millisecond
	})
	all, parts := startWorker(t, engine.RoleAggregated), make([]*worker, 4)
	for i := range parts {
		parts[i] = startWorker(t, engine.RoleAggregated)
	}
	enginetest.Check(t, func(r *rapid.T) {
		split := make([][]request, len(parts))
		var whole []request
		for range rapid.IntRange(0, 40).Draw(r, "requests") {
			one := request{lengths.Draw(r, "isl"), lengths.Draw(r, "osl"), seconds.Draw(r, "ttft"), seconds.Draw(r, "e2e"), rapid.SliceOfN(seconds, 0, 3).Draw(r, "itl")}
			whole = append(whole, one)
			at := rapid.IntRange(0, len(parts)-1).Draw(r, "engine")
			split[at] = append(split[at], one)
		}
		together, apart := watch(t, EnginesOptions{}, all), watch(t, EnginesOptions{}, parts...)
		all.says(vllmText(state{model: "m"}, nil))
		for _, p := range parts {
			p.says(vllmText(state{model: "m"}, nil))
		}
		together.look()
		apart.look()
		all.says(vllmText(state{model: "m", running: 8, waiting: 4, kv: 0.5}, whole))
		for i, p := range parts {
			p.says(vllmText(state{model: "m", running: 2, waiting: 1, kv: 0.5}, split[i]))
		}
		a, b := together.observe(), apart.observe()
		if !sameRequests(a, b) {
			r.Fatalf("together %+v\nsplit    %+v", a, b)
		}
		if a.Arrivals.Value != float64(len(whole)+4) || len(a.Problems) != len(b.Problems) {
			r.Fatalf("%d requests have a first token and 4 wait: %+v", len(whole), a)
		}
	})
}

// A process that began anew counts from 0, also where it is above what the one
// before had counted.
func TestRestarts(t *testing.T) {
	for name, c := range map[string]struct {
		before, after state
		counted, then int
		want          float64
		said          bool
	}{
		"the counters fell":         {state{model: "m"}, state{model: "m"}, 50, 20, 20, true},
		"above, and it says so":     {state{model: "m", began: 100}, state{model: "m", began: 200}, 50, 80, 80, true},
		"the same process":          {state{model: "m", began: 100}, state{model: "m", began: 100}, 50, 80, 30, false},
		"it says nothing, and rose": {state{model: "m"}, state{model: "m"}, 50, 80, 30, false},
		"it says so only now":       {state{model: "m"}, state{model: "m", began: 200}, 50, 80, 30, false},
	} {
		w := startWorker(t, engine.RoleAggregated)
		e := watch(t, EnginesOptions{}, w)
		w.says(vllmText(c.before, some(c.counted)))
		e.look()
		w.says(vllmText(c.after, some(c.then)))
		o := e.observe()
		known(t, name, o.Arrivals, c.want, 0)
		known(t, name+": ISL", o.ISL.Mean, 50, 1e-9)
		if problem(o, "restarted") != c.said {
			t.Errorf("%s: problems %q", name, o.Problems)
		}
	}
}

// Dynamo's frontend (1.6.1) has no series of its own until its first request, but its
// router's are there. It has not restarted when its own come.
func TestDefectFrontendsFirstRequestWasARestart(t *testing.T) {
	w := startWorker(t, "")
	e := watch(t, EnginesOptions{Presets: Presets("dynamo")}, w)
	itl := func(name, bound string, count int) string {
		return fmt.Sprintf("# TYPE %[1]s histogram\n%[1]s_bucket{model=\"m\",le=\"%[2]s\"} %[3]d\n%[1]s_bucket{model=\"m\",le=\"+Inf\"} %[3]d\n%[1]s_count{model=\"m\"} %[3]d\n%[1]s_sum{model=\"m\"} %[3]d\n", name, bound, count)
	}
	router := itl("dynamo_component_router_inter_token_latency_seconds", "9", 0)
	w.says("dynamo_component_router_requests_total{worker_id=\"1\"} 0\ndynamo_component_router_output_sequence_tokens_count{worker_id=\"1\"} 0\n" + router)
	e.look()
	e.observe()
	e.look()
	w.says("dynamo_frontend_requests_started_total{model=\"m\"} 5\ndynamo_frontend_requests_total{model=\"m\"} 4\ndynamo_component_router_requests_total{worker_id=\"1\"} 4\n" + router + itl("dynamo_frontend_inter_token_latency_seconds", "1", 7))
	o := e.observe()
	known(t, "arrivals", o.Arrivals, 5, 0)
	if o.ITL.Count != 7 || !o.ITL.P99.Known {
		t.Errorf("ITL %+v, problems %q", o.ITL, o.Problems)
	}
	if problem(o, "restarted") {
		t.Errorf("problems %q", o.Problems)
	}
}

// A process whose requests are read from another metric than before is not known for an
// interval, and a router that counts them once for each phase at no time.
func TestRequestsOfAnotherMetric(t *testing.T) {
	w := startWorker(t, "")
	e := watch(t, EnginesOptions{Presets: Presets("dynamo")}, w)
	w.says("dynamo_component_router_requests_started_total 100\n")
	e.look()
	w.says("dynamo_component_router_requests_started_total 105\n")
	known(t, "arrivals", e.observe().Arrivals, 5, 0)
	w.says("dynamo_frontend_requests_started_total{model=\"m\"} 3000\n")
	const said = "requests are read from dynamo_frontend_requests_started_total, and no longer from dynamo_component_router_requests_started_total"
	if o := e.observe(); o.Arrivals.Known || !problem(o, said) {
		t.Errorf("arrivals %+v, problems %q", o.Arrivals, o.Problems)
	}
	w.says("dynamo_frontend_requests_started_total{model=\"m\"} 3007\n")
	known(t, "arrivals", e.observe().Arrivals, 7, 0)

	w.says("dynamo_component_router_requests_started_total 100\ndynamo_component_router_input_sequence_tokens_count{phase=\"prefill\"} 50\n")
	if err := e.source.Sample(t.Context(), planner.State{}); err == nil || !strings.Contains(err.Error(), twiceWords) {
		t.Errorf("error %v", err)
	}
}

// Workers come and go: who is new brings all that it counted, who is gone what was
// seen of it, and who comes back is the process that it was.
func TestWorkersComeAndGo(t *testing.T) {
	a, b := startWorker(t, engine.RoleAggregated), startWorker(t, engine.RoleAggregated)
	a.says(vllmText(state{model: "m"}, some(1000))) // long before
	e := watch(t, EnginesOptions{}, a)
	e.look()
	b.says(vllmText(state{model: "m", waiting: 2}, some(7)))
	e.list.endpoints = []Endpoint{a.endpoint, b.endpoint}
	o := e.observe()
	known(t, "arrivals with a new one", o.Arrivals, 9, 0)
	known(t, "finished with a new one", o.Finished, 7, 0)

	b.says(vllmText(state{model: "m"}, some(9)))
	e.look()
	e.list.endpoints = []Endpoint{a.endpoint}
	o = e.observe()
	known(t, "finished with one gone", o.Finished, 2, 0)
	if !problem(o, b.endpoint.URL+" is gone") {
		t.Errorf("problems %q", o.Problems)
	}

	b.says(vllmText(state{model: "m"}, some(10)))
	e.list.endpoints = []Endpoint{a.endpoint, b.endpoint}
	o = e.observe()
	known(t, "finished with it back", o.Finished, 1, 0)
	if len(o.Problems) > 0 {
		t.Errorf("problems %q", o.Problems)
	}
}

// An endpoint that does not answer makes what it counts too low: it is missing
// (dynamo#14765).
func TestEndpointsThatFail(t *testing.T) {
	for name, c := range map[string]struct {
		fail func(*worker)
		want string
	}{
		"refuses":       {func(w *worker) { w.fails(http.StatusServiceUnavailable) }, "503"},
		"web page":      {func(w *worker) { w.says("<html>") }, "not Prometheus' text format"},
		"another model": {func(w *worker) { w.says(vllmText(state{model: "x"}, nil)) }, "none of its"},
		"truncated":     {func(w *worker) { w.says(vllmText(state{model: "m"}, some(1))[:900]) }, ""},
		"too long":      {func(w *worker) { w.says(strings.Repeat("#\n", maxExposition)) }, "8 MiB"},
		"hangs":         {func(w *worker) { w.mu.Lock(); w.hang = true; w.mu.Unlock() }, "deadline exceeded"},
	} {
		a, b := startWorker(t, engine.RoleAggregated), startWorker(t, engine.RoleAggregated)
		o := EnginesOptions{Model: "m"}
		if name == "hangs" {
			o.Timeout = 300 * time.Millisecond
		}
		e := watch(t, o, a, b)
		a.says(vllmText(state{model: "m"}, nil))
		b.says(vllmText(state{model: "m"}, nil))
		e.look()
		a.says(vllmText(state{model: "m", running: 3}, some(5)))
		c.fail(b)
		seen := e.observe()
		if name == "truncated" { // the metrics before the cut count; those after it are missing, not 0
			if seen.ITL.Mean.Known {
				t.Errorf("%s: ITL %+v", name, seen.ITL)
			}
			continue
		}
		if seen.Arrivals.Known || seen.ISL.Mean.Known || seen.Running.Known {
			t.Errorf("%s: %+v", name, seen)
		}
		if !problem(seen, b.endpoint.URL) || !problem(seen, c.want) {
			t.Errorf("%s: problems %q", name, seen.Problems)
		}
	}
}

// An endpoint that was away at an interval's end does not bring the next interval
// what it counted in the one before.
func TestAwayAtTheEnd(t *testing.T) {
	w := startWorker(t, engine.RoleAggregated)
	e := watch(t, EnginesOptions{}, w)
	w.says(vllmText(state{model: "m"}, nil))
	e.look()
	w.fails(http.StatusBadGateway)
	if err := e.source.Sample(t.Context(), planner.State{}); err == nil {
		t.Error("nobody answers, and that is no error")
	}
	if _, err := e.source.Observe(t.Context(), begin, begin.Add(time.Minute)); err == nil {
		t.Error("nobody answers, and that is an observation")
	}
	w.says(vllmText(state{model: "m"}, some(500))) // of two intervals
	if o := e.observe(); o.Arrivals.Known {
		t.Errorf("arrivals %+v", o.Arrivals)
	}
	w.says(vllmText(state{model: "m"}, some(520)))
	known(t, "arrivals of the interval after", e.observe().Arrivals, 20, 0)
}

// A list that cannot be read is not an empty one (llm-d#1298).
func TestNoList(t *testing.T) {
	w := startWorker(t, engine.RoleAggregated)
	w.says(vllmText(state{model: "m"}, nil))
	e := watch(t, EnginesOptions{}, w)
	e.look()
	e.list.err = errors.New("no state file")
	o, err := e.source.Observe(t.Context(), begin, begin.Add(time.Minute))
	if err == nil || !strings.Contains(err.Error(), "no state file") || o.Arrivals.Known || o.Running.Known {
		t.Errorf("observation %+v, error %v", o, err)
	}
	e.list.endpoints, e.list.err = nil, nil
	if o := e.observe(); o.Arrivals.Known || o.Running.Known {
		t.Errorf("no endpoints have %+v", o)
	}
}

// Sample ends with its context, whatever hangs.
func TestSampleEndsWithItsContext(t *testing.T) {
	var workers []*worker
	for range 3 * atOnce {
		w := startWorker(t, engine.RoleAggregated)
		w.hang = true
		workers = append(workers, w)
	}
	e := watch(t, EnginesOptions{}, workers...)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	if err := e.source.Sample(ctx, planner.State{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	if took := time.Since(began); took > DefaultScrapeTimeout {
		t.Errorf("it took %v", took)
	}
}

// Prefill and decode engines count each request, both: what came is what prefill
// saw, what ended what decode ended.
func TestEnginesApart(t *testing.T) {
	p, d := startWorker(t, engine.RolePrefill), startWorker(t, engine.RoleDecode)
	e := watch(t, EnginesOptions{}, p, d)
	for _, w := range []*worker{p, d} {
		w.says(vllmText(state{model: "m"}, nil))
	}
	if err := e.source.Sample(t.Context(), planner.State{Pools: []planner.PoolState{{Role: engine.RolePrefill, Ready: 2}, {Role: engine.RoleDecode, Ready: 1}}}); err != nil {
		t.Fatal(err)
	}
	p.says(vllmText(state{model: "m", waiting: 4, kv: 0.1}, some(10)))
	d.says(vllmText(state{model: "m", running: 2, kv: 0.8}, some(8)))
	o := e.observe()
	known(t, "arrivals", o.Arrivals, 14, 0)
	known(t, "finished", o.Finished, 8, 0)
	known(t, "requests with an ISL", planner.Known(o.ISL.Count), 10, 0)
	known(t, "requests with an OSL", planner.Known(o.OSL.Count), 8, 0)
	known(t, "running", o.Running, 2, 0)
	known(t, "waiting", o.Waiting, 4, 0)
	prefill, _ := o.Pool(engine.RolePrefill)
	decode, _ := o.Pool(engine.RoleDecode)
	known(t, "first queue per replica", prefill.QueueOpen, 0, 0)
	known(t, "last queue per replica", prefill.QueueEnd, 2, 0)
	known(t, "queue per replica", prefill.Queue, 1, 0) // of two looks
	known(t, "KV use", decode.KVUsage, 0.4, 1e-9)
	if o.Duration.Mean.Known || !problem(o, "no engine sees whole requests") {
		t.Errorf("duration %+v, problems %q", o.Duration, o.Problems)
	}
}
