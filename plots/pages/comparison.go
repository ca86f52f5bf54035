package pages

import (
	"errors"
	"fmt"
	"strings"

	"plimsoll/profile"
)

// Comparison is two profiles of one question: two versions of an engine, two GPUs.
// The second is compared with the first.
type Comparison struct {
	Origin

	Sides [2]Side
}

// Side is one of the profiles.
type Side struct {
	Profile

	Name string // of its folder
}

// sideLetters name the sides in tables and charts.
func sideLetters() [2]string { return [2]string{"A", "B"} }

// HTML is the page.
func (c Comparison) HTML() ([]byte, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("page %q: %w", c.Title, err)
	}
	b, charts := c.body(), c.charts()
	for _, x := range charts {
		if err := x.check(); err != nil {
			return nil, fmt.Errorf("page %q: %w", c.Title, err)
		}
	}
	kind := page{template: "comparison.html", scripts: []string{"format.js", "svg.js", "table.js", "xy.js", "comparison.js"}}
	return kind.html(c.Origin, map[string]any{"charts": charts}, b)
}

func (c Comparison) check() error {
	var errs []error
	for i, s := range c.Sides {
		if err := s.check(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", sideLetters()[i], err))
		}
	}
	a, b := c.Sides[0], c.Sides[1]
	if a.ISL != b.ISL || a.OSL != b.OSL {
		errs = append(errs, fmt.Errorf("ISL %d and %d, OSL %d and %d: want the same workload", a.ISL, b.ISL, a.OSL, b.OSL))
	}
	if a.aggregated() != b.aggregated() {
		errs = append(errs, errors.New("aggregated engines and others: want one kind"))
	}
	return errors.Join(errs...)
}

// aggregated reports whether the points are of engines that do both.
func (p Profile) aggregated() bool {
	return len(p.Points) > 0 && p.Points[0].Phase == profile.Aggregated
}

// phases are those that have a pick.
func (p Profile) phases() []profile.Phase {
	if p.aggregated() {
		return []profile.Phase{profile.Aggregated}
	}
	return []profile.Phase{profile.Prefill, profile.Decode}
}

// quantity is a figure, and where it may be; the zero interval: not known.
type quantity struct {
	Value float64
	In    profile.Interval
}

// text is the figure with its interval.
func (q quantity) text() string {
	switch {
	case q.Value <= 0:
		return "–"
	case q.In.High <= 0:
		return number(q.Value)
	}
	return fmt.Sprintf("%s (%s to %s)", number(q.Value), number(q.In.Low), number(q.In.High))
}

// change is how much more the second of two quantities is than the first, as shares
// of it. In is the least and the most that both intervals allow: it holds 0 where,
// and only where, they overlap.
type change struct {
	Share float64
	In    profile.Interval
	Known bool // there are two figures
	Sure  bool // and the interval of each
}

func changeOf(a, b quantity) change {
	if a.Value <= 0 || b.Value <= 0 {
		return change{}
	}
	c := change{Share: b.Value/a.Value - 1, Known: true}
	if a.In.Low > 0 && b.In.Low > 0 {
		c.Sure, c.In = true, profile.Interval{Low: b.In.Low/a.In.High - 1, High: b.In.High/a.In.Low - 1}
	}
	return c
}

// shown reports whether the intervals are apart.
func (c change) shown() bool { return c.Sure && (c.In.Low > 0 || c.In.High < 0) }

// text is the change in percent.
func (c change) text() string {
	switch {
	case !c.Known:
		return "–"
	case !c.Sure:
		return percent(c.Share)
	}
	return fmt.Sprintf("%s (%s to %s)", percent(c.Share), percent(c.In.Low), percent(c.In.High))
}

// verdict says what the change shows.
func (c change) verdict() string {
	switch {
	case !c.Known:
		return "not comparable"
	case !c.Sure:
		return "no interval: not known what noise would do"
	case !c.shown():
		return "no difference shown"
	case c.Share > 0:
		return "more"
	}
	return "less"
}

// percent is a share with its sign, to a tenth of a percent.
func percent(share float64) string {
	s := apart(fmt.Sprintf("%.1f", 100*share))
	switch {
	case strings.Trim(s, "−0.") == "":
		return "±0.0 %"
	case share > 0:
		return "+" + s + " %"
	}
	return s + " %"
}
