package profile

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"plimsoll/engine"
)

// Phase is the part of serving that a Point measures.
type Phase string

// The phases.
const (
	Prefill Phase = "prefill"
	Decode  Phase = "decode"
	// Aggregated is both on one engine, prefill interleaved with decode.
	Aggregated Phase = "aggregated"
)

// Stage says what a Point was measured for.
type Stage string

// The stages of a profile.
const (
	StageSweep   Stage = "sweep"   // to choose among configurations
	StageSurface Stage = "surface" // to interpolate at the chosen one
	StageVerify  Stage = "verify"  // to see what the chosen one attains under open-loop load
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
	Worst    float64 `json:"worst_group,omitzero"` // Median of the worst group, where groups are told apart
	N        int     `json:"n"`                    // comparisons behind it; 0 = not known
	Basis    string  `json:"basis"`                // in words: what was compared with what
}

// Known reports whether e says anything.
func (e ModelError) Known() bool { return e.Factor90 > 1 }

// Words are e in one phrase: "within a factor of 1.12 in nine of ten comparisons
// (median error 5 %; basis)".
func (e ModelError) Words() string {
	if !e.Known() {
		return "not known"
	}
	parts := []string{fmt.Sprintf("median error %.2g %%", 100*e.Median)}
	if e.N > 0 {
		parts[0] += " on " + engine.Count(e.N, "point")
	}
	if e.Worst > 0 {
		parts = append(parts, fmt.Sprintf("worst group %.2g %%", 100*e.Worst))
	}
	if e.Basis != "" {
		parts = append(parts, e.Basis)
	}
	return fmt.Sprintf("within a factor of %.2f in nine of ten comparisons (%s)", e.Factor90, strings.Join(parts, "; "))
}

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
	Asked    int     `json:"asked_in_flight"`         // in-flight requests asked for
	Batch    int     `json:"batch,omitempty"`         // prefill of so many prompts at once (BatchedPrefill); 0 = one at a time
	Rate     float64 `json:"rate_rps,omitempty"`      // open loop: requests/s asked for
	InFlight float64 `json:"in_flight"`               // seen, averaged over the steady window
	Context  float64 `json:"context_tokens"`          // mean context of a running sequence in the window
	KVUsage  float64 `json:"kv_usage"`                // share of the KV cache in use, InFlight·Context/KVTokensAt(Context), fraction of 1; under an open load of requests that have their first token
	MaxKV    int     `json:"max_kv_tokens"`           // capacity of the engine over all its ranks, with sliding windows at the target's length
	MaxSeqs  int     `json:"max_num_seqs,omitempty"`  // requests that the engine runs at once over all its ranks; 0 = unknown or no limit
	Cap      int     `json:"max_in_flight,omitempty"` // most that were ever sent to it at once, by --max-in-flight; 0 = no such limit

	// WindowedKV says the capacity at every length of a model with sliding windows.
	WindowedKV engine.WindowedKV `json:"windowed_kv,omitzero"`

	TTFT Distribution `json:"ttft"` // from sending; an open loop's from the due instant too, in Load
	ITL  Distribution `json:"itl"`  // content-chunk gaps within the window, pooled
	TPOT Distribution `json:"tpot"` // per request, within the window: (last−first)/tokens between

	ThroughputPerGPU float64  `json:"throughput_per_gpu"` // tokens/s/GPU: prompt tokens in prefill, output tokens in decode
	Throughput95     Interval `json:"throughput_per_gpu_interval"`

	// ModelError is of the phase's latency, where a latency model gave it. It
	// is no noise of a measurement, so the 95 % intervals do not hold it.
	ModelError ModelError `json:"model_error,omitzero"`

	// TokensPerChunk is how many output tokens a content chunk held in the mean; 0
	// where that is not known.
	TokensPerChunk float64 `json:"tokens_per_chunk,omitempty"`

	Requests int `json:"requests"` // measured, warm-up not counted
	Failures int `json:"failures"` // of them; in no figure
	// FailsTooOften says that they are more than the SLA allows (SLA.FailsTooOften).
	FailsTooOften bool          `json:"fails_too_often,omitempty"`
	Started       time.Time     `json:"started"`
	Elapsed       time.Duration `json:"elapsed_ns"` // warm-up included
	Warnings      []Warning     `json:"warnings,omitempty"`

	// Client is what the measuring client said of itself; nil in virtual time.
	Client *Client `json:"client,omitempty"`
	// Machine is what others took of the machine meanwhile; nil where that is not known.
	Machine *Machine `json:"machine,omitempty"`
	// Server is what the engine itself counted meanwhile; nil where it does not tell.
	Server *Server `json:"server,omitempty"`
	// Load is what requests got of an open-loop load; nil where there was none.
	Load *Attainment `json:"load,omitempty"`
	// Invalid says why the figures are not the engine's: such a point is kept,
	// never picked and in no surface. Empty: they are.
	Invalid string `json:"invalid,omitempty"`
	// Discarded says why another measurement took this one's place, under its id without
	// the attempt: it is kept to be looked at, and nothing is made of it. Empty: it
	// counts.
	Discarded string `json:"discarded,omitempty"`
}

// KVTokensAt is the engine's KV capacity in tokens where every sequence has so many.
func (p Point) KVTokensAt(context float64) int {
	return EngineFacts{KVTokens: p.MaxKV, WindowedKV: p.WindowedKV}.KVTokensAt(context)
}

