package observe

import "slices"

// Names are the metrics in which a server says what it did. Of several names for
// one thing the first that has series is taken: the newer names come first.
// Histograms are named without _bucket, _sum and _count. An empty list means that
// this server does not say.
type Names struct {
	Preset string // "vllm": what the names are called together

	// Started counts requests as they arrive, Finished as they end. Demand read at
	// the end stops growing where the engines are full, so that Started is taken
	// where there is one.
	Started, Finished []string

	// Lengths in tokens: a histogram with one value for each request; where there
	// is none, counters of tokens give the mean.
	ISL, OSL                   []string
	PromptTokens, OutputTokens []string

	TTFT, ITL, E2E []string // histograms in seconds

	Running, Waiting []string // requests now
	KVUse            []string // fraction of 1, of each engine
	Engines          []string // a gauge with one series for each engine, for counting them

	Model, Namespace string // labels; "" = these metrics have none

	// Marker is a metric that must be there too, with the same model; "" = none.
	Marker string
	// PerEngine says that each engine counts the requests that it saw: with
	// prefill and decode apart a request is counted in both.
	PerEngine bool
}

// simulated is the metric by which our own simulated engine gives itself away
// where it wears vLLM's names (engine/simserver).
const simulated = "plimsoll_sim_steps_total"

// Words are what Presets knows.
func Words() []string { return []string{"auto", "vllm", "sglang", "dynamo", "plimsoll"} }

// Presets are the names that a word stands for, the first choice first: what sees
// a request once, at the edge, before the engines behind it. Nil for an unknown
// word. The simulated engine, which wears vLLM's names, is found by auto as vllm.
func Presets(word string) []Names {
	switch word {
	case "auto":
		return []Names{dynamoFrontend(), dynamoRouter(), vLLM(), sgLang()}
	case "dynamo":
		return []Names{dynamoFrontend(), dynamoRouter()}
	case "vllm":
		return []Names{vLLM()}
	case "sglang":
		return []Names{sgLang()}
	case "plimsoll":
		return []Names{plimsoll()}
	}
	return nil
}

// vLLM's metrics: vllm/v1/metrics/loggers.py of its main branch, read in November
// 2026. time_per_output_token_seconds was renamed inter_token_latency_seconds and
// gpu_cache_usage_perc kv_cache_usage_perc; the old names are gone since. Every
// request is counted as it ends, aborted ones too (label finished_reason). The
// label namespace is the one that Prometheus' Kubernetes discovery usually adds.
func vLLM() Names {
	return Names{
		Preset:       "vllm",
		Finished:     []string{"vllm:request_success_total"},
		ISL:          []string{"vllm:request_prompt_tokens"},
		OSL:          []string{"vllm:request_generation_tokens"},
		PromptTokens: []string{"vllm:prompt_tokens_total"},
		OutputTokens: []string{"vllm:generation_tokens_total"},
		TTFT:         []string{"vllm:time_to_first_token_seconds"},
		ITL:          []string{"vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"},
		E2E:          []string{"vllm:e2e_request_latency_seconds"},
		Running:      []string{"vllm:num_requests_running"},
		Waiting:      []string{"vllm:num_requests_waiting"},
		KVUse:        []string{"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"},
		Engines:      []string{"vllm:num_requests_running"},
		Model:        "model_name", Namespace: "namespace", PerEngine: true,
	}
}

// plimsoll is our own simulated engine, which wears vLLM's names.
func plimsoll() Names {
	n := vLLM()
	n.Preset, n.Marker = "plimsoll", simulated
	return n
}

