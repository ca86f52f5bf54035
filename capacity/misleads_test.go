package capacity

import (
	"math"
	"strings"
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
)

func facts(t *testing.T, model string) Facts {
	t.Helper()
	c, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Model(model)
	if err != nil {
		t.Fatal(err)
	}
	return Facts{Model: m}
}

// corrections by field and unit, where a field has one for each of two units.
func corrections(t *testing.T, w Workload, slo SLO, th Throughput, o Options, f Facts) map[string]Correction {
	t.Helper()
	out := map[string]Correction{}
	for _, c := range Misleads(w, slo, th, o, formula(t, w, slo, th, o), f) {
		key := c.Field
		if strings.HasPrefix(c.Unit, "USD") {
			key += " " + c.Unit
		}
		if _, twice := out[key]; twice {
			t.Errorf("%s is corrected twice", key)
		}
		if c.Why == "" || strings.HasSuffix(c.Why, ".") || strings.Contains(c.Why, "\n") || c.Unit == "" {
			t.Errorf("%s: %q in %q", key, c.Why, c.Unit)
		}
		out[key] = c
	}
	return out
}

func corrected(t *testing.T, cs map[string]Correction, key string, formula, right, tolerance float64) Correction {
	t.Helper()
	c, ok := cs[key]
	if !ok {
		t.Errorf("%s is not corrected", key)
		return c
	}
	if math.Abs(c.Formula-formula) > tolerance || math.Abs(c.Right-right) > tolerance {
		t.Errorf("%s: %v, rightly %v; want %v, rightly %v", key, c.Formula, c.Right, formula, right)
	}
	return c
}

func TestMisleadsChatbot(t *testing.T) {
	cs := corrections(t, chatLoad, chatbotSLO, llama(t, "70B"), as(Disaggregated), facts(t, "llama-3.1-70b"))
	// 256 sequences share 8,000 tokens/s: a token each every 32 ms.
	corrected(t, cs, "estimated_itl_p99_ms", 12.5, 32, 1e-9)
	// 2 · 80 layers · 8 heads · 128 numbers · 2 bytes.
	corrected(t, cs, "kv_bytes_per_token", 2560, 327_680, 0)
	// 100/s · 512 tokens · 12.5 ms; 1,638.4 at 32 ms.
	c := corrected(t, cs, "concurrent_sequences", 6.4, 640, 1e-9)
	if !strings.Contains(c.Why, "640 in flight, or 1638.4 at the 32 ms") {
		t.Errorf("concurrency: %s", c.Why)
	}
	// σ of p99/mean 4 is 2.32635 − √(2.32635² − 2·ln 4) = 0.70174: 256 + 512·e^(σ²)/2
	// = 674.9 tokens, times 640 · 327,680.
	corrected(t, cs, "kv_cache_bytes", 12_582_912, 1.41532e11, 1e7)
	corrected(t, cs, "total_gpus_with_burst", 66, 44, 0)
	// Two whole groups of four in each of two pools.
	corrected(t, cs, "redundancy_gpus", 10, 16, 0)
	// 70.55e9 weights of two bytes against 0.35·4·80·1024³.
	c = corrected(t, cs, "weight_budget_bytes_group", 120.259e9, 141.107e9, 1e6)
	if !strings.Contains(c.Why, "141.1 GB of each group's 343.6 GB") || !strings.Contains(c.Why, "120.3 GB") {
		t.Errorf("weights: %s", c.Why)
	}
	// 266 $/h over 100·512·3600 tokens/h, and over 40·512·3600.
	corrected(t, cs, "cost_per_1m_tokens_usd USD at the peak", 0.4861, 1.4431, 5e-5)
	corrected(t, cs, "cost_per_1m_tokens_usd USD on average", 0.4861, 3.6079, 5e-5)
	corrected(t, cs, "cost_per_1k_queries_usd USD on average", 0.7389, 1.8472, 5e-5)
	for _, field := range []string{"prefill_groups", "decode_groups", "groups", "weights_dtype_bytes"} {
		if c, ok := cs[field]; ok {
			t.Errorf("%s is not wrong here: %+v", field, c)
		}
	}
}

func TestMisleadsRAG(t *testing.T) {
	cs := corrections(t, ragLoad, ragSLO, llama(t, "70B"), as(Disaggregated), facts(t, "llama-3.1-70b"))
	// 245 $/h over 50·256·3600 tokens/h; on average 50/1.3 requests/s.
	corrected(t, cs, "cost_per_1m_tokens_usd USD at the peak", 0.4861, 5.3168, 5e-5)
	corrected(t, cs, "cost_per_1m_tokens_usd USD on average", 0.4861, 6.9119, 5e-5)
	corrected(t, cs, "concurrent_sequences", 1.6, 80, 1e-9) // 50 · 256 · 6.25 ms
	if c, ok := cs["total_gpus_with_burst"]; ok {
		t.Errorf("there is no burst headroom to correct: %+v", c)
	}
}

func TestMisleadsKVBytesOfEachRow(t *testing.T) {
	for size, want := range map[string][2]float64{"8B": {512, 131_072}, "70B": {2560, 327_680}, "405B": {6400, 516_096}} {
		cs := corrections(t, chatLoad, chatbotSLO, llama(t, size), as(Disaggregated), facts(t, "llama-3.1-"+size))
		corrected(t, cs, "kv_bytes_per_token", want[0], want[1], 0)
	}
}

