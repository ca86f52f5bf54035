package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
)

// RecommendationSchemaVersion is the version of recommendation.json.
const RecommendationSchemaVersion = 1

// Mode is how the recommended deployment serves.
type Mode string

// The modes.
const (
	Disaggregated Mode = "disaggregated"
	Aggregated    Mode = "aggregated"
)

// Recommendation is recommendation.json: the hand-over from profiling to
// capacity planning and to the planner. Latencies are milliseconds here, as in
// every file that the ecosystem reads.
type Recommendation struct {
	Schema     int                `json:"schema"`
	Provenance profile.Provenance `json:"provenance"` // the weakest of what it rests on
	Mode       Mode               `json:"mode"`
	Feasible   bool               `json:"feasible"` // false: the picks are the nearest candidates, not an answer
	Model      string             `json:"model"`
	GPU        string             `json:"gpu"` // catalog name; empty where unknown
	Engine     EngineName         `json:"engine"`
	SLA        SLA                `json:"sla"`
	Workload   Lengths            `json:"workload"`
	Prefill    *Pick              `json:"prefill,omitempty"`    // disaggregated
	Decode     *Pick              `json:"decode,omitempty"`     // disaggregated
	Aggregated *Pick              `json:"aggregated,omitempty"` // aggregated
	Verified   *Verified          `json:"verified,omitempty"`   // nil: no pick was run under load
	// Alternatives are the best of what was not picked, the deployment in the other mode
	// first; nil where there is none.
	Alternatives []Alternative     `json:"alternatives,omitempty"`
	Rejected     []Rejected        `json:"rejected"`
	Thresholds   Thresholds        `json:"thresholds"`
	Surfaces     Surfaces          `json:"surfaces"`
	Assumptions  []string          `json:"assumptions"`
	Warnings     []profile.Warning `json:"warnings"`
	Planner      PlannerSettings   `json:"planner"`
	Cost         *Cost             `json:"cost,omitempty"` // of the measuring behind it
}

// EngineName is the engine that was profiled.
type EngineName struct {
	Kind    engine.Kind `json:"kind"`
	Version string      `json:"version"`       // empty where it did not say
	Fit     string      `json:"fit,omitempty"` // of the latency model, where one stands for the engine
}

// SLA is profile.SLA in milliseconds.
type SLA struct {
	TTFTMillis float64           `json:"ttft_ms"`
	ITLMillis  float64           `json:"itl_ms"` // each request's mean over its output tokens
	Stat       profile.Statistic `json:"stat"`
	// StallMillis bounds the 99th percentile of single gaps between tokens; 0 = not
	// promised.
	StallMillis float64 `json:"stall_p99_ms,omitempty"`
	MaxFailures float64 `json:"max_failures,omitempty"` // share of requests that may fail
}

// SLA converts back to base units.
func (s SLA) SLA() profile.SLA {
	of := func(ms float64) time.Duration { return time.Duration(math.Round(ms * float64(time.Millisecond))) }
	return profile.SLA{TTFT: of(s.TTFTMillis), ITL: of(s.ITLMillis), Stat: s.Stat, Stall: of(s.StallMillis), MaxFailures: s.MaxFailures}
}

// NewSLA converts to the file's units.
func NewSLA(s profile.SLA) SLA {
	return SLA{TTFTMillis: profile.Milliseconds(s.TTFT), ITLMillis: profile.Milliseconds(s.ITL), Stat: s.Stat, StallMillis: profile.Milliseconds(s.Stall), MaxFailures: s.MaxFailures}
}

// Lengths is the workload: fixed prompt and output lengths, in tokens.
type Lengths struct {
	ISL int `json:"isl"`
	OSL int `json:"osl"`
}

