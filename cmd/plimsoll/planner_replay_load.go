package main

import (
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/engine"
	"plimsoll/engine/field"
	"plimsoll/engine/sim/fleet"
	"plimsoll/planner/replay"
	"plimsoll/profile"
	"plimsoll/profile/trace"
)

// replayLoadFlags are those of engine simulate, and which part of a trace is
// replayed how often.
func replayLoadFlags() []cli.Flag {
	return append(loadFlags(), stringFlags("load", [][3]string{
		{"from", "", "leave out what a trace has before this `time` of it"},
		{"to", "", "and what it has from this `time` on"},
		{"to-rate", "", "instead of --trace-scale: requests per second on average, `R`, some left out or others like them added"},
		{"repeat", "1", "`N` times the same load, one after the other"},
		{"warmup", "", "tell the planners of the load's first `time`, and replay what comes after"},
	})...)
}

// replayLoad is a load that can be had as often as there are runs.
type replayLoad struct {
	arrivals  arrivals
	toRate    float64 // of a trace; 0 = as --trace-scale says
	repeat    int
	warmup    time.Duration
	blockSize int
}

func parseReplayLoad(p *parser, seed uint64) replayLoad {
	l := replayLoad{arrivals: parseLoad(p, seed), repeat: p.integer("repeat", 1, 10_000, 1), warmup: p.duration("warmup")}
	a := &l.arrivals
	a.from, a.to = p.duration("from"), p.duration("to")
	a.options.Windows.From = a.from // what comes before is not even made
	if p.c.IsSet("to-rate") {
		l.toRate = p.number("to-rate", 1e-6, trace.MaxRate)
	}
	p.needs(a.file != "", "with --trace", "from", "to", "to-rate")
	switch {
	case a.to > 0 && a.to <= a.from:
		p.fail(field.Errorf("--to %v: want more than --from, %v", a.to, a.from))
	case l.toRate > 0 && p.c.IsSet("trace-scale"):
		p.fail(field.Errorf("--to-rate and --trace-scale exclude each other"))
	case l.warmup > replay.MaxLength:
		p.fail(field.Errorf("--warmup %v: want %s at most", short(l.warmup), short(replay.MaxLength)).Hint("--warmup %s or less", short(replay.MaxLength)))
	}
	if p.err == nil {
		p.err = l.lasting()
	}
	return l
}

// minute is what comes in a minute, or in several.
type minute struct{ requests, isl, osl float64 } // tokens in all

func (m minute) plus(o minute) minute {
	return minute{m.requests + o.requests, m.isl + o.isl, m.osl + o.osl}
}

// loadFacts are what is known of a load when it is over.
type loadFacts struct {
	words    string
	once     bool
	stats    trace.Stats
	minutes  []minute
	warnings []profile.Warning
	trace    *traceFacts
}

// facts reads the load once, unless it takes longer than it may.
func (l replayLoad) facts() (loadFacts, error) {
	open, err := l.arrivals.open(l.blockSize)
	if err != nil {
		return loadFacts{}, err
	}
	defer open.close()
	f := loadFacts{words: open.words, once: open.once, warnings: open.warnings, trace: open.facts}
	var late error
	counted := func(yield func(trace.Arrival, error) bool) {
		for x, err := range open.trace {
			if err == nil && x.At >= l.longest() {
				late = l.arrivals.late(x.At, x.Line)
				return
			}
			if err == nil {
				f.count(x)
			}
			if !yield(x, err) {
				return
			}
		}
	}
	if f.stats, err = trace.Summarize(counted, time.Minute); err != nil {
		return f, field.Errorf("%s", ofTrace(err))
	}
	if late != nil {
		return f, late
	}
	if f.stats.Requests == 0 {
		return f, field.Errorf("the load holds no request").Hint("a longer --duration, another part (--from, --to), or another --trace")
	}
	return f, nil
}

func (f *loadFacts) count(a trace.Arrival) {
	i := int(a.At / time.Minute)
	for len(f.minutes) <= i {
		f.minutes = append(f.minutes, minute{})
	}
	f.minutes[i] = f.minutes[i].plus(minute{1, float64(a.ISL), float64(a.OSL)})
}

