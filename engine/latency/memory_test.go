package latency

import (
	"math"
	"strings"
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
)

var vllm019 = engine.Release{Kind: engine.KindVLLM, Version: "0.19"}

// What vLLM had left for KV cache on an H100 of 79.18 GiB, in GiB per GPU, and
// what its profiling run found of activations, and of buffers outside of torch,
// where that was published (source: see samplerBytes; the multimodal model with
// activations of 2.1 GiB is not named there).
func TestMemoryAgainstVLLM(t *testing.T) {
	for _, tc := range []struct {
		model      string
		weights    engine.DType
		tp         int
		kv         float64
		activation [2]float64 // low and high
		nonTorch   float64
	}{
		{"llama-3.1-8b", engine.BF16, 1, 51.38, [2]float64{4.8, 5.6}, 0.13},
		{"qwen3-32b", engine.BF16, 1, 4.45, [2]float64{4.8, 5.6}, 0.13},
		{"qwen3-32b", engine.BF16, 2, 34.49, [2]float64{4.8, 5.6}, 0.55},
		{"gpt-oss-120b", engine.FP4, 1, 3.33, [2]float64{7.4, 7.4}, 0.13},
		{"gpt-oss-20b", engine.FP4, 1, 50.28, [2]float64{7.4, 7.4}, 0.13},
		{"llama-3.3-70b", engine.FP8, 2, 32.0, [2]float64{4.8, 5.6}, 0.55},
	} {
		mem := on(t, tc.model, "h100-sxm", engine.Config{Release: vllm019, Weights: tc.weights, Parallelism: engine.TP(tc.tp)}).Memory()
		compare := func(what string, got int64, low, high, tolerance float64) {
			g := float64(got) / gib
			off := max(low-g, g-high, 0)
			t.Logf("%s TP%d: %s %.2f GiB, vLLM %.2f to %.2f: off by %.2f", tc.model, tc.tp, what, g, low, high, off)
			if off > tolerance {
				t.Errorf("%s TP%d: %s of %.2f GiB, vLLM has %.2f to %.2f", tc.model, tc.tp, what, g, low, high)
			}
		}
		compare("KV", mem.KV, tc.kv, tc.kv, 0.6)
		compare("activations", mem.Activation, tc.activation[0], tc.activation[1], 0.15)
		compare("buffers", mem.NonTorch, tc.nonTorch, tc.nonTorch, 0.005)
		if sum := mem.Weights + mem.Activation + mem.NonTorch + mem.KV; sum != mem.Budget {
			t.Errorf("%s TP%d: %d bytes in all of %d", tc.model, tc.tp, sum, mem.Budget)
		}
	}
	m, err := tables(t).Model("deepseek-r1")
	if err != nil {
		t.Fatal(err)
	}
	g, err := tables(t).GPU("h100-sxm")
	if err != nil {
		t.Fatal(err)
	}
	mem, tokens, err := Preflight(m, g, engine.Config{Weights: engine.FP8})
	if err == nil || tokens != 0 || mem.Weights < 600e9 || mem.KV != 0 { // vLLM: out of memory
		t.Errorf("DeepSeek-R1 in FP8 on one H100: %+v, %d tokens, %v", mem, tokens, err)
	}
}

// Checkpoints whose quantization is in a file beside config.json: FP8 is 68.5 GB and 4.2
// of embeddings in BF16, NVFP4 38.5 and those; FP8 KV is 163,840 bytes a token.
func TestMemoryOfCheckpoints(t *testing.T) {
	for _, tt := range []struct {
		folder, gpu string
		tp          int
		weights     float64 // GB on each GPU
		tokens      int
	}{{"fp8", "h100-sxm", 2, 36.3, 441280}, {"nvfp4", "b200-sxm", 1, 42.7, 786656}} {
		m, err := catalog.ReadHFFile("../catalog/testdata/checkpoints/" + tt.folder + "/config.json")
		if err != nil {
			t.Fatal(err)
		}
		g, err := tables(t).GPU(tt.gpu)
		if err != nil {
			t.Fatal(err)
		}
		mem, tokens, err := Preflight(m, g, engine.Config{Weights: m.Weights, KV: m.KV, Parallelism: engine.TP(tt.tp)})
		if got := float64(mem.Weights) / 1e9; err != nil || math.Abs(got-tt.weights) > 0.05 || tokens != tt.tokens {
			t.Errorf("%s: %.2f GB, %d tokens, %v", tt.folder, got, tokens, err)
		}
	}
}

