package forecast

import (
	"errors"
	"math"
	"slices"
)

const (
	// decay is how much of an error still counts an interval later: the latest
	// twenty or so matter.
	decay = 0.95
	// eagerness is how fast weight falls with loss: e^−eagerness for every typical
	// error of the last value more.
	eagerness = 0.5
	// slack is the share of the last value's error that auto may err more.
	slack = 0.05
)

// auto mixes the predictors by how they erred of late: L, the sum of a
// predictor's absolute errors one step ahead, each discounted by decay an
// interval. Whichever erred least has the most weight, and the others the less the
// more they erred beyond it (the exponentially weighted forecaster: Cesa-Bianchi
// and Lugosi, Prediction, Learning, and Games, 2006, section 2.2). The constants
// are round figures chosen on the traces in testdata, where others near them do
// within 1 % as well.
//
// It never errs much more than the last value. With y the series, c the last
// value and a the forecast,
//
//	R = Σ decay^age·(|y−a| − |y−c|)  ≤  slack · L(c) = slack · Σ decay^age·|y−c|
//
// holds after every interval of every series. For |y−a| − |y−c| ≤ |a−c|, whatever
// y will be, and forecast keeps |a−c| within decay·(slack·L(c) − R). Undiscounted,
// Σ|y−a| ≤ (1+slack)·Σ|y−c| after any number of intervals since the first: a sum
// is its discounted sum plus 1−decay of all discounted sums before.
type auto struct {
	Last    constant   `json:"last"`
	Experts []*guarded `json:"experts"`
	// Losses are L of the last value and then of Experts.
	Losses []float64 `json:"losses"`
	Excess float64   `json:"excess"` // R

	experts int // how many Experts there are
}

func newAuto(o Options) *auto {
	return mixOf(
		newGuarded(&smoothed{weight: 0.75}, o),
		newGuarded(&smoothed{weight: 0.5}, o),
		newGuarded(newKalman(o.Noise), o),
		newGuarded(&arima{}, o),
		newGuarded(&prophet{interval: o.Interval}, o),
	)
}

func mixOf(experts ...*guarded) *auto {
	return &auto{Experts: experts, Losses: make([]float64, len(experts)+1), experts: len(experts)}
}

func (a *auto) observe(window []float64) {
	if y := window[len(window)-1]; !math.IsNaN(y) && len(window) > 1 {
		a.score(y)
	}
	a.Last.observe(window)
	for _, e := range a.Experts {
		e.observe(window)
	}
}

// score adds the errors of the forecasts of y.
func (a *auto) score(y float64) {
	mine := a.forecast(1)
	last := math.Abs(y - a.Last.Last)
	a.Excess = decay*a.Excess + math.Abs(y-mine) - last
	a.Losses[0] = decay*a.Losses[0] + last
	for i, e := range a.Experts {
		a.Losses[i+1] = decay*a.Losses[i+1] + math.Abs(y-e.forecast(1))
	}
}

// mixed is the weighted mean of all predictors.
func (a *auto) mixed(steps int) float64 {
	least := slices.Min(a.Losses)
	typical := (1 - decay) * a.Losses[0]
	weights := math.Exp(-eagerness * (a.Losses[0] - least) / typical)
	value := a.Last.Last * weights
	for i, e := range a.Experts {
		w := math.Exp(-eagerness * (a.Losses[i+1] - least) / typical)
		weights += w
		value += w * e.forecast(steps)
	}
	return value / weights
}

// forecast goes from the last value towards the mean of all as far as the bound
// allows one step ahead, and by the same share further ahead.
func (a *auto) forecast(steps int) float64 {
	last := a.Last.Last
	budget := decay * (slack*a.Losses[0] - a.Excess)
	if !(budget > 0) || (1-decay)*a.Losses[0] == 0 {
		return last // nothing to gain on it, or only rounding
	}
	share := 1.0
	if off := math.Abs(a.mixed(1) - last); off > budget {
		share = budget / off
	}
	return last + share*(a.mixed(steps)-last)
}

func (a *auto) resume(window []float64) error {
	if len(a.Experts) != a.experts || len(a.Losses) != a.experts+1 {
		return errors.New("auto: wrong number of predictors")
	}
	const most = maxError / (1 - decay)
	for _, l := range a.Losses {
		if !(l >= 0 && l <= most) {
			return errors.New("auto: loss out of range")
		}
	}
	if !(math.Abs(a.Excess) <= 1.001*a.Losses[0]) { // but for rounding it is at most 1
		return errors.New("auto: excess out of range")
	}
	if err := a.Last.resume(window); err != nil {
		return err
	}
	for _, e := range a.Experts {
		if e == nil {
			return errors.New("auto: a predictor is missing")
		}
		if err := e.resume(window); err != nil {
			return err
		}
	}
	return nil
}
