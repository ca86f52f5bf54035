package latency

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/enginetest"
)

func tables(t testing.TB) catalog.Catalog {
	t.Helper()
	c, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func on(t testing.TB, model, gpu string, c engine.Config) Model {
	t.Helper()
	cat := tables(t)
	m, err := cat.Model(model)
	if err != nil {
		t.Fatal(err)
	}
	g, err := cat.GPU(gpu)
	if err != nil {
		t.Fatal(err)
	}
	lm, err := New(m, g, c)
	if err != nil {
		t.Fatal(err)
	}
	return lm
}

// What the embedded engine's default has to show: a TTFT of 200 ms and an ITL
// of 20 ms are within reach, and larger TP is faster per step.
func TestEmbeddedDefault(t *testing.T) {
	var before Model
	for _, tp := range []int{1, 2, 4, 8} {
		lm := on(t, "llama-3.1-8b", "h100-sxm", engine.Config{Parallelism: engine.TP(tp), Limits: engine.Limits{MaxNumSeqs: 64}})
		t.Logf("TP%d: TTFT(3000) %v; ITL(1, 16, 64 at 3075) %v %v %v; %d KV tokens", tp,
			lm.TTFT(3000, 0), lm.ITL(1, 3075), lm.ITL(16, 3075), lm.ITL(64, 3075), lm.KVTokens())
		if ttft := lm.TTFT(3000, 0); ttft < 10*time.Millisecond || ttft > 150*time.Millisecond {
			t.Errorf("TP%d: TTFT is %v", tp, ttft)
		}
		if itl := lm.ITL(64, 3075); tp >= 2 && itl > 20*time.Millisecond {
			t.Errorf("TP%d: ITL at 64 is %v", tp, itl)
		}
		if tp > 1 && (lm.ITL(1, 3075) >= before.ITL(1, 3075) || lm.ITL(64, 3075) >= before.ITL(64, 3075) || lm.TTFT(3000, 0) >= before.TTFT(3000, 0)) {
			t.Errorf("TP%d is no faster than half of it", tp)
		}
		before = lm
	}
}

func TestTTFTIsItsChunks(t *testing.T) {
	lm := on(t, "llama-3.1-8b", "h100-sxm", engine.Config{})
	var first, second engine.Batch
	first.AddChunk(2048, 0)
	second.AddChunk(952, 2048)
	if got, want := lm.TTFT(3000, 2048), (lm.Outside(3000) + lm.StepTime(first) + lm.StepTime(second)).Duration(); got != want {
		t.Errorf("TTFT is %v, its chunks %v", got, want)
	}
	if lm.TTFT(0, 0) != 0 || lm.TTFT(-1, -1) != 0 || lm.ITL(0, 100) != 0 || lm.StepTime(engine.Batch{}) != 0 || lm.Operators(engine.Batch{}) != nil {
		t.Error("nothing to do takes time")
	}
	if lm.ITL(1, math.Inf(1)) <= 0 || lm.ITL(1, math.NaN()) <= 0 {
		t.Error("a step without a sensible context takes no time")
	}
}

// anyModel draws a model, GPU and layout that fits, with memory to spare so
// that every shape is seen.
func anyModel(t *rapid.T, cat catalog.Catalog) Model {
	m := rapid.SampledFrom(cat.Models()).Draw(t, "model")
	g := rapid.SampledFrom(cat.GPUs()).Draw(t, "gpu")
	g.MemoryBytes *= 40
	p := engine.Parallelism{
		TP: rapid.SampledFrom([]int{0, 1, 2, 4, 8, 16}).Draw(t, "tp"),
		PP: rapid.IntRange(0, 3).Draw(t, "pp"),
		DP: rapid.SampledFrom([]int{0, 1, 2, 8}).Draw(t, "dp"),
	}
	if m.MoE() && rapid.Bool().Draw(t, "spread experts") {
		p.EP = max(p.TP, 1) * max(p.DP, 1)
	}
	kinds := []engine.DType{"", engine.BF16, engine.FP8, engine.FP4}
	lm, err := New(m, g, engine.Config{
		Parallelism: p,
		Weights:     rapid.SampledFrom(kinds).Draw(t, "weights"),
		KV:          rapid.SampledFrom(kinds).Draw(t, "kv"),
	})
	if err != nil {
		t.Skip(err)
	}
	return lm
}

func anyBatch(t *rapid.T) engine.Batch {
	return engine.Batch{
		PrefillSeqs:   rapid.IntRange(0, 100).Draw(t, "prefill seqs"),
		PrefillTokens: rapid.IntRange(0, 1<<20).Draw(t, "prefill tokens"),
		PrefillPast:   rapid.Int64Range(0, 1<<40).Draw(t, "past"),
		PrefillPairs:  rapid.Int64Range(0, 1<<45).Draw(t, "pairs"),
		DecodeSeqs:    rapid.IntRange(0, 5000).Draw(t, "decode seqs"),
		DecodeContext: rapid.Int64Range(0, 1<<45).Draw(t, "context"),
	}
}

func TestStepTimeIsMonotone(t *testing.T) {
	cat := tables(t)
	enginetest.Check(t, func(t *rapid.T) {
		lm, b := anyModel(t, cat), anyBatch(t)
		if b.Empty() {
			b.DecodeSeqs = 1
		}
		d := lm.StepTime(b)
		if d <= 0 {
			t.Fatalf("step takes %v", d)
		}
		more := map[string]engine.Batch{}
		for _, by := range []int{1, 1000} {
			grow := func(field string, f func(*engine.Batch)) {
				c := b
				f(&c)
				more[fmt.Sprintf("%s + %d", field, by)] = c
			}
			if p := lm.about.config.Parallelism; p.DP*p.PP == 1 { // of several, one may have as many as before
				grow("decode seqs", func(b *engine.Batch) {
					mean := b.DecodeContext / int64(max(1, b.DecodeSeqs))
					b.DecodeSeqs, b.DecodeContext = b.DecodeSeqs+by, b.DecodeContext+int64(by)*(mean+1)
				})
				grow("prefill tokens", func(b *engine.Batch) {
					mean := b.PrefillPairs / int64(max(1, b.PrefillTokens))
					b.PrefillTokens, b.PrefillPairs = b.PrefillTokens+by, b.PrefillPairs+int64(by)*(mean+1)
				})
			}
			grow("past", func(b *engine.Batch) { b.PrefillPast += int64(by) })
			grow("pairs", func(b *engine.Batch) { b.PrefillPairs += int64(by) })
			grow("context", func(b *engine.Batch) { b.DecodeContext += int64(by) })
		}
		for what, c := range more {
			if after := lm.StepTime(c); float64(after) < float64(d)*(1-1e-2) { // picoseconds per token are whole
				t.Fatalf("%s: the step shrinks from %v to %v", what, d, after)
			}
		}
	})
}

// What --explain shows adds up to the step, whatever it carries.
func TestOperatorsAreTheStep(t *testing.T) {
	cat := tables(t)
	enginetest.Check(t, func(t *rapid.T) {
		lm, b := anyModel(t, cat), anyBatch(t)
		b.PrefillTokens, b.DecodeSeqs = min(b.PrefillTokens, 1<<15), min(b.DecodeSeqs, 1<<12)
		if b.PrefillSeqs = min(b.PrefillSeqs, b.PrefillTokens); b.PrefillSeqs == 0 {
			b.PrefillTokens, b.PrefillPairs = 0, 0
		}
		var sum float64
		for _, o := range lm.Operators(b) {
			if o.Time <= 0 || o.Name == "" || o.FLOPs < 0 || o.Bytes < 0 {
				t.Fatalf("odd operator %+v", o)
			}
			sum += float64(o.Time)
		}
		if step := float64(lm.StepTime(b)); math.Abs(sum-step) > 1e-6*step+100 {
			t.Fatalf("operators add up to %g, the step is %g", sum, step)
		}
	})
}

func TestMoreGPUsAreNoSlower(t *testing.T) {
	cat := tables(t)
	enginetest.Check(t, func(t *rapid.T) {
		lm := anyModel(t, cat)
		c := lm.about.config
		c.Parallelism.DP *= 2
		if c.Parallelism.EP > 1 {
			c.Parallelism.EP *= 2
		}
		twice, err := New(lm.about.model, lm.about.gpu, c)
		if err != nil || c.Parallelism.EP > 1 { // the exchange between experts may cost more than it gains
			t.Skip()
		}
		b := anyBatch(t)
		// Tokens are whole on each replica, and so are the picoseconds that one takes.
		replicas := float64(max(1, c.Parallelism.DP))
		whole := (float64(b.PrefillTokens) + float64(b.PrefillPast) + float64(b.DecodeContext)) * replicas
		more := 0.001 + replicas/max(1, float64(b.PrefillTokens))
		if a, z := lm.StepTime(b), twice.StepTime(b); float64(z) > float64(a)*(1+more)+100+whole {
			t.Fatalf("%s takes %v, %s %v", lm.about.config.Parallelism.Label(), a, c.Parallelism.Label(), z)
		}
		// An engine of several GPUs also has communication buffers.
		if float64(twice.KVTokens()) < 2*0.9*float64(lm.KVTokens()) {
			t.Fatalf("twice the replicas hold %d tokens instead of %d", twice.KVTokens(), 2*lm.KVTokens())
		}
	})
}

// Over servers, an eighth of the message goes over the network.
func TestTPOverServersPaysTheNetwork(t *testing.T) {
	near := on(t, "llama-3.1-405b", "h200", engine.Config{Parallelism: engine.TP(8)})
	far := on(t, "llama-3.1-405b", "h200", engine.Config{Parallelism: engine.TP(16)})
	const tokens = 4096
	exchange := func(m Model) float64 { return m.about.layout.collectives()(tokens) / 1e6 }
	bytes := 2.0 * tokens * float64(near.about.model.Hidden)
	want := exchange(near) + 2*float64(near.about.model.Layers)*bytes/8/near.about.gpu.InterNodeBytesPerSec
	if got := exchange(far); math.Abs(got/want-1) > 1e-9 {
		t.Errorf("two servers exchange in %g s, want %g", got, want)
	}
	lonely := far.about.gpu
	lonely.InterNodeBytesPerSec = 0
	if err := Check(far.about.model, lonely, far.about.config); err == nil || !strings.Contains(err.Error(), "spans servers of 8 GPUs") {
		t.Errorf("without a network: %v", err)
	}
	if lonely.PerNode = 16; Check(far.about.model, lonely, far.about.config) != nil {
		t.Error("a server of 16 needs a network")
	}
}

// One prompt, or one sequence, is on one replica: others do not make it faster;
// as many as replicas share them evenly.
func TestReplicasOfAttentionDoNotSplitSequences(t *testing.T) {
	at := func(dp int) Model {
		return on(t, "llama-3.1-8b", "h200", engine.Config{Parallelism: engine.Parallelism{TP: 1, DP: dp}})
	}
	batch := func(prompts, seqs int) engine.Batch {
		var b engine.Batch
		for range prompts {
			b.AddChunk(3000, 1000)
		}
		for range seqs {
			b.AddDecode(20_000)
		}
		return b
	}
	one := at(1)
	for _, dp := range []int{2, 8} {
		many := at(dp)
		if a, z := one.TTFT(4000, 0), many.TTFT(4000, 0); math.Abs(float64(z)/float64(a)-1) > 1e-4 {
			t.Errorf("DP %d: a prompt alone takes %v, with one replica %v", dp, z, a)
		}
		for _, n := range []int{1, dp - 1, dp} {
			for what, pair := range map[string][2]engine.Batch{
				"prompts": {batch(1, 0), batch(n, 0)}, "sequences": {batch(0, 1), batch(0, n)}, "both": {batch(1, 1), batch(n, n)},
			} {
				a, z := float64(one.StepTime(pair[0])), float64(many.StepTime(pair[1]))
				if math.Abs(z/a-1) > 1e-3 {
					t.Errorf("DP %d: %d %s take %.0f ps, one on one replica %.0f", dp, n, what, z, a)
				}
			}
		}
	}
}

// One token of Mixtral passes through two of eight experts, many through all.
func TestExperts(t *testing.T) {
	mix := on(t, "mixtral-8x7b", "h100-sxm", engine.Config{Parallelism: engine.TP(2)})
	if one, many := mix.ITL(1, 1), mix.ITL(64, 1); many < 2*one {
		t.Errorf("one token touches a quarter of the experts: %v and %v", one, many)
	}
}

func TestWindowCapsAttention(t *testing.T) {
	windowed := on(t, "gpt-oss-20b", "h100-sxm", engine.Config{Weights: engine.FP4})
	full := windowed.about.model
	full.SlidingWindow, full.FullAttentionLayers = 0, full.Layers
	all, err := New(full, windowed.about.gpu, windowed.about.config)
	if err != nil {
		t.Fatal(err)
	}
	if windowed.ITL(8, 100) != all.ITL(8, 100) {
		t.Error("a window matters to a context inside it")
	}
	if w, a := windowed.ITL(8, 50_000), all.ITL(8, 50_000); w >= a || windowed.TTFT(8000, 0) >= all.TTFT(8000, 0) {
		t.Errorf("a window does not matter: %v, %v", w, a)
	}
}

func TestLimits(t *testing.T) {
	cat := tables(t)
	m, err := cat.Model("qwen3-8b")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		kind         engine.Kind
		version, gpu string
		dp           int
		seqs, tokens int
	}{
		{"", "", "h100-sxm", 1, 1024, 8192},
		{engine.KindEstimate, "", "h200-sxm", 1, 1024, 8192},
		{"", "", "a100-80-sxm", 1, 256, 2048},
		{"", "", "l4", 1, 256, 2048},
		{"", "", "b200-sxm", 1, 1024, 16384},
		{engine.KindVLLM, "0.28.0", "mi300x", 8, 1024, 16384},
		{engine.KindVLLM, "v0.27.1", "b200-sxm", 1, 1024, 8192},
		{engine.KindSGLang, "", "b200-sxm", 1, 1024, 16384},
		{engine.KindSGLang, "0.5.23", "b200-sxm", 8, 1024, 2048},
		{engine.KindSGLang, "", "h200-sxm", 1, 1024, 8192},
		{engine.KindSGLang, "", "l40s", 1, 256, 4096},
		{engine.KindSGLang, "0.5.5", "l4", 1, 256, 2048},
		{engine.KindSGLang, "0.5.23", "l4", 1, 256, 4096},
		{engine.KindTRTLLM, "", "l4", 1, 256, 8192},
		{engine.KindLlamaCpp, "", "h100-sxm", 1, 1024, 2048},
	} {
		g, err := cat.GPU(tc.gpu)
		if err != nil {
			t.Fatal(err)
		}
		c := engine.Config{Release: engine.Release{Kind: tc.kind, Version: tc.version}, Parallelism: engine.Parallelism{DP: tc.dp}}
		want := engine.Limits{MaxNumSeqs: tc.seqs, MaxNumBatchedTokens: tc.tokens, MaxModelLen: 40960, BlockSize: 16}
		if got := Limits(m, g, c); got != want {
			t.Errorf("%+v: %+v, want %+v", tc, got, want)
		}
		c.Limits = engine.Limits{MaxNumSeqs: 7, MaxNumBatchedTokens: 8, MaxModelLen: 9, BlockSize: 10}
		if got := Limits(m, g, c); got != c.Limits {
			t.Errorf("%+v: what was asked became %+v", tc, got)
		}
	}
}

