package oracle

import "sort"

// curve is a concave function of context, straight between its nodes and beyond
// them.
type curve struct {
	at    []int
	value []float64
}

// none is the curve of what costs nothing.
func (c curve) none() bool { return len(c.at) == 0 }

// of is the curve at a context.
func (c curve) of(context int) float64 {
	switch {
	case c.none():
		return 0
	case len(c.at) == 1:
		return c.value[0]
	}
	i := min(max(sort.SearchInts(c.at, context), 1), len(c.at)-1)
	w := float64(context-c.at[i-1]) / float64(c.at[i]-c.at[i-1])
	return (1-w)*c.value[i-1] + w*c.value[i]
}

// concave is a concave curve that is nowhere above the values, none of which is
// negative: the least concave one above them, lowered in proportion, or the
// straight line through two of them, whichever leaves more.
func concave(at []int, values []float64) curve {
	above := through(at, values, hull(at, values, -1))
	share := 1.0
	for i, v := range values {
		if v < above[i] {
			share = min(share, v/above[i])
		}
	}
	for i := range above {
		above[i] *= share
	}
	if line := straight(at, values); sum(line) > sum(above) {
		return curve{at, line}
	}
	return curve{at, above}
}

func sum(xs []float64) float64 {
	t := 0.0
	for _, x := range xs {
		t += x
	}
	return t
}

// hull is the nodes of the lower (side 1) or the upper (side −1) convex hull.
func hull(at []int, values []float64, side float64) []int {
	var nodes []int
	for i := range at {
		for n := len(nodes); n > 1 && side*rise(at, values, nodes[n-2], nodes[n-1]) >= side*rise(at, values, nodes[n-1], i); n = len(nodes) {
			nodes = nodes[:n-1]
		}
		nodes = append(nodes, i)
	}
	return nodes
}

// rise is the slope between two nodes.
func rise(at []int, values []float64, i, j int) float64 {
	return (values[j] - values[i]) / float64(at[j]-at[i])
}

// through is straight between some of the nodes, the outermost ones among them.
func through(at []int, values []float64, nodes []int) []float64 {
	out := append([]float64(nil), values...)
	for k := 1; k < len(nodes); k++ {
		slope := rise(at, values, nodes[k-1], nodes[k])
		for i := nodes[k-1] + 1; i < nodes[k]; i++ {
			out[i] = values[nodes[k-1]] + slope*float64(at[i]-at[nodes[k-1]])
		}
	}
	return out
}

// straight is the best of the lines along the lower convex hull of the values:
// none of them is anywhere above a value.
func straight(at []int, values []float64) []float64 {
	nodes := hull(at, values, 1)
	var best []float64
	for k := 1; k < len(nodes); k++ {
		slope := rise(at, values, nodes[k-1], nodes[k])
		line := make([]float64, len(at))
		for i := range at {
			line[i] = values[nodes[k-1]] + slope*float64(at[i]-at[nodes[k-1]])
		}
		if best == nil || sum(line) > sum(best) {
			best = line
		}
	}
	return best
}
