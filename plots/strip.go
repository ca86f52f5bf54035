package plots

import (
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot/vg"
)

// lineLook is the look of line i of a panel. Orange is left out: it is too
// close to the colour of limits.
func lineLook(i int) look {
	order := [mostLines]int{0, 2, 5, 3} // blue, bluish green, black, reddish purple
	return lookOf(order[i%mostLines])
}

// lineStroke is how line i is drawn: told apart by dashes where colour does not.
func lineStroke(i int) stroke {
	dashes := [mostLines][]vg.Length{nil, {5, 2}, {1.5, 2}, {9, 2, 1.5, 2}}
	return stroke{colour: lineLook(i).colour, width: 1.5, dashes: dashes[i%mostLines]}
}

// pale is c as the fill below a line or between the ends of a band.
func pale(c color.NRGBA) color.NRGBA {
	c.A = 0x30
	return c
}

// axis begins at 0, or is logarithmic where that was asked for and is of use.
func (p Panel) axis() axis {
	vs := withLimits(p.values(), p.Limits)
	name := titled(p.Title, p.Unit)
	above := positive(vs)
	if lo, hi := bounds(above); p.Log && len(above) > 0 && lo >= least && hi > 10*lo {
		return logAxis(name, above)
	}
	return fromZero(name, vs)
}

// values are all that is drawn.
func (p Panel) values() []float64 {
	var vs []float64
	for _, l := range p.Lines {
		for _, part := range [][]float64{l.Values, l.Low, l.High} {
			for _, v := range part {
				if !math.IsNaN(v) {
					vs = append(vs, v)
				}
			}
		}
	}
	return vs
}

func (p Panel) cell(t timeScale) cell {
	y := p.axis()
	keys := make([]key, 0, len(p.Lines)+len(p.Limits))
	for i, l := range p.Lines {
		keys = append(keys, lineKey(l.Name, i, l.dotted()))
	}
	return cell{
		title: y.name(), keys: named(append(keys, limitKeys(p.Limits, y, "↑")...)),
		x: t.axis, y: y,
		empty: len(p.values()) == 0,
		ink:   func(pn pen, f frame) { p.ink(pn, f, t) },
	}
}

// dotted tells whether a value stands alone, so that it is drawn as a dot.
func (l Line) dotted() bool {
	return !l.Step && slices.ContainsFunc(runs(l.Values), func(r run) bool { return r.to == r.from+1 })
}

// ink draws limits below fills below bands below lines.
func (p Panel) ink(pn pen, f frame, t timeScale) {
	for _, l := range p.Limits {
		f.limit(pn, limit{horizontal: true, at: l.Value})
	}
	for i, l := range p.Lines {
		if l.Filled {
			for _, r := range runs(l.Values) {
				l.fill(pn, f, t, i, r)
			}
		}
	}
	for i, l := range p.Lines {
		for _, r := range runs(l.Low, l.High) {
			l.band(pn, f, t, i, r)
		}
	}
	for i, l := range p.Lines {
		for _, r := range runs(l.Values) {
			pts := l.points(f, t, l.Values, r)
			if len(pts) == 1 {
				pn.marker(lineLook(i), pts[0], markerRadius/2, true)
			}
			pn.line(lineStroke(i), pts...)
		}
	}
}

// A run is the bins from, to (exclusive) that all have a value.
type run struct{ from, to int }

// runs are the longest stretches in which none of the series, which are equally
// long, has a gap.
func runs(series ...[]float64) []run {
	var out []run
	open := false
	for i := range series[0] {
		gap := false
		for _, s := range series {
			gap = gap || math.IsNaN(s[i])
		}
		if !gap && !open {
			out = append(out, run{from: i})
		}
		if !gap {
			out[len(out)-1].to = i + 1
		}
		open = !gap
	}
	return out
}

// points are where the values of a run are: one in the middle of each bin, or
// the two ends of a bin's step; equal steps make one.
func (l Line) points(f frame, t timeScale, values []float64, r run) []vg.Point {
	var pts []vg.Point
	for i := r.from; i < r.to; i++ {
		v := values[i]
		if !l.Step {
			pts = append(pts, f.point(t.bin(float64(i)+0.5), v))
			continue
		}
		end := f.point(t.bin(float64(i+1)), v)
		if i > r.from && v == values[i-1] {
			pts[len(pts)-1] = end
			continue
		}
		pts = append(pts, f.point(t.bin(float64(i)), v), end)
	}
	return pts
}

func (l Line) fill(p pen, f frame, t timeScale, i int, r run) {
	pts := l.points(f, t, l.Values, r)
	foot := f.area.Min.Y
	pts = append(pts, vg.Point{X: pts[len(pts)-1].X, Y: foot}, vg.Point{X: pts[0].X, Y: foot})
	p.area(pale(lineLook(i).colour), pts)
}

// band fills between low and high ends; where a single bin's middle is all, it
// draws a bar.
func (l Line) band(p pen, f frame, t timeScale, i int, r run) {
	low, high := l.points(f, t, l.Low, r), l.points(f, t, l.High, r)
	if len(low) == 1 {
		p.errorBar(stroke{colour: lineLook(i).colour, width: 1}, low[0], high[0])
		return
	}
	for k := len(low) - 1; k >= 0; k-- {
		high = append(high, low[k])
	}
	p.area(pale(lineLook(i).colour), high)
}

// area fills the polygon around pts.
func (p pen) area(c color.NRGBA, pts []vg.Point) {
	var path vg.Path
	path.Move(pts[0])
	for _, q := range pts[1:] {
		path.Line(q)
	}
	path.Close()
	p.fill(c, path)
}
