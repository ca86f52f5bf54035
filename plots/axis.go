package plots

import (
	"math"
	"slices"

	"gonum.org/v1/plot/vg"
)

// logRatio is the max/min above which a range is huge.
const logRatio = 50

// least is the smallest value that an axis tells from 0: a picosecond, in ms.
const least = 1e-9

// far is how many times the largest value a limit may be and still be on the
// axis; one further out would squeeze the data into a corner.
const far = 4

// axis maps values to 0..1.
type axis struct {
	label  string
	lo, hi float64
	log    bool
	step   float64 // between ticks, where a number of them alone will not do; 0 = any round one
}

// newAxes spans the values of two axes (finite, none negative). They are
// logarithmic where both ranges are huge, or where one is and most of its
// values would crowd together at its low end.
func newAxes(xName string, xs []float64, yName string, ys []float64) (x, y axis) {
	x, y = newAxis(xName, xs), newAxis(yName, ys)
	if huge(xs) && huge(ys) {
		x, y = logAxis(xName, xs), logAxis(yName, ys)
	}
	return x, y
}

// newAxis spans values and leaves some room around them.
func newAxis(label string, values []float64) axis {
	if huge(values) && crowded(values) {
		return logAxis(label, values)
	}
	return linearAxis(label, values)
}

func huge(values []float64) bool {
	lo, hi := bounds(values)
	return lo >= least && hi/lo > logRatio
}

// crowded reports whether most values are in the lowest tenth of their range.
func crowded(values []float64) bool {
	lo, hi := bounds(values)
	n := 0
	for _, v := range values {
		if v <= lo+(hi-lo)/10 {
			n++
		}
	}
	return 2*n > len(values)
}

func bounds(values []float64) (lo, hi float64) {
	if len(values) == 0 {
		return 0, 1
	}
	return slices.Min(values), slices.Max(values)
}

func logAxis(label string, values []float64) axis {
	lo, hi := bounds(values)
	room := math.Pow(hi/lo, 0.06)
	return axis{label: label, lo: lo / room, hi: hi * room, log: true}
}

// linearAxis begins at 0, unless that would leave half of it empty. It spans a
// third of its highest value at least, for small differences to look small.
func linearAxis(label string, values []float64) axis {
	lo, hi := bounds(values)
	if lo < 0.5*hi {
		return axis{label: label, lo: 0, hi: max(1.08*hi, least)}
	}
	room := max(0.15*(hi-lo), (0.33*hi-(hi-lo))/2, least)
	if hi == 0 {
		room = 1
	}
	return axis{label: label, lo: max(lo-room, 0), hi: hi + room}
}

// norm is where v lies between lo (0) and hi (1).
func (a axis) norm(v float64) float64 {
	if a.log {
		return math.Log(v/a.lo) / math.Log(a.hi/a.lo)
	}
	return (v - a.lo) / (a.hi - a.lo)
}

// at is the value at t between 0 (lo) and 1 (hi).
func (a axis) at(t float64) float64 {
	if a.log {
		return a.lo * math.Pow(a.hi/a.lo, t)
	}
	return a.lo + t*(a.hi-a.lo)
}

func (a axis) clamp(v float64) float64 { return min(max(v, a.lo), a.hi) }

// ticks are about n round values.
func (a axis) ticks(n int) []tick {
	switch {
	case a.log && n < 6:
		return a.sparse(logTicks(a.lo, a.hi), n)
	case a.log:
		return logTicks(a.lo, a.hi)
	case a.step > 0:
		return stepTicks(a.lo, a.hi, a.step)
	}
	return linearTicks(a.lo, a.hi, n)
}

// sparse takes the text off ticks that would be too close for n of them, off
// powers of ten last.
func (a axis) sparse(ts []tick, n int) []tick {
	gap := 1 / (float64(n) + 2)
	var kept []float64
	keep := func(power bool) {
		for i, t := range ts {
			e := math.Log10(t.at)
			if t.text == "" || power != (math.Abs(e-math.Round(e)) < 1e-9) {
				continue
			}
			at := a.norm(t.at)
			if slices.ContainsFunc(kept, func(k float64) bool { return math.Abs(k-at) < gap }) {
				ts[i].text = ""
				continue
			}
			kept = append(kept, at)
		}
	}
	keep(true)
	keep(false)
	return ts
}

