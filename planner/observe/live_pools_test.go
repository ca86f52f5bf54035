package observe

import (
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
	"plimsoll/planner"
	"plimsoll/profile"
)

// twoPools are prefill and decode engines, both of which count each request: twice
// as many came as ended.
func twoPools(f *fake) {
	for _, c := range []struct {
		role                  string
		rate, isl, osl, queue float64
	}{{"prefill", 2, 800, 1, 6}, {"decode", 1, 801, 100, 0}} {
		l := []string{"model_name", "m", "role", c.role}
		f.add("vllm:request_success_total", scrape, hour, rising(c.rate), l...)
		f.add("vllm:num_requests_running", scrape, hour, constant(2), l...)
		for _, instance := range []string{"a", "b", "c", "d"} {
			f.add("vllm:num_requests_waiting", scrape, hour, constant(c.queue/4), append(l[:4:4], "instance", instance)...)
		}
		f.add("vllm:kv_cache_usage_perc", scrape, hour, constant(c.rate/4), l...)
		f.histogram("vllm:request_prompt_tokens", scrape, hour, map[string]float64{"1000": c.rate, "+Inf": c.rate}, c.rate*c.isl, l...)
		f.histogram("vllm:request_generation_tokens", scrape, hour, map[string]float64{"1000": c.rate, "+Inf": c.rate}, c.rate*c.osl, l...)
		f.histogram("vllm:e2e_request_latency_seconds", scrape, hour, map[string]float64{"1": c.rate, "+Inf": c.rate}, c.rate, l...)
	}
}

func roles(prefill, decode int) planner.State {
	return planner.State{Pools: []planner.PoolState{{Role: engine.RolePrefill, Ready: prefill}, {Role: engine.RoleDecode, Ready: decode}}}
}

func byRole() map[planner.Role]map[string]string {
	return map[planner.Role]map[string]string{engine.RolePrefill: {"role": "prefill"}, engine.RoleDecode: {"role": "decode"}}
}

func TestLiveApart(t *testing.T) {
	f := &fake{t: t}
	twoPools(f)
	l := live(t, f, LiveOptions{Selectors: byRole()})
	sampled(t, l, roles(2, 1))
	sampled(t, l, roles(4, 1))
	o := observed(t, l, half, thirty)
	known(t, "arrivals", o.Arrivals, 60, 1e-6)
	known(t, "finished", o.Finished, 30, 1e-6)
	known(t, "ISL", o.ISL.Mean, 800, 1e-6)
	known(t, "OSL", o.OSL.Mean, 100, 1e-6)
	known(t, "running", o.Running, 4, 0)
	known(t, "waiting", o.Waiting, 6, 0)
	prefill, _ := o.Pool(engine.RolePrefill)
	decode, _ := o.Pool(engine.RoleDecode)
	known(t, "queue per ready replica, of which there were 3", prefill.Queue, 2, 1e-9)
	known(t, "KV use of prefill", prefill.KVUsage, 0.5, 0)
	known(t, "KV use of decode", decode.KVMost, 0.25, 0)
	if o.Duration.Mean.Known || !problem(o, "no engine sees whole requests") {
		t.Errorf("duration %+v, problems %q", o.Duration, o.Problems)
	}
}

// Without labels nobody knows which engine is whose, and each request is counted
// twice: all of that is missing.
func TestLiveCannotTellPoolsApart(t *testing.T) {
	f := &fake{t: t}
	twoPools(f)
	l := live(t, f, LiveOptions{})
	sampled(t, l, roles(1, 1))
	o := observed(t, l, half, thirty)
	prefill, _ := o.Pool(engine.RolePrefill)
	if o.Arrivals.Known || o.Finished.Known || o.ISL.Mean.Known || prefill.Queue.Known || !problem(o, "arrivals: prefill and decode engines both count every request") {
		t.Errorf("observation %+v", o)
	}
	known(t, "running", o.Running, 4, 0)
}

