package forecast

import (
	"errors"
	"fmt"
	"math"
)

const (
	// reselect is for how many intervals an order is kept; its parameters are
	// fitted anew at each.
	reselect = 10
	// surprise is of how many standard deviations an error is after which an order
	// is selected at once.
	surprise = 3
)

// arima fits an ARIMA model to the window at each step.
type arima struct {
	Order  order     `json:"order"`
	Params []float64 `json:"params"`
	Age    int       `json:"age"` // intervals since the order was selected; 0 = none was

	equal  bool // all values are, and there is no model to fit
	scale  float64
	origin float64
	filter filter
}

func (a *arima) observe(window []float64) {
	surprised := a.surprised(window[len(window)-1])
	values := a.enter(window)
	if a.equal {
		a.Age = 0
		return
	}
	var f fit
	if a.Age == 0 || a.Age >= reselect || surprised {
		f = selected(values)
		a.Age = 0
	} else {
		f = fitted(a.Order, a.Params, values)
	}
	a.Age++
	a.Order, a.Params, a.filter = f.order, f.params, f.filter
}

// surprised says whether v is far from its forecast.
func (a *arima) surprised(v float64) bool {
	if a.Age == 0 || math.IsNaN(v) {
		return false
	}
	_, _, variance, _ := a.filter.expected()
	return math.Abs(v-a.forecast(1)) > surprise*a.scale*math.Sqrt(a.filter.sigma2()*variance)
}

// enter brings the window to values of about 1: by a power of two, which rounds
// nothing, and less the first value where that changes no likelihood.
func (a *arima) enter(window []float64) []float64 {
	first, largest := math.NaN(), 0.0
	a.equal = true
	for _, v := range window {
		if math.IsNaN(v) {
			continue
		}
		if math.IsNaN(first) {
			first = v
		}
		a.equal = a.equal && v == first
		largest = max(largest, math.Abs(v))
	}
	a.origin, a.scale = finite(first, 0), 1
	if a.equal {
		return nil
	}
	_, exponent := math.Frexp(largest)
	a.scale = math.Ldexp(1, exponent)
	values := make([]float64, len(window))
	for i, v := range window {
		values[i] = (v - a.origin) / a.scale
	}
	return values
}

func (a *arima) resume(window []float64) error {
	o := a.Order
	if o.P < 0 || o.P > maxOrder || o.Q < 0 || o.Q > maxOrder || o.D < 0 || o.D > maxDifferences || o.Constant && o.D == maxDifferences {
		return fmt.Errorf("arima: order %+v out of range", o)
	}
	if len(a.Params) != o.P+o.Q || a.Age < 0 || a.Age > reselect {
		return fmt.Errorf("arima: %d parameters of age %d for order %+v", len(a.Params), a.Age, o)
	}
	values := a.enter(window)
	if a.equal {
		return nil
	}
	if a.Age == 0 {
		return errors.New("arima: no order selected")
	}
	a.filter = run(o, a.Params, values)
	return nil
}

func (a *arima) forecast(steps int) float64 {
	if a.equal {
		return a.origin
	}
	f := a.filter
	for range steps - 1 {
		f.advance()
	}
	y, x, _, _ := f.expected()
	return a.origin + a.scale*(y+f.beta()*(f.regressor()-x))
}

// finite is v, or other where v is none.
func finite(v, other float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return other
	}
	return v
}