// frame is the rectangle that data is drawn in, with its two axes.
type frame struct {
	area vg.Rectangle
	x, y axis
}

func (f frame) px(v float64) vg.Length {
	return f.area.Min.X + vg.Length(f.x.norm(f.x.clamp(v)))*f.area.Size().X
}

func (f frame) py(v float64) vg.Length {
	return f.area.Min.Y + vg.Length(f.y.norm(f.y.clamp(v)))*f.area.Size().Y
}

// point is where (x, y) is on the page, on the frame's edge where it is beyond.
func (f frame) point(x, y float64) vg.Point { return vg.Point{X: f.px(x), Y: f.py(y)} }

var tickFace = face{9.5, false}

// Room that axes take below and to the left, without the widest y tick label.
const (
	axisBelow vg.Length = 40
	axisLeft  vg.Length = 32
)

// newFrame fills r with axes around the area that is left for data.
func newFrame(r vg.Rectangle, x, y axis) frame {
	widest := vg.Length(0)
	for _, t := range y.ticks(7) {
		widest = max(widest, tickFace.width(t.text))
	}
	return frame{x: x, y: y, area: vg.Rectangle{
		Min: vg.Point{X: r.Min.X + axisLeft + widest, Y: r.Min.Y + axisBelow},
		Max: r.Max,
	}}
}

// columns and rows are about how many ticks there is room for.
func (f frame) columns() int { return min(max(int(f.area.Size().X/50), 2), 8) }
func (f frame) rows() int    { return min(max(int(f.area.Size().Y/16), 2), 7) }

// grid draws the lines behind the data.
func (f frame) grid(p pen) {
	s := stroke{colour: colourGrid(), width: 0.6}
	for _, t := range f.x.ticks(f.columns()) {
		if t.text != "" {
			x := f.px(t.at)
			p.line(s, vg.Point{X: x, Y: f.area.Min.Y}, vg.Point{X: x, Y: f.area.Max.Y})
		}
	}
	for _, t := range f.y.ticks(f.rows()) {
		if t.text != "" {
			y := f.py(t.at)
			p.line(s, vg.Point{X: f.area.Min.X, Y: y}, vg.Point{X: f.area.Max.X, Y: y})
		}
	}
}

// axes draws the frame's border, ticks and names, in front of the data.
func (f frame) axes(p pen) {
	s := borderStroke()
	p.path(s, f.area.Path())
	f.xTicks(p, s)
	f.yTicks(p, s)
	c := centre(f.area)
	p.centred(face{11, true}, colourInk(), vg.Point{X: c.X, Y: f.area.Min.Y - 33}, f.x.name())
	p.turned(face{11, true}, colourInk(), vg.Point{X: margin + 4, Y: c.Y}, math.Pi/2, f.y.name())
}

func borderStroke() stroke { return stroke{colour: colourQuiet(), width: 0.8} }

func (a axis) name() string {
	if a.log {
		return a.label + " — log scale"
	}
	return a.label
}

// xTicks leaves out the text of a tick that would touch its neighbour's or
// leave the page.
func (f frame) xTicks(p pen, s stroke) {
	end := vg.Length(-6)
	for _, t := range f.x.ticks(f.columns()) {
		x := f.px(t.at)
		p.line(s, vg.Point{X: x, Y: f.area.Min.Y}, vg.Point{X: x, Y: f.area.Min.Y - tickLength(t)})
		half := tickFace.width(t.text) / 2
		if t.text == "" || x-half < end+6 || x+half > pageWidth {
			continue
		}
		p.centred(tickFace, colourInk(), vg.Point{X: x, Y: f.area.Min.Y - 13}, t.text)
		end = x + half
	}
}

func (f frame) yTicks(p pen, s stroke) {
	end := vg.Length(math.Inf(-1))
	for _, t := range f.y.ticks(f.rows()) {
		y := f.py(t.at)
		p.line(s, vg.Point{X: f.area.Min.X - tickLength(t), Y: y}, vg.Point{X: f.area.Min.X, Y: y})
		if t.text == "" || y < end+12 {
			continue
		}
		at := vg.Point{X: f.area.Min.X - 8 - tickFace.width(t.text), Y: y - capHeight/2*tickFace.size}
		p.text(tickFace, colourInk(), at, t.text)
		end = y
	}
}

func tickLength(t tick) vg.Length {
	if t.text == "" {
		return 2.5
	}
	return 5
}