// Latency is the figure that the SLA speaks of in this point's phase, by its
// statistic. In decode the mean is that of requests' TPOT where they are known,
// otherwise of the gaps between chunks, which is the same where every chunk is a
// token and streams are steady; percentiles are those of requests' TPOT, worked out
// from the steps at a fixed number in flight. The zero SLA asks for the mean.
func (p Point) Latency(s SLA) time.Duration { return p.measure(s).At(s.Stat) }

// measure is the distribution that an SLA speaks of in the point's phase.
func (p Point) measure(s SLA) Distribution {
	switch {
	case p.Phase == Prefill:
		return p.TTFT
	case p.TPOT.N == 0 && s.Stat.Quantile() == 0:
		return p.ITL
	case s.Stat.Quantile() > 0 && p.Load == nil && p.Provenance < Estimated:
		return p.requestMeans()
	default:
		return p.TPOT
	}
}

// PerToken is the time between tokens: the gap between chunks, unless chunks hold
// several.
func (p Point) PerToken() Distribution {
	if p.TPOT.Mean > 0 && severalPerChunk(p.TokensPerChunk) {
		return p.TPOT
	}
	return p.ITL
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

// LatencyInterval is the same of Latency, ns; zero where the samples are too few
// to give one.
func (p Point) LatencyInterval(s SLA) Interval {
	switch {
	case p.Undecided(s):
		return Interval{}
	case p.ModelError.Known():
		return p.ModelError.Around(float64(p.Latency(s)))
	}
	return p.measure(s).Interval(s.Stat)
}

// Places is how many requests run at once, by the engine's limit of sequences and by
// what is sent to it; 0 where neither is known.
func (p Point) Places() int {
	seqs := cmp.Or(p.MaxSeqs, p.Config.Limits.MaxNumSeqs*p.Config.Parallelism.Normal().DP)
	if seqs > 0 && p.Cap > 0 {
		return min(seqs, p.Cap)
	}
	return max(seqs, p.Cap)
}

// Undecided reports whether the SLA's statistic is a percentile of too few
// independent samples (SamplesFor) to say anything of. An estimate's percentile is
// the model's, not a sample's; prompts one at a time whose TTFT is far from the limit need
// not be independent.
func (p Point) Undecided(s SLA) bool {
	return s.Stat.Quantile() > 0 && p.Provenance < Estimated && p.measure(s).Interval(s.Stat) == (Interval{}) && (p.Phase != Prefill || !s.far(p.TTFT))
}

// far reports whether SamplesFor or more samples of TTFT are all on one side of the limit,
// and twice as far from it as a percentile of any distribution with their mean and deviation
// may be (Cantelli's inequality).
func (s SLA) far(d Distribution) bool {
	q := s.Stat.Quantile()
	off := time.Duration(2 * math.Sqrt(q/(1-q)) * float64(d.Std))
	return d.N >= SamplesFor(s.Stat) && (d.Max <= s.TTFT && d.Mean+off <= s.TTFT || d.Min > s.TTFT && d.Mean-off > s.TTFT)
}

// Samples is how many independent samples are behind Latency; 0 where that was
// not worked out.
func (p Point) Samples(s SLA) float64 { return p.measure(s).Neff }

// Meets reports whether the point holds the SLA's latency of its phase (<=)
// with no more failures than it allows, nothing that makes it invalid, and enough samples.
func (p Point) Meets(s SLA) bool {
	if p.Load != nil {
		return p.Invalid == "" && p.Load.Holds(p.Phase, s)
	}
	limit := s.ITL
	if p.Phase == Prefill {
		limit = s.TTFT
	}
	l := p.Latency(s)
	return !p.FailsTooOften && !s.Exceeds(p.Failures, p.Requests) && p.Requests > 0 && p.Invalid == "" && l > 0 && l <= limit && !p.Undecided(s)
}

// Unmeasured reports whether the point says nothing of its engine: its figures are not the
// engine's, or there are none.
func (p Point) Unmeasured() bool {
	return p.Invalid != "" || p.Load == nil && p.Latency(SLA{}) <= 0
}

// Unmeasurable says why the point has no figures, as far as it is known.
func (p Point) Unmeasurable() string {
	why := fmt.Sprintf("%d of %d requests failed", p.Failures, p.Requests)
	if p.Invalid != "" {
		why = p.Invalid
	} else if taken := p.Machine.Warnings(); len(taken) > 0 { // of which the other warnings may be effects
		why = taken[0].Message
	} else if len(p.Warnings) > 0 {
		why = p.Warnings[0].Message
	}
	return "could not be measured: " + why
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
	KVUsage          float64 // tokens in flight over MaxKVTokens, 0..1
	Context          float64 // tokens, mean of a running sequence
	ITL              time.Duration
	Half             time.Duration // half the 95 % interval of ITL; 0 = not known, as in NPZ files
	ThroughputPerGPU float64       // output tokens/s/GPU
}

// DecodeSurface is ITL over KV use and context at one configuration.
type DecodeSurface struct {
	Samples []DecodeSample
	// MaxKVTokens is the capacity of the engine over all its ranks; with sliding windows
	// that at the longest row's ISL + OSL, which is the largest: Dynamo's planner finds
	// requests in flight at x = n·Context/MaxKVTokens, and looks up to 1.
	MaxKVTokens int
	Provenance  Provenance
	// WindowedKV says the capacity at every length of a model with sliding windows; NPZ
	// files have no place for it.
	WindowedKV engine.WindowedKV
}

// KVTokensAt is the KV capacity in tokens where every sequence has so many.
func (s DecodeSurface) KVTokensAt(context float64) int {
	return EngineFacts{KVTokens: s.MaxKVTokens, WindowedKV: s.WindowedKV}.KVTokensAt(context)
}
