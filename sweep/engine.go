package sweep

import (
	"context"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
)

// Launcher starts engines.
type Launcher interface {
	// Launch starts an engine and returns when it answers, or says why it never
	// did. The caller stops what it gets.
	Launch(ctx context.Context, cfg engine.Config) (*Instance, error)
}

// Measurer sends load to one engine.
type Measurer interface {
	// Measure sends w and returns one record per request; failures are records.
	// The error is for a load that could not be sent at all.
	Measure(ctx context.Context, w profile.Workload) (Measurement, error)
}

// Measurement is what came back from one load.
type Measurement struct {
	Requests []profile.Request
	Running  []Running         // the engine's own count while it ran; empty where it has none
	Warnings []profile.Warning // what puts the client's part in the records in doubt
}

// Running is the engine's own count of running requests at one instant, on the
// same base as the records.
type Running struct {
	At time.Duration
	N  float64
}

// Instance is an engine that answers.
type Instance struct {
	Facts    profile.EngineFacts
	Measurer Measurer
	// Died returns why the engine ended, nil while it runs.
	Died func() error
	// Stop ends the engine; it is called exactly once.
	Stop func(context.Context) error
}

// trial is one configuration in one phase, launched only when a point that
// is not yet known needs it. One goroutine has it; its account is the ledger's.
type trial struct {
	phase   profile.Phase
	cfg     engine.Config
	facts   profile.EngineFacts
	inst    *Instance
	account account
}

func newTrial(phase profile.Phase, cfg engine.Config) *trial {
	// Each phase edits its own copy: Config is a value.
	cfg.PrefixCaching = phase == profile.Decode
	cfg.Role = engine.RoleAggregated
	if phase == profile.Prefill && attentionReplicas(cfg) > 1 {
		cfg.Limits.MaxNumSeqs = 1 // of each replica: see perRank
	}
	return &trial{phase: phase, cfg: cfg}
}

func (s *trial) label() string { return s.cfg.Parallelism.Label() }

// key names the trial in journals and point ids.
func (s *trial) key() string { return string(s.phase) + "/" + s.cfg.Parallelism.Slug() }

// spent is the trial's cost until now, a running engine included.
func (s *trial) spent(now time.Time) Cost {
	c := s.account.cost
	if !s.account.begun.IsZero() {
		secs := now.Sub(s.account.begun).Seconds()
		c.EngineSeconds += secs
		c.GPUSeconds += secs * float64(s.cfg.GPUs())
	}
	return c
}

// bill adds what the engine that ran until now has cost.
func (s *trial) bill(now time.Time) {
	s.account.cost, s.account.begun = s.spent(now), time.Time{}
}
