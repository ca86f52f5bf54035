package trace

import (
	"fmt"
	"math"
	"slices"
	"time"

	"plimsoll/engine/field"
	"plimsoll/profile"
)

// headRows are how many rows show a file's unit of time and its ticks.
const headRows = 10_000

// units are what numbers can count, with the names that a user writes and reads.
var units = []struct {
	unit       time.Duration
	name, word string
}{{time.Second, "s", "seconds"}, {time.Millisecond, "ms", "milliseconds"}, {time.Microsecond, "us", "microseconds"}, {time.Nanosecond, "ns", "nanoseconds"}}

// UnitNames are the short names of the units that times can be in.
func UnitNames() []string {
	var names []string
	for _, u := range units {
		names = append(names, u.name)
	}
	return names
}

// UnitNamed is the unit of a short name; 0 where there is none.
func UnitNamed(name string) time.Duration {
	for _, u := range units {
		if u.name == name {
			return u.unit
		}
	}
	return 0
}

// UnitName is the short name of the file's unit; date where its times are dates.
func (f *File) UnitName() string {
	for _, u := range units {
		if u.unit == f.Unit {
			return u.name
		}
	}
	return "date"
}

func unitWord(unit time.Duration) string {
	for _, u := range units {
		if u.unit == unit {
			return u.word
		}
	}
	return "numbers"
}

// clock reads the head of the file and finds out its unit, where neither the file nor
// the user says it, and its ticks.
func (f *File) clock() error {
	var numbers []float64
	dates := 0
	for r := range f.parsed {
		f.head = append(f.head, r)
		switch {
		case r.dated:
			dates++
		case r.err == nil && r.number >= 0 && !math.IsInf(r.number, 1):
			numbers = append(numbers, r.number)
		}
		if r.err != nil || len(f.head) == headRows {
			break
		}
	}
	asked := f.opts.Unit
	switch {
	case asked > 0 && dates > 0:
		return fmt.Errorf("%s: its times are dates, which have no unit (hint: leave out %s)", f.lines.name, field.TimeUnit)
	case asked > 0 && f.Unit > 0 && asked != f.Unit:
		return fmt.Errorf("%s: it says itself that its times are %s (hint: leave out %s)", f.lines.name, unitWord(f.Unit), field.TimeUnit)
	case asked > 0:
		f.Unit = asked
	case f.Unit == 0 && dates == 0:
		if err := f.findUnit(numbers); err != nil {
			return err
		}
	}
	f.findTick()
	if f.opts.SpreadTicks && f.Tick == 0 {
		return fmt.Errorf("%s: its arrivals are in no ticks that could be spread (hint: leave out %s)", f.lines.name, field.SpreadTicks)
	}
	return nil
}

// The odds of a unit. A trace has some 3 requests/s and lasts some 17 minutes, both
// log-normal: rates within a factor of 20, spans within one of 16 (standard deviation).
const (
	rateMean, rateSpread = 0.5, 1.3 // log10 of requests/s
	spanMean, spanSpread = 3, 1.2   // log10 of seconds
	// Natural logarithms of odds.
	ofDate             = 12.0 // of a first time that is a date from 2001 to 2100
	ofOffset           = 2.0  // against one that is none and beyond the trace's own span
	ofBlocks           = 4.0  // against a unit that is not Mooncake's, where prompts have Mooncake's blocks
	undecided, doubted = 2.3, 6.9
)

// unlikely is how unusual such numbers are in each of the units, as natural logarithms
// of odds. Fractions are of a large unit; whole numbers are Mooncake's milliseconds, but
// in a CSV, or where the clock is slower than the arrivals, more often seconds.
func unlikely(f Format, fractions, slow bool) [4]float64 {
	switch {
	case fractions:
		return [4]float64{0, 3.9, 7, 9}
	case f == FormatMooncake && !slow:
		return [4]float64{3.9, 0, 4.6, 4.6}
	}
	return [4]float64{0, 2.3, 3.9, 3.9}
}

