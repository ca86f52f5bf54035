package catalog

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"plimsoll/engine"
)

// column says how one CSV field of a row of kind T is read.
type column[T any] struct {
	name     string
	required bool // must be there and not empty
	set      func(*T, string) error
}

func intColumn[T any](name string, required bool, at func(*T) *int) column[T] {
	return column[T]{name, required, func(row *T, s string) error {
		n, err := strconv.Atoi(s)
		if err != nil {
			return fmt.Errorf("%s is %q: want a whole number", name, s)
		}
		*at(row) = n
		return nil
	}}
}

func floatColumn[T any](name string, required bool, scale float64, at func(*T) *float64) column[T] {
	return column[T]{name, required, func(row *T, s string) error {
		x, err := strconv.ParseFloat(s, 64)
		if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("%s is %q: want a number", name, s)
		}
		*at(row) = x * scale
		return nil
	}}
}

func stringColumn[T any](name string, required bool, at func(*T) *string) column[T] {
	return column[T]{name, required, func(row *T, s string) error {
		*at(row) = s
		return nil
	}}
}

func modelColumns() []column[Model] {
	return []column[Model]{
		stringColumn("model", true, func(m *Model) *string { return &m.Name }),
		intColumn("layers", true, func(m *Model) *int { return &m.Layers }),
		intColumn("hidden", true, func(m *Model) *int { return &m.Hidden }),
		intColumn("q_heads", true, func(m *Model) *int { return &m.QHeads }),
		intColumn("kv_heads", true, func(m *Model) *int { return &m.KVHeads }),
		intColumn("head_dim", true, func(m *Model) *int { return &m.HeadDim }),
		intColumn("ffn", false, func(m *Model) *int { return &m.FFN }),
		intColumn("moe_ffn", false, func(m *Model) *int { return &m.MoEFFN }),
		intColumn("experts", false, func(m *Model) *int { return &m.Experts }),
		intColumn("experts_per_token", false, func(m *Model) *int { return &m.ExpertsPerToken }),
		intColumn("shared_experts", false, func(m *Model) *int { return &m.SharedExperts }),
		intColumn("dense_layers", false, func(m *Model) *int { return &m.DenseLayers }),
		intColumn("q_lora_rank", false, func(m *Model) *int { return &m.QLoraRank }),
		intColumn("kv_lora_rank", false, func(m *Model) *int { return &m.KVLoraRank }),
		intColumn("rope_head_dim", false, func(m *Model) *int { return &m.RopeHeadDim }),
		intColumn("vocab", true, func(m *Model) *int { return &m.Vocab }),
		boolColumn("tied_embeddings", func(m *Model) *bool { return &m.TiedEmbeddings }),
		intColumn("sliding_window", false, func(m *Model) *int { return &m.SlidingWindow }),
		intColumn("full_attention_layers", false, func(m *Model) *int { return &m.FullAttentionLayers }),
		intColumn("linear_layers", false, func(m *Model) *int { return &m.LinearLayers }),
		intColumn("linear_key_heads", false, func(m *Model) *int { return &m.LinearKeyHeads }),
		intColumn("linear_value_heads", false, func(m *Model) *int { return &m.LinearValueHeads }),
		intColumn("linear_head_dim", false, func(m *Model) *int { return &m.LinearHeadDim }),
		intColumn("linear_key_head_dim", false, func(m *Model) *int { return &m.LinearKeyHeadDim }),
		intColumn("feed_forward_layers", false, func(m *Model) *int { return &m.FeedForwardLayers }),
		boolColumn("ungated_ffn", func(m *Model) *bool { return &m.UngatedFFN }),
		intColumn("moe_latent", false, func(m *Model) *int { return &m.MoELatent }),
		boolColumn("gated_attention", func(m *Model) *bool { return &m.GatedAttention }),
		intColumn("value_head_dim", false, func(m *Model) *int { return &m.ValueHeadDim }),
		intColumn("sparse_top_k", false, func(m *Model) *int { return &m.SparseTopK }),
		intColumn("index_layers", false, func(m *Model) *int { return &m.IndexLayers }),
		intColumn("index_heads", false, func(m *Model) *int { return &m.IndexHeads }),
		intColumn("index_head_dim", false, func(m *Model) *int { return &m.IndexHeadDim }),
		intColumn("max_context", true, func(m *Model) *int { return &m.MaxContext }),
		intColumn("quant_block", false, func(m *Model) *int { return &m.QuantBlock }),
		{"weights", false, setWeights},
		stringColumn("source", true, func(m *Model) *string { return &m.Source }),
	}
}

func setWeights(m *Model, s string) error {
	if !slices.Contains(engine.WeightTypes(), s) {
		return fmt.Errorf("weights is %q: want one of %s, 8-bit integers as fp8", s, strings.Join(engine.WeightTypes(), ", "))
	}
	m.Weights = engine.DType(s)
	return nil
}

func boolColumn[T any](name string, at func(*T) *bool) column[T] {
	return column[T]{name, false, func(row *T, s string) error {
		if s != "true" && s != "false" {
			return fmt.Errorf("%s is %q: want true or false", name, s)
		}
		*at(row) = s == "true"
		return nil
	}}
}

