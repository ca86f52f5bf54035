package accuracy

import (
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
)

// Columns of a table of measured rows. Those in Required must be there; what is empty is
// the engine's default, or was not measured.
var (
	Required = []string{"model", "gpu", "loop", "isl"}
	Optional = []string{
		"engine", "version", "weights", "kv_dtype", "tp", "pp", "dp", "ep", "osl", "concurrency", "rate_rps",
		"max_num_seqs", "max_num_batched_tokens", "ttft_ms", "tpot_ms", "itl_ms", "output_tokens_per_s",
	}
)

// Table is a table of measured rows.
type Table struct {
	Header []string
	Lines  [][]string // as they were
	Rows   []Row      // of each line; Left says why one cannot be predicted
	Unused []string   // columns that mean nothing here
}

// Read reads a table, CSV, gzip or not. A row of a model, GPU or engine that is not known
// is left out; a cell that is no number is an error, with its line and column.
func Read(in io.Reader, cat catalog.Catalog) (Table, error) {
	c, err := records(in)
	if err != nil {
		return Table{}, err
	}
	header, err := c.Read()
	if err != nil {
		return Table{}, fmt.Errorf("line 1: want a header with the columns %s: %w", strings.Join(Required, ", "), err)
	}
	t := Table{}
	for i, name := range header {
		name = strings.ToLower(strings.TrimSpace(name))
		if slices.Contains(t.Header[:i], name) {
			return t, fmt.Errorf("line 1: column %q is listed twice", name)
		}
		if t.Header = append(t.Header, name); !slices.Contains(Required, name) && !slices.Contains(Optional, name) {
			t.Unused = append(t.Unused, name)
		}
	}
	for _, name := range Required {
		if !slices.Contains(t.Header, name) {
			return t, fmt.Errorf("line 1: no column %q: want %s, and of %s what is known", name, strings.Join(Required, ", "), strings.Join(Optional, ", "))
		}
	}
	for {
		line, err := c.Read()
		if errors.Is(err, io.EOF) {
			return t, nil
		}
		if err != nil {
			return t, fmt.Errorf("not a table: %w", err)
		}
		r := reader{cells: map[string]string{}}
		for i, name := range t.Header {
			r.cells[name] = strings.TrimSpace(line[i])
		}
		row := r.row(cat)
		if r.err != nil {
			n, _ := c.FieldPos(0)
			return t, fmt.Errorf("line %d: %w", n, r.err)
		}
		t.Lines, t.Rows = append(t.Lines, line), append(t.Rows, row)
	}
}

// records reads CSV, out of gzip where it begins so.
func records(in io.Reader) (*csv.Reader, error) {
	b := bufio.NewReader(in)
	if magic, _ := b.Peek(2); string(magic) == "\x1f\x8b" { // a shorter file is not
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, fmt.Errorf("not gzip: %w", err)
		}
		b = bufio.NewReader(z)
	}
	if magic, _ := b.Peek(3); string(magic) == "\ufeff" { // as spreadsheets write it
		_, _ = b.Discard(len(magic)) // which is buffered
	}
	c := csv.NewReader(b)
	c.Comment = '#'
	return c, nil
}

// reader makes a row of cells, and keeps the first complaint.
type reader struct {
	cells map[string]string
	err   error
}

func (r *reader) row(cat catalog.Catalog) Row {
	row := Row{
		Version: r.cells["version"], Loop: Loop(strings.ToLower(r.cells["loop"])),
		ISL: r.mean("isl"), OSL: r.mean("osl"), Concurrency: r.count("concurrency"), Rate: r.number("rate_rps"),
		TTFT: r.number("ttft_ms") / 1e3, TPOT: cmp.Or(r.number("tpot_ms"), r.number("itl_ms")) / 1e3, Throughput: r.number("output_tokens_per_s"),
	}
	p := engine.Parallelism{TP: r.count("tp"), PP: r.count("pp"), DP: r.count("dp"), EP: r.count("ep")}.Normal()
	if p.EP > 1 {
		p.EP = p.TP * p.DP
	}
	row.Config = engine.Config{
		Kind: kindOf(r.cells["engine"]), Parallelism: p,
		Limits: engine.Limits{MaxNumSeqs: r.count("max_num_seqs"), MaxNumBatchedTokens: r.count("max_num_batched_tokens")},
	}
	var unknown error
	if row.Model, unknown = modelOf(cat, r.cells["model"]); unknown == nil {
		row.GPU, unknown = gpuOf(cat, r.cells["gpu"])
	}
	row.Config.Weights, row.Config.KV = row.storage(r.cells["weights"]), typeOf(r.cells["kv_dtype"])
	switch {
	case unknown != nil:
		row.Left = unknown.Error()
	default:
		row.Left = row.incomplete(r.cells)
	}
	if row.Left == "" {
		if row.Loop == Closed {
			row.Served()
		}
		row.Config.KV = cmp.Or(row.Config.KV, KVOf(row.Config.Kind, row.GPU, row.Config.Weights))
	}
	return row
}

