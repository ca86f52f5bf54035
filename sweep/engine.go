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
	Running  []Running // the engine's own count while it ran; empty where it has none
}

// Running is the engine's own count of running requests at one instant, on the
// same base as the records.
type Running struct {
	At time.Duration
	N  float64
}

// Instance is an engine that answers.
type Instance struct {
	Facts    Facts
	Measurer Measurer
	// Died returns why the engine ended, nil while it runs.
	Died func() error
	// Stop ends the engine; it is called exactly once.
	Stop func(context.Context) error
}

// Facts is what a running engine says of itself.
type Facts struct {
	Version     string             `json:"version,omitempty"`
	KVTokens    int                `json:"kv_tokens"`              // capacity over all ranks; 0 = unknown
	KVSource    string             `json:"kv_source,omitempty"`    // flag, log, metrics
	BlockSize   int                `json:"block_size,omitempty"`   // 0 = unknown
	MaxNumSeqs  int                `json:"max_num_seqs,omitempty"` // 0 = unknown or no limit
	MaxModelLen int                `json:"max_model_len,omitempty"`
	Provenance  profile.Provenance `json:"provenance"`
	Command     []string           `json:"command,omitempty"` // argv, for the record
	Warnings    []profile.Warning  `json:"warnings,omitempty"`
}

// MaxInFlight is how many requests of isl + osl tokens the engine holds at
// once: min(max_num_seqs, blocks // ceil((isl+osl)/block_size)); limit caps it
// where above 0. It is 0 where not even one fits.
func (f Facts) MaxInFlight(isl, osl, limit int) int {
	block := max(f.BlockSize, 1)
	per := (isl + osl + block - 1) / block
	n := f.KVTokens / block / max(per, 1)
	if f.MaxNumSeqs > 0 {
		n = min(n, f.MaxNumSeqs)
	}
	if limit > 0 {
		n = min(n, limit)
	}
	return n
}

// session is one configuration in one phase, launched only when a point that
// is not yet known needs it.
type session struct {
	phase profile.Phase
	cfg   engine.Config
	facts Facts
	known bool // facts are known, from this launch or a journal
	inst  *Instance
	begun time.Time
}

func newSession(phase profile.Phase, cfg engine.Config) *session {
	// Each phase edits its own copy: Config is a value.
	cfg.PrefixCaching = phase == profile.Decode
	cfg.Role = engine.RoleAggregated
	return &session{phase: phase, cfg: cfg}
}

func (s *session) label() string { return s.cfg.Parallelism.Label() }

// key names the session in journals and point ids.
func (s *session) key() string { return string(s.phase) + "/" + s.cfg.Parallelism.Slug() }
