package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"
)

// results are what benchmarks said, one value of each figure per round, in base
// units.
type results struct {
	cpu    string // the processor, as Go's testing names it
	values map[figure][]float64
	why    map[benchmark]string // of those that did not run
	broken map[string]bool      // packages that do not build
	faults []error
}

func newResults() *results {
	return &results{values: map[figure][]float64{}, why: map[benchmark]string{}, broken: map[string]bool{}}
}

// add reads what b printed; err is how its process ended.
func (r *results) add(b benchmark, text []byte, err error) error {
	reader, found := benchfmt.NewReader(bytes.NewReader(text), b.name), false
	for reader.Scan() {
		res, ok := reader.Result().(*benchfmt.Result)
		if !ok || nameOf(res) != b.name {
			continue
		}
		found = true
		r.cpu = cmp.Or(res.GetConfig("cpu"), r.cpu)
		for _, v := range res.Values {
			unit := v.Unit
			if v.OrigUnit != "" {
				unit = v.OrigUnit
			}
			r.values[b.in(unit)] = append(r.values[b.in(unit)], v.Value)
		}
	}
	if err := reader.Err(); err != nil {
		return fmt.Errorf("reading what %s %s printed: %w", b.pkg, b.name, err)
	}
	if err != nil {
		r.faults = append(r.faults, fmt.Errorf("%s Benchmark%s: %w", b.pkg, b.name, err))
	}
	if !found {
		r.why[b] = reason(text)
	}
	return nil
}

// nameOf is a result's benchmark, without the number of processors.
func nameOf(r *benchfmt.Result) string {
	base, parts := r.Name.Parts()
	name := string(base)
	for _, p := range parts {
		if p[0] == '/' {
			name += string(p)
		}
	}
	return name
}

// reason is the last that a benchmark without a result said: `file.go:64: why`.
func reason(text []byte) string {
	said := regexp.MustCompile(`(?m)^\s+\S+\.go:\d+: (.+)$`).FindAllSubmatch(text, -1)
	if len(said) == 0 {
		return "it printed no figure"
	}
	return strings.TrimSpace(string(said[len(said)-1][1]))
}

// of is a figure, round by round, or why there is none.
func (r *results) of(f figure) (values []float64, why string) {
	if v := r.values[f]; len(v) > 0 {
		return v, ""
	}
	if why := r.whyNot(f.benchmark); why != "" {
		return nil, why
	}
	return nil, "it says no " + f.unit
}

// whyNot is why a benchmark has no figures; empty where it has, or may have.
func (r *results) whyNot(b benchmark) string {
	if r.broken[b.pkg] {
		return "its package does not build"
	}
	return r.why[b]
}

func (r *results) doesNotBuild(pkg string) {
	r.broken[pkg] = true
	r.faults = append(r.faults, fmt.Errorf("%s does not build", pkg))
}

// failed are the benchmarks that did, and packages that do not build.
func (r *results) failed() error { return errors.Join(r.faults...) }

func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2
}
