package plots

import (
	"errors"
	"fmt"

	"gonum.org/v1/plot/vg"
)

// Distribution is how values of one kind were spread: the share of them at or
// below each value.
type Distribution struct {
	Title  string
	Unit   string      // of the values: "ms"
	Curves []Quantiles // 4 at most
	Limits []Limit     // 4 at most
}

// Quantiles are one curve of a Distribution.
type Quantiles struct {
	Name   string
	Points []Quantile // neither shares nor values ever falling
}

// Quantile is a value that a share of all values, 0 to 1, is at or below.
type Quantile struct{ Share, Value float64 }

func (d Distribution) check() error {
	title := clean(d.Title)
	errs := []error{checkLimits(title, d.Limits)}
	if len(d.Curves) > mostLines {
		errs = append(errs, fmt.Errorf("distribution %q: %d curves: want at most %d", title, len(d.Curves), mostLines))
	}
	for _, q := range d.Curves {
		errs = append(errs, q.check(seriesName(title, q.Name)))
	}
	return errors.Join(errs...)
}

// check names the first point that cannot be drawn.
func (q Quantiles) check(series string) error {
	last := Quantile{}
	for i, p := range q.Points {
		if !(p.Share >= 0 && p.Share <= 1) {
			return fmt.Errorf("series %q: share of quantile %d is %v: %w: want 0 to 1", series, i, p.Share, errNotANumber)
		}
		if err := drawable(series, fmt.Sprintf("value of quantile %d", i), p.Value); err != nil {
			return err
		}
		if p.Share < last.Share || p.Value < last.Value {
			return fmt.Errorf("series %q: quantile %d (%g at or below %g) falls below the one before it (%g at or below %g)", series, i, p.Share, p.Value, last.Share, last.Value)
		}
		last = p
	}
	return nil
}

func (d Distribution) values() []float64 {
	var vs []float64
	for _, q := range d.Curves {
		for _, p := range q.Points {
			vs = append(vs, p.Value)
		}
	}
	return vs
}

// axis is logarithmic where the positive values span more than a factor of
// twenty, for their bulk and their tail to be readable both.
func (d Distribution) axis() axis {
	vs := withLimits(d.values(), d.Limits)
	name := titled(d.Title, d.Unit)
	above := positive(vs)
	if lo, hi := bounds(above); lo >= least && hi > 20*lo {
		return logAxis(name, above)
	}
	return fromZero(name, vs)
}

func (d Distribution) cell() cell {
	x := d.axis()
	keys := make([]key, 0, len(d.Curves)+len(d.Limits))
	for i, q := range d.Curves {
		keys = append(keys, lineKey(q.Name, i, len(q.Points) == 1))
	}
	return cell{
		title: x.name(), keys: named(append(keys, limitKeys(d.Limits, x, "→")...)),
		x: x, y: axis{lo: 0, hi: 103},
		empty: len(d.values()) == 0,
		ink:   d.ink,
	}
}

func (d Distribution) ink(p pen, f frame) {
	for _, l := range d.Limits {
		f.limit(p, limit{at: l.Value})
	}
	for i, q := range d.Curves {
		pts := make([]vg.Point, len(q.Points))
		for j, at := range q.Points {
			pts[j] = f.point(at.Value, 100*at.Share)
		}
		if len(pts) == 1 {
			p.marker(lineLook(i), pts[0], markerRadius/2, true)
		}
		p.line(lineStroke(i), pts...)
	}
}
