package trace_test

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"plimsoll/engine/enginetest"
	"plimsoll/profile/trace"
)

func collect(t rapid.TB, tr trace.Trace) []trace.Arrival {
	t.Helper()
	return must[[]trace.Arrival](t)(trace.Collect(tr))
}

func times(all []trace.Arrival) []time.Duration {
	at := make([]time.Duration, len(all))
	for i, a := range all {
		at[i] = a.At
	}
	return at
}

func TestCutsOfATrace(t *testing.T) {
	tr := trace.Of(trace.Arrival{At: 1}, trace.Arrival{At: 2}, trace.Arrival{At: 2}, trace.Arrival{At: 5})
	for name, c := range map[string]struct {
		got  trace.Trace
		want []time.Duration
	}{
		"limit 2":      {trace.Limit(tr, 2), []time.Duration{1, 2}},
		"limit 0":      {trace.Limit(tr, 0), []time.Duration{}},
		"limit 9":      {trace.Limit(tr, 9), []time.Duration{1, 2, 2, 5}},
		"from 2 to 5":  {trace.Between(tr, 2, 5), []time.Duration{2, 2}},
		"from 0 to 1":  {trace.Between(tr, 0, 1), []time.Duration{}},
		"rebased":      {trace.Rebase(trace.Between(tr, 2, 9)), []time.Duration{0, 0, 3}},
		"compressed":   {must[trace.Trace](t)(trace.Compress(tr, 0.5)), []time.Duration{2, 4, 4, 10}},
		"thinned to 0": {must[trace.Trace](t)(trace.Thin(tr, 0, 1)), []time.Duration{}},
		"thinned to 1": {must[trace.Trace](t)(trace.Thin(tr, 1, 1)), []time.Duration{1, 2, 2, 5}},
		"superposed":   {must[trace.Trace](t)(trace.Superpose(tr, 2, 1, 1)), []time.Duration{1, 1, 2, 2, 2, 2, 5, 5}},
	} {
		if got := times(collect(t, c.got)); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

// Every operation passes an error on, once, and ends; and stops when told to.
func TestOperationsPassErrorsOnAndStop(t *testing.T) {
	errTorn := errors.New("torn")
	torn := func(yield func(trace.Arrival, error) bool) {
		if yield(trace.Arrival{At: 1, ISL: 1, OSL: 1}, nil) && yield(trace.Arrival{At: 2, ISL: 1, OSL: 1}, nil) && yield(trace.Arrival{}, errTorn) {
			t.Error("the trace was asked for more after its error")
		}
	}
	ops := map[string]trace.Trace{
		"limit":     trace.Limit(torn, 9),
		"between":   trace.Between(torn, 0, 9),
		"rebase":    trace.Rebase(torn),
		"compress":  must[trace.Trace](t)(trace.Compress(torn, 2)),
		"thin":      must[trace.Trace](t)(trace.Thin(torn, 0.5, 1)),
		"superpose": must[trace.Trace](t)(trace.Superpose(torn, 3, 5, 1)),
		"reblocked": trace.Reblocked(torn, 16),
	}
	for name, op := range ops {
		if _, err := trace.Collect(op); !errors.Is(err, errTorn) {
			t.Errorf("%s: got error %v", name, err)
		}
		for _, err := range op {
			if err != nil {
				t.Errorf("%s: begins with error %v", name, err)
			}
			break // must not yield again, which would panic
		}
	}
	if _, err := trace.Summarize(torn); !errors.Is(err, errTorn) {
		t.Errorf("summarize: %v", err)
	}
}

func TestThinningAndSuperposingKeepTheRate(t *testing.T) {
	const n = 100_000 // in about 2,000 s
	base := must[trace.Trace](t)(trace.Generate(poisson(50, n, 5)))
	for _, factor := range []float64{0.1, 0.5, 1, 1.7, 4} {
		var tr trace.Trace
		if factor < 1 {
			tr = must[trace.Trace](t)(trace.Thin(base, factor, 9))
		} else {
			tr = must[trace.Trace](t)(trace.Superpose(base, factor, time.Minute, 9))
		}
		s := must[trace.Stats](t)(trace.Summarize(tr, time.Second))
		// Binomial: 5 standard deviations of the number kept or added.
		want := n * factor
		if off := math.Abs(float64(s.Requests) - want); off > 5*math.Sqrt(n*0.25)+1 {
			t.Errorf("factor %v: %d requests, want %v", factor, s.Requests, want)
		}
		// Away from the ends, where the copies come in and go out.
		inner := must[trace.Stats](t)(trace.Summarize(trace.Between(tr, 2*time.Minute, 30*time.Minute)))
		if math.Abs(inner.CV-1) > 0.05 || math.Abs(inner.Rate/(50*factor)-1) > 0.05 {
			t.Errorf("factor %v: rate %v, cv %v of what was Poisson's", factor, inner.Rate, inner.CV)
		}
	}
}

// Where every second has one arrival, every stretch of a superposed trace has
// its share of copies, the first and the last as much as all others, and none is
// beyond the trace's span.
func TestSuperposingIsEvenToTheEnds(t *testing.T) {
	const n, factor, jitter = 3000, 5.0, 10 * time.Second
	var base []trace.Arrival
	for i := range n {
		base = append(base, trace.Arrival{At: time.Minute + time.Duration(i)*time.Second, ISL: 1, OSL: 1})
	}
	all := collect(t, must[trace.Trace](t)(trace.Superpose(trace.Of(base...), factor, jitter, 3)))
	first, last := base[0].At, base[n-1].At
	if len(all) != n*factor || all[0].At < first || all[len(all)-1].At > last {
		t.Fatalf("%d arrivals from %v to %v, want %v from %v to %v", len(all), all[0].At, all[len(all)-1].At, n*factor, first, last)
	}
	counts := make([]float64, n/20)
	for _, a := range all {
		counts[min(int((a.At-first)/(20*time.Second)), len(counts)-1)]++
	}
	for i, got := range counts {
		// 80 copies of which each is one of independent draws: 5 deviations.
		if want := 20 * factor; math.Abs(got-want) > 5*math.Sqrt(80) {
			t.Errorf("%v arrivals in stretch %d of %d, want about %v", got, i, len(counts), want)
		}
	}
	if head := counts[0]; head < 85 {
		t.Errorf("the first 20 s have %v arrivals of 100", head)
	}
	for i, a := range all[1:] {
		if a.At == all[i].At {
			t.Errorf("two arrivals at %v: copies gather there", a.At)
		}
	}
}

func TestSuperposedIsInOrder(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		base := must[trace.Trace](t)(trace.Generate(poisson(10, 100, rapid.Uint64().Draw(t, "seed"))))
		jitter := time.Duration(rapid.Int64Range(1, 1e11).Draw(t, "jitter"))
		all := collect(t, must[trace.Trace](t)(trace.Superpose(base, rapid.Float64Range(1, 5).Draw(t, "factor"), jitter, 1)))
		original := collect(t, base)
		if ts := times(all); !slices.IsSorted(ts) || ts[0] < original[0].At || ts[len(ts)-1] > original[len(original)-1].At {
			t.Fatal("out of order, or out of the trace's span")
		}
		for _, a := range original {
			if !slices.ContainsFunc(all, func(b trace.Arrival) bool { return sameButLine(a, b) }) {
				t.Fatalf("%v is gone", a)
			}
		}
	})
}

func TestSharesAndFactorsOutOfRangeAreRefused(t *testing.T) {
	for name, err := range map[string]error{
		"thin NaN":         second(trace.Thin(trace.Of(), math.NaN(), 1)),
		"thin 2":           second(trace.Thin(trace.Of(), 2, 1)),
		"compress 0":       second(trace.Compress(trace.Of(), 0)),
		"superpose 0.5":    second(trace.Superpose(trace.Of(), 0.5, 1, 1)),
		"superpose at 0 s": second(trace.Superpose(trace.Of(), 2, 0, 1)),
		"window 0":         second(trace.Summarize(trace.Of(), 0)),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	late := trace.Of(trace.Arrival{At: math.MaxInt64 - 5})
	for name, tr := range map[string]trace.Trace{
		"compress":  must[trace.Trace](t)(trace.Compress(late, 0.5)),
		"superpose": must[trace.Trace](t)(trace.Superpose(late, 2, time.Second, 1)),
	} {
		if _, err := trace.Collect(tr); err == nil {
			t.Errorf("%s: no error for an arrival at the end of time", name)
		}
	}
}