// 16 GB of weights fit into 0.35·80 GiB; 405B does not fit TP8 of 80 GiB in
// BF16, and is not refused for that.
func TestMisleadsWeights(t *testing.T) {
	cs := corrections(t, chatLoad, chatbotSLO, llama(t, "8B"), as(Disaggregated), facts(t, "llama-3.1-8b"))
	if c, ok := cs["weight_budget_bytes_group"]; ok {
		t.Errorf("8B: %+v", c)
	}
	cs = corrections(t, chatLoad, chatbotSLO, llama(t, "405B"), as(Disaggregated), facts(t, "llama-3.1-405b"))
	// 405.85e9 weights of two bytes; in FP8 the embeddings stay at two.
	c := corrected(t, cs, "weights_dtype_bytes", 811.7e9, 410.05e9, 1e8)
	if !strings.Contains(c.Why, "in bf16 does not fit TP8 (needs 811.7 GB of 687.2 GB). This row exists in FP8 only") {
		t.Errorf("405B: %s", c.Why)
	}
	corrected(t, cs, "weight_budget_bytes_group", 240.52e9, 410.05e9, 1e8)
	f := facts(t, "llama-3.1-405b")
	f.Weights = engine.FP8
	if c, ok := corrections(t, chatLoad, chatbotSLO, llama(t, "405B"), as(Disaggregated), f)["weights_dtype_bytes"]; ok {
		t.Errorf("405B in FP8: %+v", c)
	}
}

func TestMisleadsFactors(t *testing.T) {
	th := llama(t, "70B")
	// See TestBranches: 20 groups where 12 carry the load, and none of them
	// prefills 16,384 tokens in 200 ms.
	c := corrected(t, corrections(t, ragLoad, objective(200, 50, 0), th, as(Disaggregated), Facts{}), "prefill_groups", 20, 12, 0)
	if !strings.Contains(c.Why, "332.7 ms in an empty group (SLO 200ms)") {
		t.Errorf("TTFT factor: %s", c.Why)
	}
	// An ITL SLO of 10 ms: full batches have 32 ms, so that nothing is known to be
	// right; one of 40 ms at five times the rate is held at full batches.
	cs := corrections(t, chatLoad, objective(500, 10, 0), th, as(Disaggregated), Facts{})
	if c := corrected(t, cs, "estimated_itl_p99_ms", 12.5, 32, 1e-9); !strings.Contains(c.Why, "(SLO 10 ms)") {
		t.Errorf("ITL: %s", c.Why)
	}
	if c, ok := cs["decode_groups"]; ok {
		t.Errorf("decode groups: %+v", c)
	}
	busy := chatLoad
	busy.Rate = 500 // ITL "62.5 ms": 46 · 62.5/40 = 71.9
	corrected(t, corrections(t, busy, objective(500, 40, 0), th, as(Disaggregated), Facts{}), "decode_groups", 72, 46, 0)
}

// 50/s of 8192/30000 + 256/6400 s each are 15.65 groups, 22.4 at 70 %.
func TestMisleadsAggregated(t *testing.T) {
	cs := corrections(t, ragLoad, ragSLO, llama(t, "70B"), as(Aggregated), facts(t, "llama-3.1-70b"))
	corrected(t, cs, "groups", 95, 23, 0)
	corrected(t, cs, "redundancy_gpus", 2, 8, 0)
	for _, field := range []string{"estimated_itl_p99_ms", "concurrent_sequences", "prefill_groups"} {
		if c, ok := cs[field]; ok {
			t.Errorf("the aggregated formula has no %s: %+v", field, c)
		}
	}
}

func TestMisleadsRedundancyByAvailability(t *testing.T) {
	f := facts(t, "llama-3.1-70b")
	f.ReplicaAvailability = 0.99
	// By TestSparesAgainstEnumeration: see there. One group of prefill needs one
	// spare, ten of decode two: 1 − 0.01² and 1 − P(more than 2 of 12 down).
	c := corrected(t, corrections(t, chatLoad, chatbotSLO, llama(t, "70B"), as(Disaggregated), f), "redundancy_gpus", 10, 12, 0)
	if !strings.Contains(c.Why, "up 0.99 of the time") {
		t.Errorf("redundancy: %s", c.Why)
	}
	f.GroupsPerDomain = 2 // nodes: 1 + 1 for prefill, of which the first is filled up, 5 + 1 or 5 + 2 for decode
	r, err := Spares([]Pool{{"prefill", 1, 4, 2}, {"decode", 10, 4, 2}}, 0.99, 0.999)
	if err != nil {
		t.Fatal(err)
	}
	corrected(t, corrections(t, chatLoad, chatbotSLO, llama(t, "70B"), as(Disaggregated), f), "redundancy_gpus", 10, float64(r.SpareGPUs), 0)
}

// Bad inputs have no plan, so nothing to correct.
func TestMisleadsRefuses(t *testing.T) {
	if cs := Misleads(Workload{}, chatbotSLO, llama(t, "70B"), as(Disaggregated), FormulaPlan{}, Facts{}); cs != nil {
		t.Errorf("%+v", cs)
	}
}

func TestResidentTokensOfEqualLengths(t *testing.T) {
	in := inputs{w: workload(1, 1000, 100, 1000, 100, 1)}
	near(t, "context", in.residentTokens(), 1050, 1e-9)
}
