package observe

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/planner"
)

// dynamoText is what Dynamo's frontend writes, once it has seen a request.
func dynamoText(started, finished, active, queued, prefillQueue int) string {
	var b strings.Builder
	for _, x := range []struct {
		kind, name string
		v          int
	}{
		{"counter", "dynamo_frontend_requests_started_total", started},
		{"counter", "dynamo_frontend_requests_total", finished},
		{"gauge", "dynamo_frontend_active_requests", active},
		{"gauge", "dynamo_frontend_queued_requests", queued},
	} {
		fmt.Fprintf(&b, "# TYPE %s %s\n%s{model=\"m\"} %d\n", x.name, x.kind, x.name, x.v)
	}
	fmt.Fprintf(&b, "# TYPE prefill_queue gauge\nprefill_queue %d\n", prefillQueue)
	return b.String()
}

// Where there is a frontend it counts the requests, whatever the engines behind it
// count, and its counters begin at 0 with the first request.
func TestEnginesBehindAFrontend(t *testing.T) {
	front, p, d := startWorker(t, ""), startWorker(t, engine.RolePrefill), startWorker(t, engine.RoleDecode)
	e := watch(t, EnginesOptions{PrefillQueue: "prefill_queue"}, front, p, d)
	front.says("# no request yet\n# TYPE prefill_queue gauge\nprefill_queue 0\n")
	p.says(vllmText(state{model: "M"}, nil))
	d.says(vllmText(state{model: "M"}, nil))
	state2 := planner.State{Pools: []planner.PoolState{{Role: engine.RolePrefill, Ready: 2}, {Role: engine.RoleDecode, Ready: 1}}}
	sampled(t, e.source, state2)
	front.says(dynamoText(12, 7, 5, 2, 6))
	p.says(vllmText(state{model: "M", running: 1, waiting: 1}, some(11)))
	d.says(vllmText(state{model: "M", running: 3, waiting: 2, kv: 0.5}, some(9)))
	o := e.observe()
	known(t, "arrivals", o.Arrivals, 12, 0)
	known(t, "finished", o.Finished, 7, 0)
	known(t, "running in the engines", o.Running, 4, 0)
	known(t, "waiting, in the prefill queue and at decode", o.Waiting, 8, 0)
	prefill, _ := o.Pool(engine.RolePrefill)
	known(t, "prefill queue per replica", prefill.QueueEnd, 3, 0)
	known(t, "prefill queue at first", prefill.QueueOpen, 0, 0)
	if o.ISL.Mean.Known || !problem(o, "ISL: no endpoint says it") {
		t.Errorf("ISL %+v, problems %q", o.ISL, o.Problems)
	}

	e = watch(t, EnginesOptions{}, front)
	e.look()
	o = e.observe()
	known(t, "running, of a frontend alone", o.Running, 3, 0) // of 5 that are active 2 wait
	known(t, "waiting, of a frontend alone", o.Waiting, 2, 0)
	known(t, "arrivals, of a frontend alone", o.Arrivals, 0, 0)
}

// What the engines held that are gone, nobody holds any more.
func TestEnginesAllGone(t *testing.T) {
	front, w := startWorker(t, ""), startWorker(t, engine.RoleAggregated)
	front.says(dynamoText(1, 1, 0, 0, 0))
	w.says(vllmText(state{model: "m", running: 5, waiting: 50}, nil))
	e := watch(t, EnginesOptions{}, front, w)
	e.look()
	e.look()
	e.list.endpoints = []Endpoint{front.endpoint}
	o := e.observe()
	known(t, "waiting", o.Waiting, 0, 0)
	known(t, "running", o.Running, 0, 0)
}

