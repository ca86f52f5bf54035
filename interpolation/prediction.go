package interpolation

import (
	"fmt"
	"math"
	"time"

	"plimsoll/profile"
)

// Prediction is a predicted value and whether the measured range covers it.
type Prediction[T time.Duration | float64] struct {
	Value   T
	InRange bool
	Error   float64 // relative: nine of ten measurements are expected in Bounds
	gaps    [2]gap  // by how much it is outside, for Warnings
}

// Latency is a predicted latency.
type Latency = Prediction[time.Duration]

// Rate is a predicted throughput, in tokens/s/GPU.
type Rate = Prediction[float64]

// Warnings says what was outside the measured range; nil where nothing was.
func (p Prediction[T]) Warnings() []profile.Warning { return warnings(p.gaps) }

// Bounds is Value divided and multiplied by 1 + Error.
func (p Prediction[T]) Bounds() (low, high T) {
	v := min(float64(p.Value), math.MaxInt64/2) // what a time.Duration holds, rounding included
	return T(v / (1 + p.Error)), max(p.Value, T(min(v*(1+p.Error), math.MaxInt64/2)))
}

// gap is one quantity outside the range that was measured. It holds numbers, so
// that predicting allocates nothing; the words are made when asked for.
type gap struct {
	what      quantity
	got       float64
	low, high float64
}

type quantity uint8

const (
	nothing quantity = iota
	isl
	context
	inFlight
	notNumber
)

func warnings(gaps [2]gap) []profile.Warning {
	var w []profile.Warning
	for _, g := range gaps {
		if g.what != nothing {
			w = append(w, g.warning())
		}
	}
	return w
}

func (g gap) warning() profile.Warning {
	switch g.what {
	case notNumber:
		return profile.Warnf("not_a_number", "asked for %v, which is no load, length or context", g.got)
	case isl:
		return profile.Warnf("isl_out_of_range", "ISL %s is outside the measured %s–%s", tidy(g.got), tidy(g.low), tidy(g.high))
	case context:
		if g.low == g.high {
			return profile.Warnf("context_out_of_range", "context %s was not measured, only %s", tidy(g.got), tidy(g.low))
		}
		return profile.Warnf("context_out_of_range", "context %s is outside the measured %s–%s", tidy(g.got), tidy(g.low), tidy(g.high))
	default:
		return profile.Warnf("load_out_of_range", "%s requests in flight is outside the measured %s–%s", tidy(g.got), tidy(g.low), tidy(g.high))
	}
}

// tidy prints a count as people write it: whole from 100 on, three digits below.
func tidy(x float64) string {
	if math.Abs(x) >= 100 || x == math.Trunc(x) {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.3g", x)
}

// duration rounds nanoseconds and keeps them in what time.Duration holds.
func duration(ns float64) time.Duration {
	switch {
	case !(ns > 0):
		return 0
	case ns >= math.MaxInt64:
		return math.MaxInt64
	default:
		return time.Duration(math.Round(ns))
	}
}
