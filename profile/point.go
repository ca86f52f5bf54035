package profile

import (
	"time"

	"plimsoll/engine"
)

// Phase is the half of serving that a Point measures.
type Phase string

// The phases.
const (
	Prefill Phase = "prefill"
	Decode  Phase = "decode"
)

// Stage says what a Point was measured for.
type Stage string

// The stages of a profile.
const (
	StageSweep   Stage = "sweep"   // to choose among configurations
	StageSurface Stage = "surface" // to interpolate at the chosen one
)

// Interval is where a number may be, by 95 % confidence unless it says
// otherwise; both ends 0 where there is none.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// ModelError is how far a latency model was off where it was compared with
// measurements. The zero value says nothing.
type ModelError struct {
	Median float64 `json:"median"` // of |model / measured − 1|; 0.05 = 5 %
	P90    float64 `json:"p90"`    // likewise
	// Factor50 and Factor90 are what half and nine in ten of the comparisons
	// were within: the larger of model / measured and measured / model.
	Factor50 float64 `json:"factor50"`
	Factor90 float64 `json:"factor90"`
	N        int     `json:"n"`     // comparisons behind it
	Basis    string  `json:"basis"` // in words: what was compared with what
}

// Known reports whether e says anything.
func (e ModelError) Known() bool { return e.Factor90 > 1 }

// Around is v / Factor90 to v · Factor90: where the measurement was, in nine of
// ten comparisons, around what the model had said. Not v·(1 ∓ P90): a model that
// says twice too much is off by 100 %, and what it says is still not 0.
func (e ModelError) Around(v float64) Interval {
	return Interval{Low: v / e.Factor90, High: v * e.Factor90}
}

// Point is one operating point of one engine: what was seen, never the label.
type Point struct {
	ID         string        `json:"id"` // "sweep/decode/tp2/isl3000/n16": unique within a run
	Stage      Stage         `json:"stage"`
	Phase      Phase         `json:"phase"`
	Config     engine.Config `json:"config"`
	Provenance Provenance    `json:"provenance"`

	ISL      int     `json:"isl"`
	OSL      int     `json:"osl"`
	Asked    int     `json:"asked_in_flight"` // in-flight requests asked for
	InFlight float64 `json:"in_flight"`       // seen, averaged over the steady window
	Context  float64 `json:"context_tokens"`  // mean context of a running sequence in the window
	KVUsage  float64 `json:"kv_usage"`        // InFlight·Context/MaxKVTokens, fraction of 1
	MaxKV    int     `json:"max_kv_tokens"`   // capacity of the engine over all its ranks

	TTFT Distribution `json:"ttft"`
	ITL  Distribution `json:"itl"`  // content-chunk gaps within the window, pooled
	TPOT Distribution `json:"tpot"` // per request, (last−first)/(tokens−1)

	ThroughputPerGPU float64  `json:"throughput_per_gpu"` // tokens/s/GPU: prompt tokens in prefill, output tokens in decode
	Throughput95     Interval `json:"throughput_per_gpu_interval"`

	// ModelError is of the phase's latency, where a latency model gave it. It
	// is no noise of a measurement, so the 95 % intervals do not hold it.
	ModelError ModelError `json:"model_error,omitzero"`

	Requests int           `json:"requests"` // measured, warm-up not counted
	Failures int           `json:"failures"` // of them
	Started  time.Time     `json:"started"`
	Elapsed  time.Duration `json:"elapsed_ns"` // warm-up included
	Warnings []Warning     `json:"warnings,omitempty"`
}

// Latency is the figure that the SLA speaks of in this point's phase.
func (p Point) Latency(s Statistic) time.Duration {
	if p.Phase == Prefill {
		return p.TTFT.At(s)
	}
	return p.ITL.At(s)
}

// ThroughputInterval is where ThroughputPerGPU may be: by the model's error
// where a model gave it, otherwise by the measurement's noise; zero where
// neither is known.
func (p Point) ThroughputInterval() Interval {
	if !p.ModelError.Known() {
		return p.Throughput95
	}
	return p.ModelError.Around(p.ThroughputPerGPU)
}

// LatencyInterval is the same of Latency; noise is known of the mean alone.
func (p Point) LatencyInterval(s Statistic) Interval {
	l, half := float64(p.Latency(s)), p.ITL.Half
	if p.Phase == Prefill {
		half = p.TTFT.Half
	}
	switch {
	case p.ModelError.Known():
		return p.ModelError.Around(l)
	case s == Mean && half > 0 && float64(half) < l:
		return Interval{Low: l - float64(half), High: l + float64(half)}
	}
	return Interval{}
}

// Meets reports whether the point holds the SLA's latency of its phase (<=)
// with no failed request.
func (p Point) Meets(s SLA) bool {
	limit := s.ITL
	if p.Phase == Prefill {
		limit = s.TTFT
	}
	l := p.Latency(s.Stat)
	return p.Failures == 0 && p.Requests > 0 && l > 0 && l <= limit
}

// PrefillSample is one row of a prefill surface.
type PrefillSample struct {
	ISL              int
	TTFT             time.Duration
	ThroughputPerGPU float64 // prompt tokens/s/GPU
}

// PrefillSurface is TTFT over ISL at one configuration, ISL strictly rising.
type PrefillSurface struct {
	Samples    []PrefillSample
	Provenance Provenance
}

// DecodeSample is one row of a decode surface.
type DecodeSample struct {
	KVUsage          float64 // 0..1
	Context          float64 // tokens, mean of a running sequence
	ITL              time.Duration
	ThroughputPerGPU float64 // output tokens/s/GPU
}

// DecodeSurface is ITL over KV use and context at one configuration.
type DecodeSurface struct {
	Samples     []DecodeSample
	MaxKVTokens int // capacity of the engine over all its ranks
	Provenance  Provenance
}
