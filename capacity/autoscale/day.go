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
// is Poisson's own, not the workload's PeakToAverage.
func Day(w capacity.Workload, seed uint64) (iter.Seq[fleet.Request], error) {
	if err := w.Check(); err != nil {
		return nil, fmt.Errorf("a day of requests: %w", err)
	}
	rate, errRate := trace.Daily(w.Pattern, w.AverageQPS())
	isl, errISL := lengths(w.AvgISL, w.P99ISL)
	osl, errOSL := lengths(w.AvgOSL, w.P99OSL)
	if err := errors.Join(errRate, errISL, errOSL); err != nil {
		return nil, fmt.Errorf("a day of requests: %w", err)
	}
	t, err := trace.Generate(trace.Spec{Rate: rate, Gaps: trace.Gaps{Process: profile.Poisson}, ISL: isl, OSL: osl, Duration: 24 * time.Hour, Seed: seed})
	if err != nil {
		return nil, fmt.Errorf("a day of requests: %w", err)
	}
	return Requests(t), nil
}

// lengths are log-normal, or all equal where the p99 is the mean.
func lengths(mean, p99 float64) (trace.Lengths, error) {
	if p99 == mean {
		return trace.Fixed(int(mean + 0.5)), nil
	}
	return trace.NewLogNormal(mean, p99, 0)
}

// Requests are the arrivals of a trace that was generated, or collected before:
// they end at an error, which neither of these has.
func Requests(t trace.Trace) iter.Seq[fleet.Request] {
	return func(yield func(fleet.Request) bool) {
		for a, err := range t {
			if err != nil || !yield(fleet.Request{At: engine.FromDuration(a.At), ISL: a.ISL, OSL: a.OSL}) {
				return
			}
		}
	}
}
