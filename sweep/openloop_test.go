package sweep

import (
	"context"
	"strings"
	"testing"
	"time"

	"plimsoll/profile"
)

// An engine whose steps lengthen with what they hold fills slowly near saturation:
// 90 % of what it serves is not said to grow, and more than it serves is.
func TestNearSaturationIsNoGrowth(t *testing.T) {
	const osl = 20
	l := affine(1)
	l.ttft = func(int) time.Duration { return ms }
	l.itl = func(n int, _ float64) time.Duration { return 4*ms + time.Duration(n)*250*time.Microsecond } // 200 requests/s at most
	grew := func(rate float64) (n int) {
		for seed := range uint64(10) {
			b := newLab(map[string]law{"TP:1": l})
			o := openOptions(b, Aggregated, 1)
			o.SLA, o.OSL, o.Open.Requests = profile.SLA{TTFT: time.Hour, ITL: time.Hour, Stat: profile.Mean}, osl, 1000
			o.Open.Traffic = poisson(o.ISL, osl)
			r := newRunner(o, b, &notes{}, Known{}, nil)
			s := newTrial(profile.Aggregated, o.Candidates[0])
			p, err := r.openPoint(t.Context(), s, openLoad{stage: profile.StageSweep, id: "x", rate: rate, residence: osl * 8 * ms, seed: seed})
			if err != nil {
				t.Fatal(err)
			}
			if p.Load.Growing {
				n++
			}
			if err := r.stop(context.Background(), s); err != nil {
				t.Fatal(err)
			}
		}
		return n
	}
	if n := grew(180); n > 1 {
		t.Errorf("%d of 10 loads at 90 %% of what the engine serves are said to grow", n)
	}
	if n := grew(260); n < 10 {
		t.Errorf("%d of 10 loads at 130 %% of what the engine serves are said to grow", n)
	}
}

// Records of answers of a hundred thousand tokens would fill the memory, where a
// thousand requests were judged whatever their length.
func TestLongAnswersAreJudgedByFewer(t *testing.T) {
	for _, c := range []struct {
		phase profile.Phase
		osl   int
		stat  profile.Statistic
		want  int
	}{
		{profile.Decode, 150, profile.Mean, 1000},
		{profile.Decode, 10_000, profile.Mean, 1000},
		{profile.Decode, 100_000, profile.Mean, 100},
		{profile.Aggregated, 100_000, profile.Mean, 100},
		{profile.Prefill, 100_000, profile.Mean, 1000},
		{profile.Decode, 1_000_000, profile.Mean, leastJudged},
		{profile.Decode, 1_000_000, profile.P99, profile.SamplesFor(profile.P99)},
	} {
		o := Options{Virtual: true, OSL: c.osl, SLA: profile.SLA{Stat: c.stat}, Open: OpenLoop{Requests: 1000}}
		if got := o.judged(openLoad{rate: 1}, c.phase); got != c.want {
			t.Errorf("a load of %s with answers of %d tokens, by %s, is judged by %d requests, want %d", c.phase, c.osl, c.stat, got, c.want)
		}
	}
}

// A load is judged by as many requests as an interval takes, in virtual time always;
// where that is more than it may last, by as many as fit, and it is said.
func TestLoadsAreAsLongAsAnIntervalTakes(t *testing.T) {
	o := Options{Virtual: true, SLA: profile.SLA{Stat: profile.Mean}, Open: OpenLoop{Requests: 100}}
	l := openLoad{rate: 10, decides: 640, residence: time.Second}
	if n := o.judged(l, profile.Prefill); n != 640 {
		t.Errorf("in virtual time: %d requests", n)
	}
	l.decides = 1_000_000
	if n := o.judged(l, profile.Prefill); n != mostJudged {
		t.Errorf("of an absurd one: %d requests", n)
	}
	o.Open.Longest = time.Minute
	for decides, want := range map[int]int{10: 100, 600: 600, 601: 600, 1_000_000: 600} {
		if l.decides = decides; o.judged(l, profile.Prefill) != want {
			t.Errorf("%d wanted in a minute: %d requests, want %d", decides, o.judged(l, profile.Prefill), want)
		}
		if why := o.longer(l, l.rate, profile.Prefill); (why != "") != (decides == 601) { // a million are judged in no load
			t.Errorf("%d wanted: %q", decides, why)
		}
	}
	if why := o.longer(openLoad{decides: 1265}, 18, profile.Prefill); why != "; about 1,265 requests would do: set --load-time 1m11s" {
		t.Errorf("said: %q", why)
	}
	if n := o.judged(openLoad{rate: 10, residence: 10 * time.Second}, profile.Aggregated); n != 500 {
		t.Errorf("of an aggregated engine: %d requests, want those of five residence times", n)
	}
	if n := o.judged(openLoad{rate: 10, residence: time.Minute}, profile.Aggregated); n != 600 {
		t.Errorf("of an aggregated engine whose requests stay for long: %d requests, want as many as fit", n)
	}
	o.SLA.Stat = profile.P99
	if n := o.decidesTTFT(0.5, 0); n < 368*4 {
		t.Errorf("a P99 by %d requests", n)
	}
}