// scaled is the load at the rate asked for.
func (l replayLoad) scaled() (replayLoad, error) {
	if l.toRate == 0 {
		return l, nil
	}
	a := &l.arrivals
	a.scale, a.options.Windows.Scale = 1, 1
	f, err := l.facts()
	if err != nil {
		return l, err
	}
	if f.stats.Rate <= 0 {
		return l, field.Errorf("--to-rate %g: all %d requests of the trace come at one instant, so it has no rate", l.toRate, f.stats.Requests).
			Hint("--trace-scale says how many times as many, --rate and --arrival make a load of their own")
	}
	scale := l.toRate / f.stats.Rate
	if !(scale >= 1e-6 && scale <= 1000) {
		return l, field.Errorf("--to-rate %g: the trace has %.4g requests/s, so that is %.4g times as many: want 1e-06 to 1000 times", l.toRate, f.stats.Rate, scale)
	}
	a.scale, a.options.Windows.Scale = scale, scale
	return l, nil
}

// requests is the load with another seed. What is wrong with it is told to fail.
func (l replayLoad) requests(seed uint64, span time.Duration, fail *error) iter.Seq[fleet.Request] {
	a := l.arrivals
	a.seed, a.spec.Seed, a.options.Windows.Seed = seed, seed, seed
	return func(yield func(fleet.Request) bool) {
		for k := range l.repeat {
			open, err := a.open(l.blockSize)
			if err != nil {
				*fail = err
				return
			}
			more := passes(open.trace, engine.FromDuration(time.Duration(k)*span), engine.FromDuration(span), fail, yield)
			open.close()
			if !more {
				return
			}
		}
	}
}

// passes yields one pass of a load, later by so much and not longer than its span.
func passes(t trace.Trace, later, span engine.Picoseconds, fail *error, yield func(fleet.Request) bool) bool {
	for x, err := range t {
		if err != nil {
			*fail = field.Errorf("%s", ofTrace(err))
			return false
		}
		q := requestOf(x)
		if q.At >= span {
			return true
		}
		q.At += later
		if !yield(q) {
			return false
		}
	}
	return true
}

// mean is the mean minute.
func (f loadFacts) mean() minute {
	return meanMinute(f.minutes, max(f.stats.Duration.Minutes(), 1))
}

// lengths are those of a prompt and its answer, in tokens.
type lengths struct{ isl, osl float64 }

// p99 are the 99th percentiles, each by itself.
func (f loadFacts) p99() lengths { return lengths{f.stats.ISL.P99, f.stats.OSL.P99} }

// busiest are the minutes with the most requests, prompt tokens and output tokens.
func (f loadFacts) busiest() []minute {
	var out [3]minute
	for _, m := range f.minutes {
		if m.requests > out[0].requests {
			out[0] = m
		}
		if m.isl > out[1].isl {
			out[1] = m
		}
		if m.osl > out[2].osl {
			out[2] = m
		}
	}
	return distinct(out[:])
}

// first is the mean of the minutes from an instant on.
func (f loadFacts) first(from time.Duration, n int) minute {
	begin := min(int(from/time.Minute), len(f.minutes)-1)
	part := f.minutes[begin:min(begin+n, len(f.minutes))]
	return meanMinute(part, min(float64(len(part)), math.Max(1, f.stats.Duration.Minutes()-float64(begin))))
}

// meanMinute is the mean of minutes that last n in all.
func meanMinute(minutes []minute, n float64) minute {
	var all minute
	for _, m := range minutes {
		all = all.plus(m)
	}
	return minute{all.requests / n, all.isl / n, all.osl / n}
}

func (f loadFacts) text(repeat int) string {
	words := fmt.Sprintf("%s: %s in %s, %.4g/s, at most %d in a minute; ISL %.0f and OSL %.0f on average",
		f.words, engine.Count(f.stats.Requests, "request"), short(f.stats.Duration.Round(time.Second)), f.stats.Rate, f.stats.Peaks[0].Requests, f.stats.ISL.Mean, f.stats.OSL.Mean)
	if repeat > 1 {
		words += fmt.Sprintf("; %s over", engine.Count(repeat, "time"))
	}
	return words
}
