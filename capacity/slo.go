package capacity

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"plimsoll/engine/field"
	"plimsoll/profile"
)

// SLO is the promise: these latencies, and this share of the time with all the replicas
// that they take.
type SLO struct {
	TTFT time.Duration `json:"ttft_ns"`
	ITL  time.Duration `json:"itl_ns"` // each request's mean over its output tokens
	// Stat is what of the requests' TTFT and ITL is promised; empty = p99.
	Stat     profile.Statistic `json:"stat,omitempty"`
	StallP99 time.Duration     `json:"stall_p99_ns,omitempty"` // single gaps between tokens; 0 = not promised
	E2EP99   time.Duration     `json:"e2e_p99_ns,omitempty"`   // 0 = not promised
	// Availability is a fraction of 1 below 1; 0 = not promised.
	Availability float64 `json:"availability"`
}

// String is what is promised, in words.
func (s SLO) String() string {
	b := s.SLA().String()
	if s.E2EP99 > 0 {
		b += fmt.Sprintf(", p99 E2E ≤ %.6g ms", profile.Milliseconds(s.E2EP99))
	}
	if s.Availability > 0 {
		b += fmt.Sprintf("; availability ≥ %v", s.Availability)
	}
	return b
}

// stat is Stat, never empty.
func (s SLO) stat() profile.Statistic { return cmp.Or(s.Stat, profile.P99) }

// Allowed is the share of requests that may miss a promise: 0.01 of a p99, 1 of a mean,
// which promises nothing to one.
func (s SLO) Allowed() float64 { return mayMiss(s.stat()) }

// Figure is the head of a column of such latencies: "TTFT p99 ms".
func (s SLO) Figure(of string) string { return of + " " + string(s.stat()) + " ms" }

// Times is the SLO with every latency multiplied.
func (s SLO) Times(by float64) SLO {
	for _, d := range []*time.Duration{&s.TTFT, &s.ITL, &s.StallP99, &s.E2EP99} {
		*d = time.Duration(float64(*d) * by)
	}
	return s
}

// SLA is the SLO's latencies for one request.
func (s SLO) SLA() profile.SLA {
	return profile.SLA{TTFT: s.TTFT, ITL: s.ITL, Stall: s.StallP99, Stat: s.stat()}
}

// step is the limit that 99 % of decode steps have to stay within.
func (s SLO) step() time.Duration {
	if s.StallP99 > 0 {
		return min(s.ITL, s.StallP99)
	}
	return s.ITL
}

// OfSLA is the SLO of an SLA.
func OfSLA(s profile.SLA) SLO {
	return SLO{TTFT: s.TTFT, ITL: s.ITL, StallP99: s.Stall, Stat: s.Stat}
}

// Check says all that is wrong with s, each by field and range.
func (s SLO) Check() error {
	errs := []error{positive(field.TTFTP99, s.TTFT), positive(field.ITLP99, s.ITL)}
	if s.StallP99 < 0 {
		errs = append(errs, positive(field.StallP99, s.StallP99))
	}
	if s.E2EP99 < 0 {
		errs = append(errs, positive(field.E2EP99, s.E2EP99))
	}
	if s.Availability == 1 {
		errs = append(errs, fmt.Errorf("%s is 1, but any number of replicas can fail: want 0 to below 1, such as 0.999", field.Availability))
	} else if !(s.Availability >= 0 && s.Availability < 1) {
		errs = append(errs, fmt.Errorf("%s is %v: want 0 to below 1, such as 0.999", field.Availability, s.Availability))
	}
	return errors.Join(errs...)
}

// maxLatency bounds a promise; longer is a mistake in units.
const maxLatency = 24 * time.Hour

func positive(field string, d time.Duration) error {
	if d > 0 && d <= maxLatency {
		return nil
	}
	return fmt.Errorf("%s is %v: want above 0 to %v", field, d, maxLatency)
}
