package catalog

import (
	"cmp"
	"errors"
	"fmt"

	"plimsoll/engine"
)

// Model is the architecture of a decoder-only language model, as its config.json
// states it, without what predicts further tokens (MTP) and what reads images. Counts
// are 0 where the architecture has no such part.
type Model struct {
	Name            string `json:"name"`
	Layers          int    `json:"layers"`
	Hidden          int    `json:"hidden"`
	QHeads          int    `json:"q_heads"`
	KVHeads         int    `json:"kv_heads"`
	HeadDim         int    `json:"head_dim"` // MLA: of the part without rotary embedding, and of a value
	FFN             int    `json:"ffn"`      // width of a dense layer's feed-forward part
	MoEFFN          int    `json:"moe_ffn"`  // width of one expert
	Experts         int    `json:"experts"`  // routed experts per layer
	ExpertsPerToken int    `json:"experts_per_token"`
	SharedExperts   int    `json:"shared_experts"`
	DenseLayers     int    `json:"dense_layers"`  // with experts elsewhere: layers whose feed-forward part has none
	QLoraRank       int    `json:"q_lora_rank"`   // MLA: rank of the query's compression, 0 = not compressed
	KVLoraRank      int    `json:"kv_lora_rank"`  // MLA: rank of what is cached
	RopeHeadDim     int    `json:"rope_head_dim"` // MLA: of the rotary part, cached once for all heads
	Vocab           int    `json:"vocab"`
	TiedEmbeddings  bool   `json:"tied_embeddings"`
	// SlidingWindow is in tokens; 0 = every layer attends to all of the context.
	SlidingWindow int `json:"sliding_window"`
	// FullAttentionLayers attend to all of the context; Layers without a window.
	FullAttentionLayers int `json:"full_attention_layers"`
	// LinearLayers have linear attention (gated DeltaNet) or a state space (Mamba2,
	// whose groups are heads of keys) instead: they keep no KV but a state of
	// LinearValueHeads × LinearHeadDim × LinearKeyDim() numbers for each sequence.
	LinearLayers     int `json:"linear_layers,omitempty"`
	LinearKeyHeads   int `json:"linear_key_heads,omitempty"`
	LinearValueHeads int `json:"linear_value_heads,omitempty"`
	LinearHeadDim    int `json:"linear_head_dim,omitempty"`
	// LinearKeyHeadDim is a key's width where it differs from LinearHeadDim: the size
	// of Mamba2's state.
	LinearKeyHeadDim int `json:"linear_key_head_dim,omitempty"`
	// FeedForwardLayers are those that are a feed-forward part alone; the others have
	// none then (Nemotron-H). 0 = every layer has one beside its attention.
	FeedForwardLayers int `json:"feed_forward_layers,omitempty"`
	// UngatedFFN: feed-forward parts are two products, up and down, without a gate.
	UngatedFFN bool `json:"ungated_ffn,omitempty"`
	// MoELatent is how wide the routed experts' inputs and outputs are where that is
	// not Hidden; each layer with experts projects to it and back.
	MoELatent int `json:"moe_latent,omitempty"`
	// GatedAttention: queries come with a gate as wide as they are.
	GatedAttention bool `json:"gated_attention,omitempty"`
	// ValueHeadDim is an MLA value's width where it differs from HeadDim.
	ValueHeadDim int `json:"value_head_dim,omitempty"`
	// SparseTopK is how many tokens of context an indexer lets attention see
	// (DeepSeek sparse attention); 0 = all. IndexLayers have an indexer of IndexHeads
	// heads, and its key for each token; the others take the choice of a layer before.
	SparseTopK   int `json:"sparse_top_k,omitempty"`
	IndexLayers  int `json:"index_layers,omitempty"`
	IndexHeads   int `json:"index_heads,omitempty"`
	IndexHeadDim int `json:"index_head_dim,omitempty"`
	// MaxContext is max_position_embeddings: prompt and answer together, tokens.
	MaxContext int `json:"max_context"`
	// Params are all weights, ActiveParams those that one token passes through,
	// embeddings included in both. Computed from the fields above: linear
	// layers, embeddings, routers and norms; biases are left out (< 0.1 %).
	Params       int64  `json:"params"`
	ActiveParams int64  `json:"active_params"`
	Source       string `json:"source"`

	// Weights is how the published checkpoint stores most of its weights, 8-bit
	// integers as FP8; empty where row or checkpoint do not say, which is BF16 unless
	// Quantization is not understood.
	Weights engine.DType `json:"weights,omitempty"`
	// Quantization is what the checkpoint says of that, in words: "awq,
	// 4-bit integers"; empty where it says nothing.
	Quantization string `json:"quantization,omitempty"`
	// KV is the type of KV cache that the checkpoint names and engines then use by
	// themselves; empty where it names none, or KVQuantization, which is not understood.
	KV             engine.DType `json:"kv,omitempty"`
	KVQuantization string       `json:"kv_quantization,omitempty"`
	// Stored is how a checkpoint whose files were read keeps its weights.
	Stored Stored `json:"stored,omitzero"`
	// QuantBlock is how many neighbouring weights of the checkpoint share a scale
	// where engines refuse to cut such a block: the side of block-wise FP8, the
	// group of AWQ and GPTQ. 0 = none.
	QuantBlock int `json:"quant_block,omitempty"`
}

