// Package catalog knows models and GPUs: what their architecture and data sheet
// say, with a source per row. It takes embedded tables, a user's CSV rows on
// top of them, and Hugging Face config.json files; it gives values that never
// change. It refuses rows that miss a field or hold an absurd number, each with
// file and line, and names that it does not know, with the nearest that it does.
package catalog

import (
	"bytes"
	_ "embed" // the tables
	"fmt"
	"slices"
	"strings"

	"plimsoll/engine/field"
)

//go:embed models.csv
var modelsCSV string

//go:embed gpus.csv
var gpusCSV string

// Catalog is a set of models and GPUs. It is immutable: With returns a new one.
type Catalog struct {
	models []Model
	gpus   []GPU
}

// Default is the catalog that comes with the program.
func Default() (Catalog, error) {
	c, err := Catalog{}.With("models.csv", strings.NewReader(modelsCSV))
	if err != nil {
		return Catalog{}, err
	}
	return c.With("gpus.csv", strings.NewReader(gpusCSV))
}

// Load is the built-in catalog, with a file's rows on top where there is one.
func Load(path string) (Catalog, error) {
	c, err := Default()
	if err != nil {
		return c, fmt.Errorf("reading the built-in catalog: %w", err)
	}
	if path == "" {
		return c, nil
	}
	if c, err = c.WithFile(path); err != nil {
		return c, field.Errorf(field.Catalog+": %v", err)
	}
	return c, nil
}

// WithFile is With on the file at path, which may also be a Hugging Face
// config.json: then it is c and that model, as ReadHFFile reads it.
func (c Catalog) WithFile(path string) (Catalog, error) {
	b, err := readConfig(path)
	if err != nil {
		return c, fmt.Errorf("opening catalog rows: %w", err)
	}
	if !isJSON(b) {
		return c.With(path, bytes.NewReader(bytes.TrimPrefix(b, []byte("\ufeff"))))
	}
	m, err := hfFile(path, b)
	if err != nil {
		return c, err
	}
	out := Catalog{models: c.Models(), gpus: c.GPUs()}
	out.models = put(out.models, m, func(m Model) string { return m.Name })
	return out, nil
}

// Models are all models, in the order of the tables.
func (c Catalog) Models() []Model { return slices.Clone(c.models) }

// GPUs are all GPUs, in the order of the tables.
func (c Catalog) GPUs() []GPU { return slices.Clone(c.gpus) }

// Model finds a model by name: letter case, the part before the slash, a
// leading "Meta-" or "NVIDIA-" and a trailing "-Instruct", "-it", "-pt" or "-Base" may be
// left out or added ("llama-3.1-8b-instruct" is meta-llama/Meta-Llama-3.1-8B),
// and so may trailing words as long as one model remains ("qwen3-235b").
// Otherwise the error is an *UnknownError or an *AmbiguousError.
func (c Catalog) Model(name string) (Model, error) {
	i, err := find("model", name, names(c.models, func(m Model) string { return m.Name }), modelKey)
	if err != nil {
		return Model{}, err
	}
	return c.models[i], nil
}

// GPU finds a GPU by name: letter case and the choice of "-", "_" or a space
// do not matter, and trailing words may be left out as long as one GPU remains:
// "b200" is B200-SXM, but "h100" is an *AmbiguousError, because an H100-PCIe
// has 60 % of the memory bandwidth of an H100-SXM. Unknown: an *UnknownError.
func (c Catalog) GPU(name string) (GPU, error) {
	i, err := find("GPU", name, names(c.gpus, func(g GPU) string { return g.Name }), gpuKey)
	if err != nil {
		return GPU{}, err
	}
	return c.gpus[i], nil
}

// GPUByDeviceName finds the GPU that reports itself to its driver's tools by this
// name, such as "NVIDIA H100 80GB HBM3" or "AMD Instinct MI300X"; dashes are as
// good as spaces, which a Kubernetes label cannot have. A name that no row lists,
// a MIG slice's among them, is not guessed at: false.
func (c Catalog) GPUByDeviceName(name string) (GPU, bool) {
	spaced := func(name string) string { return strings.TrimSpace(strings.ReplaceAll(name, "-", " ")) }
	name = spaced(name)
	for _, g := range c.gpus {
		for n := range strings.SplitSeq(g.DeviceNames, ";") {
			if n = spaced(n); n != "" && strings.EqualFold(n, name) {
				return g, true
			}
		}
	}
	return GPU{}, false
}

func names[T any](rows []T, name func(T) string) []string {
	out := make([]string, len(rows))
	for i, r := range rows {
		out[i] = name(r)
	}
	return out
}
