package plots

import (
	"math"
	"slices"

	"gonum.org/v1/plot/vg"
)

// A cell is one small plot of several on a page: a title and a legend in rows
// above a frame.
type cell struct {
	title string
	keys  []key
	x, y  axis
	empty bool
	ink   func(pen, frame) // draws the data
}

var (
	cellTitle = face{10.5, true}
	cellFace  = face{9.5, false}
)

// mostRunes of a name are enough to fill a row; measuring more takes its time.
const mostRunes = 90

const (
	cellRow     vg.Length = 14 // height of a row of title or legend
	cellGap     vg.Length = 6  // between a cell and the next
	tickRow     vg.Length = 19 // below a frame, for the text of its ticks
	keyGap      vg.Length = 12
	shortestKey vg.Length = 18               // of the text of a key, however much it is cut
	keyInset    vg.Length = legendSample + 5 // from the start of a key to its text
)

// placed is a cell in its place, with its legend's rows above its frame.
type placed struct {
	cell
	frame
	spots []spot
	above int // rows of title and legend
}

// place gives a cell the room r, the title and legend included.
func (c cell) place(r vg.Rectangle) placed {
	spots, rows := c.layout(r.Size())
	r.Max.Y -= vg.Length(rows)*cellRow + cellGap
	return placed{c, frame{area: r, x: c.x, y: c.y}, spots, rows}
}

// draw draws the data, what is above it and the frame around it; below tells
// whether the x axis has text.
func (c placed) draw(p pen, below bool) {
	c.head(p)
	s := borderStroke()
	if c.empty {
		p.path(s, c.area.Path())
		p.centred(face{11, false}, colourQuiet(), centre(c.area), "nothing to show")
	} else {
		c.ink(p, c.frame)
		p.path(s, c.area.Path())
		c.yTicks(p, s)
	}
	if below {
		c.xTicks(p, s)
	}
}

// head draws title and legend; they do not leave the frame's width.
func (c placed) head(p pen) {
	base := func(row int) vg.Length { return c.area.Max.Y + 5 + vg.Length(c.above-1-row)*cellRow }
	p.text(cellTitle, colourInk(), vg.Point{X: c.area.Min.X, Y: base(0)}, cellTitle.fit(c.title, c.area.Size().X))
	for i, s := range c.spots {
		at := vg.Point{X: c.area.Min.X + s.x, Y: base(s.row)}
		c.keys[i].sample(p, vg.Point{X: at.X + legendSample/2, Y: at.Y + capHeight/2*cellFace.size})
		p.text(cellFace, colourInk(), vg.Point{X: at.X + keyInset, Y: at.Y}, cellFace.fit(c.keys[i].text, s.text))
	}
}

// A spot is where a key of the legend begins, x from the left in a row from the
// top, and how wide its text may be.
type spot struct {
	x    vg.Length
	row  int
	text vg.Length
}

// layout finds room for the legend: beside the title, or else in one row below
// it, or in two where the cell is high, cutting the longest texts if need be.
func (c cell) layout(size vg.Point) (spots []spot, rows int) {
	beside := cellTitle.width(c.title) + keyGap
	if spots, rows = c.flow(spot{x: beside}, size.X, size.X); rows == 1 {
		return spots, 1
	}
	most := 2
	if size.Y >= 70 {
		most = 3
	}
	below := spot{row: 1}
	if spots, rows = c.flow(below, size.X, size.X); rows <= most {
		return spots, rows
	}
	lo, hi := shortestKey, size.X
	for range 12 { // to a tenth of a point
		mid := (lo + hi) / 2
		if _, n := c.flow(below, size.X, mid); n <= most {
			lo = mid
		} else {
			hi = mid
		}
	}
	return c.flow(below, size.X, lo)
}

// flow lays keys side by side, from at on, in rows of the given width, with
// texts no wider than text, and counts the rows used.
func (c cell) flow(at spot, width, text vg.Length) (spots []spot, rows int) {
	for _, k := range c.keys {
		at.text = min(cellFace.width(k.text), text, width-keyInset)
		w := keyInset + at.text
		if at.x > 0 && at.x+w > width {
			at.x, at.row = 0, at.row+1
		}
		spots = append(spots, at)
		at.x += w + keyGap
	}
	return spots, at.row + 1
}

// limit draws a limit that is on the axis.
func (f frame) limit(p pen, l limit) {
	if from, to, on := f.limitLine(l); on {
		p.line(limitStroke(), from, to)
	}
}

// lineKey is the legend's entry for line i, with a dot where it has some.
func lineKey(name string, i int, dotted bool) key {
	return key{shorten(clean(name), mostRunes), func(p pen, at vg.Point) {
		lineSample(lineStroke(i))(p, at)
		if dotted {
			p.marker(lineLook(i), at, markerRadius/2, true)
		}
	}}
}

// limitKeys are the legend's entries for limits; one beyond the axis is pointed at.
func limitKeys(limits []Limit, a axis, arrow string) []key {
	var ks []key
	for _, l := range limits {
		text := shorten(clean(l.Name), mostRunes)
		if l.Value > a.hi {
			text += ": off the axis " + arrow
		}
		ks = append(ks, key{text, lineSample(limitStroke())})
	}
	return ks
}

// named are the keys that say something.
func named(keys []key) []key {
	return slices.DeleteFunc(keys, func(k key) bool { return k.text == "" })
}

// titled is "TTFT (ms)".
func titled(title, unit string) string {
	title, unit = shorten(clean(title), mostRunes), shorten(clean(unit), mostRunes)
	if unit == "" {
		return title
	}
	return joinSet(" ", title, "("+unit+")")
}

// withLimits are values and the limits among them or not far above.
func withLimits(values []float64, limits []Limit) []float64 {
	most := 0.0
	for _, v := range values {
		most = max(most, v)
	}
	for _, l := range limits {
		if l.Value <= far*most {
			values = append(values, l.Value)
		}
	}
	return values
}

func positive(values []float64) []float64 {
	var out []float64
	for _, v := range values {
		if v > 0 {
			out = append(out, v)
		}
	}
	return out
}

// fromZero is a linear axis from 0 to above the highest value. Whole numbers
// have whole ticks.
func fromZero(label string, values []float64) axis {
	_, hi := bounds(values)
	if hi < least {
		hi = 1
	}
	a := axis{label: label, hi: 1.08 * hi}
	if whole(values) && hi <= 4 {
		a.step = 1
	}
	return a
}

func whole(values []float64) bool {
	for _, v := range values {
		if v != math.Trunc(v) {
			return false
		}
	}
	return true
}