// Pick is the chosen configuration of one pool and what it was seen to do.
type Pick struct {
	Label string `json:"label"` // "TP:4"
	TP    int    `json:"tp"`
	PP    int    `json:"pp"`
	DP    int    `json:"dp"`
	EP    int    `json:"ep"`
	GPUs  int    `json:"gpus"` // of one engine, over all its ranks
	// Nodes are the servers that it spans.
	Nodes engine.Nodes `json:"nodes,omitzero"`
	// MaxNumBatchedTokens is the tokens of one step that the engine was told, where
	// several were tried; 0 = its own, or as it was asked for.
	MaxNumBatchedTokens int `json:"max_num_batched_tokens,omitempty"`

	InFlight         float64 `json:"in_flight"`          // requests, seen
	KVUsage          float64 `json:"kv_usage"`           // fraction of 1
	TTFTMillis       float64 `json:"ttft_ms"`            // by the SLA's statistic; 0 where the pool has none, or no load was near SustainedRPS
	ITLMillis        float64 `json:"itl_ms"`             // likewise
	ThroughputPerGPU float64 `json:"throughput_per_gpu"` // tokens/s/GPU: prompt tokens for prefill, else output tokens
	SustainedRPS     float64 `json:"sustained_rps"`      // requests/s of one engine that still meet the SLA with queueing
	// MostRPS is the rate at which 95 % of requests are within the SLA, no more than
	// SustainedRPS; 0 where that is not known, or the SLA is by that percentile or a higher.
	MostRPS float64 `json:"p95_rps,omitempty"`
	// RateInterval is where the highest rate lies that one engine holds within the SLA, 95 %,
	// where SustainedRPS is its lower end; High 0 = nothing bounds it.
	RateInterval profile.Interval `json:"rps_interval,omitzero"`
	// Undecided: too few requests were judged to name a rate that holds.
	Undecided bool             `json:"undecided,omitempty"`
	Interval  profile.Interval `json:"interval"` // of ThroughputPerGPU: 95 %, or what ModelError makes of it
	Margin    float64          `json:"margin"`   // (SLA − latency)/SLA of the binding latency; negative = missed
	Why       string           `json:"why"`
	UnderLoad *UnderLoad       `json:"under_load,omitempty"` // nil: the pick was not run under load
	// StartUpSeconds is what the slowest of the engine's launches took until it
	// answered; 0 = no real engine was launched.
	StartUpSeconds float64 `json:"start_up_seconds,omitempty"`
	// ModelError is of the latency model behind TTFTMillis or ITLMillis.
	ModelError profile.ModelError `json:"model_error,omitzero"`
}

// Picked is the pick of a phase.
type Picked struct {
	Phase profile.Phase
	*Pick
	Run *Attained // nil: it was not run under load
}

// Picks are those of the mode.
func (r Recommendation) Picks() []Picked {
	v := Verified{}
	if r.Verified != nil {
		v = *r.Verified
	}
	all := []Picked{{profile.Prefill, r.Prefill, v.Prefill}, {profile.Decode, r.Decode, v.Decode}, {profile.Aggregated, r.Aggregated, v.Aggregated}}
	return slices.DeleteFunc(all, func(x Picked) bool { return x.Pick == nil })
}

// PhasePick is the pick of a phase; nil where the mode has none.
func (r Recommendation) PhasePick(phase profile.Phase) *Pick {
	for _, x := range r.Picks() {
		if x.Phase == phase {
			return x.Pick
		}
	}
	return nil
}

// NewPick fills in what the configuration decides.
func NewPick(c engine.Config) Pick {
	p := c.Parallelism.Normal()
	out := Pick{Label: c.Label(), TP: p.TP, PP: p.PP, DP: p.DP, EP: p.EP, GPUs: p.GPUs(), Nodes: c.Nodes}
	if c.Chunked {
		out.MaxNumBatchedTokens = c.Limits.MaxNumBatchedTokens
	}
	return out
}

// Parallelism is the pick's layout.
func (p Pick) Parallelism() engine.Parallelism {
	return engine.Parallelism{TP: p.TP, PP: p.PP, DP: p.DP, EP: p.EP}
}

// PickOf is the pick for engines of a role: of an aggregated profile its one pick,
// whatever the role; else an aggregated engine's is that of decode.
func (r Recommendation) PickOf(role engine.Role) *Pick {
	switch {
	case r.Mode == Aggregated:
		return r.Aggregated
	case role == engine.RolePrefill:
		return r.Prefill
	}
	return r.Decode
}

// StartUp is how long the picked engine of a role took to start; 0 where no launch of
// a real one was measured.
func (r Recommendation) StartUp(role engine.Role) time.Duration {
	if p := r.PickOf(role); p != nil {
		return time.Duration(p.StartUpSeconds * float64(time.Second)).Round(time.Millisecond)
	}
	return 0
}

// Simulates reports whether there are surfaces to make a simulator's step times from.
// Earlier versions measured none for aggregated engines.
func (r Recommendation) Simulates() bool {
	return r.Surfaces.Prefill != nil && r.Surfaces.Decode != nil
}

