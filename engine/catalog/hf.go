package catalog

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"plimsoll/engine"
)

// maxConfigBytes bounds a config.json: real ones are a few kB, some hundred
// where they list what is not quantized.
const maxConfigBytes = 16 << 20

// hfNames are a config.json's names of its architecture.
type hfNames struct {
	ModelType     string   `json:"model_type"`
	Architectures []string `json:"architectures"`
}

// hfConfig are the fields of a Hugging Face config.json that matter here, under
// all the names that the families give them. A nil pointer is a missing field.
type hfConfig struct {
	hfNames
	Layers           *int     `json:"num_hidden_layers"`
	Hidden           *int     `json:"hidden_size"`
	QHeads           *int     `json:"num_attention_heads"`
	KVHeads          *int     `json:"num_key_value_heads"`
	HeadDim          *int     `json:"head_dim"`
	FFN              *int     `json:"intermediate_size"`
	Vocab            *int     `json:"vocab_size"`
	MaxContext       *int     `json:"max_position_embeddings"`
	Tied             *bool    `json:"tie_word_embeddings"`
	Window           *int     `json:"sliding_window"`
	UseWindow        *bool    `json:"use_sliding_window"` // qwen: without it the window is not used
	MaxWindowLayers  *int     `json:"max_window_layers"`  // qwen: the first so many layers are full
	LayerTypes       []string `json:"layer_types"`
	WindowPattern    *int     `json:"sliding_window_pattern"` // gemma3: each so-manieth layer is full
	Experts          *int     `json:"num_experts"`
	LocalExperts     *int     `json:"num_local_experts"`
	RoutedExperts    *int     `json:"n_routed_experts"`
	ExpertsPerToken  *int     `json:"num_experts_per_tok"`
	SharedExperts    *int     `json:"n_shared_experts"`
	MoEFFN           *int     `json:"moe_intermediate_size"`
	SparseStep       *int     `json:"decoder_sparse_step"`
	MoELayerFreq     *int     `json:"moe_layer_freq"`
	MLPOnlyLayers    []int    `json:"mlp_only_layers"`
	MLPLayerTypes    []string `json:"mlp_layer_types"` // dense, sparse
	FirstDenseLayers *int     `json:"first_k_dense_replace"`
	QLoraRank        *int     `json:"q_lora_rank"`
	KVLoraRank       *int     `json:"kv_lora_rank"`
	RopeHeadDim      *int     `json:"qk_rope_head_dim"`
	NopeHeadDim      *int     `json:"qk_nope_head_dim"`
	ValueHeadDim     *int     `json:"v_head_dim"`

	// Of one expert or more that every token passes through.
	SharedFFN    *int `json:"shared_expert_intermediate_size"`     // qwen
	MoESharedFFN *int `json:"moe_shared_expert_intermediate_size"` // nemotron_h
	SharedWidth  *int `json:"shared_intermediate_size"`            // minimax_m2

	Chunk          *int  `json:"attention_chunk_size"` // llama4
	NoRope         []int `json:"no_rope_layers"`       // llama4: 0 = all of the context
	NoRopeInterval *int  `json:"no_rope_layer_interval"`
	MoEStep        *int  `json:"interleave_moe_layer_step"`
	MoELayers      []int `json:"moe_layers"`
	DenseFFN       *int  `json:"intermediate_size_mlp"`

	FullInterval     *int  `json:"full_attention_interval"` // qwen3_next: each so-manieth layer is full
	LinearKeyHeads   *int  `json:"linear_num_key_heads"`
	LinearValueHeads *int  `json:"linear_num_value_heads"`
	LinearKeyDim     *int  `json:"linear_key_head_dim"`
	LinearValueDim   *int  `json:"linear_value_head_dim"`
	OutputGate       *bool `json:"attn_output_gate"`
	AttentionKinds   []int `json:"attn_type_list"` // minimax_m2: 1 = full

	IndexTopK    *int     `json:"index_topk"` // deepseek_v32
	IndexHeads   *int     `json:"index_n_heads"`
	IndexHeadDim *int     `json:"index_head_dim"`
	IndexFreq    *int     `json:"index_topk_freq"`
	IndexTypes   []string `json:"indexer_types"` // glm_moe_dsa: full, or shared with a layer before

	Pattern      string   `json:"hybrid_override_pattern"` // nemotron_h
	Blocks       []string `json:"layers_block_type"`
	OtherHeadDim *int     `json:"attention_head_dim"`
	Groups       *int     `json:"n_groups"`
	StateSize    *int     `json:"ssm_state_size"`
	MambaHeads   *int     `json:"mamba_num_heads"`
	MambaHeadDim *int     `json:"mamba_head_dim"`
	Latent       *int     `json:"moe_latent_size"`

	Quantization *json.RawMessage `json:"quantization_config"`
	Compression  *json.RawMessage `json:"compression_config"` // compressed-tensors' older name
}