// TensorRT-LLM has no histograms of lengths: its counters of tokens give the mean,
// and no percentile.
func TestMeansOfTokenCounters(t *testing.T) {
	w := startWorker(t, engine.RoleAggregated)
	text := func(requests, running int) string {
		var b strings.Builder
		for _, x := range []struct {
			kind, name string
			v          int
		}{
			{"counter", "trtllm_request_success_total", requests},
			{"counter", "trtllm_prompt_tokens_total", 700 * requests},
			{"counter", "trtllm_generation_tokens_total", 30 * requests},
			{"gauge", "trtllm_num_requests_running", running},
			{"gauge", "trtllm_num_requests_waiting", 0},
			{"gauge", "trtllm_kv_cache_utilization", 1},
		} {
			fmt.Fprintf(&b, "# TYPE %s %s\n%s{model_name=\"m\",engine_type=\"trtllm\"} %d\n", x.name, x.kind, x.name, x.v)
		}
		return b.String()
	}
	w.says(text(10, 0))
	e := watch(t, EnginesOptions{Presets: Presets("trtllm")}, w)
	e.look()
	w.says(text(14, 4))
	o := e.observe()
	known(t, "arrivals", o.Arrivals, 8, 0)
	known(t, "ISL", o.ISL.Mean, 700, 0)
	known(t, "OSL", o.OSL.Mean, 30, 0)
	if o.ISL.P50.Known || o.ISL.Count != 4 {
		t.Errorf("ISL %+v", o.ISL)
	}
}

// trtllmText is what trtllm-serve 1.1 writes at /prometheus/metrics, with return_perf_metrics.
func trtllmText(requests int) string {
	const l = `{engine_type="undefined",model_name="undefined"`
	var b strings.Builder
	fmt.Fprintf(&b, "# TYPE request_success_total counter\nrequest_success_total%s,finished_reason=\"stop\"} %d\n", l, requests)
	for _, h := range []string{"e2e_request_latency_seconds", "time_to_first_token_seconds", "time_per_output_token_seconds", "request_queue_time_seconds"} {
		fmt.Fprintf(&b, "# TYPE %[1]s histogram\n%[1]s_bucket%[2]s,le=\"0.05\"} %[3]d\n%[1]s_bucket%[2]s,le=\"+Inf\"} %[3]d\n%[1]s_count%[2]s} %[3]d\n%[1]s_sum%[2]s} %[4]v\n", h, l, requests, 0.04*float64(requests))
	}
	return b.String()
}

// trtllm-serve before 1.3 has JSON at /metrics and knows neither its model nor what runs.
func TestEnginesBeforeTensorRTLLM13(t *testing.T) {
	w := startWorker(t, engine.RoleAggregated)
	w.says("[]")
	e := watch(t, EnginesOptions{Model: "my-model"}, w)
	err := e.source.Sample(t.Context(), planner.State{})
	if want := "/prometheus/metrics: it answers 404 Not Found. trtllm-serve has it there with return_perf_metrics: true"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
	w.saysAt("/prometheus/metrics", trtllmText(100))
	w.says(`[{"iter":1,"numActiveRequests":3}]`)
	const said = "no number of running or waiting requests: TensorRT-LLM before 1.3 does not say"
	if o := e.observe(); !problem(o, said) {
		t.Errorf("problems %q", o.Problems)
	}
	w.saysAt("/prometheus/metrics", trtllmText(160))
	o := e.observe()
	if was := w.times(); was != 2 { // until the other path had answered
		t.Errorf("/metrics was asked %d times", was)
	}
	known(t, "arrivals", o.Arrivals, 60, 0)
	latency(t, "TTFT", o.TTFT.Mean, 40*time.Millisecond, time.Microsecond)
	latency(t, "ITL", o.ITL.Mean, 40*time.Millisecond, time.Microsecond)
	if pool, _ := o.Pool(engine.RoleAggregated); pool.Queue.Known || pool.KVUsage.Known || o.Waiting.Known || problem(o, said) || !problem(o, "waiting requests: TensorRT-LLM before 1.3 does not say") || problem(o, "NaN") {
		t.Errorf("pool %+v, problems %q", pool, o.Problems)
	}
}