// MoE reports whether some layers have experts.
func (m Model) MoE() bool { return m.Experts > 0 }

// MLA reports whether the KV cache is compressed (multi-head latent attention).
func (m Model) MLA() bool { return m.KVLoraRank > 0 }

// ValueDim is the width of an attention value.
func (m Model) ValueDim() int { return cmp.Or(m.ValueHeadDim, m.HeadDim) }

// KVLayers is how many layers keep keys and values of the context.
func (m Model) KVLayers() int { return m.Layers - m.LinearLayers - m.FeedForwardLayers }

// FFNLayers is how many layers have a feed-forward part, of experts or dense.
func (m Model) FFNLayers() int { return cmp.Or(m.FeedForwardLayers, m.Layers) }

// FFNProducts is how many products a feed-forward part is: gate, up and down, or the
// latter two.
func (m Model) FFNProducts() int {
	if m.UngatedFFN {
		return 2
	}
	return 3
}

// ExpertHidden is the width of what a routed expert takes and gives.
func (m Model) ExpertHidden() int { return cmp.Or(m.MoELatent, m.Hidden) }

// LinearKeyDim is the width of a key of linear attention.
func (m Model) LinearKeyDim() int { return cmp.Or(m.LinearKeyHeadDim, m.LinearHeadDim) }

// The state of linear attention is FP32 (mamba_ssm_dtype of Qwen3.5's config.json and
// mamba_ssm_cache_dtype of Nemotron 3's); before it a convolution over 4 tokens keeps
// the last 3 inputs in BF16.
const (
	stateBytes       = 4
	convolutionBytes = 3 * 2
)

// StateBytes is what the layers of linear attention keep of a sequence, however long
// it is, all tensor-parallel ranks together.
func (m Model) StateBytes() float64 {
	keys, values := m.LinearKeyHeads*m.LinearKeyDim(), m.LinearValueHeads*m.LinearHeadDim
	return float64(m.LinearLayers) * float64(stateBytes*values*m.LinearKeyDim()+convolutionBytes*(2*keys+values))
}

// KVElementsPerLayer is how many numbers one token leaves in the KV cache of
// one layer: 2·kv_heads·head_dim, or under MLA rank + rotary part.
func (m Model) KVElementsPerLayer() int {
	if m.MLA() {
		return m.KVLoraRank + m.RopeHeadDim
	}
	return 2 * m.KVHeads * m.HeadDim
}

// KVBytesPerToken is what one token of context takes in the KV cache, all
// tensor-parallel ranks together, when every layer keeps it. For a model with a
// sliding window that is an upper bound: a layer with a window needs no more
// than SlidingWindow tokens, and an engine that frees the rest holds more.
// An indexer's keys are in it: FP8 and a scale in FP32 each, whatever d is (vLLM's
// DeepseekV32IndexerCache, 2026).
func (m Model) KVBytesPerToken(d engine.DType) float64 {
	index := 0
	if m.IndexLayers > 0 {
		index = m.IndexLayers * (m.IndexHeadDim + 4)
	}
	return float64(m.KVLayers()*m.KVElementsPerLayer())*d.Bytes() + float64(index)
}

// KVBytes is the KV of a sequence where layers with a sliding window keep no more than
// that, which they do beside layers without one (engine/latency's KVCache).
func (m Model) KVBytes(d engine.DType) engine.KVBytes {
	b := engine.KVBytes{PerToken: m.KVBytesPerToken(d), State: m.StateBytes()}
	if m.SlidingWindow > 0 && m.FullAttentionLayers > 0 {
		b.Windowed, b.Window = b.PerToken*float64(m.KVLayers()-m.FullAttentionLayers)/float64(m.KVLayers()), m.SlidingWindow
	}
	return b
}

