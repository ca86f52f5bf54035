package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"golang.org/x/perf/benchunit"
)

// table is what was measured as Markdown, and the machine below.
func table(chosen []row, got *results, m machine) string {
	var out strings.Builder
	out.WriteString("| | what | figure | against, in the same run | figure | ratio |\n|---|---|---|---|---|---|\n")
	last, rounds := "", 0
	for _, r := range chosen {
		area := r.area
		if area == last {
			area = ""
		}
		last = r.area
		ours, why := got.of(r.figure)
		theirs, whyNot := got.of(r.baseline)
		rounds = max(rounds, len(ours))
		fmt.Fprintf(&out, "| %s | %s | %s | %s | %s | %s |\n", area, r.what, cell(ours, r.figure.unit, why), r.against, cell(theirs, r.baseline.unit, whyNot), ratios(ours, theirs))
	}
	fmt.Fprintf(&out, "\nLess is better. %d rounds, in each of which every benchmark had its turn: medians, and the range of a round's ratios where it is wider than 5 %%. %s\n", rounds, m)
	return out.String()
}

func cell(values []float64, unit, why string) string {
	if why != "" {
		return "not run: " + why
	}
	return show(median(values), unit)
}

// ratios is that of the medians, with the range over rounds.
func ratios(ours, theirs []float64) string {
	if len(ours) == 0 || len(theirs) == 0 {
		return "–"
	}
	all := make([]float64, min(len(ours), len(theirs)))
	low, high := math.Inf(1), 0.0
	for i := range all {
		all[i] = ours[i] / theirs[i]
		low, high = min(low, all[i]), max(high, all[i])
	}
	text := ratio(median(ours) / median(theirs))
	if high > 1.05*low {
		text += fmt.Sprintf(" (%s–%s)", ratio(low), ratio(high))
	}
	return text
}

// show is a figure in words; times and shares by their unit, else the unit itself.
func show(v float64, unit string) string {
	_, tidy := benchunit.Tidy(1, unit)
	switch {
	case strings.HasPrefix(unit, "%"):
		return significant(v, 2) + " %"
	case strings.Contains(tidy, "sec"):
		return seconds(v)
	case strings.Contains(unit, "µs"):
		return seconds(v / 1e6)
	default:
		return significant(v, 3) + " " + unit
	}
}

func seconds(v float64) string {
	for _, u := range []struct {
		name string
		size float64
	}{{"ns", 1e-9}, {"µs", 1e-6}, {"ms", 1e-3}} {
		if v < 1000*u.size {
			return significant(v/u.size, 2) + " " + u.name
		}
	}
	return significant(v, 2) + " s"
}

// ratio has two digits, and no exponent.
func ratio(v float64) string {
	if v >= 100 {
		step := math.Pow10(int(math.Log10(v)) - 1)
		v = math.Round(v/step) * step
	}
	return significant(v, 2)
}

// significant rounds to some digits, but keeps those before the point.
func significant(v float64, digits int) string {
	if v == math.Trunc(v) || math.Abs(v) >= math.Pow10(digits-1) {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	after := digits - 1 - int(math.Floor(math.Log10(math.Abs(v))))
	return strconv.FormatFloat(v, 'f', after, 64)
}
