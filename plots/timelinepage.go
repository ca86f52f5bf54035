package plots

import (
	"math"

	"gonum.org/v1/plot/vg"
)

// timeline holds what Timeline was given, once it is known to be drawable.
type timeline struct {
	caption       Caption
	title         string
	time          timeScale
	bins          int
	panels        []Panel
	distributions []Distribution
}

// Of the page of a timeline.
const (
	distributionWidth vg.Length = 300 // beside panels
	columnGap         vg.Length = 18
	timeName          vg.Length = 14 // room for the name of the time axis
)

func (t timeline) empty() bool {
	for _, p := range t.panels {
		if len(p.values()) > 0 {
			return false
		}
	}
	for _, d := range t.distributions {
		if len(d.values()) > 0 {
			return false
		}
	}
	return true
}

func (t timeline) paint(p pen) {
	top := t.caption.header(p, t.title, t.empty()) + 6
	if t.empty() {
		nothing(p, t.caption, top)
		return
	}
	bottom := t.caption.footer(p)
	page := vg.Rectangle{Min: vg.Point{X: margin, Y: bottom}, Max: vg.Point{X: pageWidth - margin, Y: top}}
	left, right := t.columns(page)
	strips, spreads := t.strips(left), t.spreads(right)
	for _, c := range append(strips, spreads...) {
		if !c.empty {
			c.grid(p)
		}
	}
	if w := t.caption.watermark(); w != "" {
		p.watermark(page, w)
	}
	for i, c := range strips {
		c.draw(p, i == len(strips)-1)
	}
	for _, c := range spreads {
		c.draw(p, !c.empty)
		p.turned(cellFace, colourInk(), vg.Point{X: right.Min.X + 5, Y: centre(c.area).Y}, math.Pi/2, shareName(c.area.Size().Y))
	}
	if len(strips) > 0 {
		foot := strips[len(strips)-1].area
		at := vg.Point{X: centre(foot).X, Y: foot.Min.Y - tickRow - timeName/2 + 1}
		p.centred(cellTitle, colourInk(), at, t.time.axis.label)
	}
}

// shareName is the name of a distribution's y axis of the given height.
func shareName(height vg.Length) string {
	if s := "share at or below (%)"; cellFace.width(s) <= height {
		return s
	}
	return "share (%)"
}

// columns are the room for panels and for distributions; one of them has it all
// where there is nothing for the other.
func (t timeline) columns(page vg.Rectangle) (left, right vg.Rectangle) {
	left, right = page, page
	left.Min.Y += timeName
	if len(t.panels) > 0 {
		right.Min.Y += timeName // the lowest frames of both columns end at one height
		right.Min.X = page.Max.X - distributionWidth
	}
	if len(t.distributions) > 0 {
		left.Max.X = right.Min.X - columnGap
	}
	return left, right
}

// strips are the panels, the first on top, with ticks below the last alone.
func (t timeline) strips(r vg.Rectangle) []placed {
	cs := make([]cell, len(t.panels))
	for i, p := range t.panels {
		cs[i] = p.cell(t.time)
	}
	r.Min.Y += tickRow
	out := stack(cs, r, 0)
	for i := range out {
		out[i].frame.x = t.time.fitted(out[i].columns())
	}
	return out
}

// spreads are the distributions, the first on top.
func (t timeline) spreads(r vg.Rectangle) []placed {
	cs := make([]cell, len(t.distributions))
	for i, d := range t.distributions {
		cs[i] = d.cell()
	}
	r.Min.X += cellRow // for the name of the y axis
	return stack(cs, r, tickRow)
}

// stack places cells above one another, equally high and with their frames
// beginning at one x, below apart.
func stack(cs []cell, r vg.Rectangle, below vg.Length) []placed {
	height := r.Size().Y / vg.Length(max(len(cs), 1))
	widest := vg.Length(0)
	for _, c := range cs {
		widest = max(widest, c.y.room())
	}
	out := make([]placed, len(cs))
	for i, c := range cs {
		area := vg.Rectangle{
			Min: vg.Point{X: r.Min.X + 9 + widest, Y: r.Max.Y - vg.Length(i+1)*height + below},
			Max: vg.Point{X: r.Max.X, Y: r.Max.Y - vg.Length(i)*height},
		}
		out[i] = c.place(area)
	}
	return out
}

// room is the width of an axis' widest text, however many ticks it will have.
func (a axis) room() vg.Length {
	widest := vg.Length(0)
	for n := 2; n <= 7; n++ { // what frame.rows may give
		for _, t := range a.ticks(n) {
			widest = max(widest, tickFace.width(t.text))
		}
	}
	return widest
}