// Other programs' requests of the same name are not TensorRT-LLM's.
func TestLiveBeforeTensorRTLLM13(t *testing.T) {
	f := &fake{t: t}
	f.add("request_success_total", scrape, hour, rising(7), "model_name", "my-model")
	f.add("request_success_total", scrape, hour, rising(2), "model_name", "undefined", "engine_type", "undefined")
	l := live(t, f, LiveOptions{Model: "my-model"})
	o := observed(t, l, hour, thirty)
	known(t, "arrivals", o.Arrivals, 60, 1)
	found, err := f.serve().Find(t.Context(), wanted("my-model"))
	if err != nil || found.Names.Preset != "trtllm-1.2" {
		t.Fatalf("found %q, %v", found.Names.Preset, err)
	}
	traffic, err := found.Traffic(t.Context(), minutes())
	if err != nil {
		t.Fatal(err)
	}
	near(t, "requests/s", traffic.Rate, 2, 0.01)
}

// SGLang's shares of a priority are not added to their whole.
func TestSharesAreNotAdded(t *testing.T) {
	w := startWorker(t, engine.RoleAggregated)
	w.says(`# TYPE sglang:num_running_reqs gauge
sglang:num_running_reqs{model_name="m",priority=""} 7
sglang:num_running_reqs{model_name="m",priority="1"} 4
sglang:num_running_reqs{model_name="m",priority="2"} 3
# TYPE sglang:num_queue_reqs gauge
sglang:num_queue_reqs{model_name="m"} 2
`)
	e := watch(t, EnginesOptions{}, w)
	e.look()
	o := e.observe()
	known(t, "running", o.Running, 7, 0)
	known(t, "waiting", o.Waiting, 2, 0)
	if o.Arrivals.Known || !problem(o, "arrivals: no endpoint says it") {
		t.Errorf("arrivals %+v, problems %q", o.Arrivals, o.Problems)
	}
}

// Counters that are no numbers are missing, and so is what is over them.
func TestEnginesWithoutNumbers(t *testing.T) {
	w := startWorker(t, engine.RoleAggregated)
	good := vllmText(state{model: "m", running: 1}, some(3))
	w.says(good)
	e := watch(t, EnginesOptions{}, w)
	e.look()
	bad := strings.NewReplacer(
		`finished_reason="stop"} 3`, `finished_reason="stop"} NaN`,
		`vllm:num_requests_running{model_name="m",engine="0"} 1`, `vllm:num_requests_running{model_name="m",engine="0"} +Inf`,
		`vllm:num_requests_waiting{model_name="m",engine="0"} 0`, `vllm:num_requests_waiting{model_name="m",engine="0"} NaN`,
	)
	w.says(bad.Replace(good))
	o := e.observe()
	p, _ := o.Pool(engine.RoleAggregated)
	if o.Arrivals.Known || o.Finished.Known || o.Running.Known || p.Running.Known || !problem(o, "finished requests: the metrics give NaN") {
		t.Errorf("observation %+v", o)
	}
}

// An interval of which nobody saw the beginning has gauges and no counts.
func TestNoSampleAtTheBeginning(t *testing.T) {
	w := startWorker(t, engine.RoleAggregated)
	w.says(vllmText(state{model: "m", running: 2}, some(1000)))
	o := watch(t, EnginesOptions{}, w).observe()
	if o.Arrivals.Known || o.TTFT.Mean.Known || !problem(o, "arrivals: not known of aggregated") {
		t.Errorf("observation %+v", o)
	}
	known(t, "running", o.Running, 2, 0)
}

// One that failed at the first look counted nobody knows how long: what it counts is
// known from the interval after the one in which it answers.
func TestAwayAtTheBeginning(t *testing.T) {
	a, b := startWorker(t, engine.RoleAggregated), startWorker(t, engine.RoleAggregated)
	e := watch(t, EnginesOptions{}, a, b)
	a.says(vllmText(state{model: "m"}, nil))
	b.fails(500)
	e.look()
	b.says(vllmText(state{model: "m"}, some(1000)))
	e.look()
	b.says(vllmText(state{model: "m"}, some(1001)))
	if o := e.observe(); o.Arrivals.Known {
		t.Errorf("arrivals %+v", o.Arrivals)
	}
	b.says(vllmText(state{model: "m"}, some(1003)))
	known(t, "arrivals of the interval after", e.observe().Arrivals, 2, 0)
}

