package catalog

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"regexp/syntax"
	"slices"
	"strings"

	"plimsoll/engine"
)

// hfWeights is how some weights are stored, under the names of all methods
// (transformers' documentation of quantization, compressed-tensors', TensorRT Model
// Optimizer's, Quark's and AutoRound's; vLLM 0.32's model_executor/layers/quantization).
type hfWeights struct {
	Algo      *string `json:"quant_algo"` // modelopt
	Bits      *int    `json:"bits"`
	NumBits   *int    `json:"num_bits"` // compressed-tensors
	WBit      *int    `json:"w_bit"`    // AWQ's own file
	Type      string  `json:"type"`     // int or float
	DataType  string  `json:"data_type"`
	DType     string  `json:"dtype"`      // quark: fp8_e4m3, int4
	Group     blocks  `json:"group_size"` // -1 = a whole row
	QGroup    blocks  `json:"q_group_size"`
	Blocks    blocks  `json:"block_structure"`
	Square    blocks  `json:"weight_block_size"`
	Strategy  string  `json:"strategy"` // compressed-tensors: tensor, channel, group, block
	QScheme   string  `json:"qscheme"`  // quark: per_tensor, per_channel, per_group
	Sym       *bool   `json:"sym"`
	Symmetric *bool   `json:"symmetric"`
	ZeroPoint *bool   `json:"zero_point"`
}

// hfQuantization is quantization_config of a config.json, or a file beside it.
type hfQuantization struct {
	hfWeights
	Method  string                `json:"quant_method"`
	Inner   *json.RawMessage      `json:"quantization"` // hf_quant_config.json: all of it within
	Layers  map[string]hfWeights  `json:"quantized_layers"`
	Groups  map[string]hfGroup    `json:"config_groups"`
	Dynamic map[string]hfWeights  `json:"dynamic"`      // gptq: regular expressions
	Extra   map[string]*hfWeights `json:"extra_config"` // AutoRound
	FourB   bool                  `json:"load_in_4bit"` // bitsandbytes
	EightB  bool                  `json:"load_in_8bit"`
	Double  bool                  `json:"bnb_4bit_use_double_quant"`
	Head    bool                  `json:"lm_head"` // awq, gptq: it is quantized too
	KVAlgo  *string               `json:"kv_cache_quant_algo"`
	KV      *json.RawMessage      `json:"kv_cache_scheme"`

	Global struct {
		Weight quarkWeights `json:"weight"`
	} `json:"global_quant_config"`
	LayerQuant map[string]struct {
		Weight quarkWeights `json:"weight"`
	} `json:"layer_quant_config"`
	AO json.RawMessage `json:"quant_type"` // torchao

	// What is left in 16 bits, and what alone is not.
	Ignore   words `json:"ignore"`
	Excluded words `json:"exclude_modules"`
	Exclude  words `json:"exclude"`
	Modules  words `json:"modules_to_not_convert"`
	Ignored  words `json:"ignored_layers"`
	Skip     words `json:"llm_int8_skip_modules"`
	InBlock  words `json:"modules_in_block_to_quantize"`
	Block    words `json:"block_name_to_quantize"`
}

type hfGroup struct {
	Targets words      `json:"targets"`
	Weights *hfWeights `json:"weights"`
}

// quarkWeights are one tensor's settings. A file may list two; the last is how it is stored.
type quarkWeights struct{ hfWeights }

// UnmarshalJSON implements json.Unmarshaler.
func (q *quarkWeights) UnmarshalJSON(raw []byte) error {
	var several []hfWeights
	if json.Unmarshal(raw, &several) == nil && len(several) > 0 {
		q.hfWeights = several[len(several)-1]
		return nil
	}
	return json.Unmarshal(raw, &q.hfWeights)
}

// words is one word, a list, or a list of lists.
type words []string

