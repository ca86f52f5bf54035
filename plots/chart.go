package plots

import (
	"math"
	"slices"

	"gonum.org/v1/plot/vg"
)

const markerRadius vg.Length = 4.6

// A chart is a picture of points and lines over two axes. It holds numbers
// only; they are checked before they get here.
type chart struct {
	caption Caption
	title   string
	x, y    string // axis names, with units
	series  []series
	curves  []curve
	around  envelope // of the curves
	limits  []limit
	zones   []zone
	guides  []guide
	fitted  string // meaning of curves
	dots    dotWords
	// fromZero makes the y axis begin at 0, where heights are to be compared.
	fromZero bool
}

// dotWords are what the legend says of dots; empty leaves a key out.
type dotWords struct{ solid, hollow string }

type series struct {
	name   string
	look   look
	joined bool
	dots   []dot
}

// dot is one data point.
type dot struct {
	x, y   float64
	xs, ys span   // of the error bars
	text   string // its label
	must   bool   // the label may not be left out
	solid  bool
	picked bool
}

// span is an interval; both ends 0 where there is none.
type span struct{ lo, hi float64 }

// curve is a line through points that are computed; unsure beyond what was measured.
type curve struct {
	xs, ys []float64
	unsure bool
}

// limit is a line at which an SLA ends.
type limit struct {
	horizontal bool
	at         float64
	text       string
}

// zone is where an SLA is met: a range of y where horizontal, else of x.
type zone struct {
	horizontal bool
	lo, hi     float64
	text       string
}

// guide is a thin line at an x of interest.
type guide struct {
	at   float64
	text string
}

func (c chart) picture() *Picture { return &Picture{title: c.title, paint: c.paint} }

func (c chart) empty() bool {
	for _, s := range c.series {
		if len(s.dots) > 0 {
			return false
		}
	}
	return true
}

func (c chart) paint(p pen) {
	top := c.caption.header(p, c.title, c.empty())
	if c.empty() {
		nothing(p, c.caption, top)
		return
	}
	bottom := c.caption.footer(p)
	x, y := newAxes(c.x, c.values(false), c.y, c.values(true))
	f := newFrame(vg.Rectangle{
		Min: vg.Point{X: margin, Y: bottom},
		Max: vg.Point{X: pageWidth - margin - legendWidth - 16, Y: top},
	}, x, y)
	c.ground(p, f)
	c.ink(p, f)
	f.axes(p)
	for _, l := range c.labels(f) {
		l.draw(p)
	}
	legend(p, vg.Rectangle{
		Min: vg.Point{X: f.area.Max.X + 16, Y: f.area.Min.Y},
		Max: vg.Point{X: pageWidth - margin, Y: f.area.Max.Y},
	}, c.keys(f))
}

// nothing is what a picture without points shows: why there are none.
func nothing(p pen, c Caption, top vg.Length) {
	r := vg.Rectangle{Min: vg.Point{X: margin, Y: margin}, Max: vg.Point{X: pageWidth - margin, Y: top}}
	p.path(stroke{colour: colourGrid(), width: 1}, r.Path())
	if w := c.watermark(); w != "" {
		p.watermark(r, w)
	}
	why := "no points"
	if n := clean(c.Note); n != "" {
		why += ": " + n
	}
	f := face{14, false}
	lines := f.wrap(why, r.Size().X-260, 8)
	y := centre(r).Y + vg.Length(len(lines)-1)*10
	for i, l := range lines {
		p.centred(f, colourInk(), vg.Point{X: centre(r).X, Y: y - vg.Length(i)*20}, l)
	}
}

// values are all that an axis must show: of y, or else of x. A limit far above
// the data is left out, and pointed at instead.
func (c chart) values(y bool) []float64 {
	var vs []float64
	if y && c.fromZero {
		vs = append(vs, 0)
	}
	for _, s := range c.series {
		for _, d := range s.dots {
			v, e := d.x, d.xs
			if y {
				v, e = d.y, d.ys
			}
			vs = append(vs, v)
			if e != (span{}) {
				vs = append(vs, e.lo, e.hi)
			}
		}
	}
	for _, k := range c.curves {
		if y {
			vs = append(vs, k.ys...)
		} else {
			vs = append(vs, k.xs...)
		}
	}
	if y {
		vs = append(vs, slices.Concat(c.around.low, c.around.high)...)
	}
	for _, g := range c.guides {
		if !y {
			vs = append(vs, g.at)
		}
	}
	most := 0.0
	for _, v := range vs {
		most = max(most, v)
	}
	for _, l := range c.limits {
		if l.horizontal == y && l.at <= far*most {
			vs = append(vs, l.at)
		}
	}
	return vs
}

