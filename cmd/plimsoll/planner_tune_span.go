package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"plimsoll/engine/field"
	"plimsoll/profile/trace"
)

// span is a part of a load, by time from its beginning; to 0 is its end.
type span struct{ from, to time.Duration }

// parseSpan reads FROM..TO; what is left out is the beginning, or the end.
func parseSpan(s string) (span, error) {
	var out span
	bad := errors.New("want FROM..TO, times from the load's beginning (0s..2h), without TO up to its end")
	from, to, ok := strings.Cut(s, "..")
	if !ok || strings.TrimSpace(from+to) == "" {
		return out, bad
	}
	for _, x := range []struct {
		text string
		to   *time.Duration
	}{{from, &out.from}, {to, &out.to}} {
		text := strings.TrimSpace(x.text)
		if text == "" {
			continue
		}
		d, err := parseTime(text, time.Millisecond)
		if err != nil || d < 0 {
			return span{}, bad
		}
		*x.to = d
	}
	if strings.TrimSpace(to) != "" && out.to <= out.from {
		return span{}, fmt.Errorf("it ends at %s, and begins at %s: want it to end later", short(out.to), short(out.from))
	}
	return out, nil
}

func (w span) String() string { return short(w.from) + " to " + short(w.to) + " of it" }

func (w span) length() time.Duration { return w.to - w.from }

// overlaps reports whether two parts, whose ends are known, have time in common.
func (w span) overlaps(o span) bool { return w.from < o.to && o.from < w.to }

// of is the part of a load, which begins at 0.
func (w span) of(t trace.Trace) trace.Trace {
	return func(yield func(trace.Arrival, error) bool) {
		for a, err := range trace.Between(t, w.from, w.to) {
			a.At -= w.from
			if !yield(a, err) {
				return
			}
		}
	}
}

// halves are the parts where one of them is not given: before and behind the other,
// or the first and the second half.
func halves(fit, report *span, whole time.Duration) (a, b span, err error) {
	middle := whole.Truncate(2*time.Second) / 2
	a, b = span{0, middle}, span{middle, whole}
	switch {
	case fit != nil && report != nil:
		a, b = *fit, *report
	case fit != nil:
		a = *fit
		b = span{a.to, whole}
	case report != nil:
		b = *report
		a = span{0, b.from}
	}
	for _, x := range []struct {
		flag  string
		part  *span
		given *span
	}{{"fit-on", &a, fit}, {"report-on", &b, report}} {
		if x.part.to == 0 {
			x.part.to = whole
		}
		switch {
		case x.part.to > whole:
			return a, b, field.Errorf("--%s: it ends at %s, and the load at %s", x.flag, short(x.part.to), short(whole))
		case x.part.length() <= 0 && x.given == nil:
			return a, b, field.Errorf("nothing is left for --%s of a load of %s", x.flag, short(whole)).Hint("name both parts: --fit-on, --report-on")
		case x.part.length() <= 0:
			return a, b, field.Errorf("--%s: it begins at %s, and the load ends at %s", x.flag, short(x.part.from), short(whole))
		}
	}
	if a.overlaps(b) {
		return a, b, field.Errorf("--fit-on %s..%s and --report-on %s..%s overlap: settings would be praised for what they were chosen by",
			short(a.from), short(a.to), short(b.from), short(b.to)).Hint("parts that have no time in common")
	}
	return a, b, nil
}
