package main

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/mat"

	"plimsoll/engine/accuracy"
	"plimsoll/engine/latency"
)

// point is a row, and the model of it at any coefficients.
type point struct {
	row   accuracy.Row
	model latency.Model
}

// points lays out the rows that can be, and says of the others why not.
func points(rows []accuracy.Row) []point {
	var out []point
	for i := range rows {
		r := &rows[i]
		if r.Left != "" {
			continue
		}
		m, err := latency.NewWith(r.Model, r.GPU, r.Engine(), r.Fit())
		if err != nil {
			r.Left = err.Error()
			continue
		}
		out = append(out, point{*r, m})
	}
	return out
}

// residuals are those of points at coefficients. A row that cannot be simulated is a defect.
func residuals(ps []point, x []float64) accuracy.Residuals {
	k := latency.FromLogs(x)
	out := make(accuracy.Residuals, accuracy.Kinds*len(ps))
	each(len(ps), func(i int) {
		p, err := accuracy.Predict(ps[i].model.At(k), ps[i].row)
		if err != nil {
			panic(fmt.Sprint(ps[i].row.Group(), ": ", err))
		}
		copy(out[accuracy.Kinds*i:], accuracy.Residuals{}.Of(p, ps[i].row))
	})
	return out
}

// each does n things on both processors.
func each(n int, do func(int)) {
	const workers = 2
	var wait sync.WaitGroup
	for w := range workers {
		wait.Go(func() {
			for i := w; i < n; i += workers {
				do(i)
			}
		})
	}
	wait.Wait()
}

// tangent is the residuals of points and their slopes at x.
type tangent struct {
	ps []point
	at []float64
	r  []float64
	j  [][]float64 // by coefficient
}

func tangentAt(ps []point, x []float64) tangent {
	t := tangent{ps: ps, at: slices.Clone(x), r: residuals(ps, x)}
	const h = 0.06 // a load's schedule changes in leaps
	for i := range x {
		up, down := slices.Clone(x), slices.Clone(x)
		up[i] += h
		down[i] -= h
		a, b := residuals(ps, up), residuals(ps, down)
		for n := range a {
			a[n] = (a[n] - b[n]) / (2 * h)
		}
		t.j = append(t.j, a)
	}
	return t
}

// sigma is how far a good model is from a row's TPOT, and from its TTFT by the loop:
// most of the TTFT of a closed loop is waiting for others.
const sigma = 0.06

var sigmaTTFT = map[accuracy.Loop]float64{accuracy.Closed: 0.25, accuracy.Open: 0.12, accuracy.Single: 0.08, accuracy.Step: 0.08}

// prior is where coefficients lie, and how far from there their logarithms are: one
// standard deviation.
type prior struct{ center, spread []float64 }

// busy is the time of products and decode attention in an engine over their time alone.
// Without it, eight of the nine groups of dense models left out were predicted 2 to 8 %
// too fast. A likely cause: a GPU runs at lower clocks under a full load.
const busy = 1.05

// of engines, around what kernels take and round numbers.
func physical(engine string) prior {
	k := latency.Physical()
	k.Products, k.Decode = busy, busy
	spread := []float64{.05, .1, .05, .03, .05, .5, .5, .5, .5, .4, .4, .8, 1, .8, .8}
	switch engine {
	case "sglang": // prompts run eagerly, layer by layer
		k.PromptMoE = 1e-3
		spread[12] = 1.5
	case "vllm-0.12": // the host works while the GPU waits
		k.Step, k.Sequence = 1e-3, 30e-6
	}
	return prior{k.Logs(), spread}
}

// within is the prior of one model, or of one of its groups, around x.
func within(engine string, x []float64) prior {
	const narrower = 0.7
	p := physical(engine)
	for i := range p.spread {
		p.spread[i] *= narrower
	}
	p.center = x
	return p
}

// solve finds coefficients from a prior and the points at in; of each model, or group,
// as by says, these count as most rows at the most.
func (t tangent) solve(p prior, in []int, by func(point) string, most float64) []float64 {
	d := len(p.center)
	x, rows := slices.Clone(p.center), map[string]float64{}
	for _, i := range in {
		rows[by(t.ps[i])]++
	}
	for range 12 {
		h, g := mat.NewSymDense(d, nil), mat.NewVecDense(d, nil)
		for a := range d {
			w := 1 / (p.spread[a] * p.spread[a])
			h.SetSym(a, a, w)
			g.SetVec(a, w*p.center[a])
		}
		for _, i := range in {
			share := min(1, most/rows[by(t.ps[i])])
			ttft := sigmaTTFT[t.ps[i].row.Loop]
			t.count(h, g, x, accuracy.Kinds*i+accuracy.TPOT, sigma, share)
			t.count(h, g, x, accuracy.Kinds*i+accuracy.TTFT, ttft, share)
			t.count(h, g, x, accuracy.Kinds*i+accuracy.ClosedTTFT, ttft, share)
		}
		var c mat.Cholesky
		var s mat.VecDense
		if !c.Factorize(h) || c.SolveVecTo(&s, g) != nil {
			return p.center
		}
		for a := range d {
			x[a] = s.AtVec(a)
		}
	}
	return x
}

// count adds residual n to the normal equations: pseudo-Huber beyond two sigma.
func (t tangent) count(h *mat.SymDense, g *mat.VecDense, x []float64, n int, sigma, share float64) {
	if math.IsNaN(t.r[n]) {
		return
	}
	v, target := t.r[n], -t.r[n]
	for a := range x {
		v += t.j[a][n] * (x[a] - t.at[a])
		target += t.j[a][n] * t.at[a]
	}
	v /= sigma
	w := share / (sigma * sigma) / math.Sqrt(1+v*v/4)
	for a := range x {
		g.SetVec(a, g.AtVec(a)+w*t.j[a][n]*target)
		for b := a; b < len(x); b++ {
			h.SetSym(a, b, h.At(a, b)+w*t.j[a][n]*t.j[b][n])
		}
	}
}