// The engine's share is what is asked for, and what it gives goes to the KV cache.
func TestMemoryFraction(t *testing.T) {
	at := func(f float64) Memory {
		return on(t, "llama-3.1-8b", "h100-sxm", engine.Config{MemoryFraction: f}).Memory()
	}
	half, own, all := at(0.5), at(0), at(1)
	if own != at(0.92) {
		t.Errorf("%+v by default, %+v at 0.92", own, at(0.92))
	}
	if all.Budget != 85018877624 || half.Budget*2 != all.Budget || all.KV-half.KV != half.Budget {
		t.Errorf("%+v of half, %+v of all", half, all)
	}
	cat := tables(t)
	m, _ := cat.Model("llama-3.1-8b")
	g, _ := cat.GPU("h100-sxm")
	for f, want := range map[float64]string{
		0.2: "do not fit in 17.0 GB (20 % of 85.0 GB)", 0.925: "", -0.1: "memory fraction -0.1: want above 0", 1.1: "memory fraction 1.1: want above 0",
		math.NaN(): "memory fraction NaN: want above 0",
	} {
		err := Check(m, g, engine.Config{MemoryFraction: f})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%g: %v, want %q", f, err, want)
		}
	}
}

// Each engine's own flag, by its documentation: what is asked of SGLang is for
// weights and KV cache alone, what is asked of TensorRT-LLM for KV cache alone, of
// what the others leave. A model that fits so is not refused.
func TestMemoryFractionByEngine(t *testing.T) {
	cat := tables(t)
	m, _ := cat.Model("llama-3.1-70b")
	g, _ := cat.GPU("h100-sxm")
	at := func(kind engine.Kind, f float64) (Memory, error) {
		mem, _, err := Preflight(m, g, engine.Config{Kind: kind, Parallelism: engine.TP(2), MemoryFraction: f})
		return mem, err
	}
	whole := g.MemoryBytes
	for _, c := range []struct {
		kind     engine.Kind
		fraction float64
		kv       func(Memory) int64 // 0: refused
	}{
		{engine.KindVLLM, 0.5, nil},
		{engine.KindCommand, 0.5, nil},
		{engine.KindEstimate, 0.5, nil},
		{engine.KindSGLang, 0.5, nil},
		{engine.KindSGLang, 0.88, func(m Memory) int64 { return int64(0.88*float64(whole)) - m.Weights }},
		{engine.KindSGLang, 0.99, func(m Memory) int64 { return whole - m.Weights - m.Activation - m.NonTorch }}, // steps need room too
		{engine.KindTRTLLM, 0.5, func(m Memory) int64 { return (whole - m.Weights - m.Activation - m.NonTorch) / 2 }},
		{engine.KindTRTLLM, 1, func(m Memory) int64 { return whole - m.Weights - m.Activation - m.NonTorch }},
	} {
		mem, err := at(c.kind, c.fraction)
		if c.kv == nil {
			if err == nil || mem.KV != 0 || mem.Weights < 70e9 {
				t.Errorf("%s %g: %+v, %v", c.kind, c.fraction, mem, err)
			}
			continue
		}
		if want := c.kv(mem); err != nil || want <= 0 || mem.KV < want-1 || mem.KV > want+1 {
			t.Errorf("%s %g: %d bytes for KV, want %d: %v", c.kind, c.fraction, mem.KV, want, err)
		}
		if mem.Weights+mem.Activation+mem.NonTorch+mem.KV > min(whole, mem.Budget)+1 {
			t.Errorf("%s %g: more than there is: %+v", c.kind, c.fraction, mem)
		}
	}
}

// Without a share engines take their release's own;
// SGLang's is by its formula.
func TestMemoryByRelease(t *testing.T) {
	cat := tables(t)
	m, _ := cat.Model("llama-3.1-70b")
	for _, c := range []struct {
		release engine.Release
		gpu     string
		p       engine.Parallelism
		share   float64 // of the whole, for all but what the engine does not count
		beside  float64 // GB of steps and buffers on top of it
		tokens  int     // of KV cache
	}{
		{engine.Release{}, "h100-sxm", engine.TP(2), 0.92, 0, 11744},
		{engine.Release{Kind: engine.KindVLLM, Version: "0.20.2"}, "h100-sxm", engine.TP(2), 0.92, 0, 11744},
		{vllm019, "h100-sxm", engine.TP(2), 0.9, 0, 1360},
		{engine.Release{Kind: engine.KindVLLM, Version: "0.8.5"}, "h100-sxm", engine.TP(2), 0.9, 0, 1360},
		{engine.Release{Kind: engine.KindSGLang}, "h100-sxm", engine.TP(2), 0.8326, 5.744, 1440},
		{engine.Release{Kind: engine.KindSGLang}, "h200-sxm", engine.TP(8), 0.8967, 5.744, 2869792},
		{engine.Release{Kind: engine.KindTRTLLM}, "h100-sxm", engine.TP(2), 1, 0, 47920},
	} {
		g, err := cat.GPU(c.gpu)
		if err != nil {
			t.Fatal(err)
		}
		mem, tokens, err := Preflight(m, g, engine.Config{Release: c.release, Parallelism: c.p})
		if got := (float64(mem.Budget) - c.beside*1e9) / float64(g.MemoryBytes); err != nil || math.Abs(got-c.share) > 0.0005 || tokens != c.tokens {
			t.Errorf("%+v on %s: %.4f of the whole, %d tokens, %v; want %.4f, %d", c.release, c.gpu, got, tokens, err, c.share, c.tokens)
		}
	}
}

