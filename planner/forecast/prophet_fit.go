package forecast

import "math"

// leastVariance is that of the noise where the model fits exactly, in units of
// the largest value squared.
const leastVariance = 1e-10

// mostProbable gives the coefficients that minimize, over them and the noise σ,
//
//	n·log σ + Σe²/(2σ²) + Σ|b_j|/changeScale + Σ b_k²/(2·deviation_k²) + σ²/(2·noiseDeviation²)
//
// where the first `changes` coefficients have the Laplace prior, the next two are
// offset and slope, and the others seasons. It alternates: given σ this is a
// lasso, given the coefficients a quadratic in σ². NaN where there is no solution.
func mostProbable(rows [][]float64, values []float64, changes int) []float64 {
	precisions := []float64{1 / (trendDeviation * trendDeviation), 1 / (trendDeviation * trendDeviation)}
	for range len(rows[0]) - changes - 2 {
		precisions = append(precisions, 1/(seasonDeviation*seasonDeviation))
	}
	l := newLasso(rows, values, changes, precisions)
	n := float64(len(rows))
	variance := noiseDeviation * noiseDeviation
	const curb = 4 / (noiseDeviation * noiseDeviation)
	for range 100 {
		if !l.solve(variance, changeScale) {
			l.coefficients.SetVec(0, math.NaN())
			break
		}
		squares := l.residualSquares()
		next := max(leastVariance, 2*squares/(n+math.Sqrt(n*n+curb*squares)))
		if math.Abs(next-variance) <= 1e-6*variance {
			break
		}
		variance = next
	}
	return l.coefficients.RawVector().Data
}
