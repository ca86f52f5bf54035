package forecast

import (
	"errors"
	"math"
)

// kalman is a local linear trend: level and trend are random walks, the trend is
// added to the level at each step, and the level is measured with noise. The
// recursion and its beginning (the first value exactly, covariance 1000·I) are
// those of NVIDIA Dynamo's load predictor. Unlike there, a gap is a step without
// a measurement. (Harvey, Forecasting, Structural Time Series Models and the
// Kalman Filter, 1989, section 2.3.)
type kalman struct {
	Begun bool       `json:"begun"`
	Level float64    `json:"level"` // after the newest value, as the rest
	Trend float64    `json:"trend"`
	P     covariance `json:"p"`

	noise Noise
}

// covariance is that of level and trend: level, both, trend.
type covariance [3]float64

func newKalman(n Noise) *kalman {
	// The floors are upstream's.
	return &kalman{noise: Noise{
		Level: max(1e-12, n.Level), Trend: max(1e-12, n.Trend), Measurement: max(1e-9, n.Measurement),
	}}
}

func (k *kalman) observe(window []float64) {
	z := window[len(window)-1]
	if !k.Begun {
		if !math.IsNaN(z) {
			k.Begun, k.Level, k.P = true, z, covariance{1000, 0, 1000}
		}
		return
	}
	k.Level += k.Trend
	k.P = covariance{k.P[0] + 2*k.P[1] + k.P[2] + k.noise.Level, k.P[1] + k.P[2], k.P[2] + k.noise.Trend}
	if math.IsNaN(z) {
		return
	}
	s := k.P[0] + k.noise.Measurement
	level, trend := k.P[0]/s, k.P[1]/s
	off := z - k.Level
	k.Level += level * off
	k.Trend += trend * off
	k.P = covariance{k.P[0] * (1 - level), k.P[1] * (1 - level), k.P[2] - trend*k.P[1]}
}

func (k *kalman) resume([]float64) error {
	for _, v := range []float64{k.Level, k.Trend, k.P[0], k.P[1], k.P[2]} {
		// Far more than any series within MaxValue leads to.
		if !(math.Abs(v) <= 1e100) {
			return errors.New("kalman: level, trend or covariance out of range")
		}
	}
	if !k.Begun {
		return errors.New("kalman: not begun")
	}
	if k.P[0] < 0 || k.P[2] < 0 {
		return errors.New("kalman: negative variance")
	}
	return nil
}

func (k *kalman) forecast(steps int) float64 { return k.Level + k.Trend*float64(steps) }
