package observe

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"plimsoll/engine"
	"plimsoll/planner"
)

// cacheSeries are what an engine or a frontend counts in a second, by its name and the
// labels besides its own.
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
	return []cacheCase{
		{"vLLM", map[planner.Role]cacheSeries{whole: vllm(1000, 800)}, 0.8},
		{"vLLM, older names", map[planner.Role]cacheSeries{whole: {"vllm:request_success_total": 1, "vllm:num_requests_running": 0, "vllm:gpu_prefix_cache_queries_total": 500, "vllm:gpu_prefix_cache_hits_total": 250}}, 0.5},
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

// labelled are a name's labels and its server's, as name, value, ….
func labelled(key string, role planner.Role) (name string, labels []string) {
	words := strings.Fields(key)
	labels = append([]string{"role", string(role)}, words[1:]...)
	if role == "" {
		return words[0], append(labels, "model", "m")
	}
	return words[0], append(labels, "model_name", "m")
}

// The share of prompt tokens that prefix caches held is read where prompts come in.
func TestCacheHits(t *testing.T) {
	for _, c := range cacheCases() {
		roles := slices.DeleteFunc(slices.Sorted(maps.Keys(c.sides)), func(r planner.Role) bool { return r == "" })
		var have planner.State
		for _, role := range roles {
			have.Pools = append(have.Pools, planner.PoolState{Role: role, Ready: 1})
		}
		check := func(by string, o planner.Observation) {
			t.Helper()
			if got := o.CacheHit; got.Known != (c.want >= 0) || got.Known && (got.Value < c.want-1e-6 || got.Value > c.want+1e-6) {
				t.Errorf("%s by %s: %+v, want %v; %q", c.name, by, got, c.want, o.Problems)
			}
		}

		f := &fake{t: t}
		var workers []*worker
		for role, counters := range c.sides {
			for key, rate := range counters {
				name, labels := labelled(key, role)
				f.add(name, scrape, hour, rising(rate), labels...)
			}
			workers = append(workers, startWorker(t, role))
		}
		o := LiveOptions{Presets: Presets("auto"), Selectors: map[planner.Role]map[string]string{}}
		for _, role := range roles {
			o.Selectors[role] = map[string]string{"role": string(role)}
		}
		l := live(t, f, o)
		sampled(t, l, have)
		check("Prometheus", observed(t, l, half, thirty))

		w := watch(t, EnginesOptions{Presets: Presets("auto")}, workers...)
		for _, at := range []float64{10, 40} {
			for _, worker := range workers {
				worker.says(cacheText(c.sides[worker.endpoint.Role], worker.endpoint.Role, at))
			}
			w.look()
		}
		check("scraping", w.observe())
	}
}

// cacheText is what a server counted after some seconds.
func cacheText(counters cacheSeries, role planner.Role, seconds float64) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(counters)) {
		name, labels := labelled(key, role)
		fmt.Fprintf(&b, "%s{", name)
		for i := 0; i < len(labels); i += 2 {
			fmt.Fprintf(&b, "%s=%q,", labels[i], labels[i+1])
		}
		fmt.Fprintf(&b, "} %v\n", counters[key]*seconds)
	}
	return b.String()
}
