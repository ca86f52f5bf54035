package store

import (
	"errors"
	"math"

	"plimsoll/profile"
)

// Verified is what the picks attained when they were run under open-loop load at
// the rate that they are recommended at. One that is missing was not run.
type Verified struct {
	Prefill    *Attained `json:"prefill,omitempty"`
	Decode     *Attained `json:"decode,omitempty"`
	Aggregated *Attained `json:"aggregated,omitempty"`
}

// Attained is one pick under load. Shares are of the requests that were due while
// the load was at its full rate; latencies are theirs, TTFT from the due instant.
type Attained struct {
	Holds      bool               `json:"holds"`             // the SLA, by its statistic
	Undecided  bool               `json:"undecided"`         // the 95 % interval of a judged figure holds its limit, or is not known
	Point      string             `json:"point"`             // its id in run.json
	Load       string             `json:"load"`              // what the requests were
	AskedRPS   float64            `json:"asked_rps"`         // requests/s of one engine that were recommended before
	RateRPS    float64            `json:"rate_rps"`          // requests/s of one engine that were sent here
	MostRPS    float64            `json:"p95_rps,omitempty"` // see Pick
	Achieved   float64            `json:"achieved_rps"`
	Seconds    float64            `json:"seconds"` // that count
	Requests   int                `json:"requests"`
	Failures   int                `json:"failures"`
	Within     float64            `json:"within"`                // share of requests within what the phase is held to
	Interval   profile.Interval   `json:"within_interval"`       // of Within, 95 %; requests that hang together count as fewer, 0 to 0 = too short to say
	WithinTTFT *float64           `json:"within_ttft,omitempty"` // nil where TTFT is not judged
	WithinITL  *float64           `json:"within_itl,omitempty"`  // by each request's TPOT; nil where it is not judged
	TTFT       *Percentiles       `json:"ttft_ms,omitempty"`
	Service    *Percentiles       `json:"service_ttft_ms,omitempty"` // from sending
	ITL        *Percentiles       `json:"itl_ms,omitempty"`          // gaps, pooled
	TPOT       *Percentiles       `json:"tpot_ms,omitempty"`
	InFlight   float64            `json:"in_flight"`
	Provenance profile.Provenance `json:"provenance"`
	Limits     []string           `json:"limits"` // what the load does not show
}

// UnderLoad is the verdict on a pick that was run under open-loop load: a mean within
// the SLA leaves requests beyond it.
type UnderLoad struct {
	Holds  bool    `json:"holds"`  // the SLA, by its statistic
	Misses float64 `json:"misses"` // share of requests beyond the limit
	Limit  string  `json:"limit"`  // "TTFT", "ITL", or "TTFT or ITL"
	// Stat is the statistic by which the SLA sizes for those requests, too; empty where
	// its own one allows no more of them.
	Stat profile.Statistic `json:"sla_stat,omitempty"`
}

// mostMissed is the share of requests that may miss an SLA that is held for all of them.
const mostMissed = 0.01

// Verdict is what a has to say beside its pick; nil where a is.
func (a *Attained) Verdict(stat profile.Statistic) *UnderLoad {
	if a == nil {
		return nil
	}
	u := &UnderLoad{Holds: a.Holds, Misses: 1 - a.Within, Limit: "TTFT or ITL"}
	switch {
	case a.WithinITL == nil:
		u.Limit = "TTFT"
	case a.WithinTTFT == nil:
		u.Limit = "ITL"
	}
	if a.Holds && u.Misses > mostMissed && (stat == profile.Mean || stat == profile.P50) {
		u.Stat = profile.P99
	}
	return u
}

// Percentiles of a latency, in milliseconds.
type Percentiles struct {
	Mean   float64 `json:"mean"`
	Half95 float64 `json:"mean_half95"` // half the 95 % interval of Mean; 0 = too few requests for one
	P50    float64 `json:"p50"`
	P90    float64 `json:"p90"`
	P95    float64 `json:"p95"`
	P99    float64 `json:"p99"`
	Max    float64 `json:"max"`
}

// NewPercentiles converts to the file's units; nil where there is no sample.
func NewPercentiles(d profile.Distribution) *Percentiles {
	if d.N == 0 {
		return nil
	}
	ms := profile.Milliseconds
	return &Percentiles{Mean: ms(d.Mean), Half95: ms(d.Half), P50: ms(d.P50), P90: ms(d.P90), P95: ms(d.P95), P99: ms(d.P99), Max: ms(d.Max)}
}

// All are those that were run.
func (v *Verified) All() []*Attained {
	if v == nil {
		return nil
	}
	var as []*Attained
	for _, a := range []*Attained{v.Prefill, v.Decode, v.Aggregated} {
		if a != nil {
			as = append(as, a)
		}
	}
	return as
}

func (v *Verified) validate() error {
	var errs complaints
	for _, a := range v.All() {
		errs.unless(positive(a.RateRPS) && positive(a.AskedRPS), "rate_rps is %v and asked_rps %v, want above 0", a.RateRPS, a.AskedRPS)
		errs.unless(a.Requests >= a.Failures && a.Failures >= 0, "%d of %d requests failed", a.Failures, a.Requests)
		for _, share := range []*float64{&a.Within, a.WithinTTFT, a.WithinITL} {
			errs.unless(share == nil || *share >= 0 && *share <= 1, "a share of requests is not within 0 to 1")
		}
		errs.unless(a.Interval.Low <= a.Within && a.Within <= a.Interval.High || a.Interval == (profile.Interval{}), "within_interval %v to %v does not hold within, %v", a.Interval.Low, a.Interval.High, a.Within)
		errs.unless(a.Achieved >= 0 && !math.IsInf(a.Achieved, 0), "achieved_rps is %v", a.Achieved)
	}
	return errors.Join(errs...)
}