// incomplete says what a row lacks to be predicted.
func (r *Row) incomplete(cells map[string]string) string {
	switch {
	case r.Config.Kind == "":
		return fmt.Sprintf("engine %q: want vllm, trtllm or sglang", cells["engine"])
	case cells["weights"] != "" && typeOf(cells["weights"]) == "":
		return fmt.Sprintf("weights %q: want bf16, fp8 or fp4", cells["weights"])
	case cells["kv_dtype"] != "" && !strings.EqualFold(cells["kv_dtype"], "auto") && r.Config.KV == "":
		return fmt.Sprintf("kv_dtype %q: want bf16 or fp8", cells["kv_dtype"])
	case r.ISL < 1:
		return "no isl"
	}
	switch r.Loop {
	case Closed, Open:
		if r.OSL < 1 {
			return "no osl"
		}
		if r.Loop == Closed && r.Concurrency < 1 {
			return "no concurrency in a closed loop"
		}
		if r.Loop == Open && r.Rate <= 0 {
			return "no rate_rps in an open loop"
		}
		if r.Loop == Open && r.Rate < leastRate {
			return fmt.Sprintf("rate_rps below %g: requests do not meet, loop single is the same", leastRate)
		}
	case Step:
		if r.Concurrency < 1 {
			return "no concurrency in a step"
		}
	case Single:
	default:
		return fmt.Sprintf("loop %q: want closed, open, single or step", cells["loop"])
	}
	return ""
}

// leastRate bounds how long a simulation goes on.
const leastRate = 1e-3

// storage is the type of weights: what the cell says, else the model's own. A model that
// exists in MXFP4 alone is in FP4.
func (r *Row) storage(cell string) engine.DType {
	if r.Model.Weights.Width() == engine.FP4 && cell != "" {
		return engine.FP4
	}
	return cmp.Or(typeOf(cell), r.Model.Weights)
}

// types are the names that tables have for storage.
var types = map[string]engine.DType{
	"bf16": engine.BF16, "bfloat16": engine.BF16, "fp16": engine.BF16, "float16": engine.BF16,
	"fp8": engine.FP8, "fp8_block": engine.FP8, "fp8_e4m3": engine.FP8, "fp8_e5m2": engine.FP8, "fp4": engine.FP4, "nvfp4": engine.FP4, "mxfp4": engine.FP4,
}

func typeOf(cell string) engine.DType {
	return types[strings.ReplaceAll(strings.ToLower(cell), "-", "_")]
}

// kindOf is the engine that a cell names: vLLM where it is empty, none where it is unknown.
func kindOf(cell string) engine.Kind {
	switch strings.ToLower(strings.NewReplacer("-", "", "_", "", " ", "").Replace(cell)) {
	case "", "vllm":
		return engine.KindVLLM
	case "trtllm", "tensorrtllm", "trt":
		return engine.KindTRTLLM
	case "sglang", "sgl":
		return engine.KindSGLang
	}
	return ""
}

// systems are names of GPUs that tables use and the catalog does not, or finds ambiguous.
var systems = map[string]string{
	"h100": "H100-SXM", "a100": "A100-80-SXM", "a100_sxm": "A100-80-SXM", "a100_pcie": "A100-80-PCIe",
	"rtx_pro_6000_server": "RTX-PRO-6000", "rtxpro6000": "RTX-PRO-6000", "b60": "Arc-Pro-B60",
}

// gpuOf finds a GPU by the catalog's name for it, or another that tables use.
func gpuOf(cat catalog.Catalog, name string) (catalog.GPU, error) {
	return cat.GPU(cmp.Or(systems[strings.ToLower(strings.TrimSpace(name))], name))
}

// modelOf finds a model, also where its name says how the weights are stored.
func modelOf(cat catalog.Catalog, name string) (catalog.Model, error) {
	m, err := cat.Model(name)
	for _, suffix := range []string{"-fp8", "-nvfp4", "-fp4", "-bf16", "-0528", "-nvfp4-v2"} {
		if err != nil && strings.HasSuffix(strings.ToLower(name), suffix) {
			m, err = modelOf(cat, name[:len(name)-len(suffix)])
		}
	}
	if maker, rest, found := strings.Cut(name, "/"); err != nil && found && maker == "nvidia" { // who quantised it
		m, err = modelOf(cat, rest)
	}
	return m, err
}

// number is what a cell holds, 0 where it is empty.
func (r *reader) number(column string) float64 {
	cell := r.cells[column]
	if cell == "" || strings.EqualFold(cell, "nan") { // as pandas writes it
		return 0
	}
	const least, most = 1e-9, 1e9
	x, err := strconv.ParseFloat(cell, 64)
	if (err != nil || !(x >= 0 && x <= most)) && r.err == nil {
		r.err = fmt.Errorf("%s %q: want a number from 0 to %g", column, cell, most)
	}
	if x > 0 && x < least && r.err == nil {
		r.err = fmt.Errorf("%s %q: want 0, or at least %g", column, cell, least)
	}
	return x
}

// mean is a number rounded: means of lengths have fractions.
func (r *reader) mean(column string) int { return int(math.Round(r.number(column))) }

// count is a whole number.
func (r *reader) count(column string) int {
	x := r.number(column)
	if x != math.Trunc(x) && r.err == nil {
		r.err = fmt.Errorf("%s %q: want a whole number", column, r.cells[column])
	}
	return int(x)
}
