package autoscale

import (
	"errors"
	"fmt"
	"iter"
	"time"

	"plimsoll/capacity"
	"plimsoll/engine"
	"plimsoll/engine/sim/fleet"
	"plimsoll/profile"
	"plimsoll/profile/trace"
)

// Day is one day of a workload from midnight on: Poisson arrivals whose rate is
// that of the pattern in each hour, log-normal lengths. The peak within an hour
// is Poisson's own, not the workload's PeakToAverage. Requests say what they share
// in blocks of so many tokens; 0 = they say nothing of it.
func Day(w capacity.Workload, seed uint64, block int) (iter.Seq[fleet.Request], error) {
	if err := w.Check(); err != nil {
		return nil, fmt.Errorf("a day of requests: %w", err)
	}
	rate, errRate := trace.Daily(w.Pattern, w.AverageQPS())
	isl, errISL := lengths(w.AvgISL, w.P99ISL)
	osl, errOSL := lengths(w.AvgOSL, w.P99OSL)
	if err := errors.Join(errRate, errISL, errOSL); err != nil {
		return nil, fmt.Errorf("a day of requests: %w", err)
	}
	prefixes := trace.Prefixes{}
	if block > 0 && w.Prefixes.Groups > 0 {
		prefixes = w.Prefixes
		prefixes.BlockTokens = block
	}
	t, err := trace.Generate(trace.Spec{Rate: rate, Gaps: trace.Gaps{Process: profile.Poisson}, ISL: isl, OSL: osl, Duration: 24 * time.Hour, Seed: seed, Prefixes: prefixes})
	if err != nil {
		return nil, fmt.Errorf("a day of requests: %w", err)
	}
	return Requests(t, block), nil
}

// lengths are log-normal, or all equal where the p99 is the mean.
func lengths(mean, p99 float64) (trace.Lengths, error) {
	if p99 == mean {
		return trace.Fixed(int(mean + 0.5)), nil
	}
	return trace.NewLogNormal(mean, p99, 0)
}

// Requests are the arrivals of a trace that was generated, or collected before:
// they end at an error, which neither of these has. They say what they share in
// blocks of so many tokens, those of the engines; 0 = they say nothing of it.
func Requests(t trace.Trace, block int) iter.Seq[fleet.Request] {
	if block > 0 {
		t = trace.Reblocked(t, block)
	}
	return func(yield func(fleet.Request) bool) {
		for a, err := range t {
			q := fleet.Request{At: engine.FromDuration(a.At), ISL: a.ISL, OSL: a.OSL}
			if block > 0 {
				q.Prefix = a.Blocks
			}
			if err != nil || !yield(q) {
				return
			}
		}
	}
}
