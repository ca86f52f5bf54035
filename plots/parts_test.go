package plots

import (
	"image/color"
	"math"
	"slices"
	"strings"
	"testing"

	"plimsoll/engine/enginetest"

	"gonum.org/v1/plot/vg"
	"pgregory.net/rapid"
)

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 1: "1", 200: "200", 48.37: "48.37", 48.3712: "48.37", 1234.56: "1,235", 15505.23: "15,505",
		1e6: "1,000,000", 0.001: "0.001", 0.25: "0.25", 1e-5: "1e-05", 1e9: "1e+09", 999.96: "1,000", 100000: "100,000",
	} {
		if got := number(v); got != want {
			t.Errorf("number(%g) = %q, want %q", v, got, want)
		}
	}
}

func TestTicks(t *testing.T) {
	text := func(ts []tick) string {
		var ss []string
		for _, k := range ts {
			if k.text != "" {
				ss = append(ss, k.text)
			}
		}
		return strings.Join(ss, " ")
	}
	for _, c := range []struct {
		got, want string
	}{
		{text(linearTicks(0, 216, 8)), "0 50 100 150 200"},
		{text(linearTicks(0, 1.05, 8)), "0.0 0.2 0.4 0.6 0.8 1.0"},
		{text(linearTicks(22000, 45600, 7)), "25,000 30,000 35,000 40,000 45,000"},
		{text(linearTicks(0, 0.006, 7)), "0.000 0.001 0.002 0.003 0.004 0.005 0.006"},
		{text(linearTicks(0, 1.6, 7)), "0.00 0.25 0.50 0.75 1.00 1.25 1.50"},
		{text(logTicks(80, 20000)), "100 200 500 1,000 2,000 5,000 10,000 20,000"},
		{text(logTicks(0.5, 2e5)), "1 10 100 1,000 10,000 100,000"},
		{text(logTicks(1, 1e12)), "1 100 10,000 1,000,000 1e+08 1e+10 1e+12"},
	} {
		if c.got != c.want {
			t.Errorf("ticks %q, want %q", c.got, c.want)
		}
	}
}

// Every axis shows all that it was made for, and has something to read it by.
func TestAxesHoldTheirValues(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		xs := rapid.SliceOfN(tame(), 1, 20).Draw(t, "xs")
		ys := rapid.SliceOfN(tame(), 1, 20).Draw(t, "ys")
		ax, ay := newAxes("", xs, "", ys)
		for _, c := range []struct {
			a  axis
			vs []float64
		}{{ax, xs}, {ay, ys}, {newAxis("", xs), xs}, {linearAxis("", ys), ys}} {
			if !finite(c.a.lo) || !finite(c.a.hi) || c.a.hi <= c.a.lo || c.a.log && c.a.lo <= 0 {
				t.Fatalf("axis %+v of %v", c.a, c.vs)
			}
			for _, v := range c.vs {
				if n := c.a.norm(v); !(n >= -1e-9 && n <= 1+1e-9) {
					t.Fatalf("%g is at %g of axis %+v", v, n, c.a)
				}
			}
			ts := c.a.ticks(7)
			if len(ts) < 2 || len(ts) > 200 {
				t.Fatalf("axis %+v has %d ticks", c.a, len(ts))
			}
			for _, k := range ts {
				if n := c.a.norm(k.at); !(n >= -1e-6 && n <= 1+1e-6) {
					t.Fatalf("tick %+v is at %g of axis %+v", k, n, c.a)
				}
			}
		}
	})
}

func TestAxisScales(t *testing.T) {
	even := []float64{100, 1000, 2000, 3000, 4000, 5000, 6000}
	if newAxis("", even).log {
		t.Error("an even spread is on a log axis")
	}
	if x, y := newAxes("", even, "", even); !x.log || !y.log {
		t.Error("two huge ranges are not on log axes")
	}
	if !newAxis("", []float64{1, 2, 3, 5, 9, 1000}).log {
		t.Error("values that crowd at the low end are not on a log axis")
	}
	if a := newAxis("", []float64{0, 1, 2, 1000}); a.log {
		t.Error("an axis with 0 is logarithmic")
	}
}

func TestBandLevels(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		vs := rapid.SliceOfN(tame(), 3, 3).Draw(t, "values")
		slices.Sort(vs)
		ls := bandLevels(vs[0], vs[1], vs[2])
		if len(ls) < 2 || len(ls) > 42 || !slices.IsSorted(ls) {
			t.Fatalf("levels %v", ls)
		}
		if ls[0] > vs[0]+1e-6*vs[0]+least || ls[len(ls)-1] < vs[2]*(1-1e-6) {
			t.Fatalf("levels %v do not hold %v", ls, vs)
		}
	})
}

