package plots

import (
	"math"

	"gonum.org/v1/plot/vg"
)

// onPage turns a line on the lattice into one on the page.
func (f frame) onPage(line []xy) []vg.Point {
	pts := make([]vg.Point, len(line))
	for i, q := range line {
		pts[i] = vg.Point{
			X: f.area.Min.X + vg.Length(q.x/latticeX)*f.area.Size().X,
			Y: f.area.Min.Y + vg.Length(q.y/latticeY)*f.area.Size().Y,
		}
	}
	return pts
}

// ink draws contours and points over the map, and places their labels.
func (m *heatMap) ink(p pen, f frame, ls *placer) []label {
	for _, s := range m.samples {
		ls.avoid(f.point(s.kv, s.context), sampleRadius+1)
	}
	contours := map[float64][][]vg.Point{}
	for _, v := range m.inner() {
		for _, pts := range m.contour(f, m.shown, v) {
			p.line(stroke{colour: colourQuiet(), width: 0.6}, pts...)
			contours[v] = append(contours[v], pts)
		}
	}
	sla := m.slaLines(p, f, ls)
	for _, s := range m.samples {
		at := f.point(s.kv, s.context)
		p.marker(look{colourInk(), disc}, at, sampleRadius, m.meets(s))
	}
	labels := m.pick(p, f, ls)
	if len(sla) > 0 {
		if l, ok := ls.along(limitFace, m.caption.slaText("ITL", m.caption.SLA.ITL), sla, true); ok {
			labels = append(labels, l)
		}
	}
	for _, v := range m.inner() {
		if l, ok := ls.along(contourFace, number(v), contours[v], false); ok {
			labels = append(labels, l)
		}
	}
	return labels
}

// contour is where l is level, on the page and within what was measured.
func (m *heatMap) contour(f frame, l lattice, level float64) [][]vg.Point {
	var out [][]vg.Point
	for _, line := range l.contour(level) {
		for _, part := range clip(line, m.mask) {
			out = append(out, f.onPage(part))
		}
	}
	return out
}

const sampleRadius vg.Length = 3.2

var contourFace = face{9, false}

// inner are the levels that bands meet at.
func (m *heatMap) inner() []float64 { return m.levels[1 : len(m.levels)-1] }

// slaLines draws where ITL reaches the SLA, thick, with teeth on the side that
// fails it.
func (m *heatMap) slaLines(p pen, f frame, ls *placer) [][]vg.Point {
	if m.itl.v == nil || m.caption.SLA.ITL <= 0 {
		return nil
	}
	var out [][]vg.Point
	for _, pts := range m.contour(f, m.itl, ms(m.caption.SLA.ITL)) {
		p.line(stroke{colour: colourPaper(), width: 5}, pts...)
		for _, t := range m.teeth(f, pts) {
			p.line(stroke{colour: colourLimit(), width: 1.4}, t[0], t[1])
		}
		p.line(stroke{colour: colourLimit(), width: 2.8}, pts...)
		ls.avoidLine(pts...)
		out = append(out, pts)
	}
	return out
}

// teeth are short strokes off a contour towards the higher ITL.
func (m *heatMap) teeth(f frame, pts []vg.Point) [][2]vg.Point {
	const every, length = 13, 6
	var out [][2]vg.Point
	walked := vg.Length(0)
	for i := 1; i < len(pts); i++ {
		d := pts[i].Sub(pts[i-1])
		step := vg.Length(math.Hypot(float64(d.X), float64(d.Y)))
		walked += step
		if walked < every || step == 0 {
			continue
		}
		walked = 0
		side := vg.Point{X: -d.Y / step * length, Y: d.X / step * length}
		up, down := m.itlAt(f, pts[i].Add(side)), m.itlAt(f, pts[i].Sub(side))
		switch {
		case up > down || math.IsNaN(down) && up > ms(m.caption.SLA.ITL):
			out = append(out, [2]vg.Point{pts[i], pts[i].Add(side)})
		case down > up || math.IsNaN(up) && down > ms(m.caption.SLA.ITL):
			out = append(out, [2]vg.Point{pts[i], pts[i].Sub(side)})
		}
	}
	return out
}

// itlAt is the ITL in ms at a place on the page.
func (m *heatMap) itlAt(f frame, at vg.Point) float64 {
	x := float64((at.X-f.area.Min.X)/f.area.Size().X) * latticeX
	y := float64((at.Y-f.area.Min.Y)/f.area.Size().Y) * latticeY
	if x < 0 || y < 0 || x > latticeX || y > latticeY {
		return math.NaN()
	}
	return m.itl.cell(x, y)
}

// pick marks the picked point.
func (m *heatMap) pick(p pen, f frame, ls *placer) []label {
	if m.picked == nil {
		return nil
	}
	at := f.point(m.picked.KVUsage, m.picked.Context)
	p.ring(at, ringRadius)
	p.marker(look{colourLimit(), diamond}, at, markerRadius, true)
	ls.avoid(at, ringRadius+1)
	text := joinSet(" ", shorten(clean(m.picked.Label), 28), "("+m.caption.pickWord()+")")
	if l, ok := ls.around(strongDot, text, at, ringRadius+1, true); ok {
		return []label{l}
	}
	return nil
}