// Alternative is the best layout beside the pick: of the other mode, or of a phase.
type Alternative struct {
	Mode  Mode          `json:"mode"`
	Phase profile.Phase `json:"phase"` // aggregated: it stands beside both picks of a disaggregated profile
	Label string        `json:"label"` // "TP:1"
	GPUs  int           `json:"gpus"`  // of one engine
	// MaxNumBatchedTokens is Pick.MaxNumBatchedTokens.
	MaxNumBatchedTokens int `json:"max_num_batched_tokens,omitempty"`

	RPS           float64            `json:"rps"`              // requests/s of one engine within the SLA
	RPSPerGPU     float64            `json:"rps_per_gpu"`      // likewise
	PickRPSPerGPU float64            `json:"pick_rps_per_gpu"` // of the pick of the phase, or of both picks together; 0 where they hold none
	Provenance    profile.Provenance `json:"provenance"`
	Source        string             `json:"source"` // of RPS
}

// Less is the share by which the alternative serves less per GPU than the pick, below 0
// where it serves more; 0 where the pick's rate is not known.
func (a Alternative) Less() float64 {
	if a.PickRPSPerGPU <= 0 {
		return 0
	}
	return 1 - a.RPSPerGPU/a.PickRPSPerGPU
}

// Instead is the best deployment of the other mode; false where none was looked for or
// held the SLA.
func (r Recommendation) Instead() (Alternative, bool) {
	for _, a := range r.Alternatives {
		if a.Mode != r.Mode {
			return a, true
		}
	}
	return Alternative{}, false
}

// RPSPerGPU is the rate that the picks are recommended at over their GPUs, each pool with
// as many engines as the other one feeds; 0 where there is none.
func (r Recommendation) RPSPerGPU() float64 {
	gpus := 0.0 // per request/s
	for _, p := range r.Picks() {
		gpus += float64(p.GPUs) / p.SustainedRPS
	}
	if !r.Feasible || gpus == 0 || math.IsInf(gpus, 0) {
		return 0
	}
	return 1 / gpus
}

// Rejected is a candidate that lost, and on what.
type Rejected struct {
	Phase  profile.Phase `json:"phase"`
	Label  string        `json:"label"`
	Reason string        `json:"reason"`
	Metric string        `json:"metric"` // "ttft_ms", "throughput_per_gpu", … ; empty where it never ran
	Value  float64       `json:"value"`  // of Metric
	// StartUpSeconds is Pick.StartUpSeconds of this layout.
	StartUpSeconds float64 `json:"start_up_seconds,omitempty"`
}

// Thresholds are the bounds for a load-based planner, by upstream's formulas.
type Thresholds struct {
	PrefillQueueSize Bounds `json:"prefill_queue_size"` // requests waiting per prefill engine
	// DecodeKVUtilization is around the KV use of the pick, a fraction of 1. It is zero,
	// and not in the file, where the KV cache's capacity is not known.
	DecodeKVUtilization Bounds `json:"decode_kv_utilization,omitzero"`
	// DecodeKVAtRate is around the KV use at the rate that the decode pick is recommended
	// at; of an aggregated pick that use, and half of it. Nil: DecodeKVUtilization is at
	// that rate, or the file is older.
	DecodeKVAtRate *Bounds `json:"decode_kv_utilization_at_rate,omitempty"`
}

// LoadKV are the bounds of decode KV use that a load planner scales by: those at the
// recommended rate, where the file has them. At the pick an engine is as full as the SLA
// allows, so bounds around that ask for another engine only once this one misses.
func (t Thresholds) LoadKV() Bounds {
	if t.DecodeKVAtRate != nil {
		return *t.DecodeKVAtRate
	}
	return t.DecodeKVUtilization
}

// Bounds are a pair to scale up at and down at.
type Bounds struct {
	Upper float64 `json:"upper"`
	Lower float64 `json:"lower"`
}

// Surfaces points to the interpolation data; a missing one was not measured. Those of an
// aggregated profile are of prefill and decode apart on the pick's engine.
type Surfaces struct {
	Prefill *Surface `json:"prefill,omitempty"`
	Decode  *Surface `json:"decode,omitempty"`
}

// Surface is one interpolation file.
type Surface struct {
	File        string             `json:"file"` // relative to recommendation.json, with slashes
	Points      int                `json:"points"`
	MaxKVTokens int                `json:"max_kv_tokens,omitempty"` // decode
	Provenance  profile.Provenance `json:"provenance"`
	WindowedKV  engine.WindowedKV  `json:"windowed_kv,omitzero"` // decode: the capacity at every length of a model with sliding windows
}

