package forecast

import (
	"math"
	"math/rand/v2"
	"testing"

	"plimsoll/engine/enginetest"

	"pgregory.net/rapid"
)

// cheap is auto without ARIMA and Prophet: the bound does not depend on what is
// mixed.
func cheap(o Options) *auto { return mixOf(newAuto(o).Experts[:3]...) }

// rounding is what errors may be off by, as a share of errors and of values.
const rounding = 1e-12

// regret checks the two bounds of auto's comment after each value, chosen by next
// with the forecasts of auto and of the last value in sight.
func regret(t interface{ Fatalf(string, ...any) }, a *auto, n int, next func(i int, mine, last float64) float64) {
	var window []float64
	var mine, last, recent, recentLast float64
	for i := range n {
		y := next(i, mine, last)
		if i > 0 && !math.IsNaN(y) {
			recent = decay*recent + math.Abs(y-mine)
			recentLast = decay*recentLast + math.Abs(y-last)
		}
		window = append(window, y)[max(0, len(window)-49):]
		a.observe(window)
		mine = a.forecast(1)
		last = a.Last.forecast(1)
		if recent > (1+slack+rounding)*recentLast+rounding*max(mine, last) {
			t.Fatalf("after %d values: auto's recent error %v, the last value's %v", i+1, recent, recentLast)
		}
	}
}

// No series makes auto err more than 5 % more than the last value, of late or in
// all: random ones, and ones made against it.
func TestAutoIsBoundedByTheLastValue(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		values := anySeries(150).Draw(t, "series")
		contrary := rapid.SliceOfN(rapid.Bool(), len(values), len(values)).Draw(t, "contrary")
		var total, totalLast, largest float64
		regret(t, cheap(DefaultOptions(Auto)), len(values), func(i int, mine, last float64) float64 {
			y := values[i]
			if y < 0 || y > MaxValue {
				y = math.NaN()
			}
			if contrary[i] && i > 0 {
				y = max(0, last-(mine-last)) // as far beyond the last value as auto is before it
			}
			if i > 0 && !math.IsNaN(y) {
				total += math.Abs(y - mine)
				totalLast += math.Abs(y - last)
			}
			largest = max(largest, mine, last)
			if total > (1+slack+rounding)*totalLast+rounding*largest {
				t.Fatalf("after %d values: auto's error %v, the last value's %v", i+1, total, totalLast)
			}
			return y
		})
	})
}

// The same with all that auto mixes, on a random walk: where nothing is to be
// gained.
func TestAutoOnARandomWalk(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	regret(t, newAuto(DefaultOptions(Auto)), 150, func(_ int, _, last float64) float64 {
		return max(0, last+100*random.NormFloat64())
	})
}

// Where one predictor is clearly right auto says what it says.
func TestAutoFindsWhatIsRight(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	wape := func(series func(i int) float64) (mine, last float64) {
		p := of(t, DefaultOptions(Auto))
		before := 0.0
		for i := range 200 {
			y := series(i)
			if i > 50 {
				f := p.Forecast(1)
				mine += math.Abs(y - f)
				last += math.Abs(y - before)
			}
			p.Observe(y)
			before = y
		}
		return mine, last
	}
	for name, series := range map[string]func(int) float64{
		"noise around a mean": func(int) float64 { return 1000 + 100*random.NormFloat64() },
		"every second one":    func(i int) float64 { return 1000 + 500*float64(i%2) + 20*random.NormFloat64() },
		"a steep trend":       func(i int) float64 { return 100 + 50*float64(i) + 5*random.NormFloat64() },
	} {
		if mine, last := wape(series); mine > 0.85*last {
			t.Errorf("%s: auto errs %.0f, the last value %.0f", name, mine, last)
		}
	}
}
