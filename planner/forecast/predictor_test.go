package forecast

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/planner"
)

var gap = math.NaN()

var _ planner.Forecaster = (*Predictor)(nil)

// of is a predictor of a kind that has observed the values.
func of(t testing.TB, o Options, values ...float64) *Predictor {
	t.Helper()
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range values {
		p.Observe(v)
	}
	return p
}

func repeat(v float64, n int) []float64 { return slices.Repeat([]float64{v}, n) }

// What every kind says of series that leave no choice.
func TestEveryKind(t *testing.T) {
	for _, c := range []struct {
		name   string
		values []float64
		want   float64
	}{
		{"nothing", nil, 0},
		{"only gaps", []float64{gap, gap}, 0},
		{"only zeros", repeat(0, 100), 0},
		{"zeros and gaps", []float64{gap, 0, gap, 0}, 0},
		{"one value", []float64{7}, 7},
		{"two values", []float64{7, 9}, 9},
		{"too few", []float64{1, 2, 3, 4}, 4},
		{"too few behind zeros", append(repeat(0, 60), 1, 2, 3, 4), 4},
		{"the same", repeat(42, 30), 42},
		{"the same with gaps", append(repeat(42, 30), gap, gap, 42, gap), 42},
		{"the same behind zeros", append(repeat(0, 30), repeat(42, 30)...), 42},
		{"the largest", repeat(MaxValue, 30), MaxValue},
		{"the smallest", repeat(5e-324, 30), 5e-324},
		{"silence for longer than the window", append([]float64{3, 4, 5, 6, 7, 8, 9}, repeat(gap, 80)...), 9},
	} {
		for _, k := range Kinds() {
			for _, log1p := range []bool{false, true} {
				o := DefaultOptions(k)
				o.Log1p = log1p
				p := of(t, o, c.values...)
				// Prophet's priors pull a little, and log1p rounds small values.
				if got := p.Forecast(1); math.Abs(got-c.want) > 1e-6*c.want+1e-15 {
					t.Errorf("%s, %s, log1p %v: %v, want %v", c.name, k, log1p, got, c.want)
				}
			}
		}
	}
}

func TestValuesOutOfRangeAreGaps(t *testing.T) {
	for _, k := range Kinds() {
		values := []float64{5, 6, 7, 6, 5, 6, 7, 6, 5}
		with := of(t, DefaultOptions(k), values...)
		without := of(t, DefaultOptions(k), values...)
		for _, bad := range []float64{-1, math.Inf(1), math.Inf(-1), 2 * MaxValue} {
			with.Observe(bad)
			without.Observe(gap)
		}
		sameForecasts(t, with, without)
	}
}

// sameForecasts fails unless both forecast the same, to the last bit.
func sameForecasts(t interface{ Errorf(string, ...any) }, a, b *Predictor) {
	for _, steps := range []int{1, 2, 7, 1000} {
		if av, bv := a.Forecast(steps), b.Forecast(steps); av != bv {
			t.Errorf("%d ahead: %v and %v", steps, av, bv)
		}
	}
}

// Zero traffic and a missing metric are two things: upstream turned NaN into 0
// (ai-dynamo/dynamo#3131, #14765).
func TestDynamo3131GapIsNotZero(t *testing.T) {
	for _, k := range Kinds() {
		p := of(t, DefaultOptions(k), append(repeat(100, 20), 101, 99, 100, gap)...)
		if got := p.Forecast(1); got < 95 {
			t.Errorf("%s: %v after a gap at 100", k, got)
		}
		p = of(t, DefaultOptions(k), append(repeat(100, 20), 0, 0, 0, 0, 0, 0)...)
		if got := p.Forecast(1); got > 30 {
			t.Errorf("%s: %v after traffic stopped", k, got)
		}
	}
}

// Time goes on in gaps: a trend does too.
func TestTrendsGoOnThroughGaps(t *testing.T) {
	for _, k := range []Kind{ARIMA, Kalman, Prophet} {
		var values []float64
		for i := range 40 {
			v := 100 + 10*float64(i)
			if i%7 == 3 || i > 37 {
				v = gap
			}
			values = append(values, v)
		}
		p := of(t, DefaultOptions(k), values...)
		for _, steps := range []int{1, 5} {
			if got := p.Forecast(steps); math.Abs(got-(490+10*float64(steps))) > 8 {
				t.Errorf("%s: %v, %d after 490 rising by 10", k, got, steps)
			}
		}
	}
}

// A ramp down ends at 0, whatever the steps. Upstream's raw Kalman forecast goes
// below.
func TestRampsDownEndAtZero(t *testing.T) {
	for _, k := range Kinds() {
		p := of(t, DefaultOptions(k), 90, 80, 70, 60, 50, 40, 30, 20, 10, 1)
		for _, steps := range []int{-3, 0, 1, 2, 10, math.MaxInt} {
			if got := p.Forecast(steps); !(got >= 0) || math.IsInf(got, 1) {
				t.Errorf("%s: %v at %d", k, got, steps)
			}
		}
	}
}

func TestOptionsOutOfRangeAreRefused(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"load predictor":    func(o *Options) { o.Kind = "lstm" },
		"window":            func(o *Options) { o.Window = 1 },
		"minimum points":    func(o *Options) { o.MinPoints = 51 },
		"interval":          func(o *Options) { o.Interval = 0 },
		"level noise":       func(o *Options) { o.Noise.Level = -1 },
		"trend noise":       func(o *Options) { o.Noise.Trend = gap },
		"measurement noise": func(o *Options) { o.Noise.Measurement = math.Inf(1) },
	} {
		o := DefaultOptions(Auto)
		change(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	o := DefaultOptions("lstm")
	o.Interval, o.Window = 8*24*time.Hour, 20_000
	if err := o.Check(); err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("want three complaints: %v", err)
	}
}
