// Package latency estimates how long one forward step of an engine takes, and
// what the engine has memory for. It takes a model's architecture, a GPU's data
// sheet and an engine's configuration; it gives the step time of a batch as a
// sum of named physical terms, the memory per GPU, and the KV capacity. It
// refuses configurations that cannot run, with the figures. It is pure: equal
// arguments give equal picoseconds.
//
// What it gives is an estimate: the form transfers between engines, the
// constants are those of one engine version (see coefficients).
package latency

import (
	"fmt"
	"math"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
)

// Model is the latency model of one engine: a value, and comparable.
type Model struct {
	model  catalog.Model
	gpu    catalog.GPU
	config engine.Config
	limits engine.Limits
	memory Memory
	unit   units
}

// New is the latency model of m on GPUs g as config lays it out; the error says
// why that cannot run.
func New(m catalog.Model, g catalog.GPU, config engine.Config) (Model, error) {
	if err := layout(m, config.Parallelism); err != nil {
		return Model{}, err
	}
	config.Parallelism = config.Parallelism.Normal()
	lm := Model{model: m, gpu: g, config: config, limits: Limits(m, g, config.Limits)}
	lm.memory = memoryOf(m, g, config, lm.limits)
	lm.unit = unitsOf(m, g, config)
	if err := lm.fits(); err != nil {
		return Model{}, err
	}
	return lm, nil
}

// Fits says why m cannot run on GPUs g as config lays it out; nil = it can.
func Fits(m catalog.Model, g catalog.GPU, config engine.Config) error {
	_, err := New(m, g, config)
	return err
}

// Limits are the limits of the engine with every default filled in.
func (m Model) Limits() engine.Limits { return m.limits }

// StepTime is how long one forward step with b takes: 0 for an empty batch,
// else positive, and never less for a batch with more in any field.
func (m Model) StepTime(b engine.Batch) engine.Picoseconds {
	if b.Empty() {
		return 0
	}
	var sum engine.Picoseconds
	for _, t := range m.unit.times(b) {
		sum += t
	}
	return sum
}

// TTFT is the time to prefill one prompt of isl tokens that has the engine to
// itself, in chunks of at most maxBatchedTokens (0 = the engine's limit). It
// holds no time outside the forward steps: HTTP, tokenizing, queueing.
func (m Model) TTFT(isl, maxBatchedTokens int) time.Duration {
	if maxBatchedTokens <= 0 {
		maxBatchedTokens = m.limits.MaxNumBatchedTokens
	}
	var sum engine.Picoseconds
	for done := 0; done < isl; {
		n := min(maxBatchedTokens, isl-done)
		var b engine.Batch
		b.AddChunk(n, done)
		sum += m.StepTime(b)
		done += n
	}
	return sum.Duration()
}

// ITL is the time of one step that decodes inFlight sequences, each with
// context tokens on average, and prefills nothing.
func (m Model) ITL(inFlight int, context float64) time.Duration {
	if inFlight <= 0 {
		return 0
	}
	total := math.Round(float64(inFlight) * max(context, 0))
	return m.StepTime(engine.Batch{DecodeSeqs: inFlight, DecodeContext: int64(min(total, 1<<62))}).Duration()
}

// layout refuses parallelism that the model's shape does not divide into.
func layout(m catalog.Model, p engine.Parallelism) error {
	if p.TP < 0 || p.PP < 0 || p.DP < 0 || p.EP < 0 {
		return fmt.Errorf("parallelism TP %d, PP %d, DP %d, EP %d: want no negative number", p.TP, p.PP, p.DP, p.EP)
	}
	p = p.Normal()
	switch {
	case m.QHeads%p.TP != 0:
		return fmt.Errorf("TP %d does not divide the %d attention heads of %s", p.TP, m.QHeads, m.Name)
	case !m.MLA() && m.KVHeads%p.TP != 0 && p.TP%m.KVHeads != 0:
		return fmt.Errorf("TP %d neither divides the %d KV heads of %s nor is a multiple of them", p.TP, m.KVHeads, m.Name)
	case p.PP > m.Layers:
		return fmt.Errorf("PP %d is more than the %d layers of %s", p.PP, m.Layers, m.Name)
	case p.EP > 1 && !m.MoE():
		return fmt.Errorf("EP %d: %s has no experts to spread", p.EP, m.Name)
	case p.EP > 1 && p.EP != p.TP*p.DP:
		return fmt.Errorf("EP %d: experts spread over all TP·DP = %d GPUs of a pipeline stage or over none", p.EP, p.TP*p.DP)
	case p.EP > 1 && m.Experts%p.EP != 0:
		return fmt.Errorf("EP %d does not divide the %d experts of %s", p.EP, m.Experts, m.Name)
	case m.MoE() && p.EP == 1 && m.MoEFFN%p.TP != 0:
		return fmt.Errorf("TP %d does not divide the experts' width %d of %s", p.TP, m.MoEFFN, m.Name)
	}
	return nil
}
