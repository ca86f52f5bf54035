package interpolation

import (
	"cmp"
	"math"
	"slices"
)

// point is where a surface was measured: a load in requests and a context in
// tokens, or an ISL and a context of 1.
type point struct{ x, c float64 }

func (p point) compare(q point) int { return cmp.Or(cmp.Compare(p.c, q.c), cmp.Compare(p.x, q.x)) }

// term is one way in which a step's time grows.
type term uint8

const (
	constant term = iota // weights, launches, HTTP
	perUnit              // work per sequence or per prompt token
	perPair              // x·c: attention of each sequence to its context
	squared              // x²: attention of a prompt to itself
)

func (t term) at(p point) float64 {
	switch t {
	case perUnit:
		return p.x
	case perPair:
		return p.x * p.c
	case squared:
		return p.x * p.x
	default:
		return 1
	}
}

// bend is a term that is no straight line in x: work hidden behind the reading
// of weights up to a knee, or weights of a mixture of experts, of which each
// sequence needs some and many sequences all.
type bend struct {
	kind  bendKind
	scale float64 // the knee, or the load that needs 1−1/e of the experts
}

type bendKind uint8

const (
	straight bendKind = iota
	knee              // max(0, x − scale)
	filling           // 1 − exp(−x/scale)
)

func (b bend) at(x float64) float64 {
	switch b.kind {
	case knee:
		return max(0, x-b.scale)
	case filling:
		return -math.Expm1(-x / b.scale)
	default:
		return 0
	}
}

// most is how many terms a trend has at most, its bend included.
const most = 4

// trend is a sum of terms with weights that are not negative, so that it rises
// with load and context whatever the data.
type trend struct {
	terms  []term
	bend   bend
	weight [most]float64 // of terms, then of the bend
	least  float64       // ns: it is nowhere below
}

func (t *trend) columns(p point) (v [most]float64) {
	for i, k := range t.terms {
		v[i] = k.at(p)
	}
	v[len(t.terms)] = t.bend.at(p.x)
	return v
}

func (t *trend) at(p point) float64 {
	y := 0.0
	v := t.columns(p)
	for i, w := range t.weight {
		y += w * v[i]
	}
	return max(y, t.least)
}

// bent is what the bend adds at x.
func (t *trend) bent(x float64) float64 { return t.weight[len(t.terms)] * t.bend.at(x) }

// active is the number of weights above 0.
func (t *trend) active() int {
	n := 0
	for _, w := range t.weight {
		if w > 0 {
			n++
		}
	}
	return n
}

const (
	leastForBend = 6     // samples that tell a bend from a straight line
	beyondBend   = 2     // samples that no bend is made for
	bendGrid     = 1.35  // ratio of two knees that are tried one after the other
	bendPrice    = 5     // parameters that a bend counts for beside its weight
	bisquare     = 4.685 // Tukey's constant: 95 % efficient for normal errors
	reweighted   = 8     // times that weights follow errors
	leastTrend   = 0.01  // of the least value, that the trend is everywhere
	leastOff     = 1e-4  // relative error below which weights grow no more
	exact        = 2e-6  // relative errors below this are rounding
)

// fitTrend finds the trend through values y at points p, each worth trust. It
// minimizes absolute relative errors, which one wild value cannot bend, then
// squared ones of those that agree. A bend is taken where it pays for its
// parameters by the criterion of Schwarz (1978) for Laplace errors.
func fitTrend(p []point, y, trust []float64, terms []term) trend {
	best := trend{terms: terms}
	fit := newFitting(p, y, trust, &best)
	score := fit.robust(&best)
	x := make([]float64, len(p))
	for i := range p {
		x[i] = p[i].x
	}
	slices.Sort(x)
	// A bend that but one or two samples lie beyond is as likely those samples' fault.
	low, high := x[0], x[max(len(x)-1-beyondBend, 0)]
	better := func(b bend) {
		t := trend{terms: best.terms, bend: b}
		fit.bend(b)
		if s := fit.robust(&t); s < score {
			best, score = t, s
		}
	}
	for _, kind := range []bendKind{knee, filling} {
		for scale := max(low, 1) * bendGrid; len(p) >= leastForBend && scale < high; scale *= bendGrid {
			better(bend{kind, scale})
		}
	}
	for step := math.Sqrt(bendGrid); best.bend.kind != straight && step > 1.0005; step = math.Sqrt(step) {
		b := best.bend
		better(bend{b.kind, b.scale * step})
		better(bend{b.kind, b.scale / step})
	}
	fit.bend(best.bend)
	fit.refine(&best)
	best.least = leastTrend * slices.Min(y)
	for i := range p {
		if !finite(best.at(p[i])) { // absurd loads: squares overflow
			return trend{terms: terms, least: median(y)}
		}
	}
	return best
}
