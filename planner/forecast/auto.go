package forecast

import (
	"errors"
	"math"
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

	kinds []Kind // of Losses
}

func newAuto(o Options) *auto {
	a := &auto{kinds: []Kind{Constant}}
	add := func(k Kind, m *guarded) {
		a.kinds, a.Experts = append(a.kinds, k), append(a.Experts, m)
	}
	for _, weight := range []float64{0.75, 0.5} {
		add(Smoothed, newGuarded(&smoothed{weight: weight}, o))
	}
	add(Kalman, newGuarded(newKalman(o.Noise), o))
	add(ARIMA, newGuarded(&arima{}, o))
	add(Prophet, newGuarded(&prophet{interval: o.Interval}, o))
	a.Losses = make([]float64, len(a.kinds))
	return a
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
	mine, _ := a.forecast(1)
	last := math.Abs(y - a.Last.Last)
	a.Excess = decay*a.Excess + math.Abs(y-mine) - last
	a.Losses[0] = decay*a.Losses[0] + last
	for i, e := range a.Experts {
		f, _ := e.forecast(1)
		a.Losses[i+1] = decay*a.Losses[i+1] + math.Abs(y-f)
	}
}

// best is the place in Losses of the least; the earlier of equals.
func (a *auto) best() int {
	best := 0
	for i, l := range a.Losses {
		if l < a.Losses[best] {
			best = i
		}
	}
	return best
}

// used is what has the most weight.
func (a *auto) used() Kind {
	i := a.best()
	if i > 0 && !a.Experts[i-1].ready() {
		return Constant
	}
	return a.kinds[i]
}

// mixed is the weighted mean of all predictors.
func (a *auto) mixed(steps int) (value, growth float64) {
	least := a.Losses[a.best()]
	typical := (1 - decay) * a.Losses[0]
	value, growth = a.Last.forecast(steps)
	weights := math.Exp(-eagerness * (a.Losses[0] - least) / typical)
	value, growth = value*weights, growth*weights
	for i, e := range a.Experts {
		w := math.Exp(-eagerness * (a.Losses[i+1] - least) / typical)
		v, g := e.forecast(steps)
		weights += w
		value += w * v
		growth += w * g
	}
	return value / weights, growth / weights
}

// forecast goes from the last value towards the mean of all as far as the bound
// allows one step ahead, and by the same share further ahead.
func (a *auto) forecast(steps int) (value, growth float64) {
	last, root := a.Last.forecast(steps)
	budget := decay * (slack*a.Losses[0] - a.Excess)
	if !(budget > 0) || (1-decay)*a.Losses[0] == 0 {
		return last, root // nothing to gain on it, or only rounding
	}
	one, _ := a.mixed(1)
	share := 1.0
	if off := math.Abs(one - last); off > budget {
		share = budget / off
	}
	value, growth = a.mixed(steps)
	return last + share*(value-last), root + share*(growth-root)
}

func (a *auto) resume(window []float64) error {
	if len(a.Experts) != len(a.kinds)-1 || len(a.Losses) != len(a.kinds) {
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