// 51.38 GiB at 131072 bytes a token, MLA on every rank, KV heads never split.
func TestKVTokens(t *testing.T) {
	for _, tc := range []struct {
		model   string
		gpu     string
		config  engine.Config
		perGPU  float64 // bytes of KV per token on each GPU
		replica int
	}{
		{"llama-3.1-8b", "h100-sxm", engine.Config{}, 131072, 1},
		{"llama-3.1-8b", "h100-sxm", engine.Config{KV: engine.FP8}, 65536, 1},
		{"llama-3.1-8b", "h100-sxm", engine.Config{Parallelism: engine.TP(4)}, 131072 / 4, 1},
		{"llama-3.1-8b", "h100-sxm", engine.Config{Parallelism: engine.TP(16)}, 131072 / 8, 1},
		{"llama-3.1-8b", "h100-sxm", engine.Config{Parallelism: engine.Parallelism{TP: 2, PP: 2, DP: 2}}, 131072 / 4, 2},
		{"deepseek-v3", "h200", engine.Config{Weights: engine.FP8, Parallelism: engine.TP(8)}, 70272, 1},
	} {
		tc.config.Release = vllm019
		lm := on(t, tc.model, tc.gpu, tc.config)
		blocks := int(float64(lm.Memory().KV) / (16 * tc.perGPU))
		if got := lm.KVTokens(); got != 16*blocks*tc.replica {
			t.Errorf("%s %s: %d KV tokens, want %d", tc.model, tc.config.Parallelism.Label(), got, 16*blocks*tc.replica)
		}
	}
	if n := on(t, "llama-3.1-8b", "h100-sxm", engine.Config{Release: vllm019}).KVTokens(); n < 420_000 || n > 422_000 {
		t.Errorf("Llama-3.1-8B on an H100 has room for %d tokens", n)
	}
}

// A KV cache with windows holds what a count layer by layer finds room for: each
// layer keeps all tokens or those of its window, in pages of a group of layers.
func TestWindowsLayerByLayer(t *testing.T) {
	for _, tc := range []struct {
		model   string
		weights engine.DType
	}{{"gemma-3-27b", engine.BF16}, {"gemma-3-12b", engine.BF16}, {"gpt-oss-20b", engine.FP4}, {"gpt-oss-120b", engine.FP4}} {
		for _, context := range []int{64, 1000, 4096, 30_000} {
			lm := on(t, tc.model, "h200", engine.Config{Weights: tc.weights, Limits: engine.Limits{MaxModelLen: 32768}})
			m, l := lm.about.model, lm.Limits()
			bytes := 0.0 // that the layers keep of one sequence
			for layer := range m.Layers {
				tokens := context
				if layer >= m.FullAttentionLayers {
					tokens = min(tokens, m.SlidingWindow)
				}
				bytes += float64(tokens*m.KVElementsPerLayer()) * engine.BF16.Bytes()
			}
			blocks, w := lm.KVCache(engine.RoleDecode)
			n := (context + l.BlockSize - 1) / l.BlockSize
			fit := float64(blocks) / float64(n+w.Extra(n)) // sequences
			// Whole blocks, the block in which a window begins, and groups that are filled
			// up cost something, up to a seventh for groups.
			most, paged := float64(lm.Memory().KV)/bytes, float64(n*l.BlockSize)/float64(context)
			edge := float64(2*l.BlockSize) / float64(min(context, m.SlidingWindow))
			if fit > most || fit < most/(1.16*paged*(1+edge)) {
				t.Errorf("%s: %.1f sequences of %d tokens, the layers have room for %.1f", tc.model, fit, context, most)
			}
			if got := lm.KVTokensAt(context); got <= 0 || float64(got) > fit*float64(n*l.BlockSize)+1 {
				t.Errorf("%s: %d tokens in sequences of %d, %.0f while no prompt is computed", tc.model, got, context, fit*float64(n*l.BlockSize))
			}
		}
	}
}

