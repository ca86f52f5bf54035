package load

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat"
	"pgregory.net/rapid"

	"plimsoll/engine/enginetest"
	"plimsoll/profile"
)

func open(a profile.Arrival, rate, cv float64, n int) profile.Workload {
	return profile.Workload{ISL: 32, OSL: 4, Requests: n, Arrival: a, Rate: rate, CV: cv, Seed: 7, Timeout: 20 * time.Second}
}

func TestScheduleMeanAndVariation(t *testing.T) {
	const n, rate = 200_000, 50.0
	for _, c := range []struct {
		arrival profile.Arrival
		cv      float64
		want    float64 // coefficient of variation of the gaps
	}{
		{profile.Constant, 0, 0},
		{profile.Poisson, 0, 1},
		{profile.Gamma, 0.25, 0.25},
		{profile.Gamma, 1, 1},
		{profile.Gamma, 3, 3},
	} {
		due, err := Schedule(open(c.arrival, rate, c.cv, n))
		if err != nil {
			t.Fatal(err)
		}
		if len(due) != n || due[0] != 0 || !slices.IsSorted(due) {
			t.Fatalf("%s: %d instants from %v, sorted %v", c.arrival, len(due), due[0], slices.IsSorted(due))
		}
		gaps := make([]float64, n-1)
		for i := range gaps {
			gaps[i] = (due[i+1] - due[i]).Seconds()
		}
		mean, std := stat.MeanStdDev(gaps, nil)
		// Five standard errors; those of a standard deviation grow with the kurtosis.
		if tol := 5*c.want/math.Sqrt(n) + 1e-9; math.Abs(mean*rate-1) > tol {
			t.Errorf("%s cv %v: mean gap %v, want %v", c.arrival, c.cv, mean, 1/rate)
		}
		if tol := 0.01 + 0.02*c.want; math.Abs(std/mean-c.want) > tol {
			t.Errorf("%s cv %v: variation %v, want %v", c.arrival, c.cv, std/mean, c.want)
		}
	}
}

// Gamma gaps of CV 1 are exponential: a tenth of them are below −ln(0.9) means.
func TestGammaOfVariationOneIsPoisson(t *testing.T) {
	const n = 100_000
	due, err := Schedule(open(profile.Gamma, 1, 1, n))
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []float64{0.1, 0.5, 0.9} {
		limit := time.Duration(-math.Log(1-q) * float64(time.Second))
		below := 0
		for i := range n - 1 {
			if due[i+1]-due[i] < limit {
				below++
			}
		}
		if got := float64(below) / (n - 1); math.Abs(got-q) > 0.01 {
			t.Errorf("fraction of gaps below the %v quantile: %v", q, got)
		}
	}
}

func TestScheduleIsAFunctionOfItsSeed(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		w := open(rapid.SampledFrom([]profile.Arrival{profile.Constant, profile.Poisson, profile.Gamma}).Draw(t, "arrival"),
			rapid.Float64Range(1e-3, MaxRate).Draw(t, "rate"), rapid.Float64Range(0.01, MaxCV).Draw(t, "cv"), rapid.IntRange(1, 50).Draw(t, "n"))
		w.Seed = rapid.Uint64().Draw(t, "seed")
		a, err := Schedule(w)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := Schedule(w)
		if !slices.Equal(a, b) {
			t.Fatalf("two schedules of one workload: %v and %v", a, b)
		}
		if a[0] != 0 || !slices.IsSorted(a) {
			t.Fatalf("schedule %v does not rise from 0", a)
		}
		w.Requests++ // a longer schedule begins like the shorter
		if c, _ := Schedule(w); !slices.Equal(c[:len(a)], a) {
			t.Fatalf("one request more changes the schedule: %v and %v", a, c)
		}
	})
	a, _ := Schedule(open(profile.Poisson, 1, 0, 10))
	w := open(profile.Poisson, 1, 0, 10)
	w.Seed++
	if b, _ := Schedule(w); slices.Equal(a, b) {
		t.Error("two seeds give one schedule")
	}
}

func TestScheduleOfAnExtremeRateDoesNotOverflow(t *testing.T) {
	due, err := Schedule(open(profile.Poisson, 1e-300, 0, 1000))
	if err != nil || !slices.IsSorted(due) || due[999] < 0 {
		t.Errorf("last instant %v, %v", due[999], err)
	}
}

func TestValidate(t *testing.T) {
	good := closed(1, 1)
	if err := Validate(good); err != nil {
		t.Fatal(err)
	}
	with := func(f func(*profile.Workload)) profile.Workload { w := good; f(&w); return w }
	rate := func(r, cv float64) profile.Workload { return open(profile.Gamma, r, cv, 1) }
	for _, c := range []struct {
		w    profile.Workload
		want string
	}{
		{with(func(w *profile.Workload) { w.ISL = 0 }), "isl 0"},
		{with(func(w *profile.Workload) { w.ISL = MaxTokens + 1 }), "isl 16777217"},
		{with(func(w *profile.Workload) { w.OSL = -1 }), "osl -1"},
		{with(func(w *profile.Workload) { w.Requests = 0 }), "requests 0"},
		{with(func(w *profile.Workload) { w.InFlight = 0 }), "in-flight 0"},
		{with(func(w *profile.Workload) { w.Arrival = "" }), `arrival ""`},
		{with(func(w *profile.Workload) { w.Timeout = -1 }), "timeout -1ns"},
		{rate(0, 1), "rate 0"},
		{rate(-1, 1), "rate -1"},
		{rate(math.NaN(), 1), "rate NaN"},
		{rate(math.Inf(1), 1), "rate +Inf"},
		{rate(1, 0), "cv 0"},
		{rate(1, math.NaN()), "cv NaN"},
	} {
		err := Validate(c.w)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want a complaint about %q", err, c.want)
		}
	}
	if _, err := Schedule(good); err == nil {
		t.Error("a closed loop has a schedule")
	}
}
