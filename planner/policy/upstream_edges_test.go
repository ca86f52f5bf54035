package policy

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/planner"
)

// fixed forecasts what it was told to, whatever it sees.
type fixed struct{ last }

func (f *fixed) Observe(float64) {}

func forecasting(t *testing.T, requests, isl, osl float64) *Upstream {
	t.Helper()
	p, d := flat(t, 3000, 150, 40000, 1000, 1)
	return upstreamOf(t, p, d, time.Minute, func(o *UpstreamOptions) {
		o.Requests, o.ISL, o.OSL = &fixed{last{V: requests}}, &fixed{last{V: isl}}, &fixed{last{V: osl}}
	})
}

// Forecasters may say anything: a Kalman filter goes below 0, and one that broke
// says no number. The first is no demand, the second is no forecast.
func TestUpstreamOddForecasts(t *testing.T) {
	for _, c := range []struct {
		requests, isl, osl float64
		want               planner.Replicas
		missing            string
	}{
		{-50, 3000, 150, pd(1, 1), ""},
		{math.NaN(), 3000, 150, pd(4, 4), "a forecast of requests (it is NaN)"},
		{2000, math.Inf(1), 150, pd(4, 4), "a forecast of ISL (it is +Inf)"},
		{2000, 3000, math.Inf(-1), pd(4, 4), "a forecast of OSL (it is -Inf)"},
		{2000, 0, 150, pd(4, 4), "ISL (none was seen yet)"},
		{2000, 3000, -1, pd(3, 1), ""},
	} {
		u := forecasting(t, c.requests, c.isl, c.osl)
		s := busy(at(split(1, 1, -1), pd(4, 4), time.Minute), 100, 3000, 150)
		d := u.Propose(s)
		chained(t, s, d)
		if d.Want != c.want || (c.missing != "") != slices.Contains(d.Missing, c.missing) || d.Forecast.Rate.Value < 0 {
			t.Errorf("%+v: %s, missing %v", c, d.Want, d.Missing)
		}
	}
}

// Answers of one token have no gaps between tokens: nothing is missing, and the
// decode correction stays.
func TestUpstreamSingleTokens(t *testing.T) {
	p, d := flat(t, 3000, 1, 40000, 1000, 1)
	u := upstreamOf(t, p, d, time.Minute)
	u.by.Decode = 1.5
	s := busy(at(split(1, 1, -1), pd(1, 1), time.Minute), 2000, 3000, 1)
	s.ITL.Mean, s.Duration.Mean = planner.Figure[time.Duration]{}, planner.Figure[time.Duration]{}
	got := u.Propose(s)
	if got.Want != pd(3, 1) || got.Missing != nil || got.Correction.Decode.Known || u.by.Decode != 1.5 {
		t.Errorf("%+v, %+v", got, u.by)
	}
}

// Each figure by itself, missing or negative, is named.
func TestUpstreamMissing(t *testing.T) {
	p, d := flat(t, 3000, 150, 40000, 1000, 1)
	for name, spoil := range map[string]func(*planner.Situation){
		"arrivals":         func(s *planner.Situation) { s.Arrivals = planner.Known(-1.0) },
		"ISL":              func(s *planner.Situation) { s.ISL.Mean = planner.Figure[float64]{} },
		"OSL":              func(s *planner.Situation) { s.OSL.Mean = planner.Known(math.NaN()) },
		"TTFT":             func(s *planner.Situation) { s.TTFT.Mean.Known = false },
		"ITL":              func(s *planner.Situation) { s.ITL.Mean.Value = -1 },
		"request duration": func(s *planner.Situation) { s.Duration.Mean.Known = false },
	} {
		s := busy(at(split(1, 1, -1), pd(4, 4), time.Minute), 100, 3000, 150)
		spoil(&s)
		if got := upstreamOf(t, p, d, time.Minute).Propose(s); got.Want != s.Have || !slices.Equal(got.Missing, []string{name}) {
			t.Errorf("%s: %s, missing %v", name, got.Want, got.Missing)
		}
		free := upstreamOf(t, p, d, time.Minute, func(o *UpstreamOptions) { o.NoCorrection = true }).Propose(s)
		if needed := slices.Contains([]string{"arrivals", "ISL", "OSL"}, name); needed != (free.Missing != nil) {
			t.Errorf("%s without correction: missing %v", name, free.Missing)
		}
	}
}

// Latencies and rates of a fleet that is not as its profile are corrected; what is
// not wanted has none.
func TestUpstreamCapacityIsCorrected(t *testing.T) {
	p, d := flat(t, 3000, 150, 40000, 1000, 1)
	u := upstreamOf(t, p, d, time.Minute)
	s := busy(at(split(1, 1, -1), pd(1, 1), time.Minute), 100, 3000, 150)
	s.TTFT.Mean, s.ITL.Mean = planner.Known(50*time.Millisecond), planner.Known(20*time.Millisecond)
	got := u.Propose(s).Capacity
	if r := got[0].Rate.Value; math.Abs(r-40000/1500.0) > 1e-9 || math.Abs(got[0].Latency.Value-50) > 1e-9 || math.Abs(got[1].Latency.Value-20) > 1e-9 {
		t.Errorf("%+v", got)
	}
	s.Deployment = split(1, 1, 1)
	s.Deployment.Pools[0].Min, s.Deployment.Pools[1].Min = 0, 0
	if got := u.Propose(s); got.Want != pd(0, 1) || got.Capacity[0].Role != engine.RolePrefill {
		t.Errorf("%+v", got)
	}
	s.Deployment.Budget.Max = 0
	if got := u.Propose(s); got.Want != pd(0, 0) || got.Capacity[1].Latency.Known {
		t.Errorf("nothing may run: %+v", got)
	}
}

func TestCorrectedITL(t *testing.T) {
	for _, c := range []struct {
		by   float64
		want time.Duration
	}{{1, 50 * time.Millisecond}, {2, 25 * time.Millisecond}, {0, 50 * time.Millisecond}, {-1, 50 * time.Millisecond}, {1e-300, math.MaxInt64}} {
		if got := corrected(50*time.Millisecond, c.by); got != c.want {
			t.Errorf("by %v: %v, want %v", c.by, got, c.want)
		}
	}
}

func TestWhole(t *testing.T) {
	for x, want := range map[float64]int{-3: 0, 0: 0, 1e-9: 1, 1: 1, 1.0000001: 2, 1e12: mostReplicas, math.Inf(1): mostReplicas} {
		if got := whole(x); got != want {
			t.Errorf("%v: %d, want %d", x, got, want)
		}
	}
	if got := whole(math.NaN()); got != 0 {
		t.Errorf("NaN: %d", got)
	}
}

// A step says in words that nothing is expected, instead of dividing nothing.
func TestUpstreamSaysNothingIsExpected(t *testing.T) {
	for _, dep := range []planner.Deployment{split(1, 1, -1), single(1, -1)} {
		s := at(dep, planner.Replicas{Prefill: 1, Decode: 1, Aggregated: 1}, time.Minute)
		s.Arrivals = planner.Known(0.0)
		for _, x := range forecasting(t, 0, 0, 0).Propose(s).Steps {
			if x.Rule == "demand" && !strings.Contains(x.Why, "is expected") {
				t.Errorf("%+v", x)
			}
		}
	}
}
