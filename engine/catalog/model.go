package catalog

import (
	"errors"
	"fmt"

	"plimsoll/engine"
)

// Model is the architecture of a decoder-only transformer, as its config.json
// states it. Counts are 0 where the architecture has no such part.
type Model struct {
	Name             string `json:"name"`
	Layers           int    `json:"layers"`
	Hidden           int    `json:"hidden"`
	QHeads           int    `json:"q_heads"`
	KVHeads          int    `json:"kv_heads"`
	HeadDim          int    `json:"head_dim"` // MLA: of the part without rotary embedding, and of a value
	FFN              int    `json:"ffn"`      // width of a dense layer's feed-forward part
	MoEFFN           int    `json:"moe_ffn"`  // width of one expert
	Experts          int    `json:"experts"`  // routed experts per layer
	ExpertsPerToken  int    `json:"experts_per_token"`
	SharedExperts    int    `json:"shared_experts"`
	FirstDenseLayers int    `json:"first_dense_layers"` // leading layers without experts
	QLoraRank        int    `json:"q_lora_rank"`        // MLA: rank of the query's compression, 0 = not compressed
	KVLoraRank       int    `json:"kv_lora_rank"`       // MLA: rank of what is cached
	RopeHeadDim      int    `json:"rope_head_dim"`      // MLA: of the rotary part, cached once for all heads
	Vocab            int    `json:"vocab"`
	TiedEmbeddings   bool   `json:"tied_embeddings"`
	// SlidingWindow is in tokens; 0 = every layer attends to all of the context.
	SlidingWindow int `json:"sliding_window"`
	// FullAttentionLayers attend to all of the context; Layers without a window.
	FullAttentionLayers int `json:"full_attention_layers"`
	// MaxContext is max_position_embeddings: prompt and answer together, tokens.
	MaxContext int `json:"max_context"`
	// Params are all weights, ActiveParams those that one token passes through,
	// embeddings included in both. Computed from the fields above: linear
	// layers, embeddings, routers and norms; biases are left out (< 0.1 %).
	Params       int64  `json:"params"`
	ActiveParams int64  `json:"active_params"`
	Source       string `json:"source"`

	// Weights is how the published checkpoint stores most of its weights, integers
	// as the float of their size; empty where row or config.json do not say, which
	// is BF16 unless Quantization is not understood.
	Weights engine.DType `json:"weights,omitempty"`
	// Quantization is what the config.json says of that, in words: "awq,
	// 4-bit integers"; empty where it says nothing.
	Quantization string `json:"quantization,omitempty"`
	// QuantBlock is how many neighbouring weights of the checkpoint share a scale
	// where engines refuse to cut such a block: the side of block-wise FP8, the
	// group of AWQ and GPTQ. 0 = none.
	QuantBlock int `json:"quant_block,omitempty"`
}

// MoE reports whether some layers have experts.
func (m Model) MoE() bool { return m.Experts > 0 }

// MLA reports whether the KV cache is compressed (multi-head latent attention).
func (m Model) MLA() bool { return m.KVLoraRank > 0 }

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
func (m Model) KVBytesPerToken(d engine.DType) float64 {
	return float64(m.Layers*m.KVElementsPerLayer()) * d.Bytes()
}

// KVBytes is the KV of a sequence where layers with a sliding window keep no more than
// that, which they do beside layers without one (engine/latency's KVCache).
func (m Model) KVBytes(d engine.DType) engine.KVBytes {
	b := engine.KVBytes{PerToken: m.KVBytesPerToken(d)}
	if m.SlidingWindow > 0 && m.FullAttentionLayers > 0 {
		b.Windowed, b.Window = b.PerToken*float64(m.Layers-m.FullAttentionLayers)/float64(m.Layers), m.SlidingWindow
	}
	return b
}

// mxBytes is the size of an FP4 weight with its share of scales: one byte for
// each 32 weights (OCP Microscaling Formats v1.0, MXFP4, 2023-09).
const mxBytes = 0.5 + 1.0/32

// WeightBytes is the size of all weights in memory, all GPUs together, as
// checkpoints of that type store them: under FP8 and FP4 the embeddings, the
// output layer and norms stay BF16; under FP4 a model with experts has only
// these in FP4 (gpt-oss).
func (m Model) WeightBytes(d engine.DType) float64 {
	p := m.parts()
	experts := float64(m.MoELayers()*m.Experts) * m.ExpertBytes(d)
	linear, rest := float64(p.attention+p.dense), 2*float64(p.embeddings+p.norms+p.routers)
	switch {
	case d == engine.FP4 && m.MoE():
		return experts + 2*linear + rest
	case d == engine.FP4:
		return linear*mxBytes + rest
	default:
		return experts + linear*d.Bytes() + rest
	}
}

