package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// hfFamily is how the config.json files of a kind of architecture are read: what they
// leave to defaults (transformers' configuration classes, 2026), and which parts the
// architecture has.
type hfFamily struct {
	architectures []string // transformers' class, by which engines choose too
	types         []string // model_type, of a text_config too
	defaults      hfConfig
	experts       func(hfConfig) *int // nil: a dense family
	wide          bool                // an expert is intermediate_size wide
	mla           bool
	names         []string                       // how it names what others call otherwise: old, new, …
	only          func(hfConfig, *Model, *needs) // what only this family has
}

func hfFamilies() []hfFamily {
	numbered := func(c hfConfig) *int { return c.Experts }
	local := func(c hfConfig) *int { return c.LocalExperts }
	routed := func(c hfConfig) *int { return c.RoutedExperts }
	wide := hfConfig{HeadDim: new(128)}
	linear := hfConfig{HeadDim: new(256), OutputGate: new(true)}
	sparse := []string{"mlp.", "block_sparse_moe.", "gate_proj", "w1", "up_proj", "w3", "down_proj", "w2"}
	return []hfFamily{
		{architectures: []string{"LlamaForCausalLM"}, types: []string{"llama"}},
		{architectures: []string{"Llama4ForConditionalGeneration", "Llama4ForCausalLM"}, types: []string{"llama4", "llama4_text"}, experts: local, wide: true, only: llama4, names: []string{"mlp.", "feed_forward."}},
		{architectures: []string{"MistralForCausalLM", "Ministral3ForCausalLM"}, types: []string{"mistral", "ministral3"}},
		{architectures: []string{"MixtralForCausalLM"}, types: []string{"mixtral"}, experts: local, wide: true, names: sparse},
		{architectures: []string{"Qwen2ForCausalLM"}, types: []string{"qwen2"}},
		{architectures: []string{"Qwen3ForCausalLM", "Qwen3VLForConditionalGeneration"}, types: []string{"qwen3", "qwen3_vl", "qwen3_vl_text"}, defaults: wide},
		{architectures: []string{"Qwen3MoeForCausalLM", "Qwen3VLMoeForConditionalGeneration"}, types: []string{"qwen3_moe", "qwen3_vl_moe", "qwen3_vl_moe_text"}, experts: numbered},
		{architectures: []string{"Qwen3NextForCausalLM"}, types: []string{"qwen3_next"}, defaults: linear, experts: numbered, only: deltaNet},
		{architectures: []string{"Qwen3_5ForConditionalGeneration", "Qwen3_5ForCausalLM"}, types: []string{"qwen3_5", "qwen3_5_text"}, defaults: linear, only: deltaNet},
		{architectures: []string{"Qwen3_5MoeForConditionalGeneration", "Qwen3_5MoeForCausalLM"}, types: []string{"qwen3_5_moe", "qwen3_5_moe_text"}, defaults: linear, experts: numbered, only: deltaNet},
		{architectures: []string{"GptOssForCausalLM"}, types: []string{"gpt_oss"}, experts: local, wide: true, defaults: hfConfig{HeadDim: new(64), WindowPattern: new(2)}},
		{architectures: []string{"DeepseekV3ForCausalLM", "DeepseekV32ForCausalLM", "GlmMoeDsaForCausalLM", "Glm4MoeLiteForCausalLM", "Mistral4ForCausalLM"}, types: []string{"deepseek_v3", "deepseek_v32", "kimi_k2", "glm_moe_dsa", "glm4_moe_lite", "mistral4"}, experts: routed, mla: true},
		{architectures: []string{"Glm4MoeForCausalLM"}, types: []string{"glm4_moe"}, defaults: wide, experts: routed},
		{architectures: []string{"MiniMaxM2ForCausalLM"}, types: []string{"minimax_m2"}, defaults: wide, experts: local, wide: true, names: sparse},
		{architectures: []string{"Gemma3ForConditionalGeneration", "Gemma3ForCausalLM"}, types: []string{"gemma3", "gemma3_text"}, defaults: hfConfig{
			QHeads: new(8), KVHeads: new(4), HeadDim: new(256), Vocab: new(262208),
			MaxContext: new(131072), Tied: new(true), WindowPattern: new(6),
		}},
		{architectures: []string{"Phi3ForCausalLM"}, types: []string{"phi3"}},
		{architectures: []string{"NemotronHForCausalLM"}, types: []string{"nemotron_h"}, defaults: wide, only: nemotronH, names: []string{"mlp.", "mixer.", "self_attn.", "mixer.", "linear_attn.", "mixer."}},
	}
}