// UnmarshalJSON implements json.Unmarshaler.
func (w *words) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		if *w = nil; one != "" {
			*w = words{one}
		}
		return nil
	}
	var several []words
	err := json.Unmarshal(raw, &several)
	*w = slices.Concat(several...)
	return err
}

// blocks is [128, 128], or "128x128" in compressed-tensors' older files; 128 is of a row.
type blocks []int

// UnmarshalJSON implements json.Unmarshaler.
func (b *blocks) UnmarshalJSON(raw []byte) error {
	var text string
	var row int
	if json.Unmarshal(raw, &row) == nil && !bytes.Equal(raw, []byte("null")) {
		*b = blocks{1, row}
		return nil
	}
	if json.Unmarshal(raw, &text) == nil && text != "" {
		raw = []byte("[" + strings.ReplaceAll(text, "x", ",") + "]")
	}
	return json.Unmarshal(raw, (*[]int)(b))
}

// scheme is how a matrix is stored: the bits of a number, and for each block of rows ×
// columns a scale, and a zero where the format has one. A block of 0 rows or columns has all
// of them.
type scheme struct {
	as         engine.DType
	bits       float64
	scale      float64 // bits, of a block; 0 = one of the matrix
	rows, cols int
}

var plain = scheme{as: engine.BF16, bits: 16}

// bytes are those of matrices.
func (s scheme) bytes(ms []matrix) (n float64) {
	for _, w := range ms {
		if w.in == 0 || w.out == 0 {
			continue
		}
		across := func(n, side int) float64 { return math.Ceil(float64(n) / float64(cmp.Or(side, n))) }
		n += (s.bits*float64(w.in)*float64(w.out) + s.scale*across(w.out, s.rows)*across(w.in, s.cols)) / 8
	}
	return n
}

// algorithm is what modelopt's quant_algo stores weights in.
func (w hfWeights) algorithm() (scheme, error) {
	group := func(or int) int { return cmp.Or(w.block().cols(), or) }
	switch name := strings.ToUpper(*w.Algo); {
	case strings.Contains(name, "MXFP4"):
		return scheme{engine.MXFP4, 4, 8, 1, group(32)}, nil
	case strings.Contains(name, "FP4"):
		return scheme{engine.NVFP4, 4, 8, 1, group(16)}, nil
	case strings.HasPrefix(name, "W4"), strings.HasPrefix(name, "INT4"):
		return scheme{engine.INT4, 4, 16, 1, group(128)}, nil
	case strings.HasPrefix(name, "MXFP8"):
		return scheme{engine.FP8, 8, 8, 1, group(32)}, nil
	case strings.HasPrefix(name, "FP8_PB"), strings.HasPrefix(name, "FP8_BLOCK"):
		return scheme{engine.FP8, 8, 32, group(128), group(128)}, nil
	case name == "FP8":
		return scheme{as: engine.FP8, bits: 8}, nil
	case name == "UNQUANTIZED", name == "NONE":
		return plain, nil
	case strings.HasPrefix(name, "FP8"), strings.HasPrefix(name, "W8"), strings.HasPrefix(name, "INT8"):
		return scheme{engine.FP8, 8, 32, 1, 0}, nil
	}
	return plain, fmt.Errorf("quant_algo %q", *w.Algo)
}

// block is what shares a scale, where that is said.
func (w hfWeights) block() blocks {
	for _, b := range []blocks{w.Blocks, w.Square, w.Group, w.QGroup} {
		if len(b) == 2 {
			return blocks{max(b[0], 0), max(b[1], 0)}
		}
	}
	return nil
}

func (b blocks) cols() int {
	if b == nil {
		return 0
	}
	return b[1]
}

// size is how many bits a weight has; 0 where it is not said.
func (w hfWeights) size() int {
	bits := value(cmp.Or(w.Bits, w.NumBits, w.WBit))
	for _, n := range []int{8, 4, 16} { // fp8_e4m3
		if bits == 0 && strings.Contains(w.DType, fmt.Sprint(n)) {
			bits = n
		}
	}
	return bits
}

