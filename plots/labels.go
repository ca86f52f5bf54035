package plots

import (
	"math"

	"gonum.org/v1/plot/vg"
)

// A placer finds room for labels, greedily: the first label asked for has the
// first choice, and what is placed is in the way of all that follow.
type placer struct {
	area    vg.Rectangle
	labels  []vg.Rectangle
	markers []vg.Rectangle
	lines   [][2]vg.Point
}

// avoid keeps labels off a marker.
func (l *placer) avoid(at vg.Point, radius vg.Length) {
	r := vg.Point{X: radius, Y: radius}
	l.markers = append(l.markers, vg.Rectangle{Min: at.Sub(r), Max: at.Add(r)})
}

// avoidLine keeps labels off a line.
func (l *placer) avoidLine(pts ...vg.Point) {
	for i := 1; i < len(pts); i++ {
		l.lines = append(l.lines, [2]vg.Point{pts[i-1], pts[i]})
	}
}

// A label is a text that has found its place.
type label struct {
	text string
	face face
	at   vg.Point // of its baseline's start
	from vg.Point // what it belongs to
	far  bool     // so far from it that a leader line is due
}

// around places s beside at, clear of a marker of the given radius. Where it
// must, it looks further afield, and covers lines and markers if need be.
// Without room it gives false.
func (l *placer) around(f face, s string, at vg.Point, radius vg.Length, must bool) (label, bool) {
	var spots []vg.Point
	reach := []vg.Length{3} // further away it might be another point's
	if must {
		reach = []vg.Length{3, 9, 18, 30, 46, 66}
	}
	for _, d := range reach {
		spots = append(spots, beside(f, s, at, radius+d)...)
	}
	led := func(b vg.Rectangle) bool { return apart(b, at) > radius+14 }
	out, ok := l.cheapest(f, s, spots, must, func(b vg.Rectangle) float64 {
		if led(b) || !l.astray(b, at) {
			return l.cost(b)
		}
		return l.cost(b) + mistaken
	})
	if !ok {
		return label{}, false
	}
	out.from, out.far = at, led(f.box(s, out.at))
	return out, true
}

// mistaken is what it costs a label to be nearer to another marker than to its own,
// without a leader line: it would be read as that one's.
const mistaken = 500

// astray reports whether some other marker is nearer to b than the one at at.
func (l *placer) astray(b vg.Rectangle, at vg.Point) bool {
	own := apart(b, at)
	for _, m := range l.markers {
		c := centre(m)
		if other := apart(vg.Rectangle{Min: at, Max: at}, c) > 0.1; other && apart(b, c) < own {
			return true
		}
	}
	return false
}

// apart is how far p is from b.
func apart(b vg.Rectangle, p vg.Point) vg.Length {
	near := vg.Point{X: min(max(p.X, b.Min.X), b.Max.X), Y: min(max(p.Y, b.Min.Y), b.Max.Y)}
	return vg.Length(math.Hypot(float64(near.X-p.X), float64(near.Y-p.Y)))
}

// beside are the eight places at distance d, the most readable first.
func beside(f face, s string, at vg.Point, d vg.Length) []vg.Point {
	w, up, down := f.width(s), capHeight*f.size, descent*f.size
	slant := d * 0.72
	right, left, mid := at.X+slant, at.X-slant-w, at.X-w/2
	above, below, level := at.Y+slant+down, at.Y-slant-up, at.Y-up/2
	return []vg.Point{
		{X: at.X + d, Y: level},
		{X: right, Y: above},
		{X: right, Y: below},
		{X: mid, Y: at.Y + d + down},
		{X: at.X - d - w, Y: level},
		{X: left, Y: above},
		{X: left, Y: below},
		{X: mid, Y: at.Y - d - up},
	}
}

// among places s at the first of spots that is free, or, where it must, at the
// one that covers least; never on another label or beyond the area.
func (l *placer) among(f face, s string, spots []vg.Point, must bool) (label, bool) {
	return l.cheapest(f, s, spots, must, l.cost)
}

// cheapest places s at the first of spots that costs nothing, or, where it must, at
// the one that costs least, if that is finite.
func (l *placer) cheapest(f face, s string, spots []vg.Point, must bool, costs func(vg.Rectangle) float64) (label, bool) {
	best, least := vg.Point{}, math.Inf(1)
	for _, at := range spots {
		cost := costs(f.box(s, at))
		if cost < least {
			best, least = at, cost
		}
		if cost == 0 {
			break
		}
	}
	if math.IsInf(least, 1) || least > 0 && !must {
		return label{}, false
	}
	l.labels = append(l.labels, f.box(s, best))
	return label{text: s, face: f, at: best}, true
}

// cost is how much of markers and lines b covers, in square points; infinite
// where b may not be.
func (l *placer) cost(b vg.Rectangle) float64 {
	const line = 40
	if b.Min.X < l.area.Min.X+2 || b.Max.X > l.area.Max.X-2 || b.Min.Y < l.area.Min.Y+2 || b.Max.Y > l.area.Max.Y-2 {
		return math.Inf(1)
	}
	for _, o := range l.labels {
		if w, h := overlap(b, o); w > -1 && h > -1 {
			return math.Inf(1)
		}
	}
	sum := 0.0
	for _, o := range l.markers {
		if w, h := overlap(b, o); w > -1 && h > -1 {
			sum += float64(max(w, 1) * max(h, 1))
		}
	}
	for _, s := range l.lines {
		if crosses(b, s[0], s[1]) {
			sum += line
		}
	}
	return sum
}

// overlap is how far a and b overlap each way; negative where they are apart.
func overlap(a, b vg.Rectangle) (w, h vg.Length) {
	return min(a.Max.X, b.Max.X) - max(a.Min.X, b.Min.X), min(a.Max.Y, b.Max.Y) - max(a.Min.Y, b.Min.Y)
}

// crosses reports whether the line from p to q enters r (Liang & Barsky 1984).
func crosses(r vg.Rectangle, p, q vg.Point) bool {
	enter, leave := 0.0, 1.0
	clip := func(d, room vg.Length) bool { // d·t <= room
		if d == 0 {
			return room >= 0
		}
		t := float64(room / d)
		if d < 0 {
			enter = max(enter, t)
		} else {
			leave = min(leave, t)
		}
		return enter <= leave
	}
	dx, dy := q.X-p.X, q.Y-p.Y
	return clip(-dx, p.X-r.Min.X) && clip(dx, r.Max.X-p.X) && clip(-dy, p.Y-r.Min.Y) && clip(dy, r.Max.Y-p.Y)
}

// draw writes the label on a pale ground.
func (b label) draw(p pen) {
	r := b.face.box(b.text, b.at)
	if b.far {
		to := vg.Point{X: min(max(b.from.X, r.Min.X), r.Max.X), Y: min(max(b.from.Y, r.Min.Y), r.Max.Y)}
		p.line(stroke{colour: colourQuiet(), width: 0.7}, b.from, to)
	}
	p.rect(colourHalo(), r)
	p.text(b.face, colourInk(), b.at, b.text)
}
