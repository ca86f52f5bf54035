package forecast

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"
)

// The parameters are at least as probable as those that Prophet's own optimizer
// stops at, and the forecasts are near its: within 0.2 % of the largest value
// without seasons; with them, where that optimizer stops short of the mode,
// within 2 %.
func TestProphetIsProphets(t *testing.T) {
	for name, f := range fixture[map[string]struct {
		Values   gapped
		Interval float64 `json:"interval_s"`
		Seasons  []string
		Changes  int
		Cost     float64
		Forecast []float64
	}](t, "prophet.json") {
		p := prophet{interval: time.Duration(f.Interval * float64(time.Second))}
		p.observe(f.Values)
		if len(p.seasons) != len(f.Seasons) || len(p.changes) != f.Changes {
			t.Errorf("%s: %d seasons and %d changes, want %d and %d", name, len(p.seasons), len(p.changes), len(f.Seasons), f.Changes)
		}
		if got := p.cost(f.Values); got > f.Cost+1e-3 {
			t.Errorf("%s: cost %.6f, Prophet's %.6f", name, got, f.Cost)
		}
		tolerance := 2e-3
		if len(f.Seasons) > 0 {
			tolerance = 0.02
		}
		for i, want := range f.Forecast {
			got := p.forecast(i + 1)
			near(t, fmt.Sprint(name, " forecast ", i+1), got, want, p.scale, tolerance)
		}
	}
}

// cost is the negative logarithm of the posterior, less constants, at the most
// probable noise for the coefficients.
func (p *prophet) cost(window []float64) float64 {
	var n, squares float64
	for i, v := range window {
		if !math.IsNaN(v) {
			fitted := p.forecast(i + 1 - len(window))
			n++
			e := (v - fitted) / p.scale
			squares += e * e
		}
	}
	variance := 2 * squares / (n + math.Sqrt(n*n+16*squares))
	cost := n/2*math.Log(variance) + squares/(2*variance) + 2*variance
	for i, b := range p.b {
		switch {
		case i < len(p.changes):
			cost += math.Abs(b) / changeScale
		case i < len(p.changes)+2:
			cost += b * b / (2 * trendDeviation * trendDeviation)
		default:
			cost += b * b / (2 * seasonDeviation * seasonDeviation)
		}
	}
	return cost
}

// A daily season is that of the interval that is predicted, not of another
// instant (ai-dynamo/dynamo#7208).
func TestDynamo7208SeasonsAreOfTheNextInterval(t *testing.T) {
	o := DefaultOptions(Prophet)
	o.Interval, o.Window = time.Hour, 100
	p := of(t, o)
	day := func(i int) float64 { return 1000 + 500*math.Sin(2*math.Pi*float64(i)/24) }
	for i := range 90 {
		v := day(i)
		if i%11 == 5 {
			v = gap
		}
		p.Observe(v)
	}
	for steps := 1; steps <= 24; steps++ {
		got := p.Forecast(steps)
		near(t, fmt.Sprint(steps, " ahead"), got, day(89+steps), 0, 0.01)
	}
}

// Seasons are looked for in two periods of history or more.
func TestSeasonsNeedHistory(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct {
		history, interval time.Duration
		want              []float64 // periods in intervals
	}{
		{50 * 180 * time.Second, 180 * time.Second, nil},
		{2*day - 1, time.Hour, nil},
		{2 * day, time.Hour, []float64{24}},
		{14 * day, time.Hour, []float64{168, 24}},
		{60 * day, day, []float64{7}},
	} {
		var got []float64
		for _, s := range seasonsOf(c.history, c.interval) {
			got = append(got, s.period)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%v of %v: %v, want %v", c.history, c.interval, got, c.want)
		}
	}
}

// What minimizes a convex cost has no slope that points down: Karush, Kuhn and
// Tucker's conditions, on features as near to each other as change points are.
func TestLassoIsAtItsMinimum(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		n := 10 + random.IntN(90)
		p := prophet{span: float64(n - 1)}
		for _, i := range changesOf(n) {
			p.changes = append(p.changes, p.unit(float64(i)))
		}
		var rows [][]float64
		var values []float64
		level := 0.5
		for i := range n {
			level += 0.1 * random.NormFloat64()
			rows, values = append(rows, p.features(float64(i))), append(values, level)
		}
		precision := 1 / (trendDeviation * trendDeviation)
		l := newLasso(rows, values, len(p.changes), []float64{precision, precision})
		variance := math.Pow(10, -4*random.Float64())
		if !l.solve(variance, changeScale) {
			t.Fatal("not solved")
		}
		var fitted mat.VecDense
		fitted.MulVec(l.gram, l.coefficients)
		for j := range l.coefficients.Len() {
			b := l.coefficients.AtVec(j)
			slope := (fitted.AtVec(j) - l.moments.AtVec(j)) / variance
			switch {
			case j >= l.changes:
				slope += b * l.precisions[j-l.changes]
			case b != 0:
				slope += math.Copysign(1/changeScale, b)
			default:
				slope = max(0, math.Abs(slope)-1/changeScale)
			}
			if math.Abs(slope) > 1e-7/variance {
				t.Fatalf("coefficient %d of %d is %v with slope %v, variance %v", j, l.changes, b, slope, variance)
			}
		}
	}
}
