package main

import (
	"time"

	"plimsoll/engine/field"
	"plimsoll/planner/replay"
)

// span is the time that one pass of the load takes, in whole seconds: what was
// asked for, or up to its last request.
func (l replayLoad) span(f loadFacts) time.Duration {
	if d := l.arrivals.spec.Duration; d > 0 && l.arrivals.spec.Requests == 0 {
		return (d + time.Second - 1).Truncate(time.Second)
	}
	return f.stats.Duration.Truncate(time.Second) + time.Second
}

// longest is what one pass may take: a replay, and what the planners are told
// before it.
func (l replayLoad) longest() time.Duration { return l.warmup + replay.MaxLength }

// lasting refuses a generated load that takes longer than a replay may, before any
// request of it is made.
func (l replayLoad) lasting() error {
	a := l.arrivals
	if a.file != "" {
		return nil // which has to be read
	}
	if d := a.spec.Duration; d > l.longest() && a.duration > 0 && a.spec.Requests == 0 {
		return field.Errorf("--duration %s: a replay takes %s at most", short(d), short(replay.MaxLength)).Hint("--duration %s or less", short(l.longest()))
	}
	until, _ := a.spec.Covered()
	if until > l.longest() {
		return a.slow()
	}
	return l.repeated(until)
}

// repeated refuses more passes of a load than a replay has time for.
func (l replayLoad) repeated(span time.Duration) error {
	if span <= 0 || span <= l.longest()/time.Duration(l.repeat) {
		return nil
	}
	most := max(1, l.longest()/span)
	return field.Errorf("--repeat %d: the load takes %s each time, and a replay %s at most", l.repeat, short(span.Round(time.Second)), short(replay.MaxLength)).
		Hint("--repeat %d or less", most)
}

// slow refuses a generated load whose requests come too slowly for a replay.
func (a arrivals) slow() error {
	most := short(replay.MaxLength)
	return field.Errorf("--rate %g: at this rate the load takes longer than a replay may (%s)", a.asked, most).
		Hint("a higher --rate, fewer --requests, or --duration %s", most)
}

// late refuses an arrival for which a replay has no time.
func (a arrivals) late(at time.Duration, line int) error {
	when, most := short(at.Round(time.Second)), short(replay.MaxLength)
	if a.file == "" {
		return a.slow()
	}
	return field.Errorf("--trace %s:%d: the load goes on at %s, and a replay takes %s at most", a.file, line, when, most).
		Hint("--duration %s leaves out what comes later; a file's times are all since its beginning, or all since 1970", most)
}