// Stored is the size of a checkpoint's weights in bytes, each layer as it is stored.
type Stored struct {
	Bytes     int64        `json:"bytes"`
	Experts   int64        `json:"experts"`   // of Bytes: the routed experts
	Attention engine.DType `json:"attention"` // most of attention
	FFN       engine.DType `json:"ffn"`       // most of feed-forward parts and experts
}

// stored is m's weights in d: as its checkpoint has them, else as checkpoints of that
// type mostly do: with embeddings, output layer, norms and routers in BF16, and in 4
// bits of a model with experts only these (gpt-oss, Kimi-K2).
func (m Model) stored(d engine.DType) Stored {
	if d = m.format(d); d == m.Weights && m.Stored.Bytes > 0 {
		return m.Stored
	}
	as, linear := m.scheme(d), m.scheme(d)
	if m.MoE() && d.Width() == engine.FP4 {
		linear = plain
	}
	p, moe := m.parts(), m.MoELayers()
	experts := float64(moe*m.Experts) * as.bytes(m.expert())
	rest := float64(m.KVLayers())*linear.bytes(m.attention()) + float64(m.LinearLayers)*linear.bytes(m.linear()) +
		float64(m.IndexLayers)*linear.bytes(m.indexer()) + float64(m.FFNLayers()-moe)*linear.bytes(m.dense()) + float64(moe)*linear.bytes(m.shared())
	return Stored{int64(experts + rest + 2*float64(p.embeddings+p.norms+p.routers)), int64(experts), linear.as, as.as}
}

// format is d with the format of its scales.
func (m Model) format(d engine.DType) engine.DType {
	switch {
	case d != engine.FP4:
		return cmp.Or(d, engine.BF16)
	case m.Weights.Width() == engine.FP4 && m.Weights != engine.FP4:
		return m.Weights
	}
	return engine.NVFP4
}

// scheme is how most checkpoints store weights in d.
func (m Model) scheme(d engine.DType) scheme {
	block := 0
	if d == m.Weights {
		block = m.QuantBlock
	}
	switch d {
	case engine.FP8:
		if block > 0 {
			return scheme{d, 8, 32, block, block}
		}
		return scheme{as: d, bits: 8}
	case engine.NVFP4, engine.FP4:
		return scheme{engine.NVFP4, 4, 8, 1, 16}
	case engine.MXFP4:
		return scheme{d, 4, 8, 1, 32}
	case engine.INT4:
		return scheme{d, 4, 16, 1, cmp.Or(block, 128)}
	case engine.BF16:
	}
	return plain
}

// WeightBytes is the size of all weights in memory, all GPUs together.
func (m Model) WeightBytes(d engine.DType) float64 { return float64(m.stored(d).Bytes) }

// ExpertBytes is the size of all routed experts.
func (m Model) ExpertBytes(d engine.DType) float64 { return float64(m.stored(d).Experts) }

// WeightTypes are the types of most of attention, and of feed-forward parts and experts.
func (m Model) WeightTypes(d engine.DType) (attention, ffn engine.DType) {
	s := m.stored(d)
	return s.Attention, s.FFN
}

// LinearParams are the weights that each token of a step is multiplied with,
// the routed experts that one token passes through included, without embeddings
// and output layer: a token costs 2·LinearParams FLOPs besides attention.
func (m Model) LinearParams() int64 {
	p := m.parts()
	return p.attention + p.dense + p.routers + int64(m.MoELayers()*m.ExpertsPerToken)*params(m.expert())
}

// MoELayers is how many layers have experts.
func (m Model) MoELayers() int {
	if !m.MoE() {
		return 0
	}
	return m.FFNLayers() - m.DenseLayers
}

// parts are numbers of weights by where they sit.
type parts struct{ embeddings, norms, attention, dense, experts, routers int64 }

func (m Model) parts() parts {
	hidden, layers, moe := int64(m.Hidden), int64(m.Layers), int64(m.MoELayers())
	p := parts{
		embeddings: 2 * int64(m.Vocab) * hidden,
		norms:      (2*layers + 1) * hidden,
		attention:  int64(m.KVLayers())*params(m.attention()) + int64(m.LinearLayers)*params(m.linear()) + int64(m.IndexLayers)*params(m.indexer()),
		dense:      (int64(m.FFNLayers())-moe)*params(m.dense()) + moe*params(m.shared()),
		experts:    moe * int64(m.Experts) * params(m.expert()),
		routers:    moe * hidden * int64(m.Experts),
	}
	if m.FeedForwardLayers > 0 {
		p.norms -= layers * hidden // one per layer
	}
	if m.TiedEmbeddings {
		p.embeddings /= 2
	}
	return p
}

