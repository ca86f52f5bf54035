package plots

import (
	"math"
	"slices"
)

// A lattice is a surface sampled at (nx+1)·(ny+1) crossings of a frame's
// plane; NaN where nothing was measured. Positions are in steps, so that the
// crossing (i, j) is at (i, j).
type lattice struct {
	nx, ny int
	v      []float64 // row by row, from the bottom
}

func (l lattice) at(i, j int) float64 { return l.v[j*(l.nx+1)+i] }

// bounds are the least and the greatest value known; lo > hi where none is.
func (l lattice) bounds() (lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for _, v := range l.v {
		if !math.IsNaN(v) {
			lo, hi = min(lo, v), max(hi, v)
		}
	}
	return lo, hi
}

// low is a value that one in fifty is below; NaN where none is known.
func (l lattice) low() float64 {
	var vs []float64
	for _, v := range l.v {
		if !math.IsNaN(v) {
			vs = append(vs, v)
		}
	}
	if len(vs) == 0 {
		return math.NaN()
	}
	slices.Sort(vs)
	return vs[len(vs)/50]
}

// cell is the value inside a cell, bilinear between its four crossings; NaN
// where one of them is.
func (l lattice) cell(x, y float64) float64 {
	i, j := min(int(x), l.nx-1), min(int(y), l.ny-1)
	if x < 0 || y < 0 || i < 0 || j < 0 {
		return math.NaN()
	}
	s, t := x-float64(i), y-float64(j)
	return (1-t)*((1-s)*l.at(i, j)+s*l.at(i+1, j)) + t*((1-s)*l.at(i, j+1)+s*l.at(i+1, j+1))
}

// grown is l with the crossings just outside of what was measured filled in,
// in straight continuation of those inside: cells that the border runs through
// need values on both sides of it. Who draws it keeps to a mask.
func (l lattice) grown() lattice {
	out := lattice{l.nx, l.ny, slices.Clone(l.v)}
	for range 2 { // sideways first, then into the corners
		was := lattice{l.nx, l.ny, slices.Clone(out.v)}
		for j := range len(l.v) / (l.nx + 1) {
			for i := range l.nx + 1 {
				if math.IsNaN(was.at(i, j)) {
					out.v[j*(l.nx+1)+i] = was.continued(i, j)
				}
			}
		}
	}
	return out
}

// continued is the mean of what the lines through (i, j) would continue to;
// where they are only one crossing long, that crossing's value.
func (l lattice) continued(i, j int) float64 {
	sum, n := 0.0, 0
	for _, d := range [][2]int{{1, 0}, {-1, 0}, {0, 1}, {0, -1}} {
		near, next := l.get(i+d[0], j+d[1]), l.get(i+2*d[0], j+2*d[1])
		switch {
		case math.IsNaN(near):
			continue
		case math.IsNaN(next):
			sum += near
		default:
			sum += 2*near - next
		}
		n++
	}
	if n == 0 {
		return math.NaN()
	}
	return sum / float64(n)
}

// get is at, with NaN beyond the lattice.
func (l lattice) get(i, j int) float64 {
	if i < 0 || j < 0 || i > l.nx || j > l.ny {
		return math.NaN()
	}
	return l.at(i, j)
}

// clip cuts line into the parts that lie in k, to a pixel.
func clip(line []xy, k mask) [][]xy {
	var out [][]xy
	var part []xy
	flush := func() {
		if len(part) > 1 {
			out = append(out, part)
		}
		part = nil
	}
	for i := 1; i < len(line); i++ {
		a, b := line[i-1], line[i]
		if k.at(a) && k.at(b) {
			if part == nil {
				part = append(part, a)
			}
			part = append(part, b)
			continue
		}
		for s := range fine() + 1 {
			t := float64(s) / float64(fine())
			q := xy{a.x + t*(b.x-a.x), a.y + t*(b.y-a.y)}
			if !k.at(q) {
				flush()
				continue
			}
			part = append(part, q)
		}
	}
	flush()
	return out
}

// xy is a position in steps of a lattice.
type xy struct{ x, y float64 }

// edge is a lattice edge: from (i, j) to the right, or up.
type edge struct {
	i, j int
	up   bool
}

// contour traces the lines on which the surface is level, by marching squares
// (Lorensen & Cline 1987, in two dimensions). A saddle is split by the mean of
// its corners.
func (l lattice) contour(level float64) [][]xy {
	next := map[edge][]edge{}
	var order []edge // maps have none, and the picture must not change from run to run
	link := func(a, b edge) {
		for _, e := range []edge{a, b} {
			if _, seen := next[e]; !seen {
				order = append(order, e)
			}
		}
		next[a], next[b] = append(next[a], b), append(next[b], a)
	}
	for j := range l.ny {
		for i := range l.nx {
			for _, s := range l.segments(i, j, level) {
				link(s[0], s[1])
			}
		}
	}
	done := map[edge]bool{}
	var lines [][]xy
	walk := func(e edge) {
		var line []xy
		first := e
		for !done[e] {
			done[e] = true
			line = append(line, l.cut(e, level))
			k := slices.IndexFunc(next[e], func(n edge) bool { return !done[n] })
			if k < 0 {
				break
			}
			e = next[e][k]
		}
		if len(line) > 2 && slices.Contains(next[e], first) {
			line = append(line, line[0])
		}
		if len(line) > 1 {
			lines = append(lines, line)
		}
	}
	for _, e := range order { // lines with ends first, loops after
		if len(next[e]) == 1 {
			walk(e)
		}
	}
	for _, e := range order {
		walk(e)
	}
	return lines
}

// segments are the pieces of the contour in cell (i, j), each from one of the
// cell's edges to another.
func (l lattice) segments(i, j int, level float64) [][2]edge {
	c := [4]float64{l.at(i, j), l.at(i+1, j), l.at(i+1, j+1), l.at(i, j+1)} // around, from the bottom left
	kind, sum := 0, 0.0
	for k, v := range c {
		if math.IsNaN(v) {
			return nil
		}
		if v >= level {
			kind |= 1 << k
		}
		sum += v
	}
	bottom, right := edge{i, j, false}, edge{i + 1, j, true}
	top, left := edge{i, j + 1, false}, edge{i, j, true}
	if (kind == 5 || kind == 10) && (sum/4 >= level) == (kind == 5) { // the middle joins the corners at 0 and 2, or 1 and 3
		return [][2]edge{{bottom, right}, {top, left}}
	}
	switch kind {
	case 1, 14:
		return [][2]edge{{left, bottom}}
	case 2, 13:
		return [][2]edge{{bottom, right}}
	case 3, 12:
		return [][2]edge{{left, right}}
	case 4, 11:
		return [][2]edge{{right, top}}
	case 6, 9:
		return [][2]edge{{bottom, top}}
	case 7, 8:
		return [][2]edge{{left, top}}
	case 5, 10:
		return [][2]edge{{left, bottom}, {right, top}}
	default: // all above or all below
		return nil
	}
}

// cut is where the contour crosses e.
func (l lattice) cut(e edge, level float64) xy {
	to := edge{i: e.i + 1, j: e.j}
	if e.up {
		to = edge{i: e.i, j: e.j + 1}
	}
	a, b := l.at(e.i, e.j), l.at(to.i, to.j)
	t := min(max((level-a)/(b-a), 0), 1)
	return xy{
		float64(e.i) + t*float64(to.i-e.i),
		float64(e.j) + t*float64(to.j-e.j),
	}
}
