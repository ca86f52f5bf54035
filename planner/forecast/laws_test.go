package forecast

import (
	"math"
	"testing"

	"plimsoll/engine/enginetest"

	"pgregory.net/rapid"
)

// anySeries is one that a deployment could show, and some that none should: idle,
// bursts, gaps, trends, nonsense.
func anySeries(most int) *rapid.Generator[[]float64] {
	return rapid.Custom(func(t *rapid.T) []float64 {
		value := rapid.OneOf(
			rapid.Float64Range(0, 1000),
			rapid.SampledFrom([]float64{0, 0, 1, 100, 100, MaxValue, 5e-324, -1, math.Inf(1)}),
			rapid.Float64Range(0, MaxValue),
		)
		var values []float64
		n := rapid.IntRange(0, most).Draw(t, "n")
		for len(values) < n {
			from := value.Draw(t, "value")
			slope := rapid.Float64Range(-5, 5).Draw(t, "slope")
			missing := rapid.IntRange(0, 9).Draw(t, "missing") == 0
			for i := range rapid.IntRange(1, 12).Draw(t, "run") {
				v := from + slope*float64(i)
				if missing {
					v = math.NaN()
				}
				values = append(values, v)
			}
		}
		return values
	})
}

func anyOptions() *rapid.Generator[Options] {
	return rapid.Custom(func(t *rapid.T) Options {
		o := DefaultOptions(rapid.SampledFrom(Kinds()).Draw(t, "kind"))
		o.Log1p = rapid.Bool().Draw(t, "log1p")
		o.Window = rapid.IntRange(2, 30).Draw(t, "window")
		o.MinPoints = rapid.IntRange(1, min(5, o.Window)).Draw(t, "min points")
		return o
	})
}

func begun(t *rapid.T, o Options) *Predictor {
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// No forecast is negative, missing or without bound.
func TestForecastsAreFinite(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		p := begun(t, anyOptions().Draw(t, "options"))
		for _, v := range anySeries(30).Draw(t, "series") {
			p.Observe(v)
			for _, steps := range []int{1, 3, 100} {
				checkFinite(t, p, steps)
			}
		}
	})
}

func checkFinite(t interface{ Fatalf(string, ...any) }, p *Predictor, steps int) {
	if value := p.Forecast(steps); !(value >= 0) || math.IsInf(value, 1) {
		t.Fatalf("%d ahead: %v", steps, value)
	}
}

// A predictor restored from what another saved goes on as that one does, to the
// last bit; and so does one that saw the same series.
func TestSavedStatesGoOnAlike(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		o := anyOptions().Draw(t, "options")
		a, b, twin := begun(t, o), begun(t, o), begun(t, o)
		for _, v := range anySeries(25).Draw(t, "before") {
			a.Observe(v)
			twin.Observe(v)
		}
		saved, err := a.Save()
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Restore(saved); err != nil {
			t.Fatalf("%v: %s", err, saved)
		}
		sameForecasts(t, a, b)
		for _, v := range anySeries(15).Draw(t, "after") {
			a.Observe(v)
			b.Observe(v)
			twin.Observe(v)
			sameForecasts(t, a, b)
		}
		sameForecasts(t, a, twin)
	})
}

// Without log1p all but Prophet work in units of the value: a series twice as
// high, or 1024 times, has forecasts as much higher. Powers of two, which round
// nothing, keep it exact. Prophet's scaling does round.
func TestForecastsScaleWithTheSeries(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		o := DefaultOptions(rapid.SampledFrom([]Kind{Constant, ARIMA, Kalman, Prophet}).Draw(t, "kind"))
		factor := math.Ldexp(1, rapid.IntRange(-20, 20).Draw(t, "exponent"))
		a, b := begun(t, o), begun(t, o)
		for _, v := range rapid.SliceOfN(rapid.Float64Range(0, 1e6), 1, 30).Draw(t, "series") {
			if v < 1e-100 {
				v = 0 // near the smallest numbers even a half is rounded
			}
			a.Observe(v)
			b.Observe(v * factor)
		}
		for _, steps := range []int{1, 5} {
			av, bv := a.Forecast(steps), b.Forecast(steps)
			tolerance := 0.0
			if o.Kind == Prophet {
				tolerance = 1e-5 * a.model.(*guarded).largest
			}
			if math.Abs(av-bv/factor) > tolerance {
				t.Fatalf("%v, and of the series times %v: %v", av, factor, bv)
			}
		}
	})
}

// By any other factor ARIMA's search rounds otherwise, and finds the same.
func TestARIMAScalesByAnyFactor(t *testing.T) {
	for name, s := range fixture[arimaFixture](t, "arima.json").Selected {
		a, b := of(t, DefaultOptions(ARIMA), s.Values...), of(t, DefaultOptions(ARIMA))
		for _, v := range s.Values {
			b.Observe(v * 3.7)
		}
		av := a.Forecast(1)
		bv := b.Forecast(1)
		near(t, name, bv/3.7, av, 0, 1e-3)
	}
}
