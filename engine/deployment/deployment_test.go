package deployment

import (
	"errors"
	"strings"
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/latency"
)

func TestCandidates(t *testing.T) {
	fits := func(c engine.Config) error {
		if c.Parallelism.TP == 1 {
			return errors.New("weights 141 GB do not fit in 76 GB")
		}
		return nil
	}
	spread := engine.Parallelism{DP: 4, EP: 4}
	cs, out := Candidates(engine.Config{}, 6, []engine.Parallelism{engine.TP(1), {TP: 2}, spread}, fits)
	if len(cs) != 1 || cs[0].Parallelism != engine.TP(2) {
		t.Errorf("candidates %v", cs)
	}
	if len(out) != 2 || out[0].Parallelism.Label() != "TP:1" || out[1].Parallelism.Label() != "DEP:4" || !strings.Contains(out[0].Err.Error(), "141 GB") {
		t.Errorf("left out %v", out)
	}
	cs, out = Candidates(engine.Config{}, 4, []engine.Parallelism{engine.TP(3), {TP: 4, PP: 2}}, nil)
	if len(cs) != 1 || len(out) != 1 || out[0].Parallelism.Label() != "TP:4 PP:2" || out[0].Err.Error() != "needs 8 GPUs, but only 4 are visible" {
		t.Errorf("candidates %v, left out %v", cs, out)
	}
}

// A mixture of experts is tried with its experts spread, where the engine can; each
// layout is either worth trying or left out with its reason.
func TestLayoutsOfExperts(t *testing.T) {
	cat, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	r1, err := cat.Model("deepseek-r1")
	if err != nil {
		t.Fatal(err)
	}
	has := func(all []engine.Parallelism, label string) bool {
		for _, p := range all {
			if p.Label() == label {
				return true
			}
		}
		return false
	}
	fit, out := Layouts(&r1, true, 16, engine.FP8)
	if !has(fit, "DEP:8") || !has(fit, "DEP:16") || !has(fit, "TEP:8") || has(fit, "TP:8") {
		t.Errorf("worth trying: %v", fit)
	}
	for _, r := range out {
		if r.Err == nil || has(fit, r.Parallelism.Label()) {
			t.Errorf("left out: %v", r)
		}
	}
	for _, m := range []*catalog.Model{nil, &r1} {
		if fit, _ := Layouts(m, false, 8, engine.FP8); len(fit) != 4 || !has(fit, "TP:8") {
			t.Errorf("without experts to spread: %v", fit)
		}
	}
}

// What hangs on a release is said: where CUDA graphs decide how much KV cache is left, and
// what prefix caching keeps of a model with states.
func TestWhatHangsOnTheRelease(t *testing.T) {
	cat, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		model, version string
		tp             int
		caching        bool
		defaults       string
		said           []string
	}{
		{"llama-3.1-8b", "", 1, true, "vLLM ≥ 0.28 defaults: 0.92 of memory, 8192 tokens a step", nil},
		{"llama-3.1-70b", "", 2, false, "vLLM ≥ 0.28 defaults: 0.92 of memory, 8192 tokens a step", []string{"with 3 % 0.0 of the KV cache's 1.9 GB"}},
		{"llama-3.1-70b", "0.19", 2, false, "vLLM 0.19 defaults: 0.9 of memory, 8192 tokens a step", nil},
		{"qwen3.6-35b-a3b", "", 2, true, "vLLM ≥ 0.28 defaults: 0.92 of memory, 8192 tokens a step", []string{"in blocks of 1056 tokens, and the states of its linear attention after a prompt's last whole block, and"}},
		{"qwen3.6-35b-a3b", "0.22", 2, true, "vLLM 0.22 defaults: 0.92 of memory, 8192 tokens a step", []string{"share nothing. This release caches no prefixes of such models by itself."}},
		{"qwen3.6-35b-a3b", "0.22", 2, false, "vLLM 0.22 defaults: 0.92 of memory, 8192 tokens a step", nil},
	} {
		m, errM := cat.Model(tc.model)
		g, errG := cat.GPU("h100-sxm")
		c := engine.Config{Parallelism: engine.TP(tc.tp)}
		if tc.version != "" {
			c.Release = engine.Release{Kind: engine.KindVLLM, Version: tc.version}
		}
		l, errL := latency.New(m, g, c)
		if err := errors.Join(errM, errG, errL); err != nil {
			t.Fatal(err)
		}
		ws := EngineWarnings(l, tc.caching)
		if got := Defaults(m, g, c); got != tc.defaults || len(ws) != len(tc.said) {
			t.Errorf("%s %s: %q, %v", tc.model, tc.version, got, ws)
			continue
		}
		for i, w := range ws {
			if !strings.Contains(w.Message, tc.said[i]) {
				t.Errorf("%s %s: %s", tc.model, tc.version, w.Message)
			}
		}
	}
}