// The map paints a pixel where the fit knows a value, in the colour of its
// band, and nothing elsewhere.
func TestMapPaintsWhatTheFitSays(t *testing.T) {
	s := decodeSurface()
	m := heatMap{caption: caption(), maxKV: maxKV, mapFace: mapFace{name: "ITL", isITL: true}}
	for _, d := range s.Samples {
		m.samples = append(m.samples, sample{d.KVUsage, d.Context, ms(d.ITL), d.ITL})
	}
	if err := m.survey(itlSurface(), nil); err != nil {
		t.Fatal(err)
	}
	img, colours := m.pixels(), ramp(len(m.levels)-1)
	painted, wrong, total := 0, 0, 0
	for y := 0; y < m.mask.h; y += 3 {
		for x := 0; x < m.mask.w; x += 3 {
			kv, context := m.place((float64(x)+0.5)/float64(fine()), (float64(y)+0.5)/float64(fine()))
			v, inRange := itlSurface()(kv, context)
			want := color.NRGBA{}
			if inRange {
				want, painted = colours[m.band(v)], painted+1
			}
			total++
			if got := img.At(x, m.mask.h-1-y); got != want {
				wrong++
			}
		}
	}
	// A pixel on a contour may be of either band.
	if painted < total/4 || wrong > total/200 {
		t.Errorf("%d of %d pixels are wrong, %d painted", wrong, total, painted)
	}
}

func TestContourOfACircle(t *testing.T) {
	l := lattice{nx: 40, ny: 30}
	for j := range 31 {
		for i := range 41 {
			l.v = append(l.v, math.Hypot(float64(i)-20, float64(j)-15))
		}
	}
	lines := l.contour(10.3)
	if len(lines) != 1 {
		t.Fatalf("%d lines, want one circle", len(lines))
	}
	c := lines[0]
	if c[0] != c[len(c)-1] {
		t.Error("the circle is open")
	}
	length := 0.0
	for i, p := range c {
		if r := math.Hypot(p.x-20, p.y-15); math.Abs(r-10.3) > 0.03 {
			t.Errorf("%v is %.3f from the middle, want 10.3", p, r)
		}
		if i > 0 {
			length += math.Hypot(p.x-c[i-1].x, p.y-c[i-1].y)
		}
	}
	if want := 2 * math.Pi * 10.3; math.Abs(length-want) > 0.02*want {
		t.Errorf("the circle is %.2f long, want %.2f", length, want)
	}
}

// A saddle has two lines, which do not cross: each cuts off one corner.
func TestContourOfASaddle(t *testing.T) {
	rising, falling := []float64{1, 0, 0, 1}, []float64{0, 1, 1, 0} // the high corners: (0,0) and (1,1), or the others
	for _, c := range []struct {
		v      []float64
		level  float64
		corner xy // cut off, and so is the opposite one
	}{{rising, 0.4, xy{1, 0}}, {rising, 0.6, xy{0, 0}}, {falling, 0.4, xy{0, 0}}, {falling, 0.6, xy{1, 0}}} {
		lines := lattice{nx: 1, ny: 1, v: c.v}.contour(c.level)
		if len(lines) != 2 {
			t.Fatalf("%v at %g: %d lines, want 2", c.v, c.level, len(lines))
		}
		near := 0
		for _, l := range lines {
			for _, q := range []xy{c.corner, {1 - c.corner.x, 1 - c.corner.y}} {
				if math.Hypot(l[0].x-q.x, l[0].y-q.y) < 0.45 && math.Hypot(l[1].x-q.x, l[1].y-q.y) < 0.45 {
					near++
				}
			}
		}
		if near != 2 {
			t.Errorf("%v at %g: lines %v do not cut off the corner %v and its opposite", c.v, c.level, lines, c.corner)
		}
	}
}

func TestContourStopsAtTheUnknown(t *testing.T) {
	l := lattice{nx: 4, ny: 1, v: []float64{0, 1, 2, math.NaN(), math.NaN(), 0, 1, 2, math.NaN(), math.NaN()}}
	if lines := l.contour(1.5); len(lines) != 1 || lines[0][0].x != 1.5 {
		t.Errorf("contour %v, want one at x = 1.5", lines)
	}
	g := l.grown()
	if v := g.at(3, 0); v != 3 {
		t.Errorf("grown by one is %g, want 3: straight on", v)
	}
	if math.IsNaN(l.at(0, 0)) || !math.IsNaN(l.at(3, 0)) {
		t.Error("growing changed the lattice itself")
	}
}

// crosses against a dumb oracle: many points along the line.
func TestCrosses(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		n := rapid.Map(rapid.IntRange(0, 20), func(i int) vg.Length { return vg.Length(i) })
		r := vg.Rectangle{Min: vg.Point{X: 5, Y: 5}, Max: vg.Point{X: 12, Y: 9}}
		p, q := vg.Point{X: n.Draw(t, "px"), Y: n.Draw(t, "py")}, vg.Point{X: n.Draw(t, "qx"), Y: n.Draw(t, "qy")}
		const steps = 5 * 4 * 9 * 7 * 11 * 13 // hits every crossing of whole numbers up to 20 well enough
		inside := false
		for i := range steps + 1 {
			f := vg.Length(i) / steps
			x, y := p.X+f*(q.X-p.X), p.Y+f*(q.Y-p.Y)
			inside = inside || x >= r.Min.X && x <= r.Max.X && y >= r.Min.Y && y <= r.Max.Y
		}
		if inside && !crosses(r, p, q) {
			t.Fatalf("%v–%v enters %v unseen", p, q, r)
		}
		shrunk := vg.Rectangle{Min: r.Min.Add(vg.Point{X: 1e-6, Y: 1e-6}), Max: r.Max.Sub(vg.Point{X: 1e-6, Y: 1e-6})}
		if !inside && crosses(shrunk, p, q) {
			t.Fatalf("%v–%v does not enter %v", p, q, r)
		}
	})
}

