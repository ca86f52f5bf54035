package latency

import (
	"cmp"
	"fmt"
	"sort"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
)

const gib = 1 << 30

// Memory is what one GPU's memory goes to, in bytes.
type Memory struct {
	Weights    int64 `json:"weights"`
	Activation int64 `json:"activation"` // peak of a step, kept free for it
	NonTorch   int64 `json:"non_torch"`  // communication buffers and context
	KV         int64 `json:"kv"`         // of what is left of Budget; 0 where nothing is
	Budget     int64 `json:"budget"`     // what the engine may take of the GPU
}

// Two of these were measured: KV cache left on an H100 of 79.18 GiB under vLLM
// at utilization 0.9 and 1024 sequences (llm-d-planner@e50305a, read 2026-08):
// Llama-3.1-8B 51.38 GiB, Qwen3-32B 4.45 (TP1) and 34.49 (TP2), gpt-oss-120b
// 3.33, gpt-oss-20b 50.28, Llama-3.3-70B in FP8 32.0 (TP2). What these leave for
// activations is 4.8 to 7.5 GiB in proportion to the vocabulary, whatever the
// model's size: it is the sampler over 1024 sequences.
const (
	// samplerBytes per sequence and vocabulary entry: the median of the six.
	samplerBytes = 39.2
	// nonTorchOne and nonTorchMany are for engines of one and of several GPUs.
	nonTorchOne  = int64(13 * gib / 100)
	nonTorchMany = int64(55 * gib / 100)
)

func memoryOf(m catalog.Model, g catalog.GPU, c engine.Config, l engine.Limits) Memory {
	p := c.Parallelism
	mem := Memory{
		Weights:    int64(weightShare(m, c)),
		Activation: int64(activation(m, c, l)),
		NonTorch:   nonTorchOne,
	}
	if p.GPUs() > 1 {
		mem.NonTorch = nonTorchMany
	}
	var share float64
	mem.Budget, share = budget(c, l, g.MemoryBytes, mem.Activation+mem.NonTorch)
	mem.KV = int64(share * float64(max(0, mem.Budget-mem.Weights-mem.Activation-mem.NonTorch)))
	return mem
}

// budget is what an engine may take of a GPU of total bytes, whose steps and
// buffers take steps of them, and which share of what is left of it the KV cache
// gets. Engines mean different things by a memory fraction f, asked for or their own:
//
//	vLLM, and whatever is not named here   f of the whole, for everything
//	SGLang        --mem-fraction-static    f of the whole, for weights and KV cache
//	TensorRT-LLM  free_gpu_memory_fraction f of what weights and steps leave, for KV cache
//
// (docs.vllm.ai cli/serve, docs.sglang.io server_arguments, TensorRT-LLM's
// commands/trtllm-serve and examples/kvcacheconfig, read in November 2026.)
func budget(c engine.Config, l engine.Limits, total, steps int64) (bytes int64, share float64) {
	r := c.Served()
	f := cmp.Or(c.MemoryFraction, r.MemoryFraction(total, c.Parallelism, l.MaxNumBatchedTokens*c.Parallelism.Normal().DP))
	bytes = int64(f * float64(total))
	switch r.Kind { //nolint:exhaustive // the others are as vLLM
	case engine.KindSGLang:
		return min(total, bytes+steps), 1
	case engine.KindTRTLLM:
		return total, f
	}
	return bytes, 1
}

// Preflight is what one GPU of an engine would have its memory for, and how many
// tokens its KV cache would hold over all ranks, whether it can run or not; the
// error says why not. Where the model's shape does not divide into the layout,
// nothing but that is known.
func Preflight(m catalog.Model, g catalog.GPU, config engine.Config) (mem Memory, kvTokens int, err error) {
	a, err := layOut(m, g, config)
	if err != nil {
		return Memory{}, 0, err
	}
	return a.memory, a.kvTokens(), a.fits()
}

// weightShare is the bytes of weights on one GPU: all of them over TP·PP, and
// experts over the DP replicas too where EP spreads them.
func weightShare(m catalog.Model, c engine.Config) float64 {
	p := c.Parallelism
	experts := m.ExpertBytes(c.Weights)
	over := float64(p.TP * p.PP)
	share := (m.WeightBytes(c.Weights) - experts) / over
	if p.EP > 1 {
		over *= float64(p.DP)
	}
	return share + experts/over
}

