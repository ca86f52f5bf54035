// Package latency estimates how long one forward step of an engine takes, and
// what the engine has memory for. It takes a model's architecture, a GPU's data
// sheet and an engine's configuration; it gives the step time of a batch as a
// sum of named physical terms, the memory per GPU, and the KV capacity. It
// refuses configurations that cannot run, with the figures. It is pure: equal
// arguments give equal picoseconds.
//
// What it gives is an estimate: the form transfers between engines, the
// coefficients are those of a Fit to measured rows, and every Model says how far
// off its kind has been on rows that were held out of the fit.
package latency

import (
	"fmt"
	"math"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/operator"
)

// Model is the latency model of one engine, made by New or NewWith: a pointer to
// what never changes, as cheap to copy and to call through an interface as one.
// The zero Model is nothing but what comes with an error: its methods panic.
type Model struct{ *timed }

// timed is an engine laid out, and its work at the speeds of a fit.
type timed struct {
	unit    units
	prompts *units // at which prompts take what they add to a step; nil = unit
	about   *about
}

// about is what a Model was made of; nothing changes it afterwards.
type about struct {
	model  catalog.Model
	gpu    catalog.GPU
	config engine.Config
	limits engine.Limits
	memory Memory
	work   work
	layout layout
	fit    Fit
}

// New is NewWith DefaultFit.
func New(m catalog.Model, g catalog.GPU, config engine.Config) (Model, error) {
	return NewWith(m, g, config, DefaultFit())
}

// NewWith is the latency model of m on GPUs g as config lays it out, at the
// speeds of f; the error says why that cannot run.
func NewWith(m catalog.Model, g catalog.GPU, config engine.Config, f Fit) (Model, error) {
	return newWith(m, g, config, f, operator.Of(g, kernelsOf(config.Kind)))
}

// NewWithout is NewWith where no kernel of the GPU itself was measured.
func NewWithout(m catalog.Model, g catalog.GPU, config engine.Config, f Fit) (Model, error) {
	return newWith(m, g, config, f, operator.Of(g, kernelsOf(config.Kind)).Without())
}

func newWith(m catalog.Model, g catalog.GPU, config engine.Config, f Fit, k operator.Kernels) (Model, error) {
	f = f.of(m, g, config.Weights)
	if err := f.Coefficients.Check(); err != nil {
		return Model{}, fmt.Errorf("fit %q: %w", f.Name, err)
	}
	a, err := layOutWith(m, g, config, k)
	if err != nil {
		return Model{}, err
	}
	if err := a.fits(); err != nil {
		return Model{}, err
	}
	a.fit = f
	out := a.at(f.Coefficients)
	out.unit.tabulateAlone(a.limits.MaxNumSeqs)
	return out, nil
}

// at is the model of a at the speeds of k.
func (a *about) at(k Coefficients) Model { return Model{&timed{unit: a.work.units(k), about: a}} }

// Check says why m cannot run on GPUs g as config lays it out; nil = it can.
func Check(m catalog.Model, g catalog.GPU, config engine.Config) error {
	_, _, err := Preflight(m, g, config)
	return err
}

// layOut is a model without a fit, and without asking whether it has room.
func layOut(m catalog.Model, g catalog.GPU, config engine.Config) (about, error) {
	return layOutWith(m, g, config, operator.Of(g, kernelsOf(config.Kind)))
}

func layOutWith(m catalog.Model, g catalog.GPU, config engine.Config, k operator.Kernels) (about, error) {
	if err := m.Splits(config.Parallelism, config.Weights); err != nil {
		return about{}, err
	}
	if f := config.MemoryFraction; !(f >= 0 && f <= 1) {
		return about{}, fmt.Errorf("memory fraction %g: want above 0, at most 1, or 0 for the engine's own", f)
	}
	config.Parallelism = config.Parallelism.Normal()
	if p := config.Parallelism; max(p.TP, p.EP) > g.Linked() && g.InterNodeBytesPerSec <= 0 {
		return about{}, fmt.Errorf("%s spans servers of %d GPUs, but the network speed between servers of %s is unknown", p.Label(), g.Linked(), g.Name)
	}
	a := about{model: m, gpu: g, config: config, limits: Limits(m, g, config)}
	a.work, a.layout = workOf(m, g, config, k)
	a.memory = memoryOf(m, g, config, a.limits)
	return a, nil
}

// kernelsOf names an engine's kernels; an engine without tables is taken for vLLM.
func kernelsOf(k engine.Kind) string {
	switch k {
	case engine.KindTRTLLM:
		return "trtllm"
	case engine.KindSGLang:
		return "sglang"
	default:
		return "vllm"
	}
}

// Limits are the limits of the engine with every default filled in; those of one
// attention replica where there are several, as engines take them.
func (m Model) Limits() engine.Limits { return m.about.limits }

// Served is the release whose defaults the engine has.
func (m Model) Served() engine.Release { return m.about.config.Served() }

// HasStates reports whether layers keep a state of a sequence instead of KV.
func (m Model) HasStates() bool { return m.about.model.StateBytes() > 0 }

// Parallelism is the layout of the engine, every field filled in.
func (m Model) Parallelism() engine.Parallelism { return m.about.config.Parallelism }

// Fit is the fit that the model is at; its Coefficients are the model's own.
func (m Model) Fit() Fit { return m.about.fit }

// StepTime is how long one forward step with b takes: 0 for an empty batch,
// else positive, and never less for a batch with more tokens, context or pairs, nor for
// one with more sequences or tokens of the same context.
func (m Model) StepTime(b engine.Batch) engine.Picoseconds {
	if m.prompts == nil || b.PrefillSeqs == 0 {
		return m.unit.time(&b)
	}
	decode := engine.Batch{DecodeSeqs: b.DecodeSeqs, DecodeContext: b.DecodeContext}
	return m.unit.time(&decode) + m.prompts.time(&b) - m.prompts.time(&decode)
}

// TTFT is the time to the first token of one prompt of isl tokens that has the
// engine to itself: its chunks of at most maxBatchedTokens (0 = the engine's
// limit), one step each, and Overhead.
func (m Model) TTFT(isl, maxBatchedTokens int) time.Duration {
	if maxBatchedTokens <= 0 {
		maxBatchedTokens = m.about.limits.MaxNumBatchedTokens
	}
	return m.ttft(isl, 0, maxBatchedTokens).Duration()
}

func (m Model) ttft(isl, cached, chunk int) engine.Picoseconds {
	if isl <= cached {
		return 0
	}
	sum := m.Outside(isl)
	for b := range engine.Chunks(isl, cached, chunk) {
		sum += m.StepTime(b)
	}
	return sum
}

// Overhead is the time per request outside of forward steps that TTFT holds, but for
// its tokens': HTTP, the way to the scheduler and back.
func (m Model) Overhead() engine.Picoseconds { return m.unit.overhead }

// PerToken is more of the same per token of a prompt: engines tokenize one after the
// other.
func (m Model) PerToken() engine.Picoseconds { return m.unit.perToken }

// Outside is both, for one prompt alone.
func (m Model) Outside(isl int) engine.Picoseconds {
	return m.Overhead() + m.PerToken()*engine.Picoseconds(isl)
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
