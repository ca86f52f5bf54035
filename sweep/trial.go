package sweep

import (
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
)

// trial is one configuration in one phase; its account is the ledger's.
type trial struct {
	phase   profile.Phase
	cfg     engine.Config
	account account
	*host

	stage profile.Stage // of the point that is measured
	id    string

	filler *filler   // of its decode surface, once that is begun
	held   *heldRate // of its pick, once that was verified

	warmUps []profile.Request // sent since the last point was measured
}

// host is one engine, launched only when a point that is not yet known needs it.
// Trials may share it, one after the other.
type host struct {
	name  string // in journals: "decode/tp2", or "tp2" where both phases share it
	gpus  int
	facts profile.EngineFacts
	inst  *Instance         // nil = does not run
	warm  int               // prompt length of the latest prefill on it; 0 = none yet
	sent  map[uint64]uint64 // how often a script of that seed was sent to it

	// The ledger's.
	cost  Cost
	begun time.Time            // of the engine that runs; zero = none does
	busy  func() time.Duration // its own time; nil = the clock's
}

// newTrial is a trial with an engine of its own, set up for its phase alone.
func newTrial(phase profile.Phase, cfg engine.Config) *trial {
	// Each phase edits its own copy: Config is a value.
	cfg.PrefixCaching = phase == profile.Decode
	cfg.Role = engine.RoleAggregated
	if phase == profile.Prefill && bursts(cfg) {
		cfg.Limits.MaxNumSeqs = 1 // of each replica: see perRank
	}
	s := &trial{phase: phase, cfg: cfg}
	s.host = &host{name: s.key(), gpus: cfg.GPUs()}
	return s
}

// EnginesOf are the engines that Run may start for a candidate, as it starts them: one
// where both phases can share it.
func EnginesOf(o Options, cfg engine.Config) []engine.Config {
	var engines []engine.Config
	if o.Open.Mode == Aggregated { // the surfaces' come on top
		engines = append(engines, newTrial(profile.Aggregated, cfg).cfg)
	}
	prefill, decode := newTrial(profile.Prefill, cfg), newTrial(profile.Decode, cfg)
	if l := newLayout(cfg); o.Search == Grid || l.prefill.host != l.decode.host {
		engines = append(engines, prefill.cfg)
	}
	return append(engines, decode.cfg)
}

// measuring is what measures the trial's point.
func (s *trial) measuring() *Instance {
	if s.stage == profile.StageSurface && s.inst.Surfaces != nil {
		return s.inst.Surfaces
	}
	return s.inst
}

func (s *trial) label() string { return s.cfg.Label() }

// key names the trial in point ids.
func (s *trial) key() string { return string(s.phase) + "/" + s.cfg.Slug() }

// spent is the host's cost until now, a running engine included: its own time
// where it has one of its own, otherwise the clock's.
func (h *host) spent(now time.Time) Cost {
	c := h.cost
	if !h.begun.IsZero() {
		secs := now.Sub(h.begun).Seconds()
		if h.busy != nil {
			secs = h.busy().Seconds()
		}
		c.EngineSeconds += secs
		c.GPUSeconds += secs * float64(h.gpus)
	}
	return c
}

// bill adds what the engine that ran until now has cost.
func (h *host) bill(now time.Time) { h.cost, h.begun, h.busy = h.spent(now), time.Time{}, nil }
