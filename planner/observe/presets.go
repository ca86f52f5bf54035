package observe

// Words are what Presets knows.
func Words() []string { return []string{"auto", "vllm", "sglang", "trtllm", "dynamo"} }

// Presets are the names that a word stands for, the first choice first: what sees
// a request once, at the edge, before the engines behind it. Nil for an unknown
// word. The simulated engine, which wears vLLM's names, is found as vllm.
func Presets(word string) []Names {
	return map[string][]Names{
		"auto":   {dynamoFrontend(), dynamoRouter(), vLLM(), sgLang(), trtLLM(), trtLLMUnnamed(), trtLLM12()},
		"dynamo": {dynamoFrontend(), dynamoRouter()},
		"vllm":   {vLLM()},
		"sglang": {sgLang()},
		"trtllm": {trtLLM(), trtLLMUnnamed(), trtLLM12()},
	}[word]
}

// vLLM's metrics: vllm/v1/metrics/loggers.py and stats.py, read in 0.16 to 0.32 in
// November 2026. time_per_output_token_seconds was renamed inter_token_latency_seconds
// (until 0.14) and gpu_cache_usage_perc kv_cache_usage_perc. The label namespace is the
// one that Prometheus' Kubernetes discovery usually adds.
//
//   - A request whose client leaves never counts in request_success_total, whatever
//     finished_reason, nor in a histogram of requests (v1/engine/output_processor.py,
//     abort_requests; 0.10 to 0.32). Its first token, if it got one, is in
//     time_to_first_token_seconds; if it left before that it is in nothing but the gauge,
//     while it waited.
//   - inter_token_latency_seconds has one value for each step, whatever its tokens:
//     speculative decoding makes it longer than the time per token.
//   - num_requests_waiting has requests whose KV cache is on its way too. From 0.20.0 on
//     those are num_requests_waiting_by_reason's "deferred".
//   - To 0.25.1 prefix_cache_queries and _hits count a prompt again in each step that has
//     no blocks for it (vllm#48860). prompt_tokens_by_source, from 0.16.0 on, and
//     prompt_tokens_total, which has all prompt tokens, count it once.
func vLLM() Names {
	return Names{
		Preset:       "vllm",
		FirstTokens:  []string{"vllm:time_to_first_token_seconds_count"},
		Finished:     []string{"vllm:request_success_total"},
		ISL:          []string{"vllm:request_prompt_tokens"},
		OSL:          []string{"vllm:request_generation_tokens"},
		PromptTokens: []string{"vllm:prompt_tokens_total"},
		OutputTokens: []string{"vllm:generation_tokens_total"},
		Lookups:      []string{"vllm:prompt_tokens_total", "vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"},
		Hits:         []string{`vllm:prompt_tokens_by_source_total{source="local_cache_hit"}`, "vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"},
		TTFT:         []string{"vllm:time_to_first_token_seconds"},
		ITL:          []string{"vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"},
		TPOT:         []string{"vllm:request_time_per_output_token_seconds"},
		E2E:          []string{"vllm:e2e_request_latency_seconds"},
		Running:      []string{"vllm:num_requests_running"},
		Waiting:      []string{"vllm:num_requests_waiting"},
		Queue:        []string{`vllm:num_requests_waiting_by_reason{reason="capacity"}`, "vllm:num_requests_waiting"},
		KVUse:        []string{"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"},
		Engines:      []string{"vllm:num_requests_running"},
		Model:        "model_name", Namespace: "namespace", PerEngine: true,
	}
}

// sgLang's metrics: python/sglang/srt/observability/metrics_collector.py of its
// main branch, read in November 2026, with --enable-metrics;
// num_requests_received_total from its test/registered/observability, which wants
// it there; no release to 0.5.23 has it. Older versions have time_per_output_token_seconds
// only, which is not taken: it observed a running mean for each chunk of an answer, neither
// a gap nor a request's mean. request_time_per_output_token_seconds (from 0.5.22) is each
// request's mean, of answers of two tokens and more that ended by themselves.
//
// With prefill and decode apart num_queue_reqs lacks decode requests without KV cache and
// prefill requests without a decode engine, which have gauges of their own (0.5.5 to
// 0.5.23; num_prefill_prealloc_queue_reqs is num_prefill_bootstrap_queue_reqs from 0.5.12
// on). These are 0 elsewhere, and split by priority as num_queue_reqs is.
func sgLang() Names {
	return Names{
		Preset:       "sglang",
		Started:      []string{"sglang:num_requests_received_total"},
		Finished:     []string{"sglang:num_requests_total"},
		ISL:          []string{"sglang:prompt_tokens_histogram"},
		OSL:          []string{"sglang:generation_tokens_histogram"},
		PromptTokens: []string{"sglang:prompt_tokens_total"},
		OutputTokens: []string{"sglang:generation_tokens_total"},
		Lookups:      []string{"sglang:prompt_tokens_total"},
		Hits:         []string{"sglang:cached_tokens_total"}, // a series for each cache_source
		TTFT:         []string{"sglang:time_to_first_token_seconds"},
		ITL:          []string{"sglang:inter_token_latency_seconds"},
		TPOT:         []string{"sglang:request_time_per_output_token_seconds"},
		E2E:          []string{"sglang:e2e_request_latency_seconds"},
		Running:      []string{"sglang:num_running_reqs"},
		Waiting:      []string{"sglang:num_queue_reqs", "sglang:num_decode_prealloc_queue_reqs", "sglang:num_prefill_bootstrap_queue_reqs", "sglang:num_prefill_prealloc_queue_reqs"},
		KVUse:        []string{"sglang:token_usage"},
		Engines:      []string{"sglang:num_running_reqs"},
		Model:        "model_name", Namespace: "namespace", PerEngine: true,
		Shares: "priority",
	}
}

