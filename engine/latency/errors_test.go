package latency

import (
	"math"
	"slices"
	"strings"
	"testing"

	"plimsoll/engine/enginetest"

	"pgregory.net/rapid"
)

func TestSummarize(t *testing.T) {
	residuals := []Residual{
		{Kind: KindITL, Measured: 1, After: 0.5},
		{Kind: KindITL, Measured: 1, After: 1.1},
		{Kind: KindTPOT, Measured: 2, After: 2},
		{Kind: KindTTFT, Measured: 1, After: 4},
	}
	got := Summarize("rows", residuals, func(r Residual) float64 { return r.After })
	near := func(what string, got, want float64) {
		if math.Abs(got-want) > 1e-12 {
			t.Errorf("%s is %g, want %g", what, got, want)
		}
	}
	near("median", got.TPOT.Median, 0.1)
	near("mean", got.TPOT.Mean, 0.2)
	near("p90", got.TPOT.P90, 0.5)
	near("factor of half", got.TPOT.Factor50, 1.1)
	near("factor of nine of ten: twice too short is as far as twice too long", got.TPOT.Factor90, 2)
	near("TTFT's factor", got.TTFT.Factor90, 4)
	if got.TPOT.N != 3 || got.TTFT.N != 1 || got.TPOT.Basis != "rows" {
		t.Errorf("%+v", got)
	}
}

// A median of an even number lies in the middle.
func TestMedianOfTwo(t *testing.T) {
	if e := ErrorOf("rows", []float64{1.3, 1.1}); math.Abs(e.Median-0.2) > 1e-9 || math.Abs(e.Factor90-1.3) > 1e-9 {
		t.Errorf("median %g, factor %g", e.Median, e.Factor90)
	}
}

// Groups weigh the same but for those of few rows, and the factor holds 95 % of the weight.
func TestErrorAcross(t *testing.T) {
	near := slices.Repeat([]float64{1.1}, 1000)
	for _, tt := range []struct {
		groups       [][]float64
		median, nine float64
	}{
		{[][]float64{near, slices.Repeat([]float64{2}, 10), slices.Repeat([]float64{2}, 10)}, 1, 2},
		{[][]float64{near, near, slices.Repeat([]float64{1.5}, 10)}, 0.1, 1.5},
		{[][]float64{near, slices.Concat(near, near), {0.25}, nil}, 0.1, 4}, // 1 of 11 parts
		{[][]float64{slices.Concat(slices.Repeat([]float64{1}, 94), slices.Repeat([]float64{3}, 6))}, 0, 3},
		{[][]float64{slices.Concat(slices.Repeat([]float64{1}, 95), slices.Repeat([]float64{3}, 5))}, 0, 1},
		{nil, 0, 0},
	} {
		e := ErrorAcross("groups", tt.groups)
		if math.Abs(e.Median-tt.median) > 1e-9 || math.Abs(e.Factor90-tt.nine) > 1e-9 {
			t.Errorf("%d groups: median %g, factor %g, want %g, %g", len(tt.groups), e.Median, e.Factor90, tt.median, tt.nine)
		}
	}
}

// What was not measured widens nothing.
func TestUnlikeNothingMeasured(t *testing.T) {
	if e := ErrorOf("rows", []float64{1.1, 1.2}); e.unlike(Error{}) != e {
		t.Errorf("%+v, want %+v", e.unlike(Error{}), e)
	}
}

// What is unlike in more ways is never nearer, in any order, and what adds
// nothing changes nothing.
func TestUnlikeOnlyWidens(t *testing.T) {
	draw := rapid.Custom(func(t *rapid.T) Error {
		m := rapid.Float64Range(0.001, 1).Draw(t, "median")
		w := rapid.Float64Range(1, 4).Draw(t, "spread")
		return Error{Median: m, Mean: m, P90: w * m, Factor50: 1 + m, Factor90: 1 + w*m, N: rapid.IntRange(1, 99).Draw(t, "n"), Basis: rapid.StringMatching("[a-z]{3}").Draw(t, "basis")}
	})
	enginetest.Check(t, func(t *rapid.T) {
		base, a, b := draw.Draw(t, "base"), draw.Draw(t, "a"), draw.Draw(t, "b")
		one, both, turned := base.unlike(a), base.unlike(a, b), base.unlike(b, a)
		for _, pair := range [][2]float64{
			{one.Factor90, base.Factor90},
			{one.Factor90, a.Factor90},
			{both.Factor90, one.Factor90},
			{both.Factor90, b.Factor90},
			{both.Median, one.Median},
			{both.P90, one.P90},
			{both.Factor50, one.Factor50},
		} {
			if pair[0] < pair[1]*(1-1e-12) {
				t.Fatalf("%g is below %g", pair[0], pair[1])
			}
		}
		if math.Abs(both.Factor90-turned.Factor90) > 1e-9 || both.N > min(base.N, a.N, b.N) {
			t.Fatalf("%+v and %+v", both, turned)
		}
		if !strings.Contains(both.Basis, a.Basis) || !strings.Contains(both.Basis, b.Basis) {
			t.Fatalf("basis %q", both.Basis)
		}
		if same := base.unlike(base); math.Abs(same.Factor90-base.Factor90) > 1e-9 {
			t.Fatalf("the same widens %+v to %+v", base, same)
		}
	})
}

func TestWiderTakesTheErrorWhole(t *testing.T) {
	a, b := Error{Median: 0.3, P90: 0.4, Factor90: 1.5, Basis: "a"}, Error{Median: 0.1, P90: 0.9, Factor90: 2, Basis: "b"}
	if a.Wider(b) != b || b.Wider(a) != b || a.Wider(Error{}) != a || (Error{}).Wider(a) != a {
		t.Errorf("%+v, %+v", a.Wider(b), b.Wider(a))
	}
}

// The TTFT of a run tells of its TPOT: both are left out together.
func TestLeaveOneOutTakesRunsWhole(t *testing.T) {
	prior := plain().Coefficients
	obs := points(t, scaled(prior, 1.4), "llama-3.1-8b", "bf16")[:4]
	for i := range obs {
		obs[i].Run = 1 + i/2
	}
	all, err := samples(obs)
	if err != nil {
		t.Fatal(err)
	}
	got := leaveOneOut(prior, solve(prior, prior, all), all)
	for i := range obs {
		rest := append(append([]Observation{}, obs[:i/2*2]...), obs[i/2*2+2:]...)
		k, err := estimate(prior, rest)
		if err != nil {
			t.Fatal(err)
		}
		ss, err := samples(obs[i : i+1])
		if err != nil {
			t.Fatal(err)
		}
		if want := ss[0].predict(k); math.Abs(got[i]/want-1) > 1e-3 {
			t.Errorf("point %d: %g, want %g from the other run alone", i, got[i], want)
		}
	}
}
