package catalog

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
)

func labels(ps []engine.Parallelism) string {
	var out []string
	for _, p := range ps {
		out = append(out, p.Label())
	}
	return strings.Join(out, " ")
}

func TestLayouts(t *testing.T) {
	cat, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		model   string
		weights engine.DType
		gpus    int
		fit     string
		out     string // "label: beginning of the reason", joined by |
	}{
		{"llama-3.1-8b", "", 1, "TP:1", ""},
		{"llama-3.1-70b", "", 8, "TP:1 TP:2 TP:4 TP:8", ""},
		{"llama-3.1-70b", "", 16, "TP:1 TP:2 TP:4 TP:8", "TP:16: TP 16 does not divide the 8 KV heads of meta-llama/Meta-Llama-3.1-70B, so GPUs would keep copies"},
		{"deepseek-r1", engine.FP8, 8, "TP:1 TEP:2 DEP:2 TEP:4 DEP:4 TEP:8 DEP:8", ""},
		{"deepseek-v3", engine.FP8, 16, "TP:1 TEP:2 DEP:2 TEP:4 DEP:4 TEP:8 DEP:8 TEP:16 DEP:16", ""},
		// 18432 / 32 = 576 is four and a half blocks.
		{"deepseek-v3", engine.FP8, 32, "TP:1 TEP:2 DEP:2 TEP:4 DEP:4 TEP:8 DEP:8 TEP:16 DEP:16 DEP:32", "TEP:32: TP 32 leaves 576 of the feed-forward width 18432"},
		{"deepseek-v3", engine.BF16, 32, "TP:1 TEP:2 DEP:2 TEP:4 DEP:4 TEP:8 DEP:8 TEP:16 DEP:16 TEP:32 DEP:32", ""},
		{"qwen3-235b", "", 4, "TP:1 TP:2 TEP:2 DEP:2 TP:4 TEP:4 DEP:4", ""},
		{"qwen3-235b", "", 8, "TP:1 TP:2 TEP:2 DEP:2 TP:4 TEP:4 DEP:4 DEP:8", "TP:8: TP 8 does not divide the 4 KV heads|TEP:8: TP 8 does not divide the 4 KV heads"},
		{"mixtral-8x7b", "", 8, "TP:1 TP:2 TEP:2 DEP:2 TP:4 TEP:4 DEP:4 TP:8 TEP:8 DEP:8", ""},
		{
			"mixtral-8x7b", "", 16, "TP:1 TP:2 TEP:2 DEP:2 TP:4 TEP:4 DEP:4 TP:8 TEP:8 DEP:8",
			"TP:16: TP 16 does not divide the 8 KV heads|TEP:16: EP 16 does not divide the 8 experts|DEP:16: EP 16 does not divide the 8 experts",
		},
		{"gpt-oss-120b", engine.FP4, 8, "TP:1 TP:2 TEP:2 DEP:2 TP:4 TEP:4 DEP:4 TP:8 TEP:8 DEP:8", ""},
		{"qwen3.5-397b", engine.FP8, 8, "TP:1 TP:2 TEP:2 DEP:2 TP:4 TEP:4 DEP:4 TP:8 TEP:8 DEP:8", ""},
		{"llama-4-maverick", "", 8, "TP:1 TP:2 TEP:2 DEP:2 TP:4 TEP:4 DEP:4 TP:8 TEP:8 DEP:8", ""},
		{"gemma-3-1b", "", 4, "TP:1", "TP:2: TP 2 does not divide the 1 KV heads|TP:4: TP 4 does not divide the 1 KV heads"},
	} {
		m, err := cat.Model(tt.model)
		if err != nil {
			t.Fatal(err)
		}
		fit, out := m.Layouts(tt.gpus, tt.weights)
		if got := labels(fit); got != tt.fit {
			t.Errorf("%s on %d: %s, want %s", tt.model, tt.gpus, got, tt.fit)
		}
		var want []string
		if tt.out != "" {
			want = strings.Split(tt.out, "|")
		}
		if len(out) != len(want) {
			t.Errorf("%s on %d: left out %v, want %q", tt.model, tt.gpus, out, want)
			continue
		}
		for i, u := range out {
			if got := fmt.Sprintf("%s: %v", u.Parallelism.Label(), u.Err); !strings.HasPrefix(got, want[i]) {
				t.Errorf("%s on %d: %q, want %q", tt.model, tt.gpus, got, want[i])
			}
		}
	}
}

// The FP8 checkpoint of Qwen3-235B-A22B does not start at TP 8 in vLLM: 1536 / 8
// is one and a half blocks of 128. Spread, its experts stay whole.
func TestDefectExpertsCutThroughQuantizationBlocks(t *testing.T) {
	m := Model{Name: "m", Layers: 94, QHeads: 64, KVHeads: 8, Experts: 128, ExpertsPerToken: 8, MoEFFN: 1536, FFN: 12288, QuantBlock: 128}
	if err := m.Splits(engine.TP(8), engine.FP8); err == nil || err.Error() != "TP 8 leaves 192 of the experts' width 1536 of m to each GPU, which cuts its quantization blocks of 128" {
		t.Error(err)
	}
	for p, w := range map[engine.Parallelism]engine.DType{
		engine.TP(4): engine.FP8, engine.TP(8): engine.BF16, {TP: 8, EP: 8}: engine.FP8, {DP: 8, EP: 8}: engine.FP8,
	} {
		if err := m.Splits(p, w); err != nil {
			t.Errorf("%s with %s: %v", p.Label(), w, err)
		}
	}
}