// activation is the larger of the sampler's peak and the forward pass's: in
// BF16, some four hidden states and one TP share of the widest layer's three
// intermediates per token of a full step (arithmetic, not measured).
func activation(m catalog.Model, c engine.Config, l engine.Limits) float64 {
	sampler := samplerBytes * float64(l.MaxNumSeqs) * float64(m.Vocab)
	wide := max(m.FFN, m.MoEFFN*max(m.ExpertsPerToken, 1), (m.QHeads+2*m.KVHeads)*m.HeadDim)
	perToken := 2 * (4*float64(m.Hidden) + 3*float64(wide)/float64(c.Parallelism.TP))
	return max(sampler, perToken*float64(l.MaxNumBatchedTokens))
}

// kvShards is over how many GPUs of one attention replica and pipeline stage
// the KV cache of a token spreads: a head is not split, and MLA's compressed
// entry serves all heads, so each GPU keeps a copy of it.
func kvShards(m catalog.Model, p engine.Parallelism) int {
	if m.MLA() {
		return 1
	}
	return min(p.TP, m.KVHeads)
}

// kvShare is the KV bytes of one token on one GPU of the replica that holds it.
func kvShare(m catalog.Model, c engine.Config) float64 {
	return m.KVBytesPerToken(c.KV) / float64(kvShards(m, c.Parallelism)*c.Parallelism.PP)
}

// Memory is the memory of one GPU of the engine.
func (m Model) Memory() Memory { return m.about.memory }

// KVTokens is how many tokens of context the KV cache holds, whole blocks, over
// all ranks of the engine, where every layer keeps all of them: what engines print.
// With a sliding window it is the room for sequences within the window, with a state
// that for KV alone; KVTokensAt is the room for sequences of some length.
func (m Model) KVTokens() int { return m.about.kvTokens() }

func (a *about) kvTokens() int {
	blocks, w := a.kvCache()
	return w.All(blocks) * a.limits.BlockSize * a.config.Parallelism.DP
}

// kvCache is the KV cache of one rank in blocks of tokens, and what a sequence
// takes of them for layers with a window. It is vLLM's hybrid KV cache manager: the
// layers are in groups of as many as there are of the rarer kind (of the other one
// where that is less than a quarter more), the last group filled up; a page holds a
// block of tokens for one group, and pages of all groups come from one pool; a layer
// with a window frees what has left it. A block here is a page for each group of
// layers without a window. (vllm/v1/core/kv_cache_utils.py,
// _get_kv_cache_groups_uniform_page_size, and v1/kv_cache_interface.py,
// SlidingWindowSpec, as of 2025; recalled, not read again.) An engine all of whose
// layers have a window is taken to keep all tokens.
func (a *about) kvCache() (blocks int, w engine.KVWindow) {
	m, perBlock := a.model, kvShare(a.model, a.config)*float64(a.limits.BlockSize)
	full, windowed := m.FullAttentionLayers, m.KVLayers()-m.FullAttentionLayers
	if state := m.StateBytes(); state > 0 { // from the same pool (vLLM), its heads over TP
		p := a.config.Parallelism
		return int(float64(a.memory.KV) / perBlock), engine.KVState(state / (float64(p.TP*p.PP) * perBlock))
	}
	if m.SlidingWindow <= 0 || full <= 0 || windowed <= 0 {
		return int(float64(a.memory.KV) / perBlock), engine.KVWindow{}
	}
	group := min(full, windowed)
	if most := max(full, windowed); 4*most < 5*group {
		group = most
	}
	groups := (full + group - 1) / group
	w = engine.KVWindow{Blocks: a.windowBlocks(0), Share: float64((windowed+group-1)/group) / float64(groups)}
	return int(float64(a.memory.KV) / (perBlock * float64(group*groups) / float64(m.KVLayers()))), w
}

// windowBlocks is how many blocks a layer with a window keeps of a sequence in a
// step with so many tokens of its prompt. The window begins within a block.
func (a *about) windowBlocks(chunk int) int {
	size := a.limits.BlockSize
	return (a.model.SlidingWindow-1+chunk+size-1)/size + 1
}

