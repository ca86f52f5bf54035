package forecast

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// signed is the problem to minimize ½b'Hb − g'b + penalty·Σ|b|, with H positive
// definite. Once the signs of b are known it is linear, so the signs are searched
// for (feature-sign search; Lee, Battle, Raina and Ng, NIPS 2006, algorithm 1).
type signed struct {
	h       *mat.Dense
	g       *mat.VecDense
	penalty float64
}

// minimize goes from b to the minimum, to rounding. It ends because each round is
// at signs of its own and lowers the cost; the limit is for rounding alone.
func (s signed) minimize(b *mat.VecDense) {
	n := b.Len()
	signs := make([]float64, n)
	for j := range n {
		signs[j] = sign(b.AtVec(j))
	}
	for range 20 * n {
		if s.settled(b, signs) && !s.activate(b, signs) {
			return
		}
		if !s.step(b, signs) {
			return
		}
	}
}

func sign(v float64) float64 {
	switch {
	case v > 0:
		return 1
	case v < 0:
		return -1
	default:
		return 0
	}
}

// slope is that of ½b'Hb − g'b in b_j.
func (s signed) slope(b *mat.VecDense, j int) float64 {
	v := -s.g.AtVec(j)
	for i, x := range s.h.RawRowView(j) {
		v += x * b.AtVec(i)
	}
	return v
}

// slack is what of a slope is rounding.
func (s signed) slack() float64 { return 1e-9 * (s.penalty + mat.Norm(s.g, math.Inf(1))) }

// settled says whether the cost is flat in all that are not 0.
func (s signed) settled(b *mat.VecDense, signs []float64) bool {
	for j, sgn := range signs {
		if sgn != 0 && math.Abs(s.slope(b, j)+s.penalty*sgn) > s.slack() {
			return false
		}
	}
	return true
}

// activate gives a sign to the coefficient at 0 that lowers the cost fastest,
// and says whether there is one.
func (s signed) activate(b *mat.VecDense, signs []float64) bool {
	best, steepest := -1, s.penalty+s.slack()
	for j, sgn := range signs {
		if sgn == 0 && math.Abs(s.slope(b, j)) > steepest {
			best, steepest = j, math.Abs(s.slope(b, j))
		}
	}
	if best < 0 {
		return false
	}
	signs[best] = -sign(s.slope(b, best))
	return true
}

// step solves for the signs that there are, and goes there, or only to where on
// the way the cost is least at a change of sign. False where it cannot be solved.
func (s signed) step(b *mat.VecDense, signs []float64) bool {
	target, ok := s.solve(signs)
	if !ok {
		return false
	}
	n := b.Len()
	best, least := target, s.cost(target)
	for j := range n {
		from, to := b.AtVec(j), target.AtVec(j)
		if from*to >= 0 {
			continue
		}
		crossing := mat.NewVecDense(n, nil)
		crossing.SubVec(target, b)
		crossing.AddScaledVec(b, from/(from-to), crossing)
		crossing.SetVec(j, 0)
		if c := s.cost(crossing); c < least {
			best, least = crossing, c
		}
	}
	b.CopyVec(best)
	for j := range n {
		signs[j] = sign(b.AtVec(j))
	}
	return true
}

// solve is the minimum if the signs stay.
func (s signed) solve(signs []float64) (*mat.VecDense, bool) {
	var active []int
	for j, sgn := range signs {
		if sgn != 0 {
			active = append(active, j)
		}
	}
	b := mat.NewVecDense(len(signs), nil)
	if len(active) == 0 {
		return b, true
	}
	h, g := mat.NewSymDense(len(active), nil), mat.NewVecDense(len(active), nil)
	for i, j := range active {
		g.SetVec(i, s.g.AtVec(j)-s.penalty*signs[j])
		for k := i; k < len(active); k++ {
			h.SetSym(i, k, s.h.At(j, active[k]))
		}
	}
	var chol mat.Cholesky
	if !chol.Factorize(h) || chol.SolveVecTo(g, g) != nil {
		return nil, false
	}
	for i, j := range active {
		b.SetVec(j, g.AtVec(i))
	}
	return b, true
}

func (s signed) cost(b *mat.VecDense) float64 {
	return mat.Inner(b, s.h, b)/2 - mat.Dot(s.g, b) + s.penalty*mat.Norm(b, 1)
}
