// Package profile holds the words of measurement: a Workload to send, the
// Request records that come back, the Point that a set of them is summed up
// to, and the SLA that a Point is held against. It reads no clock and does no
// I/O; instants are durations since a base that the measurer chose.
package profile

import (
	"encoding/json"
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
)

var provenanceNames = [...]string{"measured", "simulated", "estimated", "published"}

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

// SLA is the promise: TTFT and ITL at most these, by Stat.
type SLA struct {
	TTFT time.Duration `json:"ttft_ns"`
	ITL  time.Duration `json:"itl_ns"`
	Stat Statistic     `json:"stat"`
	// ITLOf says what a percentile of ITL is taken over. A mean is that of requests.
	ITLOf ITLOf `json:"itl_of,omitempty"`
}

// ITLOf is what the percentiles of an ITL are taken over.
type ITLOf string

const (
	// OfRequest is each request's mean over its output tokens, which others call TPOT:
	// 99 of 100 requests. It is the default, so that an empty ITLOf says the same.
	OfRequest ITLOf = "request"
	// OfGap is each gap between two tokens of any request: 99 of 100 tokens.
	OfGap ITLOf = "gap"
)

// Words is what a percentile is of, in words.
func (o ITLOf) Words() string {
	if o == OfGap {
		return "single gaps"
	}
	return "requests' means"
}

// Check refuses words that are none.
func (o ITLOf) Check() error {
	if o == "" || o == OfRequest || o == OfGap {
		return nil
	}
	return fmt.Errorf("itl_of is %q: want %s or %s", o, OfRequest, OfGap)
}

// MarshalJSON always says what a percentile is taken over.
func (s SLA) MarshalJSON() ([]byte, error) {
	type plain SLA
	if s.Stat.Quantile() > 0 && s.ITLOf == "" {
		s.ITLOf = OfRequest
	}
	return json.Marshal(plain(s))
}

// UnmarshalJSON reads files of before ITLOf, too.
func (s *SLA) UnmarshalJSON(b []byte) error {
	type plain SLA
	var old struct {
		plain
		OldITL
	}
	if err := json.Unmarshal(b, &old); err != nil {
		return err
	}
	*s = SLA(old.plain)
	s.ITLOf = old.OldITL.ITLOf(s.ITLOf, s.Stat)
	return s.ITLOf.Check()
}

// OldITL is the field that files had before ITLOf. Without it a percentile was of gaps.
type OldITL struct {
	PerRequest bool `json:"itl_per_request"`
}

// ITLOf is what a file's percentiles are of: what it says, or what it meant before it
// had the word. It is empty for the mean.
func (o OldITL) ITLOf(said ITLOf, stat Statistic) ITLOf {
	switch {
	case said != "" || stat.Quantile() == 0:
		return said
	case o.PerRequest:
		return OfRequest
	}
	return OfGap
}

// ByGaps reports whether the ITL is judged by a percentile of single gaps.
func (s SLA) ByGaps() bool { return s.ITLOf == OfGap && s.Stat.Quantile() > 0 }

// ByRequests reports whether the ITL is judged by a percentile of requests' means.
func (s SLA) ByRequests() bool { return s.ITLOf != OfGap && s.Stat.Quantile() > 0 }

// By is what the SLA is held against, in words: "mean", "p99 of requests' means".
func (s SLA) By() string {
	if s.Stat.Quantile() == 0 {
		return string(Mean)
	}
	return string(s.Stat) + " of " + s.ITLOf.Words()
}