// readHFConfig reads a Hugging Face config.json of one of hfFamilies, whose text_config
// may be nested; vision parts and those that predict further tokens (MTP) are left out.
// What its quantization_config says is in Weights, KV and Stored. name becomes the model's name. It refuses other families, missing
// fields, what a Model cannot hold and absurd numbers, all of them named at once.
func readHFConfig(r io.Reader, name string) (Model, error) {
	m, c, f, err := readHF(r)
	if err == nil {
		m.Name = name
		m, err = m.finished(hfField)
	}
	if err == nil && c.Quantization != nil {
		c.quantization(f, &m)
		err = m.check(hfField) // of what shares a scale
	}
	if err != nil {
		return Model{}, fmt.Errorf("config.json of %s: %w", name, err)
	}
	return m, nil
}

func readHF(r io.Reader) (m Model, c hfConfig, f hfFamily, err error) {
	b, err := io.ReadAll(io.LimitReader(r, maxConfigBytes+1))
	if err != nil {
		return m, c, f, fmt.Errorf("reading: %w", err)
	}
	if len(b) > maxConfigBytes {
		return m, c, f, fmt.Errorf("larger than %d MiB: not a model's configuration", maxConfigBytes>>20)
	}
	b = finite(b)
	var names struct {
		hfNames
		Text *hfNames `json:"text_config"`
	}
	if err := json.Unmarshal(b, &names); err != nil {
		return m, c, f, engine.PlainJSON("the file", err)
	}
	if f, err = familyOf(names.hfNames, names.Text); err != nil {
		return m, c, f, err
	}
	var file struct {
		hfConfig
		Text *hfConfig `json:"text_config"`
	}
	if err := json.Unmarshal(b, &file); err != nil {
		return m, c, f, engine.PlainJSON("the file", err)
	}
	if c = file.hfConfig; file.Text != nil {
		c = *file.Text
		c.Tied = cmp.Or(c.Tied, file.Tied)
		c.Quantization, c.Compression = cmp.Or(c.Quantization, file.Quantization), cmp.Or(c.Compression, file.Compression)
	}
	c = c.with(f.defaults)
	c.Quantization = cmp.Or(c.Quantization, c.Compression)
	m, err = c.model(f)
	m.Source = "config.json (" + cmp.Or(c.ModelType, file.ModelType, f.architectures[0]) + ")"
	return m, c, f, err
}

// finite is JSON as Python writes it, with null for the numbers that JSON lacks:
// Nemotron-H's time_step_limit ends at Infinity.
func finite(b []byte) []byte { return infinite.ReplaceAll(b, []byte("${1}null")) }

var infinite = regexp.MustCompile(`([\[:,]\s*)-?(?:Infinity|NaN)\b`)