// floats reports whether the weights are floats, not integers.
func (w hfWeights) floats() bool { return strings.Contains(w.Type+w.DataType+w.DType, "f") }

// scheme is how w's weights are stored.
func (w hfWeights) scheme() (scheme, error) {
	if w.Algo != nil {
		return w.algorithm()
	}
	block, bits := w.block(), w.size()
	s := scheme{engine.FP8, float64(bits), 16, 1, block.cols()}
	zero := func(said *bool, means bool) bool { return said != nil && *said == means }
	if zero(w.Sym, false) || zero(w.Symmetric, false) || zero(w.ZeroPoint, true) || strings.HasPrefix(w.DType, "uint") {
		s.scale += s.bits
	}
	switch {
	case bits == 16:
		return plain, nil
	case bits == 4 && !w.floats():
		s.as = engine.INT4
	case bits == 4 && (s.cols == 16 || strings.HasPrefix(w.DataType, "nv")):
		return scheme{engine.NVFP4, 4, 8, 1, 16}, nil
	case bits == 4:
		return scheme{engine.MXFP4, 4, 8, 1, cmp.Or(s.cols, 32)}, nil
	case bits != 8:
		return plain, fmt.Errorf("%d bits", bits)
	case !w.floats() && w.Strategy != "tensor" && w.QScheme != "per_tensor":
	case block != nil && block[0] > 1:
		s.scale, s.rows = 32, block[0]
	case s.cols > 0:
		s.scale = 8 // MXFP8
	case w.Strategy == "channel" || w.QScheme == "per_channel":
		s.scale = 32
	default:
		s.scale = 0
	}
	return s, nil
}

// stores is how a checkpoint stores each matrix: by the first rule that names it, else as
// rest.
type stores struct {
	rules      []rule
	rest, head scheme // head: of the output layer
}

func (s *stores) of(names []string, rest scheme) scheme {
	for _, r := range s.rules {
		if slices.ContainsFunc(names, r.names) {
			return r.as
		}
	}
	return rest
}

// add is a rule for entries.
func (s *stores) add(as scheme, entries ...string) error {
	r, err := newRule(entries, as)
	s.rules = append(s.rules, r)
	return err
}

// each adds what entries say of themselves, those alike in one rule.
func (s *stores) each(entries map[string]hfWeights) error {
	by, order := map[scheme][]string{}, []scheme{}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		as, err := entries[name].scheme()
		if err != nil {
			return err
		}
		if by[as] == nil {
			order = append(order, as)
		}
		by[as] = append(by[as], name)
	}
	for _, as := range order {
		if err := s.add(as, by[as]...); err != nil {
			return err
		}
	}
	return nil
}