// What a load may last holds, whatever the percentile takes: only without the fewest
// requests there is no load.
func TestLoadTimeIsALimit(t *testing.T) {
	for _, stat := range []profile.Statistic{profile.Mean, profile.P99} {
		o := Options{SLA: profile.SLA{Stat: stat}, Open: OpenLoop{Requests: 100, Longest: time.Minute}}
		for rate, want := range map[float64]int{0.1: leastJudged, 1.65: 99, 100: max(100, profile.SamplesFor(stat))} {
			l := openLoad{rate: rate}
			if n := o.judged(l, profile.Decode); n != want {
				t.Errorf("%s, %g requests/s for a minute: %d are judged, want %d", stat, rate, n, want)
			}
		}
	}
}

// A load of too few requests is sent again with more only where enough of them fit.
func TestMissingRequestsFit(t *testing.T) {
	o := Options{SLA: profile.SLA{Stat: profile.P90}, Open: OpenLoop{Longest: time.Minute}} // takes 36
	few := func(n int, worth float64) profile.Attainment {
		return profile.Attainment{Requests: n, TTFT: profile.Distribution{N: n, Neff: worth}}
	}
	for _, c := range []struct {
		rate float64
		a    profile.Attainment
		want int
	}{
		{1, few(30, 30), 13}, {0.5, few(28, 28), 0}, {0.7, few(30, 30), 12}, {10, few(100, 18), 140}, {3, few(100, 18), 0}, {10, few(0, 0), 43},
	} {
		if got := o.missing(openLoad{rate: c.rate}, c.a, profile.Prefill); got != c.want {
			t.Errorf("%g requests/s, %d judged that are worth %.0f: %d more, want %d", c.rate, c.a.Requests, c.a.TTFT.Neff, got, c.want)
		}
	}
}

// In virtual time a load of too few requests is sent again with as many as its
// percentile takes, which 20,000 were not; where no load has so many, that is said, and
// no longer --load-time is advised, which would change nothing.
func TestVirtualLoadsHaveEnough(t *testing.T) {
	few := func(worth float64) profile.Attainment {
		return profile.Attainment{Requests: 20_000, TTFT: profile.Distribution{N: 20_000, Neff: worth}}
	}
	for _, c := range []struct {
		virtual bool
		longest time.Duration
		worth   float64
		more    bool
		full    bool
	}{
		{true, 0, 340, true, true},
		{true, 0, 100, false, true},
		{false, 0, 340, false, true},
		{true, time.Hour, 340, true, false},
		{true, time.Hour, 100, false, true},
		{true, 0, 400, true, false},
	} {
		o := Options{Virtual: c.virtual, SLA: profile.SLA{Stat: profile.P99}, Open: OpenLoop{Longest: c.longest}}
		a := few(c.worth)
		if got := o.missing(openLoad{rate: 10}, a, profile.Prefill); (got > 0) != c.more {
			t.Errorf("%+v: %d more", c, got)
		}
		if a.Full = o.full(a, profile.Prefill); a.Full != c.full {
			t.Errorf("%+v: full %v", c, a.Full)
		}
		if why := a.TooFew(profile.Prefill, o.SLA); strings.Contains(why, "raise --load-time") == c.full {
			t.Errorf("%+v: %s", c, why)
		}
	}
}

// Those under way as a load begins are due at once, with all that is left of their
// answers between them; the others come as they would.
func TestUnderWay(t *testing.T) {
	var asks []profile.Ask
	for i := range 10 {
		asks = append(asks, profile.Ask{Due: time.Duration(i) * time.Second, OSL: 100})
	}
	underWay(asks, 4)
	left := 0
	for i, a := range asks {
		if want := time.Duration(max(0, i-4)) * time.Second; a.Due != want {
			t.Errorf("request %d is due at %v, want %v", i, a.Due, want)
		}
		if i < 4 {
			left += a.OSL
		} else if a.OSL != 100 {
			t.Errorf("request %d asks for %d tokens", i, a.OSL)
		}
	}
	if left != 12+37+62+87 {
		t.Errorf("%d tokens are left of 4 answers of 100", left)
	}
	one := []profile.Ask{{OSL: 1}, {OSL: 1}}
	if underWay(one, 9); one[0].OSL != 1 || one[1].Due != 0 {
		t.Errorf("%+v", one)
	}
}