// matrix is one of a layer's products. Its names are those that checkpoints give it within
// the layer, also where they store it and others as one.
type matrix struct {
	names   string
	in, out int
}

func params(ms []matrix) (n int64) {
	for _, w := range ms {
		n += int64(w.in) * int64(w.out)
	}
	return n
}

// attention are the projections of one layer.
func (m Model) attention() []matrix {
	heads, out := m.QHeads*m.HeadDim, matrix{"self_attn.o_proj", m.QHeads * m.ValueDim(), m.Hidden}
	if !m.MLA() {
		query, kv := heads, m.KVHeads*m.HeadDim
		if m.GatedAttention {
			query *= 2
		}
		return []matrix{
			{"self_attn.q_proj self_attn.qkv_proj", m.Hidden, query},
			{"self_attn.k_proj self_attn.qkv_proj", m.Hidden, kv},
			{"self_attn.v_proj self_attn.qkv_proj", m.Hidden, kv},
			out,
		}
	}
	query := []matrix{{"self_attn.q_proj", m.Hidden, heads + m.QHeads*m.RopeHeadDim}}
	if rank := m.QLoraRank; rank > 0 {
		query = []matrix{{"self_attn.q_a_proj self_attn.fused_qkv_a_proj", m.Hidden, rank}, {"self_attn.q_b_proj", rank, heads + m.QHeads*m.RopeHeadDim}}
	}
	return append(query, matrix{"self_attn.kv_a_proj_with_mqa self_attn.fused_qkv_a_proj", m.Hidden, m.KVLoraRank + m.RopeHeadDim},
		matrix{"self_attn.kv_b_proj", m.KVLoraRank, heads + m.QHeads*m.ValueDim()}, out)
}

// linear are the projections of one layer of linear attention: queries and keys,
// values and gates, two numbers per head, and back.
func (m Model) linear() []matrix {
	values := m.LinearValueHeads * m.LinearHeadDim
	return []matrix{
		{"linear_attn.in_proj_qkv linear_attn.in_proj_qkvz linear_attn.in_proj", m.Hidden, 2*m.LinearKeyHeads*m.LinearKeyDim() + values},
		{"linear_attn.in_proj_z linear_attn.in_proj_qkvz linear_attn.in_proj", m.Hidden, values},
		{"linear_attn.in_proj_a linear_attn.in_proj_ba linear_attn.in_proj", m.Hidden, 2 * m.LinearValueHeads},
		{"linear_attn.out_proj", values, m.Hidden},
	}
}

// indexer are the projections of one indexer: its queries, from the compressed query
// where there is one, its key, and a weight per head.
func (m Model) indexer() []matrix {
	return []matrix{
		{"self_attn.indexer.wq_b", cmp.Or(m.QLoraRank, m.Hidden), m.IndexHeads * m.IndexHeadDim},
		{"self_attn.indexer.wk", m.Hidden, m.IndexHeadDim},
		{"self_attn.indexer.weights_proj", m.Hidden, m.IndexHeads},
	}
}

// feedForward is a feed-forward part of that width.
func (m Model) feedForward(in, width int, of ...string) []matrix {
	var gate, up, down string
	for _, at := range of {
		gate, up, down = gate+at+".gate_proj "+at+".gate_up_proj ", up+at+".up_proj "+at+".gate_up_proj ", down+at+".down_proj "
	}
	ms := []matrix{{up, in, width}, {down, width, in}}
	if !m.UngatedFFN {
		ms = append(ms, matrix{gate, in, width})
	}
	return ms
}

// dense is the feed-forward part of a layer without experts.
func (m Model) dense() []matrix { return m.feedForward(m.Hidden, m.FFN, "mlp") }

// shared is what every token passes through in a layer with experts.
func (m Model) shared() []matrix {
	return append(m.feedForward(m.Hidden, m.SharedExperts*m.MoEFFN, "mlp.shared_experts", "mlp.shared_expert"),
		matrix{"mlp.fc1_latent_proj", m.Hidden, m.MoELatent}, matrix{"mlp.fc2_latent_proj", m.MoELatent, m.Hidden})
}