// stores reads how the weights are stored. The error is what is not understood of it.
func (q hfQuantization) stores() (*stores, error) {
	s := &stores{rest: plain, head: plain}
	err := s.add(plain, slices.Concat(q.Ignore, q.Excluded, q.Exclude, q.Modules, q.Ignored, q.Skip)...)
	if err != nil {
		return nil, err
	}
	switch method := q.method(); method {
	case "modelopt":
		switch algo := value(q.Algo); {
		case len(q.Layers) > 0:
			err = s.each(q.Layers)
		case algo == "" && (q.KVAlgo != nil || q.KV != nil): // of the KV cache alone
		case len(q.Groups) > 0 && (algo == "" || strings.EqualFold(algo, "MIXED_PRECISION")):
			err = q.groups(s)
		case algo == "":
			err = errors.New("no quant_algo")
		default:
			s.rest, err = q.algorithm()
			s.head = s.rest
		}
	case "compressed-tensors":
		err = q.groups(s)
	case "quark":
		layers := map[string]hfWeights{}
		for name, of := range q.LayerQuant {
			if of.Weight.DType != "" {
				layers[name] = of.Weight.hfWeights
			}
		}
		if err = s.each(layers); err == nil {
			s.rest, err = q.Global.Weight.scheme()
		}
	case "mxfp4", "gpt_oss_mxfp4": // the experts alone
		err = s.add(scheme{engine.MXFP4, 4, 8, 1, 32}, "experts")
	case "fp8", "fbgemm_fp8":
		q.NumBits, q.Type = new(8), "float"
		if method == "fbgemm_fp8" {
			q.Strategy = "channel"
		}
		s.rest, err = q.scheme()
	case "bitsandbytes": // NF4: blocks of 64, whose scales in FP32 may be in 8 bits themselves
		s.rest = scheme{engine.FP8, 8, 32, 1, 0}
		if q.FourB {
			s.rest = scheme{engine.INT4, 4, 32, 1, 64}
			if q.Double {
				s.rest.scale = 8 + 32.0/256
			}
		} else if !q.EightB {
			err = errors.New("neither load_in_4bit nor load_in_8bit")
		}
	case "torchao":
		s.rest, err = q.torchao()
	default:
		err = q.integers(s, method)
	}
	return s, err
}

// method is quant_method, or whose file it is that has none.
func (q hfQuantization) method() string {
	switch method := strings.ToLower(strings.ReplaceAll(q.Method, "_", "-")); {
	case strings.HasPrefix(method, "modelopt"), method == "" && q.Algo != nil:
		return "modelopt"
	case method == "compressed-tensors", method == "" && q.Groups != nil:
		return "compressed-tensors"
	case method == "" && q.WBit != nil:
		return "awq"
	}
	return strings.ToLower(q.Method)
}

// groups are compressed-tensors' config_groups: by name, else all of what they call Linear.
func (q hfQuantization) groups(s *stores) error {
	for _, name := range slices.Sorted(maps.Keys(q.Groups)) {
		g := q.Groups[name]
		if g.Weights == nil || len(g.Targets) == 1 && strings.HasSuffix(g.Targets[0], "Attention") { // of the KV cache
			continue
		}
		as, err := g.Weights.scheme()
		if err != nil {
			return err
		}
		if g.Targets == nil || slices.Contains(g.Targets, "Linear") {
			s.rest = as
		}
		if err := s.add(as, slices.DeleteFunc(g.Targets, func(t string) bool { return t == "Linear" })...); err != nil {
			return err
		}
	}
	return nil
}

