package operator

import "math"

// Experts are the routed experts of one layer on one of EP GPUs that share them out;
// tokens are those of all these GPUs together.
type Experts struct {
	Tokens, Hidden, Width, TopK, Count, EP float64
}

// The parameters of experts' curves.
const (
	exLaunch  = iota // µs
	exActive         // µs per active expert
	exToken          // µs per token: routing, permuting
	exWeights        // weights read, bytes/µs
	exRouted         // activations of routed tokens, bytes/µs
	exSkew           // of the load: small = few experts get most tokens
	exCompute        // FLOP/µs
	exOverlap        // how well reading and computing overlap
	exParameters
)

// active is how many of the GPU's experts at least one token passes through, where
// the tokens of an expert are spread as a negative binomial with the skew's shape.
func (x Experts) active(skew float64) float64 {
	load := x.Tokens * x.TopK / x.Count
	return x.Count / x.EP * (1 - math.Pow(1+load/skew, -skew))
}

func expertsTime(p []float64, d DType, x Experts) float64 {
	active, routed := x.active(p[exSkew]), x.Tokens*x.TopK/x.EP
	read := active * 3 * x.Hidden * x.Width * d.Bytes() / p[exWeights]
	compute := 6 * routed * x.Hidden * x.Width / p[exCompute]
	moved := routed * (4*x.Hidden + 6*x.Width) / p[exRouted]
	return p[exLaunch] + p[exActive]*active + p[exToken]*x.Tokens + either(read, compute, p[exOverlap]) + moved
}

// Active is how many of the GPU's experts at least one token passes through, where
// each token's experts are equally likely.
func (x Experts) Active() float64 { return x.active(even) }

// even is a skew that is none.
const even = 1e6
