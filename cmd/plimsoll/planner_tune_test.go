package main

import (
	"flag"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"
	"pgregory.net/rapid"

	"plimsoll/engine/enginetest"
	"plimsoll/profile"
	"plimsoll/profile/trace"
)

// tuneContext is the command line of planner tune as its action gets it.
func tuneContext(t *testing.T, args ...string) *cli.Context {
	t.Helper()
	command := plannerTuneCommand()
	set := flag.NewFlagSet("tune", flag.ContinueOnError)
	for _, f := range command.Flags {
		if err := f.Apply(set); err != nil {
			t.Fatal(err)
		}
	}
	if err := set.Parse(append([]string{"--ttft", "500", "--itl", "50"}, args...)); err != nil {
		t.Fatal(err)
	}
	c := cli.NewContext(cli.NewApp(), set, nil)
	c.Command = command
	return c
}

// Every parameter is a flag, and so a key of the planner's file; what is set by
// default is found in the options; both ends of its range are values of the flag,
// and read back as they were written.
func TestTunables(t *testing.T) {
	t.Parallel()
	serve := plannerFlags()
	for _, policy := range tunedPolicies() {
		o, err := parseTune(tuneContext(t, "--policy", policy), nil)
		if err != nil {
			t.Fatal(err)
		}
		o.parameters = tunables(policy)
		if err := o.space().Check(); err != nil {
			t.Errorf("%s: %v", policy, err)
		}
		for _, x := range o.parameters {
			if !slices.ContainsFunc(serve, func(f cli.Flag) bool { return f.Names()[0] == x.flag }) && policyOf(policy).serves {
				t.Errorf("%s: planner serve has no --%s", policy, x.flag)
			}
			values := []float64{x.low, x.high}
			if x.kind == tunedWord {
				values = []float64{0, float64(len(x.words) - 1)}
			}
			for _, v := range values {
				to, err := o.variant(map[string]string{x.flag: x.text(v)})
				if err != nil {
					t.Errorf("%s: --%s %s: %v", policy, x.flag, x.text(v), err)
				} else if got := x.parameter(to).Default; got != v {
					t.Errorf("%s: --%s %s is read as %v", policy, x.flag, x.text(v), got)
				}
			}
		}
	}
	if got := tunedPolicies(); !slices.Equal(got, []string{"default", "upstream", "load", "wva-v2:sla", "keda:sla", "hpa:sla"}) {
		t.Errorf("%v", got)
	}
}