// findUnit decides by the file's first times which unit they are in.
func (f *File) findUnit(numbers []float64) error {
	if len(numbers) == 0 {
		f.Unit = time.Second
		return nil
	}
	first, last, fractions := slices.Min(numbers), slices.Max(numbers), 0
	for _, v := range numbers {
		if math.Abs(v-math.Round(v)) > 1e-9*v {
			fractions++
		}
	}
	gaps := float64(len(numbers) - 1)
	blocks := slices.ContainsFunc(f.head, func(r row) bool { return r.BlockTokens == mooncakeBlock })
	against := unlikely(f.Format, 10*fractions > len(numbers), last-first < gaps)
	odds := make([]float64, len(units))
	for i, u := range units {
		start, span := first*u.unit.Seconds(), (last-first)*u.unit.Seconds()
		odds[i] = -against[i]
		if span > 0 {
			rate, long := (math.Log10(gaps/span)-rateMean)/rateSpread, (math.Log10(span)-spanMean)/spanSpread
			if len(f.head) == headRows { // the file goes on
				long = max(long, 0)
			}
			odds[i] -= (rate*rate + long*long) / 2
		}
		switch {
		case start >= 1e9 && start < 4.1e9:
			odds[i] += ofDate
		case start > span:
			odds[i] -= ofOffset
		}
		if blocks && u.unit != time.Millisecond {
			odds[i] -= ofBlocks
		}
	}
	best := slices.Index(odds, slices.Max(odds))
	second := (best + 1) % len(units)
	for i := range odds {
		if i != best && odds[i] > odds[second] {
			second = i
		}
	}
	f.Unit, f.found = units[best].unit, last > first
	reading := func(i int) string {
		span := (last - first) * units[i].unit.Seconds()
		long := fmt.Sprintf("%.3g s", span)
		if span >= 60 {
			long = time.Duration(min(span, 1e9) * 1e9).Round(time.Second).String()
		}
		return fmt.Sprintf("%s (%.3g requests/s over %s)", units[i].word, gaps/span, long)
	}
	switch sure := odds[best] - odds[second]; {
	case last == first: // at any speed
	case sure < undecided:
		return fmt.Errorf("%s: its times may be %s or %s: nothing in it decides (hint: %s %s, or %s)",
			f.lines.name, reading(best), reading(second), field.TimeUnit, units[best].name, units[second].name)
	case sure < doubted:
		f.doubt = fmt.Sprintf("times are read as %s. Should they be %s, say %s %s", reading(best), reading(second), field.TimeUnit, units[second].name)
	}
	return nil
}

// leastTick is the shortest that matters: engines take requests up step by step.
const leastTick = 10 * time.Millisecond

// findTick looks for a slow clock in the file's first times: two requests or more at
// each instant, and the instants, nine of ten within a twentieth, whole ticks apart.
func (f *File) findTick() {
	var at []time.Duration
	for _, r := range f.head {
		if a, err := f.timed(r); err == nil {
			at = append(at, a.At)
		}
	}
	n := len(at)
	slices.Sort(at)
	at = slices.Compact(at)
	if len(at) < 5 || n < 2*len(at) {
		return
	}
	gaps := make([]time.Duration, len(at)-1)
	for i := range gaps {
		gaps[i] = at[i+1] - at[i]
	}
	slices.Sort(gaps)
	tick, off := gaps[len(gaps)/2], 0
	for _, g := range gaps {
		if ticks := math.Round(float64(g) / float64(tick)); math.Abs(float64(g)-ticks*float64(tick)) > 0.05*ticks*float64(tick) {
			off++
		}
	}
	if tick >= leastTick && 10*off <= len(gaps) {
		f.Tick, f.together = tick, float64(n)/float64(len(at))
	}
}

// Words say how the file's times are read; empty where it says that itself.
func (f *File) Words() string {
	words := ""
	if f.found || f.opts.Unit > 0 {
		words = "times in " + unitWord(f.Unit)
	}
	if f.opts.SpreadTicks {
		words += fmt.Sprintf(", spread over ticks of %.3g s", f.Tick.Seconds())
	}
	return words
}

// Warnings are what a reader has to know of the file's times.
func (f *File) Warnings() []profile.Warning {
	var ws []profile.Warning
	if f.doubt != "" {
		ws = append(ws, profile.Warnf("time_unit", "%s: %s", f.lines.name, f.doubt))
	}
	if f.Tick > 0 && !f.opts.SpreadTicks {
		ws = append(ws, profile.Warnf("ticks", "%s has its times in ticks of about %.3g s, each with %.2g requests on average, which play as bursts. Spread them with %s",
			f.lines.name, f.Tick.Seconds(), f.together, field.SpreadTicks))
	}
	return ws
}