// PlannerSettings is what the planner's configuration takes from the profile.
type PlannerSettings struct {
	PrefillEngineNumGPU int     `json:"prefill_engine_num_gpu,omitempty"`
	DecodeEngineNumGPU  int     `json:"decode_engine_num_gpu,omitempty"` // of the one pool, when aggregated
	TTFTMillis          float64 `json:"ttft_ms"`
	ITLMillis           float64 `json:"itl_ms"`
}

// WriteRecommendation validates r and writes recommendation.json below dir,
// with Schema filled in.
func WriteRecommendation(dir string, r Recommendation) error {
	r.Schema = RecommendationSchemaVersion
	r.Rejected, r.Assumptions, r.Warnings = orEmpty(r.Rejected), orEmpty(r.Assumptions), orEmpty(r.Warnings)
	file := path(dir, RecommendationFile)
	if err := r.Validate(); err != nil {
		return fmt.Errorf("writing %s: %w", file, err)
	}
	return writeJSON(file, r)
}

// HasRecommendation reports whether recommendation.json is below dir.
func HasRecommendation(dir string) (bool, error) { return exists(path(dir, RecommendationFile)) }

// WithdrawRecommendation removes recommendation.json below dir, if there is one:
// what it says is about to change.
func WithdrawRecommendation(dir string) error {
	switch err := os.Remove(path(dir, RecommendationFile)); {
	case err == nil:
		return syncDir(dir)
	case errors.Is(err, fs.ErrNotExist):
		return nil
	default:
		return fmt.Errorf("withdrawing the recommendation: %w", err)
	}
}

// ReadRecommendation reads and validates recommendation.json; at may be the file
// or its folder.
func ReadRecommendation(at string) (Recommendation, error) {
	file := at
	if info, err := os.Stat(at); err == nil && info.IsDir() {
		file = path(at, RecommendationFile)
	}
	b, err := readFile(file)
	if err != nil {
		return Recommendation{}, err
	}
	r, err := parseRecommendation(b)
	if err != nil {
		return Recommendation{}, fmt.Errorf("%s: %w", file, err)
	}
	return r, nil
}

func parseRecommendation(b []byte) (Recommendation, error) {
	if err := checkSchema(b, RecommendationSchemaVersion); err != nil {
		return Recommendation{}, err
	}
	var r Recommendation
	if err := decodeStrict(b, &r); err != nil {
		return Recommendation{}, err
	}
	return r, r.Validate()
}

// checkSchema looks at the version before anything else, so that a file of
// another version is called that and not a file with unknown keys.
func checkSchema(b []byte, want int) error {
	var v struct {
		Schema *int `json:"schema"`
	}
	switch err := json.Unmarshal(b, &v); {
	case err != nil:
		return engine.PlainJSON("the file", err)
	case v.Schema == nil:
		return fmt.Errorf("%w: no \"schema\" key, want %d", ErrSchema, want)
	case *v.Schema != want:
		return fmt.Errorf("%w: schema %d, this version reads %d", ErrSchema, *v.Schema, want)
	default:
		return nil
	}
}

// Validate joins all that is wrong.
func (r Recommendation) Validate() error {
	var errs complaints
	errs.unless(r.Schema == RecommendationSchemaVersion, "schema is %d, want %d", r.Schema, RecommendationSchemaVersion)
	errs.unless(r.Provenance >= profile.Measured && r.Provenance <= profile.Published, "provenance %d is not one", r.Provenance)
	errs.unless(r.Model != "", "model is empty")
	errs.unless(r.Engine.Kind != "", "engine.kind is empty")
	errs.unless(positive(r.SLA.TTFTMillis), "sla.ttft_ms is %v, want above 0", r.SLA.TTFTMillis)
	errs.unless(positive(r.SLA.ITLMillis), "sla.itl_ms is %v, want above 0", r.SLA.ITLMillis)
	_, err := profile.ParseStatistic(string(r.SLA.Stat))
	errs.add(err, "sla.stat")
	errs.unless(r.Workload.ISL > 0, "workload.isl is %d, want above 0", r.Workload.ISL)
	errs.unless(r.Workload.OSL > 0, "workload.osl is %d, want above 0", r.Workload.OSL)
	switch r.Mode {
	case Disaggregated:
		errs.unless(r.Prefill != nil && r.Decode != nil, "mode disaggregated needs prefill and decode")
		errs.unless(r.Aggregated == nil, "mode disaggregated has no aggregated pick")
	case Aggregated:
		errs.unless(r.Aggregated != nil, "mode aggregated needs aggregated")
		errs.unless(r.Prefill == nil && r.Decode == nil, "mode aggregated has no prefill or decode pick")
	default:
		errs.unless(false, "mode is %.40q, want disaggregated or aggregated", r.Mode)
	}
	for name, p := range map[string]*Pick{"prefill": r.Prefill, "decode": r.Decode, "aggregated": r.Aggregated} {
		if p != nil {
			errs.add(p.validate(), name)
		}
	}
	for i, a := range r.Alternatives {
		errs.unless(a.GPUs >= 1 && positive(a.RPS) && positive(a.RPSPerGPU) && a.PickRPSPerGPU >= 0, "alternatives[%d]: gpus, rps, rps_per_gpu, pick_rps_per_gpu are %d, %v, %v, %v, want above 0 (the last may be 0)", i, a.GPUs, a.RPS, a.RPSPerGPU, a.PickRPSPerGPU)
	}
	errs.add(r.Verified.validate(), "verified")
	errs.add(r.Thresholds.PrefillQueueSize.validate(), "thresholds.prefill_queue_size")
	errs.add(r.Thresholds.DecodeKVUtilization.validate(), "thresholds.decode_kv_utilization")
	if b := r.Thresholds.DecodeKVAtRate; b != nil {
		errs.add(b.validate(), "thresholds.decode_kv_utilization_at_rate")
	}
	errs.add(r.Surfaces.Prefill.validate(), "surfaces.prefill")
	errs.add(r.Surfaces.Decode.validate(), "surfaces.decode")
	return errors.Join(errs...)
}