func FuzzExposition(f *testing.F) {
	f.Add(vllmText(state{model: "m", running: 1, began: 3}, some(2)))
	f.Add(dynamoText(1, 2, 3, 4, 5))
	f.Add("# TYPE a histogram\na_bucket{le=\"x\"} 1\na_count 1\n")
	f.Add("# TYPE vllm:request_prompt_tokens summary\nvllm:request_prompt_tokens{quantile=\"0.5\"} NaN\n")
	f.Fuzz(func(t *testing.T, text string) {
		x, err := parse([]byte(text))
		if err != nil {
			return
		}
		w := wish{presets: Presets("auto")}
		for _, find := range []func() (choice, error){
			func() (choice, error) { return w.engines(x.series(), Names{}) },
			func() (choice, error) { c, _, err := w.choose(x.series()); return c, err },
		} {
			c, err := find()
			if err != nil {
				continue
			}
			r := c.read(x, "prefill_queue")
			for key, v := range r.since(reading{began: missing()}) {
				if r.counters[key] != v && !math.IsNaN(v) {
					t.Errorf("%v: a process that is new counted %v of %v", key, v, r.counters[key])
				}
			}
		}
	})
}

// tpotText is what an engine writes of n requests that ended, each with a mean gap of 0.02 s.
func tpotText(prefix, name string, n int) string {
	const l = `model_name="m"`
	name = prefix + name
	return fmt.Sprintf("%srequest_success_total{%s} %d\n%snum_requests_running{%s} 0\n%snum_requests_waiting{%s} 0\n", prefix, l, n, prefix, l, prefix, l) +
		fmt.Sprintf("# TYPE %s histogram\n%s_bucket{%s,le=\"0.02\"} %d\n%s_bucket{%s,le=\"+Inf\"} %d\n%s_sum{%s} %v\n%s_count{%s} %d\n", name, name, l, n, name, l, n, name, l, 0.02*float64(n), name, l, n)
}

// Requests' mean gaps are read of each kind of engine that has them: of bare ones, where
// prefill and decode are apart of decode alone, and of the engines behind a frontend, which
// counts gaps only.
func TestMeanGapsOfRequests(t *testing.T) {
	for prefix, name := range map[string]string{"vllm:": "request_time_per_output_token_seconds", "trtllm_": "time_per_output_token_seconds"} {
		for what, roles := range map[string][]planner.Role{
			"one":               {engine.RoleAggregated},
			"apart":             {engine.RolePrefill, engine.RoleDecode},
			"behind a frontend": {"", engine.RolePrefill, engine.RoleDecode},
		} {
			var workers []*worker
			says := func(n int) {
				for i, role := range roles {
					text := tpotText(prefix, name, n)
					if role == engine.RolePrefill { // a prompt has no gaps
						text = tpotText(prefix, name, 0)
					}
					if role == "" {
						text = dynamoText(n, n, 0, 0, 0)
					}
					workers[i].says(text)
				}
			}
			for _, role := range roles {
				workers = append(workers, startWorker(t, role))
			}
			e := watch(t, EnginesOptions{}, workers...)
			says(0)
			e.look()
			says(40)
			o := e.observe()
			known(t, what+": requests of "+name, planner.Known(o.TPOT.Count), 40, 0)
			latency(t, what+": mean of "+name, o.TPOT.Mean, 20*time.Millisecond, time.Microsecond)
			if !o.TPOT.P99.Known || o.TPOT.P99.Value > 20*time.Millisecond || o.ITL.Mean != o.TPOT.Mean || o.ITL.P99.Known {
				t.Errorf("%s: p99 of %s is %+v, ITL %+v", what, name, o.TPOT.P99, o.ITL)
			}
		}
	}
}