// ModelOrFile is the model of that name, or what a Hugging Face config.json says
// where the name is the path of one.
func (c Catalog) ModelOrFile(name string) (Model, error) {
	if strings.HasSuffix(name, ".json") {
		return ReadHFFile(name)
	}
	if config := filepath.Join(name, "config.json"); strings.ContainsRune(name, filepath.Separator) && isFile(config) {
		return ReadHFFile(config)
	}
	return c.Model(name)
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// ReadHFFile is readHFConfig of the file at path. The model's name is the file's
// _name_or_path, as transformers writes it, or that of the folder.
func ReadHFFile(path string) (Model, error) {
	b, err := readConfig(path)
	if err != nil {
		return Model{}, err
	}
	return hfFile(path, b)
}

// readConfig reads a file of at most maxConfigBytes.
func readConfig(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	b, err := io.ReadAll(io.LimitReader(f, maxConfigBytes+1))
	if err == nil && len(b) > maxConfigBytes {
		err = fmt.Errorf("larger than %d MiB: not a catalog's rows nor a model's configuration", maxConfigBytes>>20)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return b, nil
}

// isJSON tells a config.json from CSV rows.
func isJSON(b []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(bytes.TrimPrefix(b, []byte("\ufeff")), " \t\r\n"), []byte("{"))
}

// hfFile is the model of a config.json with content b.
func hfFile(path string, b []byte) (Model, error) {
	var file struct {
		Name          string `json:"_name_or_path"`
		ModelType     string `json:"model_type"`
		Architectures []string
		Hidden        *int `json:"hidden_size"`
	}
	b = finite(bytes.TrimPrefix(b, []byte("\ufeff")))
	if err := json.Unmarshal(b, &file); err != nil {
		return Model{}, fmt.Errorf("%s: no model's config.json: %w", path, engine.PlainJSON("the file", err))
	}
	if file.ModelType == "" && file.Architectures == nil && file.Hidden == nil {
		return Model{}, fmt.Errorf("%s: JSON, but no model's config.json: it has none of model_type, architectures and hidden_size", path)
	}
	name := file.Name
	if name == "" || filepath.IsAbs(name) || strings.HasPrefix(name, ".") { // a folder of whoever wrote it
		folder := filepath.Dir(path)
		if abs, err := filepath.Abs(folder); err == nil {
			folder = abs
		}
		name = filepath.Base(folder)
	}
	b, err := withBeside(filepath.Dir(path), b)
	if err != nil {
		return Model{}, err
	}
	m, err := readHFConfig(bytes.NewReader(b), name)
	if err != nil {
		return Model{}, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// withBeside is a config.json with what a file beside it in dir says of quantization, as
// ModelOpt before 0.31, AutoGPTQ, AutoAWQ and AutoRound write it, where it says nothing
// itself, or too little (vLLM 0.32's transformers_utils/config.py).
func withBeside(dir string, b []byte) ([]byte, error) {
	var file struct {
		hfConfig
		Text hfConfig `json:"text_config"`
	}
	if err := json.Unmarshal(b, &file); err != nil {
		return b, nil //nolint:nilerr // readHFConfig says it
	}
	if said := cmp.Or(file.Quantization, file.Text.Quantization, file.Compression, file.Text.Compression); said != nil {
		var q hfQuantization
		if err := json.Unmarshal(*said, &q); err != nil || !strings.EqualFold(value(q.Algo), "MIXED_PRECISION") || q.Layers != nil || q.Groups != nil {
			return b, nil //nolint:nilerr // its words are kept
		}
	}
	for _, name := range []string{"hf_quant_config.json", "quantize_config.json", "quant_config.json", "quantization_config.json"} {
		beside, err := readConfig(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		if !json.Valid(beside) {
			beside = []byte(`"no JSON"`)
		}
		var all map[string]json.RawMessage
		if err := json.Unmarshal(b, &all); err != nil {
			return nil, err
		}
		all["quantization_config"] = beside
		return json.Marshal(all)
	}
	return b, nil
}

// with fills what c leaves open.
func (c hfConfig) with(d hfConfig) hfConfig {
	c.QHeads, c.KVHeads = cmp.Or(c.QHeads, d.QHeads), cmp.Or(c.KVHeads, d.KVHeads)
	c.HeadDim, c.Vocab = cmp.Or(c.HeadDim, c.OtherHeadDim, d.HeadDim), cmp.Or(c.Vocab, d.Vocab)
	c.MaxContext, c.Tied = cmp.Or(c.MaxContext, d.MaxContext), cmp.Or(c.Tied, d.Tied)
	c.WindowPattern, c.OutputGate = cmp.Or(c.WindowPattern, d.WindowPattern), cmp.Or(c.OutputGate, d.OutputGate)
	c.KVHeads = cmp.Or(c.KVHeads, c.QHeads) // without grouping each head has its own
	if c.HeadDim == nil && c.Hidden != nil && c.QHeads != nil && *c.QHeads > 0 {
		c.HeadDim = new(*c.Hidden / *c.QHeads)
	}
	if n := len(c.hybrid()); c.Layers == nil && n > 0 {
		c.Layers = &n
	}
	return c
}

func (c hfConfig) model(f hfFamily) (Model, error) {
	n := new(needs)
	m := Model{
		Layers: n.int("num_hidden_layers", c.Layers), Hidden: n.int("hidden_size", c.Hidden),
		QHeads: n.int("num_attention_heads", c.QHeads), KVHeads: value(c.KVHeads), HeadDim: value(c.HeadDim),
		FFN: value(c.FFN), Vocab: n.int("vocab_size", c.Vocab),
		MaxContext: n.int("max_position_embeddings", c.MaxContext), TiedEmbeddings: value(c.Tied),
	}
	m.SlidingWindow, m.FullAttentionLayers = c.window(m.Layers)
	if f.mla {
		c.latent(&m, n)
	} else {
		n.complain(c.ValueHeadDim != nil && *c.ValueHeadDim != m.HeadDim, "v_head_dim is %d: only head_dim, %d, is understood", value(c.ValueHeadDim), m.HeadDim)
		n.complain(value(c.IndexTopK) > 0, "index_topk is %d: sparse attention is understood beside MLA only", value(c.IndexTopK))
	}
	if f.experts != nil {
		c.mixture(f, &m, n)
	}
	if f.only != nil {
		f.only(c, &m, n)
	}
	if !m.MoE() || m.DenseLayers > 0 {
		m.FFN = n.int("intermediate_size", nonZero(m.FFN))
	}
	c.unlike(f, m, n)
	return m, n.err()
}

// latent is multi-head latent attention, with its indexer where it is sparse.
func (c hfConfig) latent(m *Model, n *needs) {
	m.HeadDim = n.int("qk_nope_head_dim", c.NopeHeadDim)
	m.KVLoraRank, m.RopeHeadDim = n.int("kv_lora_rank", c.KVLoraRank), n.int("qk_rope_head_dim", c.RopeHeadDim)
	m.QLoraRank = value(c.QLoraRank)
	m.ValueHeadDim = unlessEqual(value(c.ValueHeadDim), m.HeadDim)
	if m.SparseTopK = value(c.IndexTopK); m.SparseTopK == 0 {
		return
	}
	m.IndexHeads, m.IndexHeadDim = n.int("index_n_heads", c.IndexHeads), n.int("index_head_dim", c.IndexHeadDim)
	if m.IndexLayers = m.Layers; c.IndexTypes == nil {
		n.complain(value(c.IndexFreq) > 1, "index_topk_freq is %d without indexer_types: which layers have an indexer is not known", value(c.IndexFreq))
		return
	}
	n.complain(len(c.IndexTypes) != m.Layers, "indexer_types names %d layers, num_hidden_layers %d", len(c.IndexTypes), m.Layers)
	m.IndexLayers = 0
	for _, t := range c.IndexTypes {
		n.complain(t != "full" && t != "shared", "indexer_types has %q: want full or shared", t)
		if t == "full" {
			m.IndexLayers++
		}
	}
}

// mixture is a mixture of experts.
func (c hfConfig) mixture(f hfFamily, m *Model, n *needs) {
	m.Experts = n.int("the number of experts", f.experts(c))
	m.ExpertsPerToken = n.int("num_experts_per_tok", c.ExpertsPerToken)
	if m.MoEFFN = value(c.FFN); f.wide {
		n.int("intermediate_size", c.FFN)
	} else {
		m.MoEFFN = n.int("moe_intermediate_size", c.MoEFFN)
	}
	m.MoELatent = value(c.Latent)
	m.SharedExperts = value(c.SharedExperts)
	if shared := value(cmp.Or(c.SharedFFN, c.MoESharedFFN, c.SharedWidth)); shared > 0 && m.MoEFFN > 0 {
		n.complain(shared%m.MoEFFN != 0, "the shared experts are %d wide: want a multiple of the width of one expert, %d", shared, m.MoEFFN)
		m.SharedExperts = shared / m.MoEFFN
	}
	for _, t := range c.MLPLayerTypes {
		n.complain(t != "dense" && t != "sparse", "mlp_layer_types has %q: want dense or sparse", t)
	}
	for layer := range min(max(m.Layers, 0), maxLayers) {
		if c.dense(layer) {
			m.DenseLayers++
		}
	}
}

// dense reports whether a layer's feed-forward part has no experts.
func (c hfConfig) dense(layer int) bool {
	switch {
	case c.MLPLayerTypes != nil:
		return layer < len(c.MLPLayerTypes) && c.MLPLayerTypes[layer] == "dense"
	case c.MoELayers != nil:
		return !slices.Contains(c.MoELayers, layer)
	}
	return layer < value(c.FirstDenseLayers) || slices.Contains(c.MLPOnlyLayers, layer) ||
		(layer+1)%max(1, value(cmp.Or(c.SparseStep, c.MoEStep))) != 0 || layer%max(1, value(c.MoELayerFreq)) != 0
}

// window is the sliding window in tokens, and how many layers have none. A window as long
// as the model's context does nothing and is 0. Llama 4 attends within chunks instead: a
// chunk counts as a window of its length.
func (c hfConfig) window(layers int) (window, full int) {
	unused := c.UseWindow != nil && !*c.UseWindow
	window = value(cmp.Or(c.Chunk, c.Window))
	if window == 0 || unused || c.MaxContext != nil && window >= *c.MaxContext {
		return 0, layers
	}
	switch {
	case len(c.LayerTypes) > 0:
		full = c.count("full_attention")
	case len(c.NoRope) > 0:
		for _, rope := range c.NoRope {
			full += 1 - min(1, max(0, rope))
		}
	case c.Chunk != nil:
		full = layers / max(1, value(cmp.Or(c.NoRopeInterval, new(4))))
	case value(c.WindowPattern) > 0:
		full = layers / *c.WindowPattern
	case c.UseWindow != nil:
		full = min(value(c.MaxWindowLayers), layers)
	}
	return window, full
}

// count is how many layers are of a type.
func (c hfConfig) count(layerType string) int {
	n := 0
	for _, t := range c.LayerTypes {
		if t == layerType {
			n++
		}
	}
	return n
}

// unlike names arrangements that a Model cannot express.
func (c hfConfig) unlike(f hfFamily, m Model, n *needs) {
	n.complain(len(c.LayerTypes) > 0 && len(c.LayerTypes) != m.Layers, "layer_types names %d layers, num_hidden_layers %d", len(c.LayerTypes), m.Layers)
	known := []string{"full_attention", "sliding_attention", "chunked_attention"}
	if m.LinearLayers > 0 {
		known = append(known, "linear_attention")
	}
	if m.SparseTopK > 0 {
		known = append(known, "deepseek_sparse_attention")
	}
	if m.FeedForwardLayers > 0 {
		known = append(known, "mlp", "moe")
	}
	for _, t := range slices.Compact(slices.Sorted(slices.Values(c.LayerTypes))) {
		n.complain(!slices.Contains(known, t), "layer_types has %q: %s is not understood to have such layers", t, f.architectures[0])
	}
	n.complain(slices.ContainsFunc(c.AttentionKinds, func(kind int) bool { return kind != 1 }), "attn_type_list has layers without full attention, which %s is not understood to have", f.architectures[0])
}

// hfField is the name in a config.json of a field of the tables.
func hfField(column string) string {
	names := map[string]string{
		"layers": "num_hidden_layers", "hidden": "hidden_size", "q_heads": "num_attention_heads",
		"kv_heads": "num_key_value_heads", "ffn": "intermediate_size", "vocab": "vocab_size",
		"max_context": "max_position_embeddings", "moe_ffn": "moe_intermediate_size",
		"experts": "the number of experts", "experts_per_token": "num_experts_per_tok",
		"shared_experts": "n_shared_experts", "dense_layers": "the number of layers without experts",
		"rope_head_dim": "qk_rope_head_dim", "value_head_dim": "v_head_dim", "moe_latent": "moe_latent_size",
		"linear_layers": "the number of layers with linear attention or Mamba", "sparse_top_k": "index_topk",
	}
	return cmp.Or(names[column], column)
}

func value[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}

func nonZero(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}
