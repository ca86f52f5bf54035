package plots

import (
	"image/color"
	"math"

	"gonum.org/v1/plot/palette/brewer"
	"gonum.org/v1/plot/vg"
)

// Okabe & Ito's palette, told apart with any common colour vision. Source:
// M. Okabe, K. Ito, "Color Universal Design", 2008,
// https://jfly.uni-koeln.de/color/, read 2026-08. Yellow is left out: it does
// not show on white.
func okabeIto(i int) color.NRGBA {
	p := [...]color.NRGBA{
		{0x00, 0x72, 0xB2, 0xFF}, // blue
		{0xE6, 0x9F, 0x00, 0xFF}, // orange
		{0x00, 0x9E, 0x73, 0xFF}, // bluish green
		{0xCC, 0x79, 0xA7, 0xFF}, // reddish purple
		{0x56, 0xB4, 0xE9, 0xFF}, // sky blue
		{0x00, 0x00, 0x00, 0xFF}, // black
		{0xD5, 0x5E, 0x00, 0xFF}, // vermillion
	}
	return p[i%len(p)]
}

// Colours with one meaning everywhere; vermillion and bluish green are Okabe
// and Ito's.
func colourInk() color.NRGBA      { return color.NRGBA{0x1A, 0x1A, 0x1A, 0xFF} }
func colourQuiet() color.NRGBA    { return color.NRGBA{0x55, 0x55, 0x55, 0xFF} }
func colourGrid() color.NRGBA     { return color.NRGBA{0xE3, 0xE3, 0xE3, 0xFF} }
func colourHatch() color.NRGBA    { return color.NRGBA{0xC4, 0xC4, 0xC4, 0xFF} }
func colourPaper() color.NRGBA    { return color.NRGBA{0xFF, 0xFF, 0xFF, 0xFF} }
func colourHalo() color.NRGBA     { return color.NRGBA{0xFF, 0xFF, 0xFF, 0xD0} }
func colourLimit() color.NRGBA    { return color.NRGBA{0xD5, 0x5E, 0x00, 0xFF} }
func colourFeasible() color.NRGBA { return color.NRGBA{0x00, 0x9E, 0x73, 0x1F} }
func colourMeasured() color.NRGBA { return color.NRGBA{0x00, 0x6B, 0x4E, 0xFF} }
func colourWarning() color.NRGBA  { return color.NRGBA{0xB3, 0x3A, 0x00, 0xFF} }
func colourFailed() color.NRGBA   { return color.NRGBA{0x1A, 0x1A, 0x1A, 0xFF} }
func colourMark() color.NRGBA     { return color.NRGBA{0x1B, 0x1B, 0x1B, 0x17} } // unlike any other's red, green and blue

// ramp is n colours from light to dark, one per band of a heat map, out of
// ColorBrewer's YlGnBu (C. Brewer, https://colorbrewer2.org): its lightness
// falls all the way, so it reads in grayscale and with any colour vision. The
// two darkest tenths are left out, for contours to show on it.
func ramp(n int) []color.NRGBA {
	p, err := brewer.GetPalette(brewer.TypeSequential, "YlGnBu", 9)
	if err != nil { // a misspelt name: a programmer's bug
		panic(err)
	}
	stops := p.Colors()
	out := make([]color.NRGBA, n)
	for i := range out {
		t := 0.8 * float64(len(stops)-1) * float64(i) / float64(max(n-1, 1))
		k := min(int(t), len(stops)-2)
		out[i] = blend(stops[k], stops[k+1], t-float64(k))
	}
	return out
}

func blend(a, b color.Color, t float64) color.NRGBA {
	x, y := color.NRGBAModel.Convert(a).(color.NRGBA), color.NRGBAModel.Convert(b).(color.NRGBA)
	mix := func(p, q uint8) uint8 { return uint8(math.Round(float64(p) + t*(float64(q)-float64(p)))) }
	return color.NRGBA{mix(x.R, y.R), mix(x.G, y.G), mix(x.B, y.B), 0xFF}
}

// A look tells one series from the others, by colour and, for grayscale, by shape.
type look struct {
	colour color.NRGBA
	shape  shape
}

// lookOf is the look of series i; seven colours and six shapes repeat after 42.
func lookOf(i int) look { return look{okabeIto(i), shape(i % int(shapes))} }

// A shape is the outline of a marker.
type shape int

const (
	disc shape = iota
	square
	triangle
	diamond
	wedge // triangle on its tip
	hexagon
	shapes
)

// outline is the marker's path around at; the shapes look equally big at one radius.
func (s shape) outline(at vg.Point, radius vg.Length) vg.Path {
	switch s {
	case square:
		return polygon(at, radius*1.18, 4, math.Pi/4)
	case triangle:
		return polygon(at, radius*1.33, 3, math.Pi/2)
	case diamond:
		return polygon(at, radius*1.28, 4, math.Pi/2)
	case wedge:
		return polygon(at, radius*1.33, 3, -math.Pi/2)
	case hexagon:
		return polygon(at, radius*1.12, 6, 0)
	case disc:
		return circle(at, radius)
	default:
		return circle(at, radius)
	}
}

func circle(at vg.Point, radius vg.Length) vg.Path {
	var p vg.Path
	p.Move(vg.Point{X: at.X + radius, Y: at.Y})
	p.Arc(at, radius, 0, 2*math.Pi)
	p.Close()
	return p
}

func polygon(at vg.Point, radius vg.Length, n int, phase float64) vg.Path {
	var p vg.Path
	for i := range n {
		sin, cos := math.Sincos(phase + 2*math.Pi*float64(i)/float64(n))
		v := vg.Point{X: at.X + radius*vg.Length(cos), Y: at.Y + radius*vg.Length(sin)}
		if i == 0 {
			p.Move(v)
			continue
		}
		p.Line(v)
	}
	p.Close()
	return p
}
