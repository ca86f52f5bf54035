package store

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"plimsoll/engine"
	"plimsoll/profile"
)

// SweptConfig is what upstream's pre-swept files say of one configuration; zero
// where a file says nothing of it.
type SweptConfig struct {
	GPUType          string // "h200_sxm"
	Model            string
	Framework        string // "vllm"
	FrameworkVersion string
	TP, DP, PP       int
	BlockSize        int // tokens in one KV block
	MaxBatchSize     int
	GPUCount         int // of the machine that was swept; one engine holds TP·DP·PP
}

// Parallelism is the engine's layout.
func (c SweptConfig) Parallelism() engine.Parallelism {
	return engine.Parallelism{TP: c.TP, PP: c.PP, DP: c.DP}.Normal()
}

// String names the configuration, for messages and lists.
func (c SweptConfig) String() string {
	if c == (SweptConfig{}) {
		return "an engine that its file does not name"
	}
	return fmt.Sprintf("%s %s %s %s tp%d dp%d pp%d block_size %d max_batch_size %d gpu_count %d",
		c.GPUType, c.Model, c.Framework, c.FrameworkVersion, c.TP, c.DP, c.PP, c.BlockSize, c.MaxBatchSize, c.GPUCount)
}

// SweptRow is one configuration of a pre-swept file, which holds one phase:
// exactly one of Prefill and Decode has samples.
type SweptRow struct {
	Row     int // in the file, from 0
	Config  SweptConfig
	Phase   profile.Phase
	Prefill profile.PrefillSurface
	Decode  profile.DecodeSurface
}

// ReadSwept reads a pre-swept NPZ: two-dimensional arrays with one row per
// configuration, and the configuration itself in columns of its own, one value
// per row (shape (rows, 1), which is what upstream's merge leaves, or (rows)).
// A file of one configuration whose arrays were not stacked yet reads as one
// row. So does a surface of a profile's folder: its Config is zero. Upstream stacks only rows of equal length, so a row has no padding; its
// merge leaves Python objects where files disagree on their columns, and those
// are refused. The prefill and the decode half of a sweep are two files.
func ReadSwept(path string, o LoadOptions) ([]SweptRow, error) {
	b, err := readFile(path)
	if err != nil {
		return nil, err
	}
	arrays, err := decodeNPZ(b)
	if err == nil {
		var rows []SweptRow
		if rows, err = sweptRows(arrays, o); err == nil {
			return rows, nil
		}
	}
	return nil, fmt.Errorf("%s: %w", path, err)
}

// FilterSwept keeps the rows that want accepts.
func FilterSwept(rows []SweptRow, want func(SweptConfig) bool) []SweptRow {
	return slices.DeleteFunc(slices.Clone(rows), func(r SweptRow) bool { return !want(r.Config) })
}

func sweptRows(arrays map[string]array, o LoadOptions) ([]SweptRow, error) {
	key, phase := keyISL, profile.Prefill
	if _, ok := arrays[key]; !ok {
		key, phase = keyKVUsage, profile.Decode
		if _, ok := arrays[key]; !ok {
			return nil, fmt.Errorf("missing %s (prefill) or %s (decode)", keyISL, keyKVUsage)
		}
	}
	n := 1
	if s := arrays[key].shape; len(s) == 2 {
		n = s[0]
	}
	if n == 0 {
		return nil, fmt.Errorf("%s has no rows", key)
	}
	rows := make([]SweptRow, n)
	for i := range rows {
		c, err := sweptColumns(arrays, i, n)
		if err != nil {
			return nil, err
		}
		r := SweptRow{Row: i, Phase: phase}
		if len(arrays[key].shape) == 2 || c.has("gpu_type") {
			r.Config, err = c.config()
		}
		if err == nil && phase == profile.Prefill {
			r.Prefill, err = c.prefill(o)
		} else if err == nil {
			r.Decode, err = c.decode(o)
		}
		if err != nil {
			return nil, fmt.Errorf("row %d: %w", i, err)
		}
		rows[i] = r
	}
	return rows, nil
}

// sweptColumns cuts row i out of arrays of n rows.
func sweptColumns(arrays map[string]array, i, n int) (columns, error) {
	c := columns{num: map[string][]float64{}, text: map[string][]string{}}
	for name, a := range arrays {
		width := 1
		switch {
		case len(a.shape) == 2 && a.shape[0] == n:
			width = a.shape[1]
		case len(a.shape) == 1 && a.shape[0] == n:
		case len(a.shape) == 1 && n == 1: // not stacked yet
			width = a.shape[0]
		case len(a.shape) == 0 && n == 1:
		default:
			return columns{}, fmt.Errorf("%s has shape %v where the file has %d rows", name, a.shape, n)
		}
		row := array{shape: []int{width}}
		if a.text != nil {
			row.text = a.text[i*width : (i+1)*width]
		} else {
			row.nums = a.nums[i*width : (i+1)*width]
		}
		c.set(name, row)
	}
	return c, nil
}

func (c columns) config() (SweptConfig, error) {
	var s SweptConfig
	var bad []string
	for _, f := range []struct {
		key string
		to  *string
	}{
		{"gpu_type", &s.GPUType},
		{"model", &s.Model},
		{"framework", &s.Framework},
		{"framework_version", &s.FrameworkVersion},
	} {
		if v := c.text[f.key]; len(v) == 1 && v[0] != "" {
			*f.to = v[0]
		} else {
			bad = append(bad, f.key+" (text)")
		}
	}
	for _, f := range []struct {
		key string
		to  *int
	}{
		{"tp", &s.TP},
		{"dp", &s.DP},
		{"pp", &s.PP},
		{"block_size", &s.BlockSize},
		{"max_batch_size", &s.MaxBatchSize},
		{"gpu_count", &s.GPUCount},
	} {
		if v := c.num[f.key]; len(v) == 1 && v[0] >= 1 && v[0] < 1<<31 && v[0] == math.Trunc(v[0]) {
			*f.to = int(v[0])
		} else {
			bad = append(bad, f.key+" (whole number above 0)")
		}
	}
	if len(bad) > 0 {
		return SweptConfig{}, fmt.Errorf("missing or unusable %s", strings.Join(bad, ", "))
	}
	return s, nil
}
