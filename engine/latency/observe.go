package latency

import (
	"plimsoll/engine"
	"plimsoll/engine/catalog"
)

// Kind says what an Observation measured.
type Kind string

// The kinds of observation. Each names the fields that it needs besides Model,
// GPU, Config and Seconds.
const (
	// KindTTFT is the TTFT of one request that has the engine to itself: ISL.
	KindTTFT Kind = "ttft"
	// KindITL is the time of a step that only decodes: InFlight, Context (the
	// mean of the sequences).
	KindITL Kind = "itl"
	// KindTPOT is the mean TPOT of a closed loop: ISL, OSL, InFlight. There is
	// no kind for its TTFT: that is mostly how the client's requests bunch.
	KindTPOT Kind = "closed-loop tpot"
	// KindOpenITL is the mean ITL under Poisson arrivals: ISL, OSL, Rate.
	KindOpenITL Kind = "open-loop itl"
	// KindOpenTTFT is the mean TTFT under Poisson arrivals: ISL, OSL, Rate.
	KindOpenTTFT Kind = "open-loop ttft"
)

// TTFT reports whether the observation is of the first token, not of later ones.
func (k Kind) TTFT() bool { return k == KindTTFT || k == KindOpenTTFT }

// Observation is one measured latency and under what it was measured.
type Observation struct {
	Model  catalog.Model
	GPU    catalog.GPU
	Config engine.Config
	Kind   Kind

	ISL, OSL int     // tokens, means
	Cached   int     // of ISL, tokens that the prefix cache holds
	InFlight int     // requests
	Context  float64 // tokens per sequence
	Rate     float64 // requests per second
	Seconds  float64 // what was measured
	Run      int     // the same for what one run measured; 0 = a run of its own
}

// Predict is the mean latency, in seconds, that m gives for the load that o
// describes; 0 for an unknown Kind. It does not look at what o was measured on,
// nor at its Seconds.
func (m Model) Predict(o Observation) float64 {
	switch o.Kind {
	case KindTTFT:
		return m.ttft(o.ISL, o.Cached, m.about.limits.MaxNumBatchedTokens).Seconds()
	case KindITL:
		return m.decode(float64(o.InFlight), o.Context)
	case KindTPOT:
		return m.ClosedLoop(o).TPOT
	case KindOpenITL:
		return m.OpenLoop(o).TPOT
	case KindOpenTTFT:
		return m.OpenLoop(o).TTFT
	}
	return 0
}