// expert is one routed expert.
func (m Model) expert() []matrix {
	return m.feedForward(m.ExpertHidden(), m.MoEFFN, "mlp.experts.0", "mlp.experts")
}

// finished is m with what follows from its other fields, or why it cannot be,
// in the asker's words for the fields.
func (m Model) finished(word func(column string) string) (Model, error) {
	if m.SlidingWindow == 0 && m.FullAttentionLayers == 0 {
		m.FullAttentionLayers = m.KVLayers()
	}
	if err := m.check(word); err != nil {
		return Model{}, err
	}
	p := m.parts()
	m.Params = p.embeddings + p.norms + p.attention + p.dense + p.experts + p.routers
	m.ActiveParams = m.Params
	if m.MoE() {
		m.ActiveParams -= p.experts / int64(m.Experts) * int64(m.Experts-m.ExpertsPerToken)
	}
	return m, nil
}

// maxLayers is above the most layers that any model has.
const maxLayers = 2_000

// check refuses what no model is. The upper bounds lie some ten times above the
// largest model of 2026 and keep every product far inside an int64.
func (m Model) check(word func(column string) string) error {
	var errs []error
	bounded := func(field string, v, low, high int) {
		if v < low || v > high {
			errs = append(errs, fmt.Errorf("%s is %d: want %d to %d", word(field), v, low, high))
		}
	}
	some := func(field string, v, high int) { // of the layers
		if m.Layers > 0 {
			bounded(field, v, 0, high)
		}
	}
	bounded("layers", m.Layers, 1, maxLayers)
	bounded("hidden", m.Hidden, 1, 200_000)
	bounded("q_heads", m.QHeads, 1, 4_000)
	bounded("kv_heads", m.KVHeads, 1, max(1, m.QHeads))
	bounded("head_dim", m.HeadDim, 1, 4_096)
	bounded("value_head_dim", m.ValueHeadDim, 0, 4_096)
	bounded("vocab", m.Vocab, 1, 10_000_000)
	bounded("max_context", m.MaxContext, 1, 100_000_000)
	bounded("sliding_window", m.SlidingWindow, 0, 100_000_000)
	some("feed_forward_layers", m.FeedForwardLayers, m.Layers-1)
	some("linear_layers", m.LinearLayers, max(0, m.Layers-m.FeedForwardLayers-1)) // one keeps KV
	some("full_attention_layers", m.FullAttentionLayers, m.KVLayers())
	some("dense_layers", m.DenseLayers, m.FFNLayers())
	linear := min(1, m.LinearLayers)
	bounded("linear_key_heads", m.LinearKeyHeads, linear, 4_000)
	bounded("linear_value_heads", m.LinearValueHeads, linear, 4_000)
	bounded("linear_head_dim", m.LinearHeadDim, linear, 4_096)
	bounded("linear_key_head_dim", m.LinearKeyHeadDim, 0, 4_096)
	bounded("experts", m.Experts, 0, 100_000)
	bounded("experts_per_token", m.ExpertsPerToken, min(1, m.Experts), max(0, m.Experts))
	bounded("shared_experts", m.SharedExperts, 0, 1_000)
	bounded("moe_ffn", m.MoEFFN, min(1, m.Experts), 1_000_000)
	bounded("moe_latent", m.MoELatent, 0, 200_000)
	bounded("q_lora_rank", m.QLoraRank, 0, 100_000)
	bounded("kv_lora_rank", m.KVLoraRank, 0, 100_000)
	bounded("rope_head_dim", m.RopeHeadDim, 0, 4_096)
	bounded("sparse_top_k", m.SparseTopK, 0, 100_000_000)
	some("index_layers", m.IndexLayers, m.KVLayers())
	bounded("index_heads", m.IndexHeads, min(1, m.IndexLayers), 4_000)
	bounded("index_head_dim", m.IndexHeadDim, min(1, m.IndexLayers), 4_096)
	bounded("quant_block", m.QuantBlock, 0, 65_536)
	lowFFN := 1
	if m.MoE() && m.DenseLayers == 0 {
		lowFFN = 0
	}
	bounded("ffn", m.FFN, lowFFN, 2_000_000)
	if m.QHeads > 0 && m.KVHeads > 0 && m.QHeads%m.KVHeads != 0 {
		errs = append(errs, fmt.Errorf("%s %d is not a multiple of %s %d", word("q_heads"), m.QHeads, word("kv_heads"), m.KVHeads))
	}
	if m.Name == "" {
		errs = append(errs, errors.New("the model has no name"))
	}
	return errors.Join(errs...)
}
