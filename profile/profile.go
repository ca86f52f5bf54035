// Package profile holds the words of measurement: a Workload to send, the
// Request records that come back, the Point that a set of them is summed up
// to, and the SLA that a Point is held against. It reads no clock and does no
// I/O; instants are durations since a base that the measurer chose.
package profile

import (
	"cmp"
	"fmt"
	"time"
)

// Provenance says where a number comes from. Higher values are weaker; a
// derived number takes the weakest of its inputs.
type Provenance int8

// The provenances, strongest first. The numbers are the NPZ contract.
const (
	Measured  Provenance = 0 // a real engine answered
	Simulated Provenance = 1 // the embedded engine answered, over HTTP or in virtual time
	Estimated Provenance = 2 // the latency model computed it
	Published Provenance = 3 // a rule of thumb from a table
	Given     Provenance = 4 // the caller said it, and nobody checked it; in no file of a profile
)

var provenanceNames = [...]string{"measured", "simulated", "estimated", "published", "given"}

// String is the word used in every file and on every plot.
func (p Provenance) String() string {
	if p < 0 || int(p) >= len(provenanceNames) {
		return fmt.Sprintf("provenance(%d)", int8(p))
	}
	return provenanceNames[p]
}

// ParseProvenance reads what String writes.
func ParseProvenance(s string) (Provenance, error) {
	for i, n := range provenanceNames {
		if n == s {
			return Provenance(i), nil
		}
	}
	return 0, fmt.Errorf("unknown provenance %q: want measured, simulated, estimated or published", s)
}

// MarshalText writes the word; an invalid provenance is an error.
func (p Provenance) MarshalText() ([]byte, error) {
	if p < 0 || int(p) >= len(provenanceNames) {
		return nil, fmt.Errorf("invalid provenance %d", int8(p))
	}
	return []byte(p.String()), nil
}

// UnmarshalText reads the word.
func (p *Provenance) UnmarshalText(b []byte) error {
	v, err := ParseProvenance(string(b))
	if err == nil {
		*p = v
	}
	return err
}

// Weakest is the provenance of a number derived from all of ps.
func Weakest(ps ...Provenance) Provenance {
	w := Measured
	for _, p := range ps {
		w = max(w, p)
	}
	return w
}

// Statistic names the figure of a distribution that an SLA is held against.
type Statistic string

// The statistics that an SLA can be held against.
const (
	Mean Statistic = "mean"
	P50  Statistic = "p50"
	P90  Statistic = "p90"
	P95  Statistic = "p95"
	P99  Statistic = "p99"
)

// ParseStatistic reads a Statistic's name.
func ParseStatistic(s string) (Statistic, error) {
	switch st := Statistic(s); st {
	case Mean, P50, P90, P95, P99:
		return st, nil
	}
	return "", fmt.Errorf("unknown statistic %q: want mean, p50, p90, p95 or p99", s)
}

// SLA is the promise: TTFT and ITL at most these, by Stat over requests. A request's ITL
// is the mean over its output tokens, which others call TPOT.
type SLA struct {
	TTFT time.Duration `json:"ttft_ns"`
	ITL  time.Duration `json:"itl_ns"`
	Stat Statistic     `json:"stat"`
	// Stall bounds the 99th percentile of single gaps between tokens under load; 0 = not
	// promised.
	Stall time.Duration `json:"stall_p99_ns,omitempty"`
	// MaxFailures is the share of requests that may fail, 0 to below 1: see FailsTooOften.
	MaxFailures float64 `json:"max_failures,omitempty"`
}

// FailsTooOften reports whether so many failures of n requests exceed MaxFailures beyond
// chance: where as many or more come in less than 2.5 % of such loads of a server that
// fails just that share (binomial). One failure alone is no verdict, unless none is
// allowed.
func (s SLA) FailsTooOften(failures, n int) bool {
	if failures == 0 || s.MaxFailures == 0 {
		return failures > 0
	}
	return failures > 1 && 1-binomialCDF(failures-1, n, s.MaxFailures) < tail
}

// Exceeds reports whether more of n requests failed than MaxFailures, by what was seen. One
// failure alone says nothing, unless none is allowed.
func (s SLA) Exceeds(failures, n int) bool {
	if s.MaxFailures == 0 {
		return failures > 0
	}
	return failures > 1 && float64(failures) > s.MaxFailures*float64(n)
}

// Unsure says that requests failed more often than MaxFailures, but too few of them to be
// sure that this was no chance; empty where it is not so.
func (s SLA) Unsure(failures, n int) string {
	if !s.Exceeds(failures, n) || s.FailsTooOften(failures, n) {
		return ""
	}
	return fmt.Sprintf("%d of %d requests failed: more than the %.4g %% allowed, but too few to be sure", failures, n, 100*s.MaxFailures)
}

// LikeShare reports whether so few failures of n requests could be chance (1 in 1,000) where
// others fail with a probability of share, which tends to be too high: loads end once too many
// failed.
func LikeShare(failures, n int, share float64) bool { return binomialCDF(failures, n, share) >= 0.001 }

// String is the promise in words: "p99 TTFT ≤ 400 ms, p99 ITL ≤ 30 ms".
func (s SLA) String() string {
	b := fmt.Sprintf("%s TTFT ≤ %.6g ms, %[1]s ITL ≤ %.6[3]g ms", cmp.Or(s.Stat, Mean), Milliseconds(s.TTFT), Milliseconds(s.ITL))
	if s.Stall > 0 {
		b += fmt.Sprintf(", p99 gap between tokens ≤ %.6g ms", Milliseconds(s.Stall))
	}
	return b
}