// sgLang's metrics: python/sglang/srt/observability/metrics_collector.py of its
// main branch, read in November 2026, with --enable-metrics;
// num_requests_received_total from its test/registered/observability, which wants
// it there. Older versions have time_per_output_token_seconds only.
func sgLang() Names {
	return Names{
		Preset:       "sglang",
		Started:      []string{"sglang:num_requests_received_total"},
		Finished:     []string{"sglang:num_requests_total"},
		ISL:          []string{"sglang:prompt_tokens_histogram"},
		OSL:          []string{"sglang:generation_tokens_histogram"},
		PromptTokens: []string{"sglang:prompt_tokens_total"},
		OutputTokens: []string{"sglang:generation_tokens_total"},
		TTFT:         []string{"sglang:time_to_first_token_seconds"},
		ITL:          []string{"sglang:inter_token_latency_seconds", "sglang:time_per_output_token_seconds"},
		E2E:          []string{"sglang:e2e_request_latency_seconds"},
		Running:      []string{"sglang:num_running_reqs"},
		Waiting:      []string{"sglang:num_queue_reqs"},
		KVUse:        []string{"sglang:token_usage"},
		Engines:      []string{"sglang:num_running_reqs"},
		Model:        "model_name", Namespace: "namespace", PerEngine: true,
	}
}

// dynamoFrontend is NVIDIA Dynamo's HTTP frontend:
// lib/runtime/src/metrics/prometheus_names.rs of its main branch, read in November
// 2026. requests_started_total came in 2026; requests_total counts the ends.
func dynamoFrontend() Names {
	const p = "dynamo_frontend_"
	return Names{
		Preset:       "dynamo",
		Started:      []string{p + "requests_started_total"},
		Finished:     []string{p + "requests_total"},
		ISL:          []string{p + "input_sequence_tokens"},
		OSL:          []string{p + "output_sequence_tokens"},
		OutputTokens: []string{p + "output_tokens_total"},
		TTFT:         []string{p + "time_to_first_token_seconds"},
		ITL:          []string{p + "inter_token_latency_seconds"},
		E2E:          []string{p + "request_duration_seconds"},
		Running:      []string{p + "active_requests", p + "inflight_requests"},
		Waiting:      []string{p + "queued_requests"},
		Model:        "model", Namespace: "dynamo_namespace",
	}
}

// dynamoRouter is Dynamo's router, which has no label for the model: the same
// file, and the planner's own queries (components/planner, 2026). Its namespaces
// have underscores where the deployment's have dashes. It has no duration of
// requests: dynamo_component_request_duration_seconds is of every component.
func dynamoRouter() Names {
	const p = "dynamo_component_router_"
	return Names{
		Preset:    "dynamo-router",
		Started:   []string{p + "requests_started_total"},
		Finished:  []string{p + "requests_total"},
		ISL:       []string{p + "input_sequence_tokens"},
		OSL:       []string{p + "output_sequence_tokens"},
		TTFT:      []string{p + "time_to_first_token_seconds"},
		ITL:       []string{p + "inter_token_latency_seconds"},
		Namespace: "dynamo_namespace",
	}
}

// all are the series' names that n may have, histograms by their count.
func (n Names) all() []string {
	out := slices.Concat(n.Started, n.Finished, n.PromptTokens, n.OutputTokens, n.Running, n.Waiting, n.KVUse, n.Engines)
	for _, h := range slices.Concat(n.ISL, n.OSL, n.TTFT, n.ITL, n.E2E) {
		out = append(out, h+"_count")
	}
	if n.Marker != "" {
		out = append(out, n.Marker)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// having keeps of every list the first name that has series.
func (n Names) having(series map[string]bool) Names {
	first := func(names []string, suffix string) []string {
		if i := slices.IndexFunc(names, func(name string) bool { return series[name+suffix] }); i >= 0 {
			return names[i : i+1 : i+1]
		}
		return nil
	}
	for _, list := range []*[]string{&n.Started, &n.Finished, &n.PromptTokens, &n.OutputTokens, &n.Running, &n.Waiting, &n.KVUse, &n.Engines} {
		*list = first(*list, "")
	}
	for _, list := range []*[]string{&n.ISL, &n.OSL, &n.TTFT, &n.ITL, &n.E2E} {
		*list = first(*list, "_count")
	}
	return n
}

// requests is the counter of requests, as they arrive if there is one; "" = none.
func (n Names) requests() string {
	for _, list := range [][]string{n.Started, n.Finished} {
		if len(list) > 0 {
			return list[0]
		}
	}
	return ""
}