// familyOf is the family of a file with these names, or of its text_config: by
// architectures, as vLLM and SGLang choose, else by model_type. What a text_config says
// of itself comes first.
func familyOf(file hfNames, text *hfNames) (hfFamily, error) {
	all := []hfNames{file}
	if text != nil {
		all = []hfNames{*text, file}
	}
	families := hfFamilies()
	for _, n := range all {
		for _, f := range families {
			if slices.ContainsFunc(n.Architectures, func(a string) bool { return slices.Contains(f.architectures, a) }) {
				return f, nil
			}
		}
		for _, f := range families {
			if slices.Contains(f.types, n.ModelType) {
				return f, nil
			}
		}
		if n.ModelType != "" {
			break // it says what it is: something else
		}
	}
	var asked hfNames
	for _, n := range all {
		asked.Architectures = append(asked.Architectures, n.Architectures...)
		asked.ModelType = cmp.Or(asked.ModelType, n.ModelType)
	}
	var known []string
	for _, f := range families {
		known = append(known, slices.DeleteFunc(f.types, func(s string) bool { return strings.HasSuffix(s, "_text") })...)
	}
	slices.Sort(known)
	what := fmt.Sprintf("model_type is %q", asked.ModelType)
	if len(asked.Architectures) > 0 {
		what += fmt.Sprintf(" and architectures %q", strings.Join(asked.Architectures, ", "))
	}
	return hfFamily{}, fmt.Errorf("%s: want one of %s", what, strings.Join(known, ", "))
}

// needs collects what a file lacks or says that no Model can hold.
type needs struct {
	missing []string
	errs    []error
}

func (n *needs) int(field string, v *int) int {
	if v == nil {
		n.missing = append(n.missing, field)
	}
	return value(v)
}

func (n *needs) complain(bad bool, format string, args ...any) {
	if bad {
		n.errs = append(n.errs, fmt.Errorf(format, args...))
	}
}

func (n *needs) err() error {
	if len(n.missing) > 0 {
		n.errs = append([]error{fmt.Errorf("missing %s", strings.Join(n.missing, ", "))}, n.errs...)
	}
	return errors.Join(n.errs...)
}

// llama4 has experts in each so-manieth layer, a shared one beside them, and another
// width where there are none.
func llama4(c hfConfig, m *Model, n *needs) {
	m.SharedExperts = 1
	if m.DenseLayers > 0 {
		m.FFN = n.int("intermediate_size_mlp", c.DenseFFN)
	}
}

// deltaNet is linear attention beside some layers of full attention with a gate.
func deltaNet(c hfConfig, m *Model, n *needs) {
	m.LinearLayers = c.count("linear_attention")
	if c.LayerTypes == nil {
		every := value(cmp.Or(c.FullInterval, new(4)))
		n.complain(every < 1, "full_attention_interval is %d: want 1 or more", every)
		m.LinearLayers = m.Layers - m.Layers/max(1, every)
	}
	m.FullAttentionLayers = m.Layers - m.LinearLayers
	m.GatedAttention = value(c.OutputGate)
	m.LinearKeyHeads, m.LinearValueHeads = n.int("linear_num_key_heads", c.LinearKeyHeads), n.int("linear_num_value_heads", c.LinearValueHeads)
	m.LinearHeadDim = n.int("linear_value_head_dim", c.LinearValueDim)
	m.LinearKeyHeadDim = unlessEqual(n.int("linear_key_head_dim", c.LinearKeyDim), m.LinearHeadDim)
}

// nemotronH has layers that are one thing each: Mamba2, attention, a feed-forward part
// or experts.
func nemotronH(c hfConfig, m *Model, n *needs) {
	pattern := c.hybrid()
	dense, moe := strings.Count(pattern, "-"), strings.Count(pattern, "E")
	m.LinearLayers, m.FeedForwardLayers, m.FullAttentionLayers = strings.Count(pattern, "M"), dense+moe, strings.Count(pattern, "*")
	n.complain(m.LinearLayers+m.FeedForwardLayers+m.FullAttentionLayers != len(pattern), "hybrid_override_pattern is %q: want M, *, - and E only", pattern)
	n.complain(len(pattern) != m.Layers, "hybrid_override_pattern or layers_block_type names %d layers, num_hidden_layers %d", len(pattern), m.Layers)
	n.complain(dense+moe == 0, "hybrid_override_pattern is %q: layers without any feed-forward part are not understood", pattern)
	m.UngatedFFN = true
	if m.LinearLayers > 0 {
		m.LinearKeyHeads, m.LinearValueHeads = n.int("n_groups", c.Groups), n.int("mamba_num_heads", c.MambaHeads)
		m.LinearHeadDim = n.int("mamba_head_dim", c.MambaHeadDim)
		m.LinearKeyHeadDim = unlessEqual(n.int("ssm_state_size", c.StateSize), m.LinearHeadDim)
	}
	if moe > 0 {
		c.mixture(hfFamily{experts: func(c hfConfig) *int { return c.RoutedExperts }}, m, n)
		m.DenseLayers = dense
	}
}

// hybrid are the kinds of Nemotron-H's layers, a letter each; what is no such kind is
// a question mark.
func (c hfConfig) hybrid() string {
	blocks := c.Blocks
	if blocks == nil {
		blocks = c.LayerTypes
	}
	if c.Pattern != "" || blocks == nil {
		return c.Pattern
	}
	letters := map[string]string{"mamba": "M", "linear_attention": "M", "attention": "*", "full_attention": "*", "mlp": "-", "moe": "E"}
	var s strings.Builder
	for _, b := range blocks {
		s.WriteString(cmp.Or(letters[b], "?"))
	}
	return s.String()
}

func unlessEqual(a, b int) int {
	if a == b {
		return 0
	}
	return a
}