func TestPrefillQueueQuery(t *testing.T) {
	f := &fake{t: t}
	twoPools(f)
	f.add("nats_queue", scrape, hour, until(half-15*time.Second, constant(4), constant(8)))
	l := live(t, f, LiveOptions{Selectors: byRole(), PrefillQueueQuery: `sum({__name__="nats_queue"})`})
	sampled(t, l, roles(2, 1))
	o := observed(t, l, half, thirty)
	prefill, _ := o.Pool(engine.RolePrefill)
	known(t, "queue", prefill.Queue, 3, 0.1)
	known(t, "first queue", prefill.QueueOpen, 2, 0)
	known(t, "last queue", prefill.QueueEnd, 4, 0)
	known(t, "waiting", o.Waiting, 8, 0)

	l = live(t, f, LiveOptions{Selectors: byRole(), PrefillQueueQuery: `sum({__name__="nats_queu"})`})
	sampled(t, l, roles(2, 1))
	o = observed(t, l, half, thirty)
	if prefill, _ = o.Pool(engine.RolePrefill); prefill.Queue.Known || o.Waiting.Known || !o.Arrivals.Known || !problem(o, "prefill queue: the query for it has no answer") {
		t.Errorf("observation %+v", o)
	}

	f.add("old_queue", scrape, half-100*time.Second, constant(0)) // its exporter went
	l = live(t, f, LiveOptions{Selectors: byRole(), PrefillQueueQuery: `sum({__name__="old_queue"})`})
	for _, length := range []time.Duration{thirty, 2 * time.Minute} {
		sampled(t, l, roles(2, 1))
		o = observed(t, l, half, length)
		if prefill, _ = o.Pool(engine.RolePrefill); prefill.Queue.Known || prefill.QueueEnd.Known || o.Waiting.Known {
			t.Errorf("a queue of 100 s ago, %v: %+v", length, prefill)
		}
	}
}

// dynamo adds what Dynamo 1.6.1 says of two requests/s: its router with the requests of these
// phases, and its frontend, without a namespace.
func (f *fake) dynamo(frontend bool, phases ...string) {
	l := []string{"dynamo_namespace", "dynamo", "dynamo_component", "backend", "worker_id", "8c1b68893589fc43"}
	n := 2 * float64(len(phases))
	f.add("dynamo_component_router_requests_started_total", scrape, hour, rising(n), l...)
	f.add("dynamo_component_router_requests_total", scrape, hour, rising(n), l...)
	f.histogram("dynamo_component_router_inter_token_latency_seconds", scrape, hour, map[string]float64{"+Inf": 2}, 0.02, l...)
	for _, phase := range phases {
		f.histogram("dynamo_component_router_input_sequence_tokens", scrape, hour, map[string]float64{"+Inf": 2}, 512, append(l, "model", "words", "phase", phase)...)
	}
	if frontend {
		f.add("dynamo_frontend_requests_started_total", scrape, hour, rising(2), "model", "words")
		f.histogram("dynamo_frontend_input_sequence_tokens", scrape, hour, map[string]float64{"+Inf": 2}, 512, "model", "words")
	}
}

// A frontend of Dynamo has no namespace outside Kubernetes, and its router counts a request
// once for each phase: the frontend is read whatever the namespace, the router where there is
// one phase.
func TestDynamosNamespaceAndPhases(t *testing.T) {
	const other, noLabel, twice = "another", "the dynamo metrics have no label dynamo_namespace, so requests of all namespaces count", "arrivals, finished requests: " + twiceWords
	for name, c := range map[string]struct {
		namespace string
		frontend  bool
		phases    []string
		arrivals  bool
		says      string
		codes     []string // of the history; nil: it is refused
	}{
		"a frontend":                    {"", true, []string{"prefill", "decode"}, true, "", []string{}},
		"a frontend, by namespace":      {"dynamo", true, []string{"prefill", "decode"}, true, noLabel, []string{"no_namespace_label"}},
		"a frontend, another namespace": {other, true, []string{"prefill", "decode"}, true, noLabel, []string{"no_namespace_label"}},
		"a router":                      {"dynamo", false, []string{"aggregated"}, true, "", []string{}},
		"a router of two phases":        {"dynamo", false, []string{"prefill", "decode"}, false, twice, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fake{t: t}
			f.dynamo(c.frontend, c.phases...)
			o := observed(t, live(t, f, LiveOptions{Presets: Presets("dynamo"), Namespace: c.namespace}), half, thirty)
			if o.Arrivals.Known != c.arrivals || c.says != "" && !problem(o, c.says) || problem(o, noLabel) != (c.says == noLabel) {
				t.Errorf("arrivals %+v, problems %q", o.Arrivals, o.Problems)
			}
			if c.arrivals {
				known(t, "arrivals", o.Arrivals, 60, 1e-6)
				known(t, "ISL", o.ISL.Mean, 256, 1e-6)
			}
			if !c.frontend && c.arrivals { // its ITL is a mean for each request
				latency(t, "TPOT", o.TPOT.Mean, 10*time.Millisecond, time.Microsecond)
			}
			found, err := f.serve().Find(t.Context(), Wanted{Presets: Presets("dynamo"), Namespace: c.namespace, From: begin, To: begin.Add(hour)})
			if c.codes == nil {
				if err == nil || !strings.Contains(err.Error(), twiceWords) {
					t.Errorf("found %+v, %v", found.Names, err)
				}
			} else if err != nil || !slices.Equal(codes(found.Warnings), c.codes) {
				t.Errorf("warnings %v, %v", found.Warnings, err)
			}
		})
	}
}

