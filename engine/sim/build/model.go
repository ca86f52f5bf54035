package build

import (
	"cmp"
	"fmt"
	"slices"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/deployment"
	"plimsoll/engine/field"
	"plimsoll/engine/latency"
	"plimsoll/engine/sim/fleet"
)

// Model times steps by the latency model.
type Model struct {
	Model   catalog.Model
	GPU     catalog.GPU
	Config  engine.Config
	Storage deployment.Storage
	Latency latency.Model
	// Defaults say what the engine chooses by itself.
	Defaults string
}

// NewModel finds the model and lays its engine out.
func NewModel(f Options) (Model, error) {
	s, fit, err := FindModel(f)
	if err != nil {
		return s, err
	}
	f.Limits.MaxModelLen = cmp.Or(f.Limits.MaxModelLen, s.Model.MaxContext) // which has to fit
	return s.LaidOut(engine.Config{
		Kind: engine.KindSim, Parallelism: f.Parallelism, Weights: f.Weights, KV: f.KV, Limits: f.Limits, MemoryFraction: f.MemoryFraction,
	}, fit)
}

// FindModel looks up model, GPU and fit by name or file.
func FindModel(f Options) (Model, latency.Fit, error) {
	s := Model{}
	cat, err := catalog.Load(f.Catalog)
	if err != nil {
		return s, latency.Fit{}, err
	}
	if s.Model, err = cat.ModelOrFile(f.Model); err != nil {
		return s, latency.Fit{}, field.Errorf(field.Model+": %w", err)
	}
	if s.GPU, err = cat.GPU(f.GPU); err != nil {
		return s, latency.Fit{}, field.Errorf(field.GPU+": %v", err)
	}
	s.GPU.PerNode = cmp.Or(f.PerNode, s.GPU.PerNode)
	fit, err := LoadFit(field.Fit, f.Fit)
	return s, fit, err
}

// LaidOut is s as c lays it out. The model decides the types that c leaves open, and the
// fit's engine the rest.
func (s Model) LaidOut(c engine.Config, fit latency.Fit) (Model, error) {
	s.Storage = deployment.StorageOf(c.Weights, c.KV, s.Model).On(s.GPU)
	c.Model, c.GPU, c.Weights, c.KV, c.Release = s.Model.Name, s.GPU.Name, s.Storage.Weights, s.Storage.KV, fit.Release()
	c.Nodes = s.GPU.Nodes(c.Parallelism)
	s.Config = c
	var err error
	if s.Latency, err = latency.NewWith(s.Model, s.GPU, c, fit); err != nil {
		return s, deployment.NoRoom(s.Model, s.GPU, c, err)
	}
	s.Config.Limits, s.Defaults = s.Latency.Limits(), deployment.Defaults(s.Model, s.GPU, c)
	return s, nil
}

// Pool implements Source.
func (s Model) Pool(role engine.Role) (fleet.Pool, error) {
	p := fleet.Pool{Engine: Engine(s.Latency, role), Timer: s.Latency, GPUs: s.Config.GPUs(), Nodes: s.Config.Nodes}
	if role != engine.RoleDecode { // its requests have paid it before prefill
		p.Overhead, p.PerToken = s.Latency.Overhead(), s.Latency.PerToken()
	}
	return p, nil
}

// Label implements Source.
func (s Model) Label(engine.Role) string { return s.Config.Label() }

// KVBytes implements Source.
func (s Model) KVBytes() engine.KVBytes { return s.Model.KVBytes(s.Config.KV) }

// FromDataSheet implements Source.
func (s Model) FromDataSheet() bool { return s.Latency.Fit().FromDataSheet(s.GPU.Name) }

func (s Model) about(f *Fleet) {
	f.Model, f.GPU = s.Model.Name, s.GPU.Name
	f.Source = fmt.Sprintf("latency model, fit %s", s.Latency.Fit().Name)
	f.TTFTError, f.ITLError = deployment.ModelError(s.Latency.TTFTError()), deployment.ModelError(s.Latency.ITLError())
	fit := s.Latency.Fit()
	f.Fit = &fit
	f.Note, f.Warnings = s.Storage.Note, slices.Concat(f.Warnings, s.Storage.Warnings, deployment.ModelWarnings(s.Latency, s.Config))
}

// Pair has prefill engines of one layout and decode engines of another, of the same
// model on the same GPU.
type Pair struct{ Prefill, Decode Model }

// of is the model of a role's engines; aggregated ones are those of prefill.
func (p Pair) of(role engine.Role) Model {
	if role == engine.RoleDecode {
		return p.Decode
	}
	return p.Prefill
}

// Pool implements Source.
func (p Pair) Pool(role engine.Role) (fleet.Pool, error) { return p.of(role).Pool(role) }

// Label implements Source.
func (p Pair) Label(role engine.Role) string { return p.of(role).Label(role) }

// KVBytes implements Source.
func (p Pair) KVBytes() engine.KVBytes { return p.Prefill.KVBytes() }

// FromDataSheet implements Source: both models are on the same GPU.
func (p Pair) FromDataSheet() bool { return p.Prefill.FromDataSheet() }

func (p Pair) about(f *Fleet) {
	p.Prefill.about(f)
	f.ITLError = deployment.ModelError(p.Decode.Latency.ITLError())
	if p.Decode.Config.Parallelism != p.Prefill.Config.Parallelism {
		f.Warnings = append(f.Warnings, deployment.NodesWarnings(p.Decode.Config)...)
	}
}