// drawn is any model shape, sensible or not, as far as the catalog takes it.
func drawn(t *rapid.T) Model {
	kv := rapid.IntRange(1, 16).Draw(t, "KV heads")
	m := Model{
		Name: "m", Layers: rapid.IntRange(1, 64).Draw(t, "layers"), KVHeads: kv, QHeads: kv * rapid.IntRange(1, 16).Draw(t, "group"),
		FFN: rapid.IntRange(1, 20_000).Draw(t, "ffn"), QuantBlock: rapid.SampledFrom([]int{0, 1, 32, 128}).Draw(t, "block"),
	}
	if rapid.Bool().Draw(t, "MoE") {
		m.Experts = rapid.IntRange(1, 256).Draw(t, "experts")
		m.MoEFFN = 64 * rapid.IntRange(1, 64).Draw(t, "expert width")
		m.SharedExperts, m.DenseLayers = rapid.IntRange(0, 2).Draw(t, "shared"), rapid.IntRange(0, 1).Draw(t, "dense")
	}
	if rapid.Bool().Draw(t, "MLA") {
		m.KVLoraRank = 512
	}
	if m.Layers > 1 && rapid.Bool().Draw(t, "linear attention") {
		m.LinearLayers, m.LinearValueHeads = m.Layers/2, rapid.IntRange(1, 64).Draw(t, "its heads")
	}
	return m
}

// Whatever the model, each layout is of a power of two of GPUs within the
// count, passes the filters as upstream words them, and is there once; each of
// the mappings is either there or left out with a reason.
func TestLayoutsHoldTheirFilters(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		m, gpus := drawn(t), rapid.IntRange(0, 64).Draw(t, "GPUs")
		weights := rapid.SampledFrom([]engine.DType{"", engine.BF16, engine.FP8, engine.FP4}).Draw(t, "weights")
		fit, out := m.Layouts(gpus, weights)
		seen := map[engine.Parallelism]bool{}
		for _, p := range fit {
			n := p.GPUs()
			switch {
			case seen[p] || p != p.Normal():
				t.Fatalf("%s is listed twice or is not normal: %+v", p.Label(), p)
			case n > gpus || n&(n-1) != 0:
				t.Fatalf("%s has %d of %d GPUs", p.Label(), n, gpus)
			case p.TP != n && p.DP != n, p.EP != 1 && p.EP != n, p.PP != 1:
				t.Fatalf("%+v is none of TP, TEP, DEP", p)
			case !m.MLA() && m.LinearLayers == 0 && m.KVHeads%p.TP != 0, m.QHeads%p.TP != 0, m.LinearValueHeads%p.TP != 0, p.EP > 1 && m.Experts%p.EP != 0:
				t.Fatalf("%s with %d heads, %d KV heads, %d experts", p.Label(), m.QHeads, m.KVHeads, m.Experts)
			case p.EP == 1 && m.MoE() && m.MoEFFN%p.TP != 0, !m.MoE() && m.FFN%p.TP != 0:
				t.Fatalf("%s splits %d or %d", p.Label(), m.FFN, m.MoEFFN)
			case weights.Bytes() < 2 && m.QuantBlock > 0 && !m.MoE() && p.TP > 1 && m.FFN/p.TP%m.QuantBlock != 0:
				t.Fatalf("%s cuts blocks of %d in %d", p.Label(), m.QuantBlock, m.FFN)
			case m.Splits(p, weights) != nil:
				t.Fatalf("%s: %v", p.Label(), m.Splits(p, weights))
			}
			seen[p] = true
		}
		for _, u := range out {
			if seen[u.Parallelism] || u.Err == nil {
				t.Fatalf("%s is left out: %v", u.Parallelism.Label(), u.Err)
			}
			seen[u.Parallelism] = true
		}
		want := 0
		for n := 1; n <= gpus; n *= 2 {
			switch {
			case n == 1 || !m.MoE():
				want++
			case m.MLA():
				want += 2
			default:
				want += 3
			}
		}
		if len(seen) != want {
			t.Fatalf("%d layouts in all, want %d", len(seen), want)
		}
	})
}

// As many stages as layers can be, one more not; the dense width of a model whose
// layers all have experts is nobody's.
func TestSplitsAtTheEdges(t *testing.T) {
	m := Model{Name: "m", Layers: 4, QHeads: 8, KVHeads: 8, Experts: 8, ExpertsPerToken: 2, MoEFFN: 1024, FFN: 1001}
	for _, tt := range []struct {
		pp, dense int
		want      string
	}{
		{4, 0, ""}, {5, 0, "PP 5 is more than the 4 layers of m"}, {1, 1, "TP 2 does not divide the feed-forward width 1001 of m"},
	} {
		m.DenseLayers = tt.dense
		if err := m.Splits(engine.Parallelism{TP: 2, PP: tt.pp}, ""); (err == nil) != (tt.want == "") || err != nil && err.Error() != tt.want {
			t.Errorf("PP %d, %d dense: %v, want %q", tt.pp, tt.dense, err, tt.want)
		}
	}
}
