package latency

import "gonum.org/v1/gonum/mat"

// Informative chooses which n of the candidates to measure, so that calibrating
// prior on them says as much about its coefficients as can be: places in
// candidates, the most telling first. It does not look at Seconds. A candidate
// that cannot be, or is longer than its model's context, is never chosen, so that
// there may be fewer than n.
//
// With s the derivatives of ln prediction by the logarithms of the coefficients,
// in units of rowError, and C their covariance, at first the prior's, the next
// choice is the candidate of which the prediction is least certain, s·C·s, the
// first of equals: it shrinks det C most (D-optimal design: H. P. Wynn, The
// sequential generation of D-optimum experimental designs, Annals of Mathematical
// Statistics 41, 1970). To shrink the variance of all predictions instead chose
// points that left larger errors on measured rows.
func Informative(prior Fit, candidates []Observation, n int) []int {
	if len(candidates) > 0 {
		prior = prior.of(candidates[0].Model, candidates[0].GPU, candidates[0].Config.Weights)
	}
	if prior.Coefficients.Check() != nil {
		return nil
	}
	rows, place := sensitivities(prior.Coefficients, candidates)
	covariance := mat.NewSymDense(numCoefficients, nil)
	for i := range numCoefficients {
		covariance.SetSym(i, i, square(spread(i)))
	}
	var chosen []int
	for range min(n, len(rows)) {
		best, most, along := 0, -1.0, mat.NewVecDense(numCoefficients, nil)
		for i, s := range rows {
			along.MulVec(covariance, s)
			if variance := mat.Dot(s, along); variance > most {
				best, most = i, variance
			}
		}
		along.MulVec(covariance, rows[best])
		covariance.SymRankOne(covariance, -1/(1+most), along)
		chosen = append(chosen, place[best])
		rows, place = append(rows[:best], rows[best+1:]...), append(place[:best], place[best+1:]...)
	}
	return chosen
}

// sensitivities are those of the candidates that can be, and their places.
func sensitivities(k Coefficients, candidates []Observation) (rows []*mat.VecDense, place []int) {
	for i, o := range candidates {
		o.Seconds = 1 // whatever was measured
		s, err := samples([]Observation{o})
		if err != nil || o.tooLong() {
			continue
		}
		by := slopes(logs(k), s)[0].by
		rows, place = append(rows, mat.NewVecDense(numCoefficients, by[:])), append(place, i)
	}
	return rows, place
}