func gpuColumns() []column[GPU] {
	return []column[GPU]{
		stringColumn("gpu", true, func(g *GPU) *string { return &g.Name }),
		{"memory_bytes", true, setMemory},
		floatColumn("hbm_gb_per_s", true, giga, func(g *GPU) *float64 { return &g.HBMBytesPerSec }),
		floatColumn("bf16_tflops", true, tera, func(g *GPU) *float64 { return &g.BF16FLOPS }),
		floatColumn("fp8_tflops", false, tera, func(g *GPU) *float64 { return &g.FP8FLOPS }),
		floatColumn("fp4_tflops", false, tera, func(g *GPU) *float64 { return &g.FP4FLOPS }),
		floatColumn("link_gb_per_s", true, giga, func(g *GPU) *float64 { return &g.LinkBytesPerSec }),
		floatColumn("inter_node_gb_per_s", false, giga, func(g *GPU) *float64 { return &g.InterNodeBytesPerSec }),
		intColumn("gpus_per_node", false, func(g *GPU) *int { return &g.PerNode }),
		intColumn("tdp_w", false, func(g *GPU) *int { return &g.TDPWatts }),
		stringColumn("device_names", false, func(g *GPU) *string { return &g.DeviceNames }),
		stringColumn("source", true, func(g *GPU) *string { return &g.Source }),
		stringColumn("notes", false, func(g *GPU) *string { return &g.Notes }),
	}
}

func setMemory(g *GPU, s string) error {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return fmt.Errorf("memory_bytes is %q: want a whole number of bytes", s)
	}
	g.MemoryBytes = n
	return nil
}

// With is c and the CSV rows of r on top of it: a row replaces the one of the
// same name. The header's first column says what the rows are, "model" or
// "gpu"; the columns are those of the embedded tables, in any order, and those
// that do not apply may be missing. All bad rows are reported, each with file
// and line, and then c is returned as it was.
func (c Catalog) With(file string, r io.Reader) (Catalog, error) {
	in := csv.NewReader(r)
	in.TrimLeadingSpace = true
	in.Comment = '#'
	header, err := in.Read()
	if errors.Is(err, io.EOF) {
		return c, fmt.Errorf("%s: the file is empty: want a header that begins with \"model\" or \"gpu\"", file)
	}
	if err != nil {
		return c, fmt.Errorf("%s: reading the header: %w", file, err)
	}
	out := Catalog{models: c.Models(), gpus: c.GPUs()}
	switch header[0] = strings.TrimPrefix(header[0], "\ufeff"); header[0] {
	case "model":
		err = readRows(file, in, header, modelColumns(), func(m Model) error {
			m, err := m.finished(func(column string) string { return column })
			if err == nil {
				out.models = put(out.models, m, func(m Model) string { return m.Name })
			}
			return err
		})
	case "gpu":
		err = readRows(file, in, header, gpuColumns(), func(g GPU) error {
			err := g.check()
			if err == nil {
				out.gpus = put(out.gpus, g, func(g GPU) string { return g.Name })
			}
			return err
		})
	default:
		err = fmt.Errorf("%s:1: the first column is %q: want \"model\" or \"gpu\"", file, header[0])
	}
	if err != nil {
		return c, err
	}
	return out, nil
}

func put[T any](rows []T, row T, name func(T) string) []T {
	i := slices.IndexFunc(rows, func(r T) bool { return strings.EqualFold(name(r), name(row)) })
	if i < 0 {
		return append(rows, row)
	}
	rows[i] = row
	return rows
}

// readRows gives each row to add; a bad one does not stop the others.
func readRows[T any](file string, in *csv.Reader, header []string, columns []column[T], add func(T) error) error {
	order, err := matchHeader(header, columns)
	if err != nil {
		return fmt.Errorf("%s:1: %w", file, err)
	}
	var errs []error
	for {
		fields, err := in.Read()
		if errors.Is(err, io.EOF) {
			return errors.Join(errs...)
		}
		var syntax *csv.ParseError
		if errors.As(err, &syntax) {
			errs = append(errs, fmt.Errorf("%s:%d: %w", file, syntax.Line, syntax.Err))
			if errors.Is(err, csv.ErrFieldCount) {
				continue
			}
			return errors.Join(errs...)
		}
		if err != nil {
			return errors.Join(append(errs, fmt.Errorf("reading %s: %w", file, err))...)
		}
		row, err := readRow(fields, order)
		if err == nil {
			err = add(row)
		}
		if err != nil {
			line, _ := in.FieldPos(0)
			errs = append(errs, fmt.Errorf("%s:%d: %s: %w", file, line, fields[0], err))
		}
	}
}

// matchHeader gives the columns in the file's order.
func matchHeader[T any](header []string, columns []column[T]) ([]column[T], error) {
	var order []column[T]
	for i, h := range header {
		at := slices.IndexFunc(columns, func(c column[T]) bool { return c.name == h })
		if at < 0 {
			return nil, fmt.Errorf("unknown column %q", h)
		}
		if slices.Contains(header[:i], h) {
			return nil, fmt.Errorf("column %q is listed twice", h)
		}
		order = append(order, columns[at])
	}
	for _, c := range columns {
		if c.required && !slices.Contains(header, c.name) {
			return nil, fmt.Errorf("column %q is missing", c.name)
		}
	}
	return order, nil
}

func readRow[T any](fields []string, order []column[T]) (T, error) {
	var row T
	var errs []error
	for i, c := range order {
		s := strings.TrimSpace(fields[i])
		switch {
		case s != "":
			errs = append(errs, c.set(&row, s))
		case c.required:
			errs = append(errs, fmt.Errorf("%s is empty", c.name))
		}
	}
	return row, errors.Join(errs...)
}
