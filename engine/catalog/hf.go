package catalog

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"plimsoll/engine"
)

// maxConfigBytes bounds a config.json: real ones are a few kB, some hundred
// where they list what is not quantized.
const maxConfigBytes = 16 << 20

// hfConfig are the fields of a Hugging Face config.json that matter here, under
// all the names that the families give them. A nil pointer is a missing field.
type hfConfig struct {
	ModelType        string   `json:"model_type"`
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
	FirstDenseLayers *int     `json:"first_k_dense_replace"`
	QLoraRank        *int     `json:"q_lora_rank"`
	KVLoraRank       *int     `json:"kv_lora_rank"`
	RopeHeadDim      *int     `json:"qk_rope_head_dim"`
	NopeHeadDim      *int     `json:"qk_nope_head_dim"`
	ValueHeadDim     *int     `json:"v_head_dim"`

	Quantization json.RawMessage `json:"quantization_config"`
}

// hfFamily is how a model_type is read: what its files leave to defaults
// (transformers' configuration classes, 2026), and which experts it has.
type hfFamily struct {
	defaults hfConfig
	experts  func(hfConfig) *int // nil: a dense family
	wide     bool                // an expert is intermediate_size wide
	mla      bool
}

func hfFamilies() map[string]hfFamily {
	local := func(c hfConfig) *int { return c.LocalExperts }
	gemma := hfFamily{defaults: hfConfig{
		QHeads: new(8), KVHeads: new(4), HeadDim: new(256), Vocab: new(262208),
		MaxContext: new(131072), Tied: new(true), WindowPattern: new(6),
	}}
	return map[string]hfFamily{
		"llama":       {},
		"mistral":     {},
		"qwen2":       {},
		"qwen3":       {defaults: hfConfig{HeadDim: new(128)}},
		"qwen3_moe":   {experts: func(c hfConfig) *int { return c.Experts }},
		"mixtral":     {experts: local, wide: true},
		"gpt_oss":     {experts: local, wide: true, defaults: hfConfig{HeadDim: new(64)}},
		"deepseek_v3": {experts: func(c hfConfig) *int { return c.RoutedExperts }, mla: true},
		"gemma3":      gemma,
		"gemma3_text": gemma,
	}
}

// readHFConfig reads a Hugging Face config.json of one of the families llama,
// mistral, qwen2, qwen3, qwen3_moe, mixtral, deepseek_v3, gpt_oss and gemma3,
// whose text_config may be nested; vision parts are left out. What its
// quantization_config says of the weights' storage is in Weights and
// Quantization. name becomes the
// model's name. It refuses other families, missing fields and absurd numbers,
// all of them named at once.
func readHFConfig(r io.Reader, name string) (Model, error) {
	c, err := decodeHF(r)
	if err != nil {
		return Model{}, fmt.Errorf("config.json of %s: %w", name, err)
	}
	family, ok := hfFamilies()[c.ModelType]
	if !ok {
		known := slices.Sorted(maps.Keys(hfFamilies()))
		return Model{}, fmt.Errorf("config.json of %s: model_type is %q: want one of %s", name, c.ModelType, strings.Join(known, ", "))
	}
	m, err := c.with(family.defaults).model(family)
	if err == nil {
		m.Name, m.Source = name, "config.json ("+c.ModelType+")"
		m, err = m.finished(hfField)
	}
	if err != nil {
		return Model{}, fmt.Errorf("config.json of %s: %w", name, err)
	}
	return m, nil
}

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
	b = bytes.TrimPrefix(b, []byte("\ufeff"))
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
	m, err := readHFConfig(bytes.NewReader(b), name)
	if err != nil {
		return Model{}, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

func decodeHF(r io.Reader) (hfConfig, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxConfigBytes+1))
	if err != nil {
		return hfConfig{}, fmt.Errorf("reading: %w", err)
	}
	if len(b) > maxConfigBytes {
		return hfConfig{}, fmt.Errorf("larger than %d MiB: not a model's configuration", maxConfigBytes>>20)
	}
	var file struct {
		hfConfig
		Text *hfConfig `json:"text_config"`
	}
	if err := json.Unmarshal(b, &file); err != nil {
		return hfConfig{}, engine.PlainJSON("the file", err)
	}
	if file.Text == nil {
		return file.hfConfig, nil
	}
	c := *file.Text
	c.ModelType = cmp.Or(c.ModelType, file.ModelType)
	c.Tied = cmp.Or(c.Tied, file.Tied)
	if c.Quantization == nil {
		c.Quantization = file.Quantization
	}
	return c, nil
}

