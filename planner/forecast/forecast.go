// Package forecast predicts the next intervals of a series: requests per
// interval, mean ISL, mean OSL. It takes one value per interval, in order, NaN
// where it is missing, and gives the expected value some intervals ahead. Each
// series has a Predictor of its own. It is pure: an interval is over when its
// value is observed.
package forecast

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Kind is a way to predict.
type Kind string

// The ways to predict. Each is Constant until there is enough to go by.
const (
	Constant Kind = "constant" // the last value
	ARIMA    Kind = "arima"    // orders by AICc, exact likelihood
	Kalman   Kind = "kalman"   // local linear trend with given noises
	Prophet  Kind = "prophet"  // piecewise linear trend and Fourier seasons
	Auto     Kind = "auto"     // all of them, by how they erred of late
)

// Kinds are all ways to predict.
func Kinds() []Kind { return []Kind{Constant, ARIMA, Kalman, Prophet, Auto} }

// MaxValue is the largest value that is taken: more is a mistake in units.
const MaxValue = 1e15

// farthest is how many times the window's largest value a forecast is at most:
// beyond, an extrapolation went wrong, as exponentials of trends do.
const farthest = 10

// maxError is that of a forecast, at most.
const maxError = farthest * MaxValue

// maxSteps is how far ahead is looked: beyond, the forecast is that of maxSteps.
const maxSteps = 1000

// Options say how a series is predicted. Values are saved with the state, and
// a state of other options is refused.
type Options struct {
	Kind Kind `json:"kind"`
	// Log1p fits ARIMA, Kalman and Prophet to log(1+value): for spiky series. The
	// forecast is then the median rather than the mean.
	Log1p bool `json:"log1p"`
	// Window is how many intervals are looked at, gaps included: 2 to 10000.
	Window int `json:"window"`
	// MinPoints is how many values within the window make more of a forecast than
	// the last value: 1 to Window.
	MinPoints int `json:"min_points"`
	// Interval is how long an interval is. Only Prophet asks, for its seasons.
	Interval time.Duration `json:"interval_ns"`
	// Noise is that of Kalman, in the square of the value's unit (of log1p's with
	// Log1p).
	Noise Noise `json:"noise"`
}

// Noise are the variances of a local linear trend: what the level and the trend
// gain per interval, and that of the measurement.
type Noise struct {
	Level       float64 `json:"level"`
	Trend       float64 `json:"trend"`
	Measurement float64 `json:"measurement"`
}

// DefaultOptions are NVIDIA Dynamo's: its planner's arguments as of 2026-08
// (load predictor defaults, planner_config.py).
func DefaultOptions(k Kind) Options {
	return Options{
		Kind: k, Window: 50, MinPoints: 5, Interval: 180 * time.Second,
		Noise: Noise{Level: 1, Trend: 0.1, Measurement: 10},
	}
}

// Check says all that is wrong with the options, each by field and range.
func (o Options) Check() error {
	var errs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(!slices.Contains(Kinds(), o.Kind), "load predictor is %q: want one of %v", o.Kind, Kinds())
	bad(o.Window < 2 || o.Window > maxWindow, "window is %d intervals: want 2 to %d", o.Window, maxWindow)
	bad(o.MinPoints < 1 || o.MinPoints > o.Window, "minimum points are %d: want 1 to the window of %d", o.MinPoints, o.Window)
	bad(o.Interval < time.Millisecond || o.Interval > maxInterval, "interval is %v: want 1ms to %v", o.Interval, maxInterval)
	for _, n := range []struct {
		name  string
		value float64
	}{{"level", o.Noise.Level}, {"trend", o.Noise.Trend}, {"measurement", o.Noise.Measurement}} {
		bad(!(n.value >= 0 && n.value <= MaxValue), "%s noise is %v: want 0 to %g", n.name, n.value, float64(MaxValue))
	}
	return errors.Join(errs...)
}

const (
	maxWindow   = 10_000
	maxInterval = 7 * 24 * time.Hour
)

// model predicts from a window of values. Both directions are in its own space.
type model interface {
	// observe takes the window with its newest value, or gap, in the last place.
	observe(window []float64)
	// resume takes the window up again after the model was restored: whatever
	// follows from window and state. It refuses a state that nothing led to.
	resume(window []float64) error
	// forecast is for 1 to maxSteps ahead, after observe or resume.
	forecast(steps int) float64
}

// newModel is what predicts by the options' kind, guarded.
func newModel(o Options) model {
	switch o.Kind {
	case ARIMA:
		return newGuarded(&arima{}, o)
	case Kalman:
		return newGuarded(newKalman(o.Noise), o)
	case Prophet:
		return newGuarded(&prophet{interval: o.Interval}, o)
	case Auto:
		return newAuto(o)
	default:
		return &constant{}
	}
}
