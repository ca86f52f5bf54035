package plots

import (
	"slices"
	"time"
)

// A timeUnit is what a time axis counts in, up to a span of most.
type timeUnit struct {
	name   string
	length time.Duration
	most   time.Duration
	steps  []float64 // round distances of ticks; above and below them, those of numbers
}

func timeUnits() []timeUnit {
	const day = 24 * time.Hour
	sixty := []float64{1, 2, 5, 10, 15, 20, 30, 60}
	return []timeUnit{
		{"seconds", time.Second, 2 * time.Minute, sixty},
		{"minutes", time.Minute, 2 * time.Hour, sixty},
		{"hours", time.Hour, 3 * day, []float64{1, 2, 3, 6, 12, 24}},
		{"days", day, 1<<63 - 1, []float64{1, 2, 7, 14, 28}},
	}
}

// A timeScale is a time axis that knows its bins.
type timeScale struct {
	axis  axis
	steps []float64
	bin   func(float64) float64 // its time: 0 the start of the first, 1.5 the middle of the second
}

// timeAxis spans n bins from start on, in the unit that suits their span.
func timeAxis(start, width time.Duration, n int) timeScale {
	if n == 0 {
		return timeScale{axis: axis{label: "Time", hi: 1}}
	}
	span := time.Duration(n) * width
	us := timeUnits()
	u := us[slices.IndexFunc(us, func(u timeUnit) bool { return span <= u.most })]
	in := func(bin float64) float64 {
		return (float64(start) + bin*float64(width)) / float64(u.length)
	}
	return timeScale{
		axis:  axis{label: "Time (" + u.name + ")", lo: in(0), hi: in(float64(n))},
		steps: u.steps, bin: in,
	}
}

// fitted is the axis with ticks for about n of them.
func (t timeScale) fitted(n int) axis {
	a := t.axis
	want := (a.hi - a.lo) / float64(n)
	a.step = niceStep(want)
	if i := slices.IndexFunc(t.steps, func(s float64) bool { return s >= want }); i >= 0 && want > 0.5 {
		a.step = t.steps[i]
	}
	return a
}