// with fills what c leaves open.
func (c hfConfig) with(d hfConfig) hfConfig {
	c.QHeads, c.KVHeads = cmp.Or(c.QHeads, d.QHeads), cmp.Or(c.KVHeads, d.KVHeads)
	c.HeadDim, c.Vocab = cmp.Or(c.HeadDim, d.HeadDim), cmp.Or(c.Vocab, d.Vocab)
	c.MaxContext, c.Tied = cmp.Or(c.MaxContext, d.MaxContext), cmp.Or(c.Tied, d.Tied)
	c.WindowPattern = cmp.Or(c.WindowPattern, d.WindowPattern)
	c.KVHeads = cmp.Or(c.KVHeads, c.QHeads) // without grouping each head has its own
	if c.HeadDim == nil && c.Hidden != nil && c.QHeads != nil && *c.QHeads > 0 {
		c.HeadDim = new(*c.Hidden / *c.QHeads)
	}
	return c
}

func (c hfConfig) model(f hfFamily) (Model, error) {
	var missing []string
	need := func(field string, v *int) int {
		if v == nil {
			missing = append(missing, field)
			return 0
		}
		return *v
	}
	m := Model{
		Layers: need("num_hidden_layers", c.Layers), Hidden: need("hidden_size", c.Hidden),
		QHeads: need("num_attention_heads", c.QHeads), KVHeads: value(c.KVHeads), HeadDim: value(c.HeadDim),
		FFN: need("intermediate_size", c.FFN), Vocab: need("vocab_size", c.Vocab),
		MaxContext: need("max_position_embeddings", c.MaxContext), TiedEmbeddings: value(c.Tied),
	}
	if f.experts != nil {
		m.Experts = need("the number of experts", f.experts(c))
		m.ExpertsPerToken = need("num_experts_per_tok", c.ExpertsPerToken)
		m.MoEFFN = m.FFN
		if !f.wide {
			m.MoEFFN = need("moe_intermediate_size", c.MoEFFN)
		}
		m.SharedExperts, m.FirstDenseLayers = value(c.SharedExperts), value(c.FirstDenseLayers)
	}
	if f.mla {
		m.HeadDim = need("qk_nope_head_dim", c.NopeHeadDim)
		m.KVLoraRank, m.RopeHeadDim = need("kv_lora_rank", c.KVLoraRank), need("qk_rope_head_dim", c.RopeHeadDim)
		m.QLoraRank = value(c.QLoraRank)
	}
	m.SlidingWindow, m.FullAttentionLayers = c.window(m.Layers)
	m.Weights, m.Quantization, m.QuantBlock = readQuantization(c.Quantization)
	var errs []error
	if len(missing) > 0 {
		errs = append(errs, fmt.Errorf("missing %s", strings.Join(missing, ", ")))
	}
	return m, errors.Join(append(errs, c.unlike(m))...)
}

// window is the sliding window, 0 for none, and how many of the layers have none.
func (c hfConfig) window(layers int) (window, full int) {
	unused := c.UseWindow != nil && !*c.UseWindow
	if value(c.Window) == 0 || unused {
		return 0, layers
	}
	switch {
	case len(c.LayerTypes) > 0:
		for _, t := range c.LayerTypes {
			if t == "full_attention" {
				full++
			}
		}
	case value(c.WindowPattern) > 0:
		full = layers / *c.WindowPattern
	case c.UseWindow != nil:
		full = min(value(c.MaxWindowLayers), layers)
	}
	return *c.Window, full
}

// unlike names arrangements that a Model cannot express.
func (c hfConfig) unlike(m Model) error {
	var errs []error
	if m.MoE() && len(c.MLPOnlyLayers) > 0 {
		errs = append(errs, errors.New("mlp_only_layers is not empty: only leading layers without experts are understood"))
	}
	for field, v := range map[string]*int{"decoder_sparse_step": c.SparseStep, "moe_layer_freq": c.MoELayerFreq} {
		if m.MoE() && v != nil && *v != 1 {
			errs = append(errs, fmt.Errorf("%s is %d: only 1 is understood", field, *v))
		}
	}
	if m.MLA() && c.ValueHeadDim != nil && *c.ValueHeadDim != m.HeadDim {
		errs = append(errs, fmt.Errorf("v_head_dim %d is not qk_nope_head_dim %d", *c.ValueHeadDim, m.HeadDim))
	}
	if n := len(c.LayerTypes); n > 0 && n != m.Layers {
		errs = append(errs, fmt.Errorf("layer_types names %d layers, num_hidden_layers %d", n, m.Layers))
	}
	return errors.Join(errs...)
}

// hfField is the name in a config.json of a field of the tables.
func hfField(column string) string {
	names := map[string]string{
		"layers": "num_hidden_layers", "hidden": "hidden_size", "q_heads": "num_attention_heads",
		"kv_heads": "num_key_value_heads", "ffn": "intermediate_size", "vocab": "vocab_size",
		"max_context": "max_position_embeddings", "moe_ffn": "moe_intermediate_size",
		"experts": "the number of experts", "experts_per_token": "num_experts_per_tok",
		"shared_experts": "n_shared_experts", "first_dense_layers": "first_k_dense_replace",
		"rope_head_dim": "qk_rope_head_dim",
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