func (p Pick) validate() error {
	var errs complaints
	errs.unless(p.TP >= 1 && p.PP >= 1 && p.DP >= 1 && p.EP >= 1, "tp, pp, dp, ep are %d, %d, %d, %d, want at least 1", p.TP, p.PP, p.DP, p.EP)
	c := engine.Config{Parallelism: p.Parallelism(), Nodes: p.Nodes, Limits: engine.Limits{MaxNumBatchedTokens: p.MaxNumBatchedTokens}, Chunked: p.MaxNumBatchedTokens > 0}
	errs.unless(p.Label == c.Label(), "label is %.40q where the layout is %q", p.Label, c.Label())
	errs.unless(p.GPUs == p.Parallelism().GPUs(), "gpus is %d where the layout holds %d", p.GPUs, p.Parallelism().GPUs())
	for _, f := range []struct {
		key   string
		value float64
	}{
		{"in_flight", p.InFlight},
		{"kv_usage", p.KVUsage},
		{"ttft_ms", p.TTFTMillis},
		{"itl_ms", p.ITLMillis},
		{"throughput_per_gpu", p.ThroughputPerGPU},
		{"sustained_rps", p.SustainedRPS},
		{"p95_rps", p.MostRPS},
		{"start_up_seconds", p.StartUpSeconds},
	} {
		errs.unless(f.value >= 0 && !math.IsInf(f.value, 0), "%s is %v, want a finite number that is not negative", f.key, f.value)
	}
	errs.unless(p.Margin <= 1 && !math.IsInf(p.Margin, 0), "margin is %v, want at most 1", p.Margin)
	errs.unless(p.Interval.Low <= p.Interval.High, "interval is %v to %v", p.Interval.Low, p.Interval.High)
	return errors.Join(errs...)
}

func (b Bounds) validate() error {
	if !(b.Lower >= 0 && b.Lower <= b.Upper) || math.IsInf(b.Upper, 0) {
		return fmt.Errorf("lower %v and upper %v, want 0 <= lower <= upper", b.Lower, b.Upper)
	}
	return nil
}

// validate keeps File inside the profile: the reader opens what it names.
func (s *Surface) validate() error {
	if s == nil {
		return nil
	}
	if !filepath.IsLocal(filepath.FromSlash(s.File)) {
		return fmt.Errorf("file %.80q is not below the folder of recommendation.json", s.File)
	}
	if s.Points < 1 {
		return fmt.Errorf("points is %d, want at least 1", s.Points)
	}
	return nil
}

func positive(x float64) bool { return x > 0 && !math.IsInf(x, 0) }

// complaints collects all that is wrong with a value, field by field.
type complaints []error

func (c *complaints) unless(ok bool, format string, args ...any) {
	if !ok {
		*c = append(*c, fmt.Errorf(format, args...))
	}
}

func (c *complaints) add(err error, where string) {
	if err != nil {
		*c = append(*c, fmt.Errorf("%s: %w", where, err))
	}
}

func path(dir, name string) string { return filepath.Join(dir, name) }