// A frontend sees each request once, in lower case and with what waits among what
// runs; what engines hold is theirs to say.
func TestFrontendAndEngines(t *testing.T) {
	f := &fake{t: t}
	front := []string{"model", "qwen/q", "dynamo_namespace", "ns"}
	f.add("dynamo_frontend_requests_started_total", scrape, hour, rising(5), front...)
	f.add("dynamo_frontend_requests_total", scrape, hour, rising(4), front...)
	f.add("dynamo_frontend_active_requests", scrape, hour, constant(10), front...)
	f.add("dynamo_frontend_queued_requests", scrape, hour, constant(4), front...)
	f.histogram("dynamo_frontend_time_to_first_token_seconds", scrape, hour, map[string]float64{"1": 4, "+Inf": 4}, 2, front...)
	o := observed(t, live(t, f, LiveOptions{Model: "Qwen/Q", Namespace: "ns"}), half, thirty)
	known(t, "arrivals", o.Arrivals, 150, 1e-6)
	known(t, "finished", o.Finished, 120, 1e-6)
	known(t, "running", o.Running, 6, 0)
	known(t, "waiting", o.Waiting, 4, 0)
	if p, _ := o.Pool(engine.RoleAggregated); p.KVUsage.Known || !problem(o, "no metrics of engines are there") {
		t.Errorf("pool %+v, problems %q", p, o.Problems)
	}
	for _, worker := range []string{"VllmPrefillWorker", "VllmDecodeWorker"} {
		l := []string{"model_name", "Qwen/Q", "dynamo_namespace", "ns", "dynamo_component", worker}
		f.add("vllm:request_success_total", scrape, hour, rising(4), l...)
		f.add("vllm:num_requests_running", scrape, hour, constant(3), l...)
		f.add("vllm:num_requests_waiting", scrape, hour, constant(1), l...)
		f.add("vllm:kv_cache_usage_perc", scrape, hour, constant(0.25), l...)
		of := map[string]map[string]float64{ // a prefill worker's requests have one token, and no time between any
			"VllmPrefillWorker": {"0.01": 4, "0.025": 4, "+Inf": 4}, "VllmDecodeWorker": {"0.01": 0, "0.025": 4, "+Inf": 4},
		}[worker]
		f.histogram("vllm:request_time_per_output_token_seconds", scrape, hour, of, 0.06*of["+Inf"]/4, l...)
	}
	for _, model := range []string{"", "Qwen/Q", "qwen/q"} {
		l := live(t, f, LiveOptions{Model: model, Namespace: "ns", Selectors: map[planner.Role]map[string]string{
			engine.RolePrefill: {"dynamo_component": "VllmPrefillWorker"}, engine.RoleDecode: {"dynamo_component": "VllmDecodeWorker"},
		}})
		sampled(t, l, roles(1, 1))
		o = observed(t, l, half, thirty)
		known(t, "arrivals", o.Arrivals, 150, 1e-6)
		known(t, "running in the engines", o.Running, 6, 0)
		known(t, "waiting in the engines", o.Waiting, 2, 0)
		latency(t, "TTFT", o.TTFT.Mean, 500*time.Millisecond, time.Microsecond)
		if p, _ := o.Pool(engine.RoleDecode); p.KVUsage.Value != 0.25 {
			t.Errorf("decode pool %+v", p)
		}
		// A frontend counts gaps; what a percentile of requests takes, the decode engines do.
		byRequests := profile.SLA{Stat: profile.P99}
		if got := o.Promised(byRequests); math.Abs(got.Count-120) > 1e-6 || got.P99.Value < 10*time.Millisecond || !got.P99.Known {
			t.Errorf("requests' mean ITL: %+v", got)
		}
	}
}