func TestParseTunables(t *testing.T) {
	t.Parallel()
	all := tunables("default")
	for _, x := range []struct{ given, want, complaint string }{
		{"", "headroom 0 to 4; scale-down-after 15s to 30m; adjustment-interval 30s to 5m; load-predictor auto|constant|arima|kalman|prophet", ""},
		{"headroom", "headroom 0 to 4", ""},
		{" headroom=0.5..3 , scale-down-after=1m..15m", "headroom 0.5 to 3; scale-down-after 1m to 15m", ""},
		{"max-scale-up=2..3,load-predictor=kalman|constant", "max-scale-up 2 to 3; load-predictor kalman|constant", ""},
		{"margin", "", `--tune "margin": want some of headroom, scale-down-after, .*`},
		{"headroom,headroom", "", "--tune: headroom is there twice"},
		{"headroom=1", "", "--tune headroom=1: want LOW..HIGH, such as 0..4"},
		{"headroom=2..1", "", "--tune headroom=2..1: it goes from 2 to 1: want the first below the second"},
		{"headroom=a..1", "", `--tune headroom=a..1: "a": want a number from 0 to 1000000`},
		{"headroom=NaN..1", "", `.*"NaN": want a number from 0 to 1000000`},
		{"scale-down-after=1x..2x", "", `.*"1x": want a time such as 30m.*`},
		{"max-scale-up=1.5..2", "", `.*"1.5": want a whole number from 0 to [0-9]+`},
		{"load-predictor=kalman", "", ".*one word leaves nothing to choose: .*"},
		{"load-predictor=kalman|kalman", "", `.*"kalman": want some of .*, each once, with \| between them`},
		{",", "", `--tune "": want some of .*`},
	} {
		got, err := parseTunables(x.given, all)
		var words []string
		for _, p := range got {
			words = append(words, p.flag+" "+p.searched())
		}
		if s := strings.Join(words, "; "); s != x.want {
			t.Errorf("%q: %s", x.given, s)
		}
		if complaint := errorText(err); !regexp.MustCompile("^" + x.complaint + "$").MatchString(complaint) {
			t.Errorf("%q: %s", x.given, complaint)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// Whatever --tune says, what is taken has values that can be written and read.
func FuzzTunables(f *testing.F) {
	for _, s := range []string{"", "headroom", "headroom=0.5..3,scale-down-after=1m..15m", "load-predictor=kalman|auto", "adjustment-interval=30s..1h", "max-scale-up=0..1", "headroom=1e-300..1e6", "scale-down-after=0s..1ns"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parseTunables(s, tunables("default"))
		if err != nil {
			return
		}
		for _, p := range got {
			if p.kind == tunedWord {
				continue
			}
			if !(p.low >= 0 && p.low < p.high && p.step > 0) {
				t.Fatalf("%q: %s goes from %v to %v in steps of %v", s, p.flag, p.low, p.high, p.step)
			}
			for _, v := range []float64{p.low, p.high} {
				if back, err := p.value(p.text(v)); err != nil || back != v {
					t.Fatalf("%q: %v of %s is written %s and read %v, %v", s, v, p.flag, p.text(v), back, err)
				}
			}
		}
	})
}

// Whatever --fit-on says, what is taken is a part of some load, or begins somewhere.
func FuzzSpan(f *testing.F) {
	for _, s := range []string{"0s..30m", "30m..", "..1h", "1h..1h", "a..b", "..", "1h", "1m..2m..3m", "-1s..2s", "0\v..", "0s..9223372036854775807ns"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		w, err := parseSpan(s)
		if err == nil && (w.from < 0 || w.to != 0 && w.to <= w.from || w == (span{}) && strings.Trim(strings.Join(strings.Fields(s), ""), "0.smhunµμ+-") != "") {
			t.Fatalf("%q is read as %+v", s, w)
		}
	})
}

// The parts that are replayed never have time in common, nor go beyond the load.
func TestHalves(t *testing.T) {
	t.Parallel()
	enginetest.Check(t, func(r *rapid.T) {
		second := func(label string) time.Duration {
			return time.Duration(rapid.IntRange(0, 100).Draw(r, label)) * time.Second
		}
		given := func(label string) *span {
			if !rapid.Bool().Draw(r, label) {
				return nil
			}
			return &span{second(label + " from"), second(label + " to")}
		}
		fit, report, whole := given("fit"), given("report"), second("whole")
		a, b, err := halves(fit, report, whole)
		if err != nil {
			return
		}
		if a.overlaps(b) || a.from < 0 || b.from < 0 || a.to > whole || b.to > whole || a.length() <= 0 || b.length() <= 0 {
			r.Fatalf("%v and %v of %v are %v and %v", fit, report, whole, a, b)
		}
		if fit == nil && report == nil && (a.from != 0 || b.to != whole || a.to != b.from) {
			r.Fatalf("halves of %v are %v and %v", whole, a, b)
		}
	})
}

// Parts of a load are its requests, each once and at its own time.
func TestSpanOfALoad(t *testing.T) {
	t.Parallel()
	whole, err := trace.Generate(trace.Spec{Gaps: trace.Gaps{Process: profile.Poisson}, Rate: trace.Constant(5), Duration: time.Minute, Seed: 1, ISL: trace.Fixed(10), OSL: trace.Fixed(2)})
	if err != nil {
		t.Fatal(err)
	}
	at := func(of trace.Trace, later time.Duration) (out []time.Duration) {
		for a, err := range of {
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, a.At+later)
		}
		return out
	}
	first, second := span{0, 25 * time.Second}, span{25 * time.Second, time.Minute}
	if got, want := slices.Concat(at(first.of(whole), 0), at(second.of(whole), 25*time.Second)), at(whole, 0); !slices.Equal(got, want) {
		t.Errorf("%d requests of %d", len(got), len(want))
	}
}
