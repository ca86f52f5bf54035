package interpolation

import "math"

// nonNegative solves min x'Ax/2 − b'x, x ≥ 0, for the first n: Lawson & Hanson
// (1974), chapter 23, on the normal equations. Of columns that depend on each
// other it takes the first that helps.
func nonNegative(a [most][most]float64, b [most]float64, n int) (x [most]float64) {
	var in, out [most]bool
	var scale [most]float64
	for i := range n {
		scale[i] = math.Sqrt(max(a[i][i], math.SmallestNonzeroFloat64))
	}
	for range 4 * most {
		enter, best := -1, 1e-9
		for i := range n {
			g := b[i]
			for j := range n {
				g -= a[i][j] * x[j]
			}
			if g /= scale[i]; !in[i] && !out[i] && g > best*math.Abs(b[0])/max(scale[0], 1e-300) {
				enter, best = i, g/(math.Abs(b[0])/max(scale[0], 1e-300))
			}
		}
		if enter < 0 {
			break
		}
		in[enter] = true
		for {
			z, ok := solveSubset(a, b, n, in, scale)
			if !ok {
				in[enter], out[enter] = false, true
				break
			}
			step, leave := 1.0, -1
			for i := range n {
				if in[i] && z[i] <= 0 {
					if s := x[i] / (x[i] - z[i]); s < step || leave < 0 {
						step, leave = min(s, step), i
					}
				}
			}
			if leave < 0 {
				x = z
				break
			}
			for i := range n {
				if in[i] {
					x[i] += step * (z[i] - x[i])
				}
			}
			x[leave], in[leave] = 0, false
		}
	}
	return x
}

// solveSubset solves the normal equations of the columns that are in, scaled to
// a diagonal of 1, by Gauss with the pivots as they come (the matrix is positive
// definite); false where the columns depend on each other.
func solveSubset(a [most][most]float64, b [most]float64, n int, in [most]bool, scale [most]float64) (x [most]float64, ok bool) {
	var m [most][most + 1]float64
	for i := range n {
		for j := range n {
			if in[i] && in[j] {
				m[i][j] = a[i][j] / scale[i] / scale[j]
			}
		}
		if in[i] {
			m[i][most] = b[i] / scale[i]
		}
	}
	for i := range n {
		if !in[i] {
			continue
		}
		if m[i][i] < 1e-11 {
			return x, false
		}
		for j := range n {
			if j == i || !in[j] {
				continue
			}
			f := m[j][i] / m[i][i]
			for k := range most + 1 {
				m[j][k] -= f * m[i][k]
			}
		}
	}
	for i := range n {
		if in[i] {
			x[i] = m[i][most] / m[i][i] / scale[i]
		}
	}
	return x, true
}