// A state takes the room that it has: what is left of the KV cache beside the states of
// as many sequences holds their tokens, whole blocks, and the heads of both divide by TP.
func TestStateBesideKV(t *testing.T) {
	for _, name := range []string{"qwen3.5-35b-a3b", "qwen3-next-80b", "nemotron-3-nano-30b"} {
		for _, tp := range []int{1, 2} {
			m, err := tables(t).Model(name)
			if err != nil {
				t.Fatal(err)
			}
			g, err := tables(t).GPU("b200")
			if err != nil {
				t.Fatal(err)
			}
			a, err := layOut(m, g, engine.Config{Weights: engine.BF16, Parallelism: engine.TP(tp)})
			if err != nil {
				t.Fatal(err)
			}
			blocks, w := a.kvCache()
			size := a.limits.BlockSize
			for _, context := range []int{size, 4 * size, 64 * size} {
				n := float64(blocks) / float64(context/size+w.Extra(context/size)) // sequences
				bytes := n * (m.StateBytes() + float64(context)*m.KVBytesPerToken(engine.BF16)) / float64(tp)
				if have := float64(a.memory.KV); bytes > have || bytes < 0.87*have { // a state takes whole blocks
					t.Errorf("%s TP %d: %.1f sequences of %d tokens take %.0f bytes of %.0f", name, tp, n, context, bytes, have)
				}
			}
			if got := a.kvTokens(); got != blocks*size {
				t.Errorf("%s TP %d: %d tokens, want %d without states", name, tp, got, blocks*size)
			}
			if l := a.longest(); l <= 0 || l >= a.kvTokens() {
				t.Errorf("%s TP %d: a sequence has %d tokens at most, without a state %d", name, tp, l, a.kvTokens())
			}
		}
	}
}

// vLLM's blocks hold as many tokens as a layer's state takes room for, and from 0.25 on it
// runs no more sequences than it has blocks.
func TestStateBlocks(t *testing.T) {
	cat := tables(t)
	g, _ := cat.GPU("h100-sxm")
	for _, c := range []struct {
		model string
		c     engine.Config
		block int
	}{
		{"qwen3.6-35b-a3b", engine.Config{}, 1056},
		{"qwen3.6-35b-a3b", engine.Config{KV: engine.FP8}, 2112},
		{"qwen3.6-35b-a3b", engine.Config{Parallelism: engine.TP(2)}, 1056},
		{"qwen3.6-35b-a3b", engine.Config{Parallelism: engine.TP(4)}, 528},
		{"qwen3.6-35b-a3b", engine.Config{Release: engine.Release{Kind: engine.KindSGLang}}, 16},
		{"qwen3.5-9b", engine.Config{}, 528}, // as the 4B, which vllm#40696 logs
		{"llama-3.1-8b", engine.Config{}, 16},
	} {
		m, err := cat.Model(c.model)
		if err != nil {
			t.Fatal(err)
		}
		if got := Limits(m, g, c.c).BlockSize; got != c.block {
			t.Errorf("%s %+v: blocks of %d tokens, want %d", c.model, c.c, got, c.block)
		}
	}
	lm := on(t, "qwen3.5-27b", "h100-sxm", engine.Config{})
	blocks, _ := lm.about.kvCache()
	if n := lm.Limits().MaxNumSeqs; n > blocks || n < blocks-9 || n >= 1024 {
		t.Errorf("%d sequences with %d blocks", n, blocks)
	}
	c := engine.Config{Limits: engine.Limits{MaxNumSeqs: blocks + 1}}
	for version, want := range map[string]string{"": "refuses", "0.24.1": ""} {
		c.Release = engine.Release{Kind: engine.KindVLLM, Version: version}
		if err := Check(lm.about.model, g, c); (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("vLLM %q: %v", version, err)
		}
	}
}

// The longest sequence that fits is the longest that is not refused, and with few
// layers that keep all tokens it is longer than if every layer did.
func TestLongestSequence(t *testing.T) {
	for _, tc := range []struct {
		model   string
		weights engine.DType
	}{{"gemma-3-27b", engine.BF16}, {"gpt-oss-120b", engine.FP4}, {"qwen3-32b", engine.BF16}} {
		lm := on(t, tc.model, "h100-sxm", engine.Config{Weights: tc.weights})
		n := lm.LongestSequence()
		for tokens, fits := range map[int]bool{n: true, n + 1: false} {
			c := engine.Config{Weights: tc.weights, Limits: engine.Limits{MaxModelLen: tokens}}
			if err := Check(lm.about.model, lm.about.gpu, c); (err == nil) != fits {
				t.Errorf("%s: %d tokens of %d at most: %v", tc.model, tokens, n, err)
			}
		}
		if windows := lm.about.model.SlidingWindow > 0; windows && n <= lm.KVTokens() || !windows && n != lm.KVTokens() {
			t.Errorf("%s: the longest sequence has %d tokens, %d if every layer keeps all", tc.model, n, lm.KVTokens())
		}
	}
}
