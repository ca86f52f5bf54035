package plots

import (
	"image/color"
	"math"
	"strings"
	"sync"
	"unicode"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/font/liberation"
	"gonum.org/v1/plot/vg"
)

// pen draws on a canvas, in page coordinates.
type pen struct {
	vg.Canvas
	raster bool // glyphs become pixels here, not in the reader's browser
}

// stroke is how a line looks.
type stroke struct {
	colour color.NRGBA
	width  vg.Length
	dashes []vg.Length
}

// A face is a size and weight of the one typeface used.
type face struct {
	size vg.Length
	bold bool
}

// fonts are the Liberation fonts that the plotting library carries inside
// itself, so that a picture looks the same on every machine. Read-only.
var fonts = sync.OnceValue(func() *font.Cache { return font.NewCache(liberation.Collection()) })

func (f face) lookup() font.Face {
	want := font.Font{Typeface: "Liberation", Variant: "Sans"}
	if f.bold {
		want.Weight = 3 // golang.org/x/image/font.WeightBold
	}
	return fonts().Lookup(want, f.size)
}

// width of s when drawn.
func (f face) width(s string) vg.Length {
	l := f.lookup()
	return l.Width(fixedSpaces(s))
}

// fixedSpaces keeps words apart: at these sizes the font's kerning between a
// space and its neighbours makes "SLA TTFT" look like one word; it has none
// for no-break spaces.
func fixedSpaces(s string) string { return strings.ReplaceAll(s, " ", "\u00a0") }

// Of the size of Liberation Sans: capitals and digits, and what hangs below.
const (
	capHeight = 0.72
	descent   = 0.22
)

// box is the rectangle that s covers with its baseline starting at at.
func (f face) box(s string, at vg.Point) vg.Rectangle {
	return vg.Rectangle{
		Min: vg.Point{X: at.X, Y: at.Y - descent*f.size},
		Max: vg.Point{X: at.X + f.width(s), Y: at.Y + capHeight*f.size},
	}
}

// fit is s, cut in the middle if need be so that it is at most width wide.
func (f face) fit(s string, width vg.Length) string {
	for n := len([]rune(s)) - 1; f.width(s) > width && n > 1; n-- {
		s = shorten(s, n)
	}
	return s
}

// trim is s, cut at the end if need be so that it is at most width wide.
func (f face) trim(s string, width vg.Length) string {
	if f.width(s) <= width {
		return s
	}
	r := []rune(s)
	for len(r) > 1 && f.width(string(r)+"…") > width {
		r = r[:len(r)-1]
	}
	return strings.TrimSpace(string(r)) + "…"
}

// wrap breaks s into at most most lines, each at most width wide; what does
// not fit ends in an ellipsis.
func (f face) wrap(s string, width vg.Length, most int) []string {
	var lines []string
	line := ""
	words := strings.Fields(s)
	for i, w := range words {
		try := strings.TrimSpace(line + " " + w)
		if line == "" || f.width(try) <= width {
			line = try
			continue
		}
		if len(lines) == most-1 {
			return append(lines, f.trim(line+" "+strings.Join(words[i:], " "), width))
		}
		lines, line = append(lines, f.fit(line, width)), w
	}
	if line == "" {
		return lines
	}
	return append(lines, f.fit(line, width))
}

// shorten cuts s in the middle to n characters.
func shorten(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	head := n / 2
	tail := n - 1 - head
	return string(r[:head]) + "…" + string(r[len(r)-tail:])
}

// clean makes s one line of characters that XML and fonts can carry.
func clean(s string) string {
	s = strings.ToValidUTF8(s, "?")
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, s)
	return strings.TrimSpace(s)
}

func (p pen) text(f face, c color.NRGBA, at vg.Point, s string) {
	if p.raster {
		s = fixedSpaces(s)
	}
	p.SetColor(c)
	p.FillString(f.lookup(), at, s)
}

// centred draws s with its middle at at.
func (p pen) centred(f face, c color.NRGBA, at vg.Point, s string) {
	p.text(f, c, vg.Point{X: at.X - f.width(s)/2, Y: at.Y - capHeight/2*f.size}, s)
}

// turned draws s around at, turned by angle in radians.
func (p pen) turned(f face, c color.NRGBA, at vg.Point, angle float64, s string) {
	p.Push()
	p.Translate(at)
	p.Rotate(angle)
	p.centred(f, c, vg.Point{}, s)
	p.Pop()
}

func (p pen) fill(c color.NRGBA, path vg.Path) {
	p.SetColor(c)
	p.Fill(path)
}

func (p pen) rect(c color.NRGBA, r vg.Rectangle) { p.fill(c, r.Path()) }

func (p pen) path(s stroke, path vg.Path) {
	p.SetColor(s.colour)
	p.SetLineWidth(s.width)
	p.SetLineDash(s.dashes, 0)
	p.Stroke(path)
}

func (p pen) line(s stroke, pts ...vg.Point) {
	if len(pts) < 2 {
		return
	}
	var path vg.Path
	path.Move(pts[0])
	for _, q := range pts[1:] {
		path.Line(q)
	}
	p.path(s, path)
}

// marker draws one data point, solid or hollow.
func (p pen) marker(l look, at vg.Point, radius vg.Length, solid bool) {
	path := l.shape.outline(at, radius)
	if solid {
		p.fill(l.colour, path)
		p.path(stroke{colour: colourPaper(), width: 0.6}, path)
		return
	}
	p.fill(colourPaper(), path)
	p.path(stroke{colour: l.colour, width: 1.6}, path)
}

// ring marks a picked point.
func (p pen) ring(at vg.Point, radius vg.Length) {
	p.path(stroke{colour: colourPaper(), width: 4}, circle(at, radius))
	p.path(stroke{colour: colourInk(), width: 1.8}, circle(at, radius))
}

// hatch fills r with thin rising lines: nothing was measured here.
func (p pen) hatch(r vg.Rectangle) {
	const gap = 7
	s := stroke{colour: colourHatch(), width: 0.6}
	w, h := r.Size().X, r.Size().Y
	for off := -h + gap; off < w; off += gap {
		x0, x1 := max(off, 0), min(off+h, w)
		p.line(s, vg.Point{X: r.Min.X + x0, Y: r.Min.Y + x0 - off}, vg.Point{X: r.Min.X + x1, Y: r.Min.Y + x1 - off})
	}
}

// watermark writes word across r, corner to corner, for the data to be drawn over.
func (p pen) watermark(r vg.Rectangle, word string) {
	f := face{size: 1, bold: true}
	w, h := float64(r.Size().X), float64(r.Size().Y)
	f.size = min(vg.Length(0.74*math.Hypot(w, h))/f.width(word), 96)
	c := colourMark()
	if !p.raster {
		c.A = 0xFF // vgsvg loses the translucency of text; portableSVG gives it back
	}
	p.turned(f, c, centre(r), math.Atan2(h, w)*0.85, word)
}

func centre(r vg.Rectangle) vg.Point {
	return vg.Point{X: (r.Min.X + r.Max.X) / 2, Y: (r.Min.Y + r.Max.Y) / 2}
}
