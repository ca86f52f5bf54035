package main

import (
	"bytes"
	"flag"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"
)

// A time has a unit, or is a plain number of the flag's own unit.
func TestParseTime(t *testing.T) {
	for _, c := range []struct {
		text string
		unit time.Duration
		want time.Duration
	}{
		{"1s", time.Millisecond, time.Second},
		{" 2m30s ", time.Second, 150 * time.Second},
		{"1000", time.Millisecond, time.Second},
		{"0.5", time.Millisecond, 500 * time.Microsecond},
		{"90", time.Second, 90 * time.Second},
		{"1e3", time.Millisecond, time.Second},
		{"0", time.Second, 0},
	} {
		if got, err := parseTime(c.text, c.unit); err != nil || got != c.want {
			t.Errorf("%q in %v: %v, %v; want %v", c.text, c.unit, got, err, c.want)
		}
	}
	for _, text := range []string{"", "s", "1x", "NaN", "inf", "1e30", "1 s"} {
		if got, err := parseTime(text, time.Millisecond); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// Whatever reads a time takes one with its unit and a plain number.
func TestEveryTimeTakesBoth(t *testing.T) {
	read := func(text string, of func(*parser) time.Duration) (time.Duration, error) {
		set := flag.NewFlagSet("x", flag.ContinueOnError)
		set.String("x", text, "")
		p := &parser{c: cli.NewContext(nil, set, nil)}
		d := of(p)
		return d, p.err
	}
	for name, of := range map[string]func(*parser) time.Duration{
		"latency": func(p *parser) time.Duration { return p.millis("x") }, "optional latency": func(p *parser) time.Duration { return p.optionalMillis("x") },
		"time": func(p *parser) time.Duration { return p.duration("x") }, "time up to": func(p *parser) time.Duration { return p.upTo("x", time.Hour) },
		"times": func(p *parser) time.Duration { return append(p.durations("x", time.Hour), 0)[0] },
	} {
		for _, text := range []string{"2s", "2000"} {
			if got, err := read(text, of); err != nil || got != 2*time.Second {
				t.Errorf("%s %q: %v, %v", name, text, got, err)
			}
		}
	}
	if got, err := read("2", func(p *parser) time.Duration { return p.inSeconds("x", time.Second, 0) }); err != nil || got != 2*time.Second {
		t.Errorf("in seconds: %v, %v", got, err)
	}
}

// All flags that are missing are named in one error, and hints say how to do without.
func TestMissingFlagsAreNamedAtOnce(t *testing.T) {
	var out, errout bytes.Buffer
	if code := run(t.Context(), []string{"plimsoll", "capacity", "plan", "--rate", "5"}, streams{strings.NewReader(""), &out, &errout}); code != exitUsage {
		t.Fatalf("exit code %d", code)
	}
	if got := errout.String(); !strings.Contains(got, "--isl, --osl, --ttft-p99 and --itl-p99 are missing") || !strings.Contains(got, "--trace FILE") || strings.Contains(got, "--gpu-count") {
		t.Errorf("%s", got)
	}
	if got := ran(t, exitUsage, "capacity", "plan").errout.String(); !strings.Contains(got, "--rate, --isl,") || !strings.Contains(got, "--gpu-count N") {
		t.Errorf("without a rate: %s", got)
	}
}
