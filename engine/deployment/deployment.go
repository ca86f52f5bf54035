// Package deployment says which engines are worth trying: it takes a model, a GPU,
// what the engine can do and a number of GPUs; it gives configurations that have
// room, and of the others why they have none and what would. Model and GPU may be
// unknown. Pure.
package deployment

import (
	"cmp"
	"fmt"
	"slices"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/latency"
)

// Refusal is a layout that was considered and left out.
type Refusal struct {
	Parallelism engine.Parallelism
	Err         error // why, never nil
}

// Layouts are those worth trying for a model on up to gpus GPUs, and those left
// out; powers of two of TP where the model is not known (nil), or its engine has no
// way to spread experts.
func Layouts(m *catalog.Model, spreadsExperts bool, gpus int, weights engine.DType) ([]engine.Parallelism, []Refusal) {
	if m == nil || !spreadsExperts {
		return PowersOfTwo(gpus), nil
	}
	fit, out := m.Layouts(gpus, weights)
	var refused []Refusal
	for _, u := range out {
		refused = append(refused, Refusal(u))
	}
	return fit, refused
}

// PowersOfTwo are those of TP up to gpus GPUs.
func PowersOfTwo(gpus int) []engine.Parallelism {
	var out []engine.Parallelism
	for n := 1; n <= gpus; n *= 2 {
		out = append(out, engine.TP(n))
	}
	return out
}

// Candidates are base at each of layouts, in their order. One that needs more than
// gpus GPUs, or does not fit by fits (nil: all do), is left out with its reason.
func Candidates(base engine.Config, gpus int, layouts []engine.Parallelism, fits func(engine.Config) error) ([]engine.Config, []Refusal) {
	var cs []engine.Config
	var refused []Refusal
	for _, p := range layouts {
		c := base
		c.Parallelism = p.Normal()
		err := error(nil)
		if n := c.GPUs(); n > gpus {
			err = fmt.Errorf("needs %d GPUs, but only %d are visible", n, gpus)
		} else if fits != nil {
			err = fits(c)
		}
		if err != nil {
			refused = append(refused, Refusal{p, err})
			continue
		}
		cs = append(cs, c)
	}
	return cs, refused
}

// Room says why a model cannot run on a GPU as c lays it out, as far as that is
// known: by its shape alone where the GPU is not (nil).
func Room(m catalog.Model, g *catalog.GPU, c engine.Config) error {
	if g == nil {
		return m.Splits(c.Parallelism, c.Weights)
	}
	return latency.Check(m, *g, c)
}

// ByGPUs sorts refusals by the number of GPUs.
func ByGPUs(all []Refusal) {
	slices.SortStableFunc(all, func(a, b Refusal) int { return cmp.Compare(a.Parallelism.GPUs(), b.Parallelism.GPUs()) })
}