// along places s on one of lines, the longest first, as near its middle as
// there is room.
func (l *placer) along(f face, s string, lines [][]vg.Point, must bool) (label, bool) {
	var longest []vg.Point
	for _, pts := range lines {
		if len(pts) > len(longest) {
			longest = pts
		}
	}
	if len(longest) == 0 || !must && len(longest) < 8 {
		return label{}, false
	}
	var spots []vg.Point
	const steps = 24
	w, up := f.width(s), capHeight*f.size
	for i := range steps {
		// From the middle outwards, in turn to both sides.
		t := 0.5 + float64((i+1)/2)/steps*float64(1-2*(i%2))
		at := longest[min(int(t*float64(len(longest))), len(longest)-1)]
		if must { // beside the line, not on it
			spots = append(spots, vg.Point{X: at.X - w - 12, Y: at.Y}, vg.Point{X: at.X + 12, Y: at.Y}, vg.Point{X: at.X - w/2, Y: at.Y + 12}, vg.Point{X: at.X - w/2, Y: at.Y - 12 - up})
			continue
		}
		spots = append(spots, vg.Point{X: at.X - w/2, Y: at.Y - up/2})
	}
	return l.among(f, s, spots, must)
}

// side draws the colour bar and the legend.
func (m *heatMap) side(p pen, r vg.Rectangle) {
	const wide = 18
	colours := ramp(len(m.levels) - 1)
	bar := r
	bar.Max.Y -= 20
	bar.Min.Y = bar.Max.Y - min(0.5*r.Size().Y, vg.Length(len(colours))*30)
	bar.Max.X = bar.Min.X + wide
	p.text(face{9.5, true}, colourInk(), vg.Point{X: r.Min.X, Y: r.Max.Y - 8}, face{9.5, true}.fit(m.name, r.Size().X))
	step := bar.Size().Y / vg.Length(len(colours))
	for i, c := range colours {
		b := bar
		b.Min.Y, b.Max.Y = bar.Min.Y+vg.Length(i)*step, bar.Min.Y+vg.Length(i+1)*step
		p.rect(c, b)
	}
	p.path(stroke{colour: colourQuiet(), width: 0.6}, bar.Path())
	every := int(math.Ceil(13 / float64(step)))
	for i, v := range m.levels {
		if i%every != 0 {
			continue
		}
		y := bar.Min.Y + vg.Length(i)*step
		p.line(stroke{colour: colourQuiet(), width: 0.6}, vg.Point{X: bar.Max.X, Y: y}, vg.Point{X: bar.Max.X + 4, Y: y})
		p.text(tickFace, colourInk(), vg.Point{X: bar.Max.X + 7, Y: y - capHeight/2*tickFace.size}, number(v))
	}
	r.Max.Y = bar.Min.Y - 14
	legend(p, r, m.keys())
}

func (m *heatMap) keys() []key {
	solid, hollow := false, false
	for _, s := range m.samples {
		solid, hollow = solid || m.meets(s), hollow || !m.meets(s)
	}
	word := m.caption.Provenance.String()
	var ks []key
	if solid && m.caption.SLA.ITL > 0 {
		ks = append(ks, key{word + ", meets SLA", markerSample(look{colourInk(), disc}, true, false)})
	} else if solid {
		ks = append(ks, key{word, markerSample(look{colourInk(), disc}, true, false)})
	}
	if hollow {
		ks = append(ks, key{word + ", fails SLA", markerSample(look{colourInk(), disc}, false, false)})
	}
	if m.picked != nil {
		ks = append(ks, key{m.caption.pickWord(), func(p pen, at vg.Point) {
			p.ring(at, 7)
			p.marker(look{colourLimit(), diamond}, at, 3.6, true)
		}})
	}
	ks = append(ks, m.slaKey()...)
	return append(ks, key{"not sampled: left blank", hatchSample})
}

// slaKey says where the SLA's line is, or why there is none.
func (m *heatMap) slaKey() []key {
	if m.itl.v == nil || m.caption.SLA.ITL <= 0 {
		return nil
	}
	text := m.caption.slaText("ITL", m.caption.SLA.ITL)
	none := func(pen, vg.Point) {}
	switch {
	case m.met && m.failed:
		return []key{{text + "; teeth on the side that fails it", func(p pen, at vg.Point) {
			lineSample(stroke{colour: colourLimit(), width: 2.8})(p, at)
			for x := vg.Length(-9); x <= 9; x += 9 {
				p.line(stroke{colour: colourLimit(), width: 1.4}, at.Add(vg.Point{X: x}), at.Add(vg.Point{X: x, Y: 5}))
			}
		}}}
	case m.met:
		return []key{{text + ": met everywhere here", none}}
	default:
		return []key{{text + ": met nowhere here", none}}
	}
}
