package operator

// Product is a matrix product of M tokens with N×K weights.
type Product struct{ M, N, K float64 }

// The parameters of a matrix product's curve.
const (
	mmLaunch   = iota // µs
	mmWeights         // weights read, bytes/µs
	mmNarrowN         // columns at which reading takes twice as long
	mmNarrowK         // rows, the same
	mmTokens          // activations read and results written, bytes/µs
	mmSerial          // µs per row of K where one wave does all
	mmWave            // M·N of one wave
	mmWaveEdge        // how sharply the second wave begins
	mmOverlap         // how well reading and computing overlap
	mmParameters
)

// time of a product: launch + either(bytes, the serial loop over K by waves). In
// one wave every multiprocessor runs over all of K once; from there on time grows
// with M·N·K, at 2·wave/serial FLOP/µs.
func productTime(p []float64, d DType, x Product) float64 {
	memory := x.N*x.K*d.Bytes()*(1+p[mmNarrowN]/x.N+p[mmNarrowK]/x.K)/p[mmWeights] + (x.M*x.K*d.activation()+2*x.M*x.N)/p[mmTokens]
	waves := either(1, x.M*x.N/p[mmWave], p[mmWaveEdge])
	return p[mmLaunch] + either(memory, x.K*p[mmSerial]*waves, p[mmOverlap])
}
