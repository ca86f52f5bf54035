package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// benchTime is how long a benchmark goes on at least; the long ones are run once.
const benchTime = "0.3s"

// suite runs benchmarks, each in a process of its own.
type suite struct {
	dir      string            // of the packages' test programs
	programs map[string]string // by package
	progress io.Writer
}

func newSuite(progress io.Writer) (*suite, error) {
	dir, err := os.MkdirTemp("", "plimsoll-bench-")
	if err != nil {
		return nil, fmt.Errorf("making a folder for test programs: %w", err)
	}
	return &suite{dir: dir, programs: map[string]string{}, progress: progress}, nil
}

// say tells how far it is; whether anybody hears it does not matter.
func (s *suite) say(format string, args ...any) { _, _ = fmt.Fprintf(s.progress, format, args...) }

func (s *suite) remove() { _ = os.RemoveAll(s.dir) }

// measure runs what the rows name, a figure and then its baseline, for some
// rounds, so that other work on the machine meets both.
func (s *suite) measure(ctx context.Context, chosen []row, rounds int) (*results, error) {
	all := benchmarksOf(chosen)
	got := newResults()
	for _, b := range all {
		if err := s.build(ctx, b.pkg, got); err != nil {
			return nil, err
		}
	}
	for round := range rounds {
		for i, b := range all {
			if got.whyNot(b) != "" {
				continue // it will not be otherwise in another round
			}
			s.say("bench: round %d of %d, %d of %d: %s %s\n", round+1, rounds, i+1, len(all), b.pkg, b.name)
			text, err := s.run(ctx, b)
			if ctx.Err() != nil {
				return nil, fmt.Errorf("running %s %s: %w", b.pkg, b.name, ctx.Err())
			}
			if err := got.add(b, text, err); err != nil {
				return nil, err
			}
		}
	}
	return got, nil
}

// benchmarksOf are those that rows name, each once.
func benchmarksOf(chosen []row) []benchmark {
	var all []benchmark
	seen := map[benchmark]bool{}
	for _, r := range chosen {
		for _, b := range []benchmark{r.figure.benchmark, r.baseline.benchmark} {
			if !seen[b] {
				seen[b] = true
				all = append(all, b)
			}
		}
	}
	return all
}

// build builds a package's test program, once.
func (s *suite) build(ctx context.Context, pkg string, got *results) error {
	if _, done := s.programs[pkg]; done {
		return nil
	}
	s.say("bench: building %s\n", pkg)
	program := filepath.Join(s.dir, strings.ReplaceAll(pkg, "/", "-")+".test")
	text, err := exec.CommandContext(ctx, "go", "test", "-c", "-o", program, "./"+pkg).CombinedOutput()
	if ctx.Err() != nil {
		return fmt.Errorf("building %s: %w", pkg, ctx.Err())
	}
	if err != nil {
		s.say("%s", text)
		got.doesNotBuild(pkg)
	}
	s.programs[pkg] = program
	return nil
}

// run is what a benchmark prints.
func (s *suite) run(ctx context.Context, b benchmark) ([]byte, error) {
	cmd := exec.CommandContext(ctx, s.programs[b.pkg], "-test.run", "^$", "-test.v", "-test.benchtime", benchTime, "-test.bench", b.pattern())
	cmd.Dir = filepath.FromSlash(b.pkg)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	text, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return nil, fmt.Errorf("starting %s: %w", path.Base(cmd.Path), err)
	}
	if err != nil {
		s.say("%s%s", text, errs.Bytes())
	}
	return text, err
}

// pattern matches a benchmark and nothing else.
func (b benchmark) pattern() string {
	var parts []string
	for i, p := range strings.Split(b.name, "/") {
		if i == 0 {
			p = "Benchmark" + p
		}
		parts = append(parts, "^"+regexp.QuoteMeta(p)+"$")
	}
	return strings.Join(parts, "/")
}
