package plots

import (
	"fmt"
	"image/color"

	"gonum.org/v1/plot/vg"
)

// The legend has a column of its own at the right, so that it never covers data.
const (
	legendWidth  vg.Length = 172
	legendSample vg.Length = 28
)

// A key is one entry of a legend: a sample, drawn around a point, and its meaning.
type key struct {
	text   string
	sample func(p pen, at vg.Point)
}

var legendFace = face{9.5, false}

// legend draws keys from the top of r down. Those without room are counted.
func legend(p pen, r vg.Rectangle, keys []key) {
	y := r.Max.Y - 6
	for i, k := range keys {
		lines := legendFace.wrap(k.text, r.Size().X-legendSample-8, 3)
		height := vg.Length(len(lines)-1)*11.5 + 17
		if y-height-17 < r.Min.Y && i < len(keys)-1 {
			at := vg.Point{X: r.Min.X + legendSample + 8, Y: y - 4}
			p.text(legendFace, colourQuiet(), at, fmt.Sprintf("and %d more", len(keys)-i))
			return
		}
		k.sample(p, vg.Point{X: r.Min.X + legendSample/2, Y: y})
		for j, l := range lines {
			at := vg.Point{X: r.Min.X + legendSample + 8, Y: y - capHeight/2*legendFace.size - vg.Length(j)*11.5}
			p.text(legendFace, colourInk(), at, l)
		}
		y -= height
	}
}

func lineSample(s stroke) func(pen, vg.Point) {
	return func(p pen, at vg.Point) {
		p.line(s, vg.Point{X: at.X - legendSample/2, Y: at.Y}, vg.Point{X: at.X + legendSample/2, Y: at.Y})
	}
}

func markerSample(l look, solid, joined bool) func(pen, vg.Point) {
	return func(p pen, at vg.Point) {
		if joined {
			lineSample(stroke{colour: l.colour, width: 1.6})(p, at)
		}
		p.marker(l, at, markerRadius, solid)
	}
}

func ringSample(p pen, at vg.Point) { p.ring(at, 7) }

func swatchSample(c color.NRGBA) func(pen, vg.Point) {
	return func(p pen, at vg.Point) { p.rect(c, sampleBox(at)) }
}

func hatchSample(p pen, at vg.Point) {
	p.hatch(sampleBox(at))
	p.path(stroke{colour: colourHatch(), width: 0.6}, sampleBox(at).Path())
}

func barSample(p pen, at vg.Point) {
	p.errorBar(stroke{colour: colourQuiet(), width: 1}, vg.Point{X: at.X - 9, Y: at.Y}, vg.Point{X: at.X + 9, Y: at.Y})
}

func sampleBox(at vg.Point) vg.Rectangle {
	half := vg.Point{X: legendSample / 2, Y: 5.5}
	return vg.Rectangle{Min: at.Sub(half), Max: at.Add(half)}
}