// trtLLM is TensorRT-LLM: tensorrt_llm/metrics/collector.py of its main branch,
// copyright 2026, read in November 2026 (return_perf_metrics and
// enable_iter_perf_stats make it count). It counts a request, and its latencies,
// as it ends; its time per output token is one mean for each request. Dynamo's
// workers pass the metrics on under the same names.
func trtLLM() Names {
	return Names{
		Preset:       "trtllm",
		Finished:     []string{"trtllm_request_success_total"},
		PromptTokens: []string{"trtllm_prompt_tokens_total"},
		OutputTokens: []string{"trtllm_generation_tokens_total"},
		TTFT:         []string{"trtllm_time_to_first_token_seconds"},
		TPOT:         []string{"trtllm_time_per_output_token_seconds"},
		E2E:          []string{"trtllm_e2e_request_latency_seconds"},
		Running:      []string{"trtllm_num_requests_running"},
		Waiting:      []string{"trtllm_num_requests_waiting"},
		KVUse:        []string{"trtllm_kv_cache_utilization"},
		Engines:      []string{"trtllm_num_requests_running"},
		Model:        "model_name", Namespace: "namespace", PerEngine: true,
	}
}

// trtLLMUnnamed is a release candidate of TensorRT-LLM 1.3 from rc5 on (PR 11243) that does
// not know its model's name yet (PR 12545; tensorrt_llm/serve/openai_server.py).
func trtLLMUnnamed() Names {
	n := trtLLM()
	n.Model, n.Only = "", unnamed()
	return n
}

// unnamed is how trtllm-serve labels all metrics until it knows its model's name.
func unnamed() map[string]string {
	return map[string]string{"model_name": "undefined", "engine_type": "undefined"}
}

// trtLLM12 is trtllm-serve before 1.3: tensorrt_llm/metrics/collector.py of 1.1 and
// aibrix's issue 2004. It writes Prometheus' text at /prometheus/metrics, with
// return_perf_metrics, and five families without a prefix. Others may use these names:
// they are read with the labels of trtllm-serve alone, and where nothing else is there.
func trtLLM12() Names {
	return Names{
		Preset:    "trtllm-1.2",
		Finished:  []string{"request_success_total"},
		TTFT:      []string{"time_to_first_token_seconds"},
		TPOT:      []string{"time_per_output_token_seconds"},
		E2E:       []string{"e2e_request_latency_seconds"},
		Namespace: "namespace", PerEngine: true,
		Only: unnamed(), Lacks: "TensorRT-LLM before 1.3 does not say",
	}
}

// dynamoFrontend is NVIDIA Dynamo's HTTP frontend:
// lib/runtime/src/metrics/prometheus_names.rs of its main branch, read in November
// 2026. requests_started_total came in 2026; requests_total counts the ends. Its gauges
// count what is in the system, and of that what has no first token yet. Tokens without text
// have no event: output_tokens_total and inter_token_latency_seconds lack them, and
// output_sequence_tokens has them as a request ends (1.6.1, run).
// Outside Kubernetes they have no dynamo_namespace (1.6.1, run).
func dynamoFrontend() Names {
	const p = "dynamo_frontend_"
	return Names{
		Preset:       "dynamo",
		Started:      []string{p + "requests_started_total"},
		Finished:     []string{p + "requests_total"},
		ISL:          []string{p + "input_sequence_tokens"},
		OSL:          []string{p + "output_sequence_tokens"},
		OutputTokens: []string{p + "output_tokens_total"},
		Lookups:      []string{p + "input_sequence_tokens_sum"},
		Hits:         []string{p + "cached_tokens_sum"},
		TTFT:         []string{p + "time_to_first_token_seconds"},
		ITL:          []string{p + "inter_token_latency_seconds"},
		E2E:          []string{p + "request_duration_seconds"},
		Running:      []string{p + "active_requests", p + "inflight_requests"},
		Waiting:      []string{p + "queued_requests"},
		Model:        "model", Namespace: "dynamo_namespace",
		LowerCase: true, RunningHasWaiting: true,
	}
}

// dynamoRouter is Dynamo's router, which has no label for the model: the same
// file, and the planner's own queries (components/planner, 2026). Its namespaces
// have underscores where the deployment's have dashes. It has no duration of
// requests: dynamo_component_request_duration_seconds is of every component. In 1.6.1 (run)
// a request is counted once as prefill and once as decode where they are apart, which the
// label phase of the input lengths alone tells, and its ITL is a mean for each request,
// which stays empty with --router-mode kv.
func dynamoRouter() Names {
	const p = "dynamo_component_router_"
	return Names{
		Preset:    "dynamo-router",
		Started:   []string{p + "requests_started_total"},
		Finished:  []string{p + "requests_total"},
		ISL:       []string{p + "input_sequence_tokens"},
		OSL:       []string{p + "output_sequence_tokens"},
		TTFT:      []string{p + "time_to_first_token_seconds"},
		TPOT:      []string{p + "inter_token_latency_seconds"},
		Namespace: "dynamo_namespace", Phase: "phase",
	}
}
