package store

import (
	"slices"
	"strings"
	"testing"

	"plimsoll/profile"
)

// Whoever builds on a profile is told in one line the first that it warns of itself, and
// nothing where that makes no figure less certain.
func TestDoubts(t *testing.T) {
	r := recommendation()
	r.Warnings = []profile.Warning{{Code: "tied"}, {Code: "fit_length", Message: "far"}, {Code: "undecided_under_load", Message: "short"}}
	ws := r.Doubts()
	if len(ws) != 1 || ws[0].Code != ProfileDoubts || !strings.Contains(ws[0].Message, " 2 warnings,") || !strings.HasSuffix(ws[0].Message, ": far") {
		t.Errorf("%v", ws)
	}
	r.Warnings = r.Warnings[:1]
	if ws := r.Doubts(); ws != nil {
		t.Errorf("of a tie: %v", ws)
	}
}

func TestCaveats(t *testing.T) {
	missed := &Attained{Holds: false, AskedRPS: 4, RateRPS: 0.4, Within: 0.25, Requests: 100}
	held := &Attained{Holds: true, AskedRPS: 4, RateRPS: 4, Within: 1, Requests: 100}
	for name, c := range map[string]struct {
		change func(*Recommendation)
		want   []string
	}{
		"an answer":            {func(*Recommendation) {}, nil},
		"an answer that holds": {func(r *Recommendation) { r.Verified = &Verified{Prefill: held, Decode: held} }, nil},
		"decode is too slow": {func(r *Recommendation) { r.Feasible, r.Decode.Margin = false, -0.35 }, []string{
			ProfileInfeasible + ": nothing in the profile meets its own SLA in decode (mean ITL ≤ 10 ms). The nearest, TP:2 PP:2, is 35 % above it",
		}},
		"prefill misses under load": {func(r *Recommendation) { r.Feasible, r.Verified = false, &Verified{Prefill: missed, Decode: held} }, []string{
			ProfileMissed + ": the profile's prefill pick TP:4 misses its own SLA (mean TTFT ≤ 50 ms) under load: 25.0 % of requests met it at 0.4 requests/s, the lowest rate tried",
		}},
		"both": {func(r *Recommendation) {
			r.Feasible, r.Decode.Margin, r.Verified = false, -1, &Verified{Prefill: missed}
		}, []string{
			ProfileMissed + ": the profile's prefill pick TP:4 misses its own SLA (mean TTFT ≤ 50 ms) under load: 25.0 % of requests met it at 0.4 requests/s, the lowest rate tried",
			ProfileInfeasible + ": nothing in the profile meets its own SLA in decode (mean ITL ≤ 10 ms). The nearest, TP:2 PP:2, is 100 % above it",
		}},
		"no pick says why": {func(r *Recommendation) { r.Feasible = false }, []string{
			ProfileInfeasible + ": nothing in the profile meets its own SLA (mean TTFT ≤ 50 ms, mean ITL ≤ 10 ms). Its picks are the nearest",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := recommendation()
			c.change(&r)
			var got []string
			for _, w := range r.Caveats() {
				got = append(got, w.Code+": "+w.Message)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// What is built on a profile by another statistic than its picks' says so.
func TestOtherStat(t *testing.T) {
	for _, c := range []struct {
		picked, by profile.Statistic
		want       int
	}{
		{profile.Mean, profile.P99, 1},
		{profile.P95, profile.P99, 1},
		{profile.P99, profile.Mean, 1},
		{profile.P99, profile.P99, 0},
		{profile.Mean, profile.Mean, 0},
		{profile.Mean, "", 0},
		{"", profile.P99, 0},
	} {
		rec := Recommendation{SLA: SLA{TTFTMillis: 1, ITLMillis: 1, Stat: c.picked}}
		if got := rec.OtherStat(c.by); len(got) != c.want || c.want > 0 && got[0].Code != "other_stat" {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