func TestLayoutsThatCannotBe(t *testing.T) {
	cat := tables(t)
	for _, tc := range []struct {
		model  string
		config engine.Config
		want   string
	}{
		{"llama-3.1-8b", engine.Config{Parallelism: engine.TP(3)}, "TP 3 does not divide the 32 attention heads of meta-llama/Meta-Llama-3.1-8B"},
		{"llama-3.1-8b", engine.Config{Parallelism: engine.TP(64)}, "TP 64 does not divide the 32 attention heads"},
		{"qwen2.5-14b", engine.Config{Parallelism: engine.TP(5)}, "TP 5 neither divides the 8 KV heads of Qwen/Qwen2.5-14B nor is a multiple of them"},
		{"llama-3.1-8b", engine.Config{Parallelism: engine.Parallelism{TP: -1}}, "parallelism TP -1, PP 0, DP 0, EP 0: want no negative number"},
		{"llama-3.1-8b", engine.Config{Parallelism: engine.Parallelism{PP: 33}}, "PP 33 is more than the 32 layers"},
		{"llama-3.1-8b", engine.Config{Parallelism: engine.Parallelism{TP: 2, EP: 2}}, "EP 2: meta-llama/Meta-Llama-3.1-8B has no experts to spread"},
		{"mixtral-8x7b", engine.Config{Parallelism: engine.Parallelism{TP: 4, EP: 2}}, "EP 2: want 1 or 4"},
		{"mixtral-8x7b", engine.Config{Parallelism: engine.Parallelism{TP: 16, EP: 16}}, "EP 16 does not divide the 8 experts"},
		{"llama-3.1-70b", engine.Config{}, "meta-llama/Meta-Llama-3.1-70B at TP:1: weights 141.1 GB + 5.1 GB activations and 0.1 GB buffers per GPU do not fit in 78.2 GB (92 % of 85.0 GB)"},
		{"deepseek-r1", engine.Config{Weights: engine.FP8}, "deepseek-ai/DeepSeek-R1 at TP:1: weights 673.2 GB"},
		{"qwen3-32b", engine.Config{Limits: engine.Limits{MaxModelLen: 40960}}, "Qwen/Qwen3-32B at TP:1: weights 65.5 GB + 6.1 GB activations and 0.1 GB buffers leave 6.5 GB per GPU for KV cache: room for 24608 tokens of the 40960 that one sequence may have"},
	} {
		m, err := cat.Model(tc.model)
		if err != nil {
			t.Fatal(err)
		}
		g, err := cat.GPU("h100-sxm")
		if err != nil {
			t.Fatal(err)
		}
		if err := Check(m, g, tc.config); err == nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("got %v\nwant %s", err, tc.want)
		}
	}
}