// LinearParams are the weights that each token of a step is multiplied with,
// the routed experts that one token passes through included, without embeddings
// and output layer: a token costs 2·LinearParams FLOPs besides attention.
func (m Model) LinearParams() int64 {
	p := m.parts()
	return p.attention + p.dense + p.routers + int64(m.MoELayers()*m.ExpertsPerToken)*m.expertParams()
}

// ExpertBytes is the size of one routed expert of one layer.
func (m Model) ExpertBytes(d engine.DType) float64 {
	b := d.Bytes()
	if d == engine.FP4 {
		b = mxBytes
	}
	return float64(m.expertParams()) * b
}

// MoELayers is how many layers have experts.
func (m Model) MoELayers() int {
	if !m.MoE() {
		return 0
	}
	return m.Layers - m.FirstDenseLayers
}

// parts are numbers of weights by where they sit.
type parts struct{ embeddings, norms, attention, dense, experts, routers int64 }

func (m Model) parts() parts {
	hidden, layers, moe := int64(m.Hidden), int64(m.Layers), int64(m.MoELayers())
	p := parts{
		embeddings: 2 * int64(m.Vocab) * hidden,
		norms:      (2*layers + 1) * hidden,
		attention:  layers * m.attentionParams(),
		dense:      (layers-moe)*3*hidden*int64(m.FFN) + moe*int64(m.SharedExperts)*m.expertParams(),
		experts:    moe * int64(m.Experts) * m.expertParams(),
		routers:    moe * hidden * int64(m.Experts),
	}
	if m.TiedEmbeddings {
		p.embeddings /= 2
	}
	return p
}

// attentionParams are the projections of one layer.
func (m Model) attentionParams() int64 {
	hidden, heads, dim := int64(m.Hidden), int64(m.QHeads), int64(m.HeadDim)
	if !m.MLA() {
		return 2*hidden*heads*dim + 2*hidden*int64(m.KVHeads)*dim
	}
	rope, rank, qRank := int64(m.RopeHeadDim), int64(m.KVLoraRank), int64(m.QLoraRank)
	query := hidden * heads * (dim + rope)
	if qRank > 0 {
		query = hidden*qRank + qRank*heads*(dim+rope)
	}
	return query + hidden*(rank+rope) + rank*heads*2*dim + heads*dim*hidden
}

func (m Model) expertParams() int64 { return 3 * int64(m.Hidden) * int64(m.MoEFFN) }

// finished is m with what follows from its other fields, or why it cannot be,
// in the asker's words for the fields.
func (m Model) finished(word func(column string) string) (Model, error) {
	if m.SlidingWindow == 0 && m.FullAttentionLayers == 0 {
		m.FullAttentionLayers = m.Layers
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

// check refuses what no model is. The upper bounds lie some ten times above the
// largest model of 2026 and keep every product far inside an int64.
func (m Model) check(word func(column string) string) error {
	var errs []error
	bounded := func(field string, v, low, high int) {
		if v < low || v > high {
			errs = append(errs, fmt.Errorf("%s is %d: want %d to %d", word(field), v, low, high))
		}
	}
	bounded("layers", m.Layers, 1, 2_000)
	bounded("hidden", m.Hidden, 1, 200_000)
	bounded("q_heads", m.QHeads, 1, 4_000)
	bounded("kv_heads", m.KVHeads, 1, max(1, m.QHeads))
	bounded("head_dim", m.HeadDim, 1, 4_096)
	bounded("vocab", m.Vocab, 1, 10_000_000)
	bounded("max_context", m.MaxContext, 1, 100_000_000)
	bounded("sliding_window", m.SlidingWindow, 0, 100_000_000)
	bounded("full_attention_layers", m.FullAttentionLayers, 0, m.Layers)
	bounded("first_dense_layers", m.FirstDenseLayers, 0, m.Layers)
	bounded("experts", m.Experts, 0, 100_000)
	bounded("experts_per_token", m.ExpertsPerToken, min(1, m.Experts), max(0, m.Experts))
	bounded("shared_experts", m.SharedExperts, 0, 1_000)
	bounded("moe_ffn", m.MoEFFN, min(1, m.Experts), 1_000_000)
	bounded("q_lora_rank", m.QLoraRank, 0, 100_000)
	bounded("kv_lora_rank", m.KVLoraRank, 0, 100_000)
	bounded("rope_head_dim", m.RopeHeadDim, 0, 4_096)
	bounded("quant_block", m.QuantBlock, 0, 65_536)
	lowFFN := 1
	if m.MoE() && m.FirstDenseLayers == 0 {
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