// integers are awq, gptq, AutoRound and their kin.
func (q hfQuantization) integers(s *stores, method string) error {
	if method == "awq" && q.ZeroPoint == nil {
		q.ZeroPoint = new(true)
	}
	as, err := q.scheme()
	if err != nil {
		return err
	}
	s.rest = as
	if q.Head {
		s.head = as
	}
	said, skip := map[string]hfWeights{}, words(nil)
	for pattern, w := range q.Dynamic {
		if name, no := strings.CutPrefix(pattern, "-:"); no {
			skip = append(skip, "re:"+name)
			continue
		}
		said["re:"+strings.TrimPrefix(pattern, "+:")] = w.or(q.hfWeights)
	}
	for name, w := range q.Extra {
		if strings.ContainsAny(name, `*+?^$()[]{}|\`) {
			name = "re:.*(?:" + name + ")"
		}
		if w != nil {
			said[name] = w.or(q.hfWeights)
		}
	}
	if err = errors.Join(s.add(plain, skip...), s.each(said)); err != nil {
		return err
	}
	if only := slices.Concat(q.InBlock, q.Block); len(only) > 0 {
		s.rest = plain
		return s.add(as, only...)
	}
	return nil
}

// or is w, and for all layers what it leaves open.
func (w hfWeights) or(all hfWeights) hfWeights {
	w.Bits, w.Sym, w.DataType = cmp.Or(w.Bits, all.Bits), cmp.Or(w.Sym, all.Sym), cmp.Or(w.DataType, all.DataType)
	if w.Group == nil {
		w.Group = all.Group
	}
	return w
}

// torchao is {"default": {"_type": "Int4WeightOnlyConfig", "_data": {"group_size": 128}}},
// or "int4_weight_only" in older files.
func (q hfQuantization) torchao() (scheme, error) {
	var kinds struct {
		Default struct {
			Type string    `json:"_type"`
			Data hfWeights `json:"_data"`
		} `json:"default"`
	}
	name := strings.Trim(string(q.AO), `"`)
	if json.Unmarshal(q.AO, &kinds) == nil {
		name = kinds.Default.Type
	}
	switch name = strings.ToLower(name); {
	case strings.Contains(name, "weightint4"), strings.HasPrefix(name, "int4"):
		return scheme{engine.INT4, 4, 32, 1, cmp.Or(kinds.Default.Data.block().cols(), 128)}, nil
	case strings.HasPrefix(name, "float8"), strings.HasPrefix(name, "int8"):
		return scheme{engine.FP8, 8, 32, 1, 0}, nil
	}
	return plain, fmt.Errorf("quant_type %q", name)
}

// kv is the type of KV cache that engines take from the checkpoint by themselves: vLLM
// 0.32 and SGLang 0.5.23 do from modelopt and compressed-tensors. Words are what it says
// where that is not understood.
func (q hfQuantization) kv() (d engine.DType, words string) {
	said, raw := value(q.KVAlgo), value(q.KV)
	var as hfWeights
	switch method := q.method(); {
	case method != "modelopt" && method != "compressed-tensors":
		return "", ""
	case raw == nil, json.Unmarshal(raw, &said) == nil:
	case json.Unmarshal(raw, &as) == nil && as.floats():
		said = fmt.Sprintf("FP%d", as.size())
	default:
		said = string(raw)
	}
	switch strings.ToUpper(said) {
	case "", "NONE":
		return "", ""
	case "FP8":
		return engine.FP8, ""
	case "NVFP4", "FP4":
		return engine.NVFP4, ""
	}
	return "", said
}

// words is the configuration in a phrase: "awq, 4-bit integers".
func (q hfQuantization) words() string {
	parts := []string{cmp.Or(q.Method, q.method(), "quantization_config without quant_method")}
	if q.Algo != nil {
		parts = append(parts, *q.Algo)
	}
	if q.FourB || q.EightB {
		parts = append(parts, map[bool]string{true: "4 bits", false: "8 bits"}[q.FourB])
	}
	all := []hfWeights{q.hfWeights, q.Global.Weight.hfWeights}
	for _, name := range slices.Sorted(maps.Keys(q.Groups)) {
		all = append(all, value(q.Groups[name].Weights))
	}
	for _, w := range all {
		kind := "integers"
		if w.floats() {
			kind = "floats"
		}
		if part := fmt.Sprintf("%d-bit %s", w.size(), kind); w.size() > 0 && !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, ", ")
}

// quantization fills in what a quantization_config, or a file in its place, says of
// the storage of weights and KV cache.
func (c hfConfig) quantization(f hfFamily, m *Model) {
	const odd = "quantization_config that is not understood"
	var q hfQuantization
	err := json.Unmarshal(*c.Quantization, &q)
	if err == nil && q.Inner != nil {
		inner := hfQuantization{Method: "modelopt"}
		err, q = json.Unmarshal(*q.Inner, &inner), inner
	}
	if err != nil {
		m.Quantization, m.KVQuantization = odd, odd
		return
	}
	m.Quantization = q.words()
	m.KV, m.KVQuantization = q.kv()
	s, err := q.stores()
	if pattern := new(syntax.Error); errors.As(err, &pattern) {
		m.Quantization += ", " + pattern.Error()
	}
	if err == nil {
		c.store(f, m, s)
	}
}
