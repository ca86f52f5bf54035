package main

import (
	"math"
	"runtime"
	"slices"
	"sync"

	"gonum.org/v1/gonum/stat"

	"plimsoll/engine/leastsquares"
	"plimsoll/engine/operator"
)

// fitAll fits each group, as many at once as there are processors.
func fitAll(groups []*group) []operator.Curve {
	out := make([]operator.Curve, len(groups))
	var wait sync.WaitGroup
	slots := make(chan struct{}, runtime.NumCPU())
	for i, g := range groups {
		wait.Add(1)
		slots <- struct{}{}
		go func() {
			defer func() { <-slots; wait.Done() }()
			out[i] = g.fit()
		}()
	}
	wait.Wait()
	return out
}

// folds is into how many parts shapes are cut for the error on those left out.
const folds = 2

// fit is the curve of a group, and its error on shapes that a fit to the others
// has not seen.
func (g *group) fit() operator.Curve {
	g.sort()
	c := g.curve
	c.Parameters, c.N = round(g.solve(func(int) bool { return true })), len(g.us)
	var off []float64
	parts := slices.Compact(slices.Sorted(slices.Values(g.part)))
	for fold := range folds {
		out := func(i int) bool {
			if len(parts) < 2 {
				return i%folds == fold
			}
			at, _ := slices.BinarySearch(parts, g.part[i])
			return at%folds == fold
		}
		p := g.solve(func(i int) bool { return !out(i) })
		for i := range g.us {
			if out(i) {
				off = append(off, math.Abs(g.time(p, c.DType, g.x[i])/g.us[i]-1))
			}
		}
	}
	slices.Sort(off)
	c.Median, c.P90 = decimals(stat.Quantile(0.5, stat.Empirical, off, nil)), decimals(stat.Quantile(0.9, stat.Empirical, off, nil))
	return c
}

// sort puts the shapes in an order that does not depend on the reading.
func (g *group) sort() {
	order := make([]int, len(g.us))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return slices.Compare(g.x[a], g.x[b]) })
	x, us, part := make([][]float64, len(order)), make([]float64, len(order)), make([]string, len(order))
	for i, at := range order {
		x[i], us[i], part[i] = g.x[at], g.us[at], g.part[at]
	}
	g.x, g.us, g.part = x, us, part
}

// tolerance is from what relative error on a shape counts as its error, not as its
// square: single slow kernels shall not bend a curve.
const tolerance = 0.1

func (g *group) solve(in func(int) bool) []float64 {
	var at []int
	for i := range g.us {
		if in(i) {
			at = append(at, i)
		}
	}
	start := make([]float64, len(g.start))
	for i, v := range g.start {
		start[i] = math.Log(v)
	}
	p := make([]float64, len(start))
	x := leastsquares.Robust(start, 7, tolerance, len(at), func(x, out []float64) {
		for i := range p {
			p[i] = math.Exp(x[i])
		}
		for i, j := range at {
			out[i] = math.Log(g.time(p, g.curve.DType, g.x[j]) / g.us[j])
		}
	})
	for i := range x {
		x[i] = math.Exp(x[i])
	}
	return x
}

func round(p []float64) []float64 {
	out := make([]float64, len(p))
	for i, v := range p {
		scale := math.Pow(10, 4-math.Ceil(math.Log10(v)))
		out[i] = math.Round(v*scale) / scale
	}
	return out
}

func decimals(x float64) float64 { return math.Round(1e4*x) / 1e4 }