// ground draws what lies under the data.
func (c chart) ground(p pen, f frame) {
	for _, z := range c.zones {
		r := f.area
		if z.horizontal {
			r.Min.Y, r.Max.Y = f.py(z.lo), f.py(z.hi)
		} else {
			r.Min.X, r.Max.X = f.px(z.lo), f.px(z.hi)
		}
		p.rect(colourFeasible(), r)
	}
	f.grid(p)
	if w := c.caption.watermark(); w != "" {
		p.watermark(f.area, w)
	}
	c.around.paint(p, f)
	for _, l := range c.limits {
		if from, to, on := f.limitLine(l); on {
			p.line(limitStroke(), from, to)
		}
	}
	for _, g := range c.guides {
		x := f.px(g.at)
		p.line(guideStroke(), vg.Point{X: x, Y: f.area.Min.Y}, vg.Point{X: x, Y: f.area.Max.Y})
	}
}

func limitStroke() stroke { return stroke{colourLimit(), 1.8, []vg.Length{7, 4}} }
func guideStroke() stroke { return stroke{colourQuiet(), 1, []vg.Length{1.5, 3}} }
func sureStroke() stroke  { return stroke{colour: okabeIto(0), width: 1.8} }
func unsureStroke() stroke {
	return stroke{colour: okabeIto(0), width: 1.2, dashes: []vg.Length{2, 4}}
}

// limitLine is where the limit is drawn, and false where it is off the axis.
func (f frame) limitLine(l limit) (from, to vg.Point, on bool) {
	if l.horizontal {
		y := f.py(l.at)
		return vg.Point{X: f.area.Min.X, Y: y}, vg.Point{X: f.area.Max.X, Y: y}, l.at <= f.y.hi
	}
	x := f.px(l.at)
	return vg.Point{X: x, Y: f.area.Min.Y}, vg.Point{X: x, Y: f.area.Max.Y}, l.at <= f.x.hi
}

// ink draws the data.
func (c chart) ink(p pen, f frame) {
	for _, k := range c.curves {
		s := sureStroke()
		if k.unsure {
			s = unsureStroke()
		}
		p.line(s, f.points(k.xs, k.ys)...)
	}
	for _, s := range c.series {
		if s.joined {
			p.line(stroke{colour: s.look.colour, width: 1.6}, s.points(f)...)
		}
	}
	for _, s := range c.series {
		for _, d := range s.dots {
			d.bars(p, f, stroke{colour: s.look.colour, width: 1})
		}
	}
	for _, s := range c.series {
		for _, d := range s.dots {
			p.marker(s.look, f.point(d.x, d.y), markerRadius, d.solid)
			if d.picked {
				p.ring(f.point(d.x, d.y), ringRadius)
			}
		}
	}
}

const ringRadius vg.Length = 9

func (d dot) bars(p pen, f frame, s stroke) {
	if d.xs != (span{}) {
		p.errorBar(s, f.point(d.xs.lo, d.y), f.point(d.xs.hi, d.y))
	}
	if d.ys != (span{}) {
		p.errorBar(s, f.point(d.x, d.ys.lo), f.point(d.x, d.ys.hi))
	}
}

// errorBar draws a bar with caps; from and to share x or y.
func (p pen) errorBar(s stroke, from, to vg.Point) {
	end := vg.Point{X: 3}
	if from.Y == to.Y {
		end = vg.Point{Y: 3}
	}
	p.line(s, from, to)
	p.line(s, from.Sub(end), from.Add(end))
	p.line(s, to.Sub(end), to.Add(end))
}

func (s series) points(f frame) []vg.Point {
	pts := make([]vg.Point, len(s.dots))
	for i, d := range s.dots {
		pts[i] = f.point(d.x, d.y)
	}
	return pts
}

func (f frame) points(xs, ys []float64) []vg.Point {
	pts := make([]vg.Point, len(xs))
	for i := range xs {
		pts[i] = f.point(xs[i], ys[i])
	}
	return pts
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
