package observe

import (
	"maps"
	"testing"

	"plimsoll/engine"
	"plimsoll/planner"
)

// cacheSeries are what an engine or a frontend counts in a second.
type cacheSeries map[string]float64

// cacheCase is what servers count, by role, "" a frontend's.
type cacheCase struct {
	name  string
	sides map[planner.Role]cacheSeries
	want  float64 // below 0: missing
}

func cacheCases() []cacheCase {
	prefill, decode, whole := engine.RolePrefill, engine.RoleDecode, engine.RoleAggregated
	vllm := func(queries, hits float64) cacheSeries {
		return cacheSeries{"vllm:request_success_total": 1, "vllm:num_requests_running": 0, "vllm:prefix_cache_queries_total": queries, "vllm:prefix_cache_hits_total": hits}
	}
	dynamo := cacheSeries{"dynamo_frontend_requests_total": 1, "dynamo_frontend_input_sequence_tokens_sum": 1000}
	counts := maps.Clone(dynamo)
	counts["dynamo_frontend_cached_tokens_sum"] = 300
	// Looked up in 31 steps until there are blocks: 0.51 read as 0.04.
	again := vllm(13_000, 520)
	maps.Copy(again, cacheSeries{"vllm:prompt_tokens_total": 1000, "vllm:prompt_tokens_by_source_total source local_cache_hit": 510, "vllm:prompt_tokens_by_source_total source local_compute": 490})
	return []cacheCase{
		{"vLLM that counts lookups again", map[planner.Role]cacheSeries{whole: again}, 0.51},
		{"vLLM", map[planner.Role]cacheSeries{whole: vllm(1000, 800)}, 0.8},
		{"vLLM, older names", map[planner.Role]cacheSeries{whole: {"vllm:request_success_total": 1, "vllm:num_requests_running": 0, "vllm:prompt_tokens_total": 1000, "vllm:gpu_prefix_cache_queries_total": 500, "vllm:gpu_prefix_cache_hits_total": 250}}, 0.5},
		{"vLLM, prefill apart", map[planner.Role]cacheSeries{prefill: vllm(1000, 600), decode: vllm(1000, 1000)}, 0.6},
		{"the simulated engine", map[planner.Role]cacheSeries{whole: {"plimsoll_sim_steps_total": 1, "vllm:num_requests_running": 0, "vllm:request_success_total": 1, "vllm:prefix_cache_queries_total": 10, "vllm:prefix_cache_hits_total": 1}}, 0.1},
		{"SGLang, two sources", map[planner.Role]cacheSeries{whole: {"sglang:num_requests_total": 1, "sglang:num_running_reqs": 0, "sglang:prompt_tokens_total": 1000, "sglang:cached_tokens_total cache_source device": 500, "sglang:cached_tokens_total cache_source host": 200}}, 0.7},
		{"SGLang, none cached yet", map[planner.Role]cacheSeries{whole: {"sglang:num_requests_total": 1, "sglang:num_running_reqs": 0, "sglang:prompt_tokens_total": 1000}}, -1},
		{"TensorRT-LLM does not say", map[planner.Role]cacheSeries{whole: {"trtllm_request_success_total": 1, "trtllm_num_requests_running": 0, "trtllm_prompt_tokens_total": 1000}}, -1},
		{"Dynamo's frontend", map[planner.Role]cacheSeries{"": counts, prefill: vllm(1000, 600), decode: vllm(1000, 1000)}, 0.3},
		{"Dynamo's frontend without it", map[planner.Role]cacheSeries{"": dynamo, prefill: vllm(1000, 600), decode: vllm(1000, 1000)}, 0.6},
		{"no lookups", map[planner.Role]cacheSeries{whole: vllm(0, 0)}, -1},
		{"more hits than lookups", map[planner.Role]cacheSeries{whole: vllm(100, 800)}, -1},
		{"no hits", map[planner.Role]cacheSeries{whole: vllm(1000, 0)}, 0},
	}
}

// The share of prompt tokens that prefix caches held is read where prompts come in.
func TestCacheHits(t *testing.T) {
	for _, c := range cacheCases() {
		sides := map[planner.Role]told{}
		for role, counters := range c.sides {
			sides[role] = told{}
			for key, rate := range counters {
				sides[role][key] = rising(rate)
			}
		}
		bothSources(t, sides, 1, func(by string, _ int, o planner.Observation) {
			if got := o.CacheHit; got.Known != (c.want >= 0) || got.Known && (got.Value < c.want-1e-6 || got.Value > c.want+1e-6) {
				t.Errorf("%s by %s: %+v, want %v; %q", c.name, by, got, c.want, o.Problems)
			}
		})
	}
}
