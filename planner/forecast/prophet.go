package forecast

import (
	"math"
	"time"
)

// Priors and shape of the model, in the units that it is fitted in (values by
// the largest, time from 0 to 1 over the history): Taylor and Letham,
// Forecasting at scale, The American Statistician 72(1), 2018, and the defaults of
// Prophet 1.0.
const (
	changePoints    = 25
	changeRange     = 0.8  // share of the history that they are in
	changeScale     = 0.05 // of the Laplace prior of changes in slope
	trendDeviation  = 5.0  // of the normal priors of slope and offset
	seasonDeviation = 10.0
	noiseDeviation  = 0.5 // of the half-normal prior of the noise

	dailyOrder, weeklyOrder = 4, 3
)

// prophet is a trend in pieces plus seasons, by the most likely parameters for
// the window (MAP). It has no memory beyond the window.
type prophet struct {
	interval time.Duration

	scale   float64 // largest value
	first   int     // place in the window of the first value
	span    float64 // intervals from the first value to the last
	size    int     // of the window
	changes []float64
	seasons []season
	b       []float64 // coefficients of features
}

// season repeats every period, in intervals, with so many harmonics.
type season struct {
	period float64
	order  int
}

// seasonsOf are those that a history shows twice.
func seasonsOf(history, interval time.Duration) []season {
	var s []season
	const day = 24 * time.Hour
	for _, c := range []struct {
		period time.Duration
		order  int
	}{{7 * day, weeklyOrder}, {day, dailyOrder}} {
		if history >= 2*c.period && interval < c.period {
			s = append(s, season{float64(c.period) / float64(interval), c.order})
		}
	}
	return s
}

func (p *prophet) observe(window []float64) {
	var at, values []float64
	for i, v := range window {
		if !math.IsNaN(v) {
			at, values = append(at, float64(i)), append(values, v)
		}
	}
	p.size, p.scale = len(window), 0
	if len(at) < 2 {
		return
	}
	p.first, p.span = int(at[0]), at[len(at)-1]-at[0]
	for _, v := range values {
		p.scale = max(p.scale, math.Abs(v))
	}
	if p.scale == 0 {
		return
	}
	p.seasons = seasonsOf(time.Duration(p.span)*p.interval, p.interval)
	p.changes = p.changes[:0]
	for _, i := range changesOf(len(at)) {
		p.changes = append(p.changes, p.unit(at[i]))
	}
	rows := make([][]float64, len(at))
	for i := range at {
		rows[i] = p.features(at[i])
		values[i] /= p.scale
	}
	p.b = mostProbable(rows, values, len(p.changes))
}

// changesOf are the places of change points among n values: evenly over the
// first part, without the first value.
func changesOf(n int) []int {
	size := int(math.Floor(float64(n) * changeRange))
	count := min(changePoints, size-1)
	var at []int
	for j := 1; j <= count; j++ {
		at = append(at, int(math.RoundToEven(float64(j)*float64(size-1)/float64(count))))
	}
	return at
}

// unit is a place in the window as time from 0 to 1.
func (p *prophet) unit(place float64) float64 { return (place - float64(p.first)) / p.span }

// features are those of a place: changes in slope, and then offset, slope and
// seasons.
func (p *prophet) features(place float64) []float64 {
	t := p.unit(place)
	row := make([]float64, 0, changePoints+2+2*(dailyOrder+weeklyOrder))
	for _, c := range p.changes {
		row = append(row, max(0, t-c))
	}
	row = append(row, 1, t)
	for _, s := range p.seasons {
		for k := 1; k <= s.order; k++ {
			sin, cos := math.Sincos(2 * math.Pi * float64(k) * place / s.period)
			row = append(row, sin, cos)
		}
	}
	return row
}

func (p *prophet) resume(window []float64) error {
	p.observe(window)
	return nil
}

// forecast goes on with the last slope.
func (p *prophet) forecast(steps int) float64 {
	if p.scale == 0 {
		return math.NaN()
	}
	var value float64
	for i, x := range p.features(float64(p.size - 1 + steps)) {
		value += p.b[i] * x
	}
	return value * p.scale
}
