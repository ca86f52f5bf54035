package plots

import (
	"fmt"

	"gonum.org/v1/plot/vg"
)

// mostLabels bounds the work of placing; a picture has no room for more.
const mostLabels = 150

var (
	dotFace   = face{9.5, false}
	strongDot = face{10, true}
)

// labels finds places for the chart's words: first those that must be there.
func (c chart) labels(f frame) []label {
	l := c.obstacles(f)
	var out []label
	put := func(b label, ok bool) {
		if ok {
			out = append(out, b)
		}
	}
	for _, want := range []func(dot) bool{
		func(d dot) bool { return d.picked },
		func(d dot) bool { return d.must && !d.picked },
	} {
		c.each(want, func(d dot) { put(l.around(dotFont(d), d.text, f.point(d.x, d.y), dotRadius(d), true)) })
	}
	for _, m := range c.limits {
		put(l.limit(f, m))
	}
	for _, g := range c.guides {
		put(l.guide(f, g))
	}
	c.each(func(d dot) bool { return !d.must && !d.picked && len(out) < mostLabels }, func(d dot) {
		put(l.around(dotFace, d.text, f.point(d.x, d.y), dotRadius(d), false))
	})
	return out
}

// each calls do for the dots that have a label and are wanted.
func (c chart) each(want func(dot) bool, do func(dot)) {
	for _, s := range c.series {
		for _, d := range s.dots {
			if d.text != "" && want(d) {
				do(d)
			}
		}
	}
}

func dotFont(d dot) face {
	if d.picked {
		return strongDot
	}
	return dotFace
}

func dotRadius(d dot) vg.Length {
	if d.picked {
		return ringRadius + 1
	}
	return markerRadius + 1
}

// obstacles are the chart's points and lines.
func (c chart) obstacles(f frame) *placer {
	l := &placer{area: f.area}
	for _, k := range c.curves {
		l.avoidLine(f.points(k.xs, k.ys)...)
	}
	for _, m := range c.limits {
		if from, to, on := f.limitLine(m); on {
			l.avoidLine(from, to)
		}
	}
	for _, g := range c.guides {
		l.avoidLine(vg.Point{X: f.px(g.at), Y: f.area.Min.Y}, vg.Point{X: f.px(g.at), Y: f.area.Max.Y})
	}
	for _, s := range c.series {
		if s.joined {
			l.avoidLine(s.points(f)...)
		}
		for _, d := range s.dots {
			l.avoid(f.point(d.x, d.y), dotRadius(d))
			if d.xs != (span{}) {
				l.avoidLine(f.point(d.xs.lo, d.y), f.point(d.xs.hi, d.y))
			}
			if d.ys != (span{}) {
				l.avoidLine(f.point(d.x, d.ys.lo), f.point(d.x, d.ys.hi))
			}
		}
	}
	return l
}

var limitFace = face{10, true}

// limit places the words of an SLA line beside it, or, where the line is
// beyond the axis, at that end.
func (l *placer) limit(f frame, m limit) (label, bool) {
	w, s := limitFace.width(m.text), m.text
	_, _, on := f.limitLine(m)
	if !on {
		arrow := " →"
		if m.horizontal {
			arrow = " ↑"
		}
		s = m.text + ": beyond the axis" + arrow
		return l.among(limitFace, s, beyond(f.area, limitFace.width(s)), true)
	}
	var spots []vg.Point
	const steps = 16
	for i := range steps {
		t := vg.Length(i) / steps
		if m.horizontal {
			x := f.area.Min.X + 8 + t*max(f.area.Size().X-w-16, 0)
			spots = append(spots, vg.Point{X: x, Y: f.py(m.at) + 6}, vg.Point{X: x, Y: f.py(m.at) - 14})
			continue
		}
		y := f.area.Max.Y - 18 - t*(f.area.Size().Y-28)
		spots = append(spots, vg.Point{X: f.px(m.at) - w - 6, Y: y}, vg.Point{X: f.px(m.at) + 6, Y: y})
	}
	return l.among(limitFace, s, spots, true)
}

// beyond are places along the right edge, top first.
func beyond(r vg.Rectangle, w vg.Length) []vg.Point {
	var spots []vg.Point
	for y := r.Max.Y - 18; y > r.Min.Y+6; y -= 18 {
		spots = append(spots, vg.Point{X: r.Max.X - w - 6, Y: y})
	}
	return spots
}

func (l *placer) guide(f frame, g guide) (label, bool) {
	w := dotFace.width(g.text)
	var spots []vg.Point
	for y := f.area.Min.Y + 8; y < f.area.Max.Y-18; y += 16 {
		spots = append(spots, vg.Point{X: f.px(g.at) + 6, Y: y}, vg.Point{X: f.px(g.at) - w - 6, Y: y})
	}
	return l.among(dotFace, g.text, spots, true)
}

// keys is the chart's legend.
func (c chart) keys(f frame) []key {
	ks := c.seriesKeys()
	has := c.kinds()
	plainLook := look{colourQuiet(), disc}
	add := func(yes bool, text string, sample func(pen, vg.Point)) {
		if yes && text != "" {
			ks = append(ks, key{text, sample})
		}
	}
	add(has.solid, c.dots.solid, markerSample(plainLook, true, false))
	add(has.hollow, c.dots.hollow, markerSample(plainLook, false, false))
	add(has.picked, c.caption.pickWord(), ringSample)
	add(has.bars, c.caption.barText(), barSample)
	add(has.sure, c.fitted, lineSample(sureStroke()))
	add(len(c.around.xs) > 1, "nine of ten measurements are expected here", swatchSample(colourAround()))
	add(has.unsure, "outside the sampled range: do not rely on it", lineSample(unsureStroke()))
	for _, l := range c.limits {
		_, _, on := f.limitLine(l)
		add(on, l.text, lineSample(limitStroke()))
	}
	if len(c.zones) > 0 {
		add(true, c.zones[0].text, swatchSample(colourFeasible()))
	}
	for _, g := range c.guides {
		add(true, g.text, lineSample(guideStroke()))
	}
	return ks
}

// seriesKeys leaves room for the rest of the legend where there are very many.
func (c chart) seriesKeys() []key {
	const most = 15
	var ks []key
	for i, s := range c.series {
		if i == most-1 && len(c.series) > most {
			none := func(pen, vg.Point) {}
			return append(ks, key{fmt.Sprintf("and %d more", len(c.series)-i), none})
		}
		ks = append(ks, key{s.name, markerSample(s.look, true, s.joined)})
	}
	return ks
}

type kinds struct{ solid, hollow, picked, bars, sure, unsure bool }

func (c chart) kinds() kinds {
	var k kinds
	for _, s := range c.series {
		for _, d := range s.dots {
			k.solid = k.solid || d.solid
			k.hollow = k.hollow || !d.solid
			k.picked = k.picked || d.picked
			k.bars = k.bars || d.xs != (span{}) || d.ys != (span{})
		}
	}
	for _, v := range c.curves {
		k.sure = k.sure || !v.unsure
		k.unsure = k.unsure || v.unsure
	}
	return k
}

// pickWord is what a marked point is: the pick, or the nearest to one.
func (c Caption) pickWord() string {
	if c.Feasible {
		return "picked"
	}
	return "nearest to the SLA"
}