// promptBlocks is what layers with a window take, beside what a sequence of so many
// tokens keeps in them, while a step computes its prompt: they free nothing before
// the step's end.
func (a *about) promptBlocks(w engine.KVWindow, tokens int) int {
	if a.model.SlidingWindow <= 0 {
		return 0
	}
	blocks := a.blocks(tokens)
	during := engine.KVWindow{Blocks: min(a.windowBlocks(a.limits.MaxNumBatchedTokens), blocks+1), Share: w.Share}
	return max(0, during.Extra(during.Blocks)-w.Extra(blocks))
}

// blocks are those of so many tokens.
func (a *about) blocks(tokens int) int { return (tokens + a.limits.BlockSize - 1) / a.limits.BlockSize }

// KVCache is the KV cache of an engine as a scheduler has it: blocks over all ranks,
// without those that prompts take while they are computed, and what each sequence
// takes for layers with a window.
func (m Model) KVCache(role engine.Role) (blocks int, w engine.KVWindow) {
	a := m.about
	blocks, w = a.kvCache()
	if w.Share > 0 && role != engine.RoleDecode {
		blocks = max(1+w.Extra(1), blocks-a.promptBlocks(w, a.limits.MaxModelLen))
	}
	return blocks * a.config.Parallelism.DP, w
}

// KVTokensAt is how many tokens the KV cache holds over all ranks where every
// sequence has so many.
func (m Model) KVTokensAt(context int) int {
	if c := m.WindowedKV(); c.Known() && context > 0 {
		return c.TokensAt(float64(context))
	}
	return m.about.kvTokens()
}

// WindowedKV is the KV cache over all ranks where layers have a sliding window; zero
// where none has.
func (m Model) WindowedKV() engine.WindowedKV {
	blocks, w := m.KVCache(m.about.config.Role)
	if w.Share == 0 {
		return engine.WindowedKV{}
	}
	return engine.WindowedKV{Blocks: blocks, BlockSize: m.about.limits.BlockSize, Window: w}
}

// LongestSequence is the longest sequence that one rank's KV cache holds, in tokens.
func (m Model) LongestSequence() int { return m.about.longest() }

func (a *about) longest() int {
	blocks, w := a.kvCache()
	if w.Share == 0 {
		return blocks * a.limits.BlockSize
	}
	return a.limits.BlockSize * sort.Search(blocks, func(i int) bool {
		tokens := (i + 1) * a.limits.BlockSize
		return i+1+w.Extra(i+1)+a.promptBlocks(w, tokens) > blocks
	})
}

// fits refuses an engine without room for its weights, or for the KV cache of
// the longest sequence asked for (one block where none was).
func (a *about) fits() error {
	mem, p := a.memory, a.config.Parallelism
	if mem.KV == 0 {
		return fmt.Errorf("%s at %s: weights %s + %s activations and %s buffers per GPU do not fit in %s (%.4g %% of %s)",
			a.model.Name, p.Label(), gb(mem.Weights), gb(mem.Activation), gb(mem.NonTorch),
			gb(mem.Budget), 100*float64(mem.Budget)/float64(a.gpu.MemoryBytes), gb(a.gpu.MemoryBytes))
	}
	if n := mostStates(a.model, a.gpu, a.config, a.limits); n > 0 && a.config.Limits.MaxNumSeqs > n {
		return fmt.Errorf("%s at %s: vLLM from 0.25 on refuses %d sequences: its KV cache has blocks for the states of %d", a.model.Name, p.Label(), a.config.Limits.MaxNumSeqs, n)
	}
	need := max(a.config.Limits.MaxModelLen, a.limits.BlockSize)
	if have := a.longest(); have < need {
		return fmt.Errorf("%s at %s: weights %s + %s activations and %s buffers leave %s per GPU for KV cache: room for %d tokens of the %d that one sequence may have",
			a.model.Name, p.Label(), gb(mem.Weights), gb(mem.Activation), gb(mem.NonTorch), gb(mem.KV), have, need)
	}
	return nil
}

func gb(bytes int64) string { return fmt.Sprintf("%.1f GB", float64(bytes)/1e9) }