func TestLabelsKeepOffMarkersAndLines(t *testing.T) {
	l := &placer{area: vg.Rectangle{Max: vg.Point{X: 300, Y: 200}}}
	at := vg.Point{X: 150, Y: 100}
	l.avoid(at, 5)
	l.avoidLine(vg.Point{X: 155, Y: 100}, vg.Point{X: 300, Y: 100}) // takes the first place
	var boxes []vg.Rectangle
	for range 20 {
		b, ok := l.around(dotFace, "n=16", at, 5, false)
		if !ok {
			break
		}
		box := dotFace.box(b.text, b.at)
		if crosses(box, vg.Point{X: 155, Y: 100}, vg.Point{X: 300, Y: 100}) {
			t.Errorf("%v lies on the line", box)
		}
		for _, o := range boxes {
			if w, h := overlap(o, box); w > 0 && h > 0 {
				t.Errorf("%v lies on %v", box, o)
			}
		}
		boxes = append(boxes, box)
	}
	if len(boxes) < 3 || len(boxes) > 7 {
		t.Errorf("%d labels found room around one point, want 3 to 7", len(boxes))
	}
	if b, ok := l.around(dotFace, "n=16", at, 5, true); !ok || !b.far {
		t.Errorf("a label that must be there is at %v, %t: want it further off, with a leader", b, ok)
	}
}

func TestShortenAndWrap(t *testing.T) {
	if got := shorten("meta-llama/Llama-3.1-8B-Instruct", 15); got != "meta-ll…nstruct" {
		t.Errorf("shorten gave %q", got)
	}
	f := face{10, false}
	enginetest.Check(t, func(t *rapid.T) {
		s := clean(rapid.String().Draw(t, "text"))
		width := vg.Length(rapid.IntRange(40, 400).Draw(t, "width"))
		lines := f.wrap(s, width, 3)
		if len(lines) > 3 {
			t.Fatalf("%d lines", len(lines))
		}
		for _, l := range append(lines, f.fit(s, width), f.trim(s, width)) {
			if f.width(l) > width+1e-6 && len([]rune(l)) > 2 {
				t.Fatalf("%q is %v wide, want at most %v", l, f.width(l), width)
			}
		}
		if joined := strings.Join(lines, " "); !strings.Contains(joined, "…") && joined != strings.Join(strings.Fields(s), " ") {
			t.Fatalf("%q became %q", s, joined)
		}
	})
}

// Neighbouring bands and series differ in lightness or in shape, for print in gray.
func TestReadableInGray(t *testing.T) {
	gray := func(c color.Color) float64 { return float64(color.GrayModel.Convert(c).(color.Gray).Y) }
	for n := 2; n <= 12; n++ {
		r := ramp(n)
		for i := 1; i < n; i++ {
			if gray(r[i-1])-gray(r[i]) < 2 {
				t.Errorf("ramp(%d): bands %d and %d look alike in gray", n, i-1, i)
			}
		}
	}
	seen := map[look]bool{}
	for i := range 42 {
		if seen[lookOf(i)] {
			t.Errorf("look %d was there before", i)
		}
		seen[lookOf(i)] = true
		if lookOf(i).shape == lookOf(i+1).shape {
			t.Errorf("series %d and %d have one shape", i, i+1)
		}
	}
}

// A label is not put nearer to another marker than to its own, unless a line leads
// to it: beside two points that nearly touch it would name the wrong one.
func TestLabelsAreNotMistakenForAnothers(t *testing.T) {
	l := &placer{area: vg.Rectangle{Max: vg.Point{X: 300, Y: 200}}}
	lower, upper := vg.Point{X: 150, Y: 100}, vg.Point{X: 152, Y: 106}
	l.avoid(lower, 5)
	l.avoid(upper, 5)
	for _, at := range []vg.Point{lower, upper} {
		b, ok := l.around(dotFace, "TP:2 n=137", at, 5, true)
		if !ok || !b.far && l.astray(dotFace.box(b.text, b.at), at) {
			t.Errorf("the label of %v is at %v, nearer to the other point", at, b.at)
		}
	}
	l.avoidLine(vg.Point{X: 155, Y: 100}, vg.Point{X: 300, Y: 100})
	if b, ok := l.around(dotFace, "n=1", lower, 5, false); ok && l.astray(dotFace.box(b.text, b.at), lower) {
		t.Errorf("a label that may be left out is at %v, nearer to the other point", b.at)
	}
}