// Another version of the engines has other names: they are found when they come.
func TestLiveFindsNamesAgain(t *testing.T) {
	f := &fake{t: t}
	at := half - time.Minute
	f.engine("m", "a", at, 1, 100) // time_per_output_token_seconds
	for i := range f.series {
		f.series[i].stale = true
	}
	l := live(t, f, LiveOptions{})
	if o := observed(t, l, at, thirty); !o.ITL.Mean.Known || !o.ITL.P99.Known || !o.Arrivals.Known || o.Promised(profile.SLA{Stat: profile.P99}).P99.Known {
		t.Errorf("before: %+v", o)
	}
	from := len(f.series)
	f.engine("m", "a", hour, 1, 100)
	for i := range f.series[from:] {
		s := &f.series[from+i]
		s.labels["__name__"] = strings.Replace(s.labels["__name__"], "time_per_output_token", "inter_token_latency", 1)
		for s.at[0] < at+10*time.Second {
			s.at, s.values = s.at[1:], s.values[1:]
		}
	}
	o := observed(t, l, half, thirty)
	known(t, "arrivals", o.Arrivals, 30, 1e-6)
	latency(t, "ITL by its new name", o.ITL.Mean, 20*time.Millisecond, time.Microsecond)
}

// However requests are split over engines, Prometheus' figures are those of one
// engine with all of them.
func TestLiveAnySplitIsTheSame(t *testing.T) {
	enginetest.Check(t, func(r *rapid.T) {
		all, split := &fake{t: t}, &fake{t: t}
		shares := rapid.SliceOfN(rapid.IntRange(0, 20), 1, 6).Draw(r, "requests per second")
		buckets := rapid.SliceOfN(rapid.IntRange(1, 9), 4, 4).Draw(r, "weights")
		sum := 0
		for i, n := range shares {
			sum += n
			split.spreadOut("e"+strconv.Itoa(i), n, buckets)
		}
		all.spreadOut("all", sum, buckets)
		a, b := answered(all), answered(split)
		defer a.Close()
		defer b.Close()
		look := func(url string) planner.Observation {
			l, err := NewLive(dial(t, Options{URL: url}), LiveOptions{Presets: Presets("vllm")})
			if err != nil {
				r.Fatal(err)
			}
			return observed(t, l, 2*time.Minute, thirty)
		}
		one, many := look(a.URL), look(b.URL)
		if !sameRequests(one, many) || len(one.Problems) != len(many.Problems) {
			r.Fatalf("together %+v\nsplit    %+v", one, many)
		}
		if want := float64(sum) * 30; !(one.Arrivals.Known && one.Arrivals.Value > want-1e-6 && one.Arrivals.Value < want+1e-6) {
			r.Fatalf("arrivals %+v, want %v", one.Arrivals, want)
		}
	})
}

func answered(f *fake) *httptest.Server { return httptest.NewServer(http.Handler(f)) }

// spreadOut adds an engine of so many requests a second, whose TTFT fill the
// buckets by weight.
func (f *fake) spreadOut(name string, perSecond int, weights []int) {
	const every, until = 10 * time.Second, 2 * time.Minute
	l := []string{"model_name", "m", "instance", name}
	f.add("vllm:request_success_total", every, until, rising(float64(perSecond)), l...)
	f.add("vllm:num_requests_running", every, until, constant(float64(perSecond)), l...)
	f.add("vllm:num_requests_waiting", every, until, constant(0), l...)
	rates, total, sum, all := map[string]float64{}, 0.0, 0.0, 0
	for _, w := range weights {
		all += w
	}
	for i, w := range weights {
		rate := float64(w*perSecond) / float64(all)
		total += rate
		sum += rate * float64(i)
		rates[[]string{"0.1", "1", "10", "+Inf"}[i]] = total
	}
	f.histogram("vllm:time_to_first_token_seconds", every, until, rates, sum, l...)
}

func TestLiveOptions(t *testing.T) {
	s := dial(t, Options{URL: "http://127.0.0.1:9"})
	for want, o := range map[string]LiveOptions{
		"no names of metrics":                    {},
		"the most age of a sample is -1s":        {Presets: Presets("auto"), MaxAge: -time.Second},
		`"a b" of the prefill engines`:           {Presets: Presets("auto"), Selectors: map[planner.Role]map[string]string{engine.RolePrefill: {"a b": "c"}}},
		`labels are given for the role "encode"`: {Presets: Presets("auto"), Selectors: map[planner.Role]map[string]string{"encode": {"a": "c"}}},
	} {
		if _, err := NewLive(s, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want %q", o, err, want)
		}
	}
	if _, err := NewLive(nil, LiveOptions{Presets: Presets("auto")}); err == nil {
		t.Error("no server is no error")
	}
	if _, err := NewEngines(EnginesOptions{Timeout: -1}); err == nil || !strings.Contains(err.Error(), "no list") || !strings.Contains(err.Error(), "no names") || !strings.Contains(err.Error(), "-1ns") {
		t.Errorf("error %v", err)
	}
}
