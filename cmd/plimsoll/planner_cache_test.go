package main

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/planner"
	"plimsoll/planner/observe"
)

// From the engines' counters to the replicas wanted: where prefix caches hold 80 % of the
// prompts, the default policy wants fewer prefill engines than where nobody says so.
func TestCacheHitsReachTheDefaultPolicy(t *testing.T) {
	t.Parallel()
	wants := func(hits float64) int {
		all, err := parsedPlanner(t, "--profile", plannerProfile(t), "--max-gpu-budget", "-1", "--no-correction")
		if err != nil {
			t.Fatal(err)
		}
		core, err := all[0].core(time.Now())
		if err != nil {
			t.Fatal(err)
		}
		source := cacheSource(t, hits)
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		state := planner.State{Pools: []planner.PoolState{{Role: engine.RolePrefill, Ready: 1, Want: 1, GPUs: 1}, {Role: engine.RoleDecode, Ready: 1, Want: 1, GPUs: 2}}}
		var d planner.Decision
		for range 6 {
			if err := source.Sample(t.Context(), state); err != nil {
				t.Fatal(err)
			}
			o, err := source.Observe(t.Context(), now, now.Add(time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			now = now.Add(time.Minute)
			for i := range o.Pools {
				o.Pools[i].PoolState = state.Pools[i]
			}
			d = core.Step(o)
		}
		return d.Proposed.Prefill
	}
	if cold, warm := wants(-1), wants(0.8); warm >= cold || warm < 1 {
		t.Errorf("%d prefill engines with 80 %% hits, %d without", warm, cold)
	}
}

// cacheSource scrapes a prefill and a decode engine that served 30 requests/s of 1000
// and 20 tokens at each look, a minute apart; hits below 0: they do not count them.
func cacheSource(t *testing.T, hits float64) planner.Source {
	t.Helper()
	var looks atomic.Int64
	serve := func(role engine.Role, isl, osl float64, hits float64) observe.Endpoint {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if role == engine.RolePrefill {
				looks.Add(1)
			}
			n := 30 * 60 * float64(looks.Load())
			say := func(name string, v float64) { fmt.Fprintf(w, "%s{model_name=\"m\"} %v\n", name, v) } //nolint:errcheck // a test's server
			say("vllm:request_success_total", n)
			say("vllm:num_requests_running", 1)
			say("vllm:num_requests_waiting", 0)
			say("vllm:prompt_tokens_total", n*isl)
			say("vllm:generation_tokens_total", n*osl)
			if hits >= 0 {
				say("vllm:prefix_cache_queries_total", n*isl)
				say("vllm:prefix_cache_hits_total", n*isl*hits)
			}
		}))
		t.Cleanup(s.Close)
		return observe.Endpoint{Role: role, URL: s.URL + "/metrics"}
	}
	endpoints := []observe.Endpoint{serve(engine.RolePrefill, 1000, 1, hits), serve(engine.RoleDecode, 1000, 20, hits)}
	source, err := observe.NewEngines(observe.EnginesOptions{
		Presets: observe.Presets("vllm"), List: func(context.Context) ([]observe.Endpoint, error) { return endpoints, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return source
}
