package plots

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// The most that one picture has room for.
const (
	mostPanels        = 6
	mostDistributions = 4
	mostLines         = 4 // of a panel or a distribution
	mostLimits        = 4 // of either
	mostBins          = 4096
)

// Panel is one strip over the time axis that all strips of a picture share.
type Panel struct {
	Title  string
	Unit   string  // of the values: "ms", "per second"; empty for a count
	Lines  []Line  // 4 at most
	Limits []Limit // 4 at most
	// Log asks for a logarithmic axis. It is one where the positive values span
	// more than a factor of ten; a 0 is then drawn at its foot.
	Log bool
}

// Line is one value over time.
type Line struct {
	Name   string    // empty keeps it out of the legend
	Values []float64 // one a bin, NaN where there is nothing
	// Low and High are a band around the line, one value a bin, NaN where there
	// is none; both empty for no band at all.
	Low, High []float64
	Step      bool // the value holds for all of its bin; else bins' middles are joined
	Filled    bool // down to the foot
}

// Limit is a value at which something ends: an SLA.
type Limit struct {
	Name  string // "SLA 200 ms"
	Value float64
}

// Timeline shows how something did over time: panels (6 at most) above one
// another over bins of equal width (4096 at most), the first of which begins
// at start, and beside them how values were distributed (4 at most). Lines have
// a value for every bin, or none at all.
func Timeline(c Caption, title string, start, width time.Duration, panels []Panel, ds []Distribution) (*Picture, error) {
	t := timeline{caption: c, title: clean(title), panels: panels, distributions: ds, bins: bins(panels)}
	errs := []error{c.check(), t.checkTime(start, width)}
	if len(panels) > mostPanels || len(ds) > mostDistributions {
		errs = append(errs, fmt.Errorf("%d panels and %d distributions: want at most %d and %d", len(panels), len(ds), mostPanels, mostDistributions))
	}
	for _, p := range panels {
		errs = append(errs, p.check(t.bins))
	}
	for _, d := range ds {
		errs = append(errs, d.check())
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("plotting timeline %q: %w", t.title, err)
	}
	t.time = timeAxis(start, width, t.bins)
	return &Picture{title: t.title, paint: t.paint}, nil
}

// bins is the number of values of the longest line.
func bins(panels []Panel) int {
	n := 0
	for _, p := range panels {
		for _, l := range p.Lines {
			n = max(n, len(l.Values))
		}
	}
	return n
}

// checkTime refuses a time axis whose bins could not be told apart.
func (t timeline) checkTime(start, width time.Duration) error {
	switch {
	case t.bins == 0:
		return nil
	case t.bins > mostBins:
		return fmt.Errorf("%d bins: want at most %d", t.bins, mostBins)
	case start < 0 || width <= 0:
		return fmt.Errorf("bins of %v from %v on: want a width above 0 and a start of at least 0", width, start)
	}
	// Beyond 1e-12 of it, float64 would lose the width in the time.
	end := float64(start) + float64(t.bins)*float64(width)
	if end >= math.MaxInt64 || float64(width) < 1e-12*end {
		return fmt.Errorf("%d bins of %v from %v on: out of the range of time that can be drawn", t.bins, width, start)
	}
	return nil
}

func (p Panel) check(bins int) error {
	title := clean(p.Title)
	errs := []error{checkLimits(title, p.Limits)}
	if len(p.Lines) > mostLines {
		errs = append(errs, fmt.Errorf("panel %q: %d lines: want at most %d", title, len(p.Lines), mostLines))
	}
	for _, l := range p.Lines {
		errs = append(errs, l.check(seriesName(title, l.Name), bins))
	}
	return errors.Join(errs...)
}

// seriesName is what errors call a line of a panel.
func seriesName(title, name string) string { return joinSet(": ", title, clean(name)) }

func checkLimits(title string, limits []Limit) error {
	var errs []error
	if len(limits) > mostLimits {
		errs = append(errs, fmt.Errorf("%q: %d limits: want at most %d", title, len(limits), mostLimits))
	}
	for _, l := range limits {
		errs = append(errs, drawable(seriesName(title, l.Name), "limit", l.Value))
	}
	return errors.Join(errs...)
}

// check names the first value that cannot be drawn.
func (l Line) check(series string, bins int) error {
	if n := len(l.Values); n != 0 && n != bins {
		return fmt.Errorf("series %q: %d values: want %d, as many as the longest line has, or none", series, n, bins)
	}
	if len(l.Low) != len(l.High) || len(l.Low) != 0 && len(l.Low) != len(l.Values) {
		return fmt.Errorf("series %q: a band of %d low and %d high ends around %d values: want as many of each, or no band", series, len(l.Low), len(l.High), len(l.Values))
	}
	for _, part := range []struct {
		what   string
		values []float64
	}{{"value", l.Values}, {"low end", l.Low}, {"high end", l.High}} {
		for i, v := range part.values {
			if math.IsNaN(v) {
				continue
			}
			if err := drawable(series, fmt.Sprintf("%s of bin %d", part.what, i), v); err != nil {
				return err
			}
		}
	}
	for i := range l.Low {
		if l.Low[i] > l.High[i] {
			return fmt.Errorf("series %q: bin %d: an interval's lower end is above its upper end", series, i)
		}
	}
	return nil
}
