package forecast

import (
	"fmt"
	"math"
	"testing"
)

// All forecasts are those of statsmodels' local linear trend.
func TestKalmanIsStatsmodels(t *testing.T) {
	for i, c := range fixture[[]struct {
		Values              gapped
		Level, Trend, Noise float64
		OneStep             []float64 `json:"one_step"` // of the second value and those after
		Forecast            []float64
	}](t, "kalman.json") {
		o := DefaultOptions(Kalman)
		o.MinPoints, o.Noise = 1, Noise{c.Level, c.Trend, c.Noise}
		p := of(t, o)
		for j, v := range c.Values {
			if j > 0 {
				got := p.Forecast(1)
				near(t, fmt.Sprintf("series %d, value %d", i, j), got, c.OneStep[j-1], 1, 1e-9)
			}
			p.Observe(v)
		}
		for j, want := range c.Forecast {
			near(t, fmt.Sprintf("series %d, %d ahead", i, j+1), p.Forecast(j+1), want, 1, 1e-9)
		}
	}
}

// Upstream's minimum of points holds, which some of its versions ignored.
func TestKalmanWaitsForItsMinimum(t *testing.T) {
	o := DefaultOptions(Kalman)
	p := of(t, o, 10, 20, 30, 40)
	if got := p.Forecast(1); got != 40 {
		t.Errorf("%v after four values, want the last, 40", got)
	}
	p.Observe(50)
	if got := p.Forecast(1); math.Abs(got-60) > 2 {
		t.Errorf("%v after 10, 20 … 50", got)
	}
}
