package capacity

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/engine/enginetest"
	"plimsoll/profile/trace"
)

// The highest rate of a fleet is the one that takes that fleet: sized for it, no layout
// takes more GPUs, and for a little more it does.
func TestHighestRateIsSizingTheOtherWayRound(t *testing.T) {
	apart := scenes[1]
	for _, c := range []struct {
		all  Variants
		s    scene
		gpus int
	}{
		{chunked(t, mixes[0]), mixes[0], 3},
		{chunked(t, mixes[5]), mixes[5], 16},
		{Variants{apart.layout(t)}, apart, 4},
	} {
		if !enginetest.Full && len(c.all) > 1 { // half a minute
			continue
		}
		t.Run(c.s.name(), func(t *testing.T) {
			t.Parallel()
			o := SizeOptions{Seed: 1, Requests: 5000}
			at := func(qps float64) Traffic {
				w := c.s.workload()
				w.Rate = qps
				traffic, err := w.PeakTraffic()
				if err != nil {
					t.Fatal(err)
				}
				return traffic
			}
			got, err := c.all.Highest(c.gpus, 0, at(1), c.s.slo(), o)
			if err != nil || got.Infeasible != nil {
				t.Fatal(got.Infeasible, err)
			}
			if got.GPUs > c.gpus || got.GPUs != got.Layout.GPUs(got.Replicas) || !got.At.Holds() || got.Binding == "" {
				t.Errorf("%+v: want a fleet within %d GPUs that holds", got, c.gpus)
			}
			for _, x := range []struct {
				by    float64
				holds bool
			}{{1, true}, {1.15, false}} {
				sized, err := Size(got.Layout, at(x.by*got.Rate), c.s.slo(), o)
				if err != nil {
					t.Fatal(err)
				}
				if fits := sized.Infeasible == nil && sized.GPUs <= c.gpus; fits != x.holds {
					t.Errorf("%g times %g requests/s take %d GPUs, %v: of %d they were found to hold it", x.by, got.Rate, sized.GPUs, sized.Replicas, c.gpus)
				}
			}
			if len(c.all) == 1 {
				return // it is the search by itself
			}
			// A variant that holds clearly more by itself has longer gaps, and not 5 % more.
			for i := range c.all {
				one, err := c.all[i:i+1].Highest(c.gpus, 0, at(1), c.s.slo(), o)
				if err != nil || one.Infeasible != nil || one.Rate <= got.Rate*(1+rateTolerance) {
					continue
				}
				if one.At.Gaps.P99 < got.At.Gaps.P99 || one.Rate*nearRate > got.Rate*(1+rateTolerance) {
					t.Errorf("%g requests/s at chunk %d, %g searched, at chunk %d", one.Rate, one.Layout.Chunk, got.Rate, got.Layout.Chunk)
				}
			}
			// The layout's own engines hold no more than the best variant.
			own, err := c.all[:1].Highest(c.gpus, 0, at(1), c.s.slo(), o)
			if err != nil || own.Rate > got.Rate*(1+2*rateTolerance) {
				t.Errorf("%g requests/s by default, %g searched, %v", own.Rate, got.Rate, err)
			}
		})
	}
}

func TestHighestRateOfATraceDoesNotDependOnItsOwn(t *testing.T) {
	s := mixes[0]
	var rates []float64
	for _, gap := range []time.Duration{time.Second, 40 * time.Millisecond} {
		var arrivals []trace.Arrival
		for i := range 600 {
			arrivals = append(arrivals, trace.Arrival{At: time.Duration(i)*gap + time.Duration(i%7)*gap/7, ISL: 500 + 300*(i%9), OSL: 40 + i%50})
		}
		stats, err := trace.Summarize(trace.Of(arrivals...), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		traffic, err := RecordedTraffic(arrivals, stats)
		if err != nil {
			t.Fatal(err)
		}
		got, err := chunked(t, s).Highest(2, 0, traffic, s.slo(), SizeOptions{Seed: 1})
		if err != nil || got.Infeasible != nil {
			t.Fatal(got.Infeasible, err)
		}
		if got.At.Requests != int64(len(arrivals)) {
			t.Errorf("%d of %d requests count", got.At.Requests, len(arrivals))
		}
		rates = append(rates, got.Rate)
	}
	if math.Abs(rates[0]/rates[1]-1) > 2*decidedTolerance {
		t.Errorf("%v requests/s: want the same", rates)
	}
}

// A reported rate holds in its own trial, and the report says what a higher one breaks. That
// goes for rough searches too, and for a fleet that was asked for a lower rate.
func TestReportedRatesHold(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		k := drawTask(t)
		traffic, err := k.w.PeakTraffic()
		if err != nil {
			t.Fatal(err)
		}
		o := SizeOptions{Requests: 1000, Seed: 1, Rough: rapid.IntRange(0, 3).Draw(t, "rough") > 0}
		got, err := Variants{k.layout()}.Highest(rapid.IntRange(2, 12).Draw(t, "gpus"), 0, traffic, k.slo, o)
		if err != nil {
			t.Fatal(err)
		}
		for got.Infeasible == nil {
			if !(got.Rate > 0) || got.At.Stopped || !o.holds(got.At) {
				t.Errorf("%v do not hold their %g requests/s: %+v", got.Replicas, got.Rate, got.At)
			}
			if o.Rough && rapid.Bool().Draw(t, "enough") {
				return
			}
			most := got.Rate * rapid.Float64Range(0.5, 1).Draw(t, "of the rate")
			if got, err = got.UpTo(most, traffic, k.slo, o); err != nil || got.Rate > most {
				t.Fatalf("%g requests/s, %v: at most %g were asked for", got.Rate, err, most)
			}
			o.Rough = true
		}
	})
}

func TestHighestRateOfTooFewGPUs(t *testing.T) {
	s := mixes[4] // TP:4
	traffic, err := s.workload().PeakTraffic()
	if err != nil {
		t.Fatal(err)
	}
	o := SizeOptions{Seed: 1, Rough: true}
	all := chunked(t, s)
	if _, err := all.Highest(3, 0, traffic, s.slo(), o); !errors.Is(err, ErrFewGPUs) {
		t.Errorf("%v: want ErrFewGPUs", err)
	}
	if _, err := all.Highest(4, 1e6, traffic, s.slo(), o); !errors.Is(err, ErrLess) {
		t.Errorf("%v: want ErrLess", err)
	}
	s.ttft = time.Millisecond
	if got, err := all.Highest(4, 0, traffic, s.slo(), o); err != nil || got.Infeasible == nil {
		t.Errorf("%+v, %v: want infeasible", got, err)
	}
	if all.MostRate(3, traffic, s.slo()) != 0 || all.MostRate(8, traffic, s.slo()) < 1.9*all.MostRate(4, traffic, s.slo()) {
		t.Error("the rate that no schedule exceeds does not follow the engines")
	}
}

func TestSplitsUseTheGPUsTheyCan(t *testing.T) {
	l := Layout{Strategy: Disaggregated, Pools: make([]EnginePool, 2)}
	l.Pools[0].GPUs, l.Pools[1].GPUs = 2, 4
	for gpus := range 40 {
		for _, r := range l.splits(gpus) {
			if used := l.GPUs(r); r[0] < 1 || r[1] < 1 || used > gpus || gpus-used >= 4 {
				t.Errorf("%d GPUs: %v uses %d", gpus, r, used)
			}
		}
		if n := len(l.splits(gpus)); (n > 0) != (gpus >= 6) {
			t.Errorf("%d GPUs: %d splits", gpus, n)
		}
	}
}
