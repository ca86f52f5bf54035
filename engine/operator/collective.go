package operator

import "math"

// The parameters of collectives' curves: for 2, 4 and 8 GPUs the launch and the
// bandwidth of one shot, in which each GPU sends all to all others, and the launch of
// a ring; the ring's bandwidth.
const (
	coLaunch     = 0 // µs, by GPUs
	coShot       = 3 // bytes/µs, by GPUs
	coRing       = 6 // µs, by GPUs
	coBandwidth  = 9 // bytes/µs
	coParameters = 10
)

// collectiveTime is the faster of both ways, for a message of so many bytes over n
// GPUs, n from 2 to 8; between powers of two it lies on a line over their logarithm.
func collectiveTime(p []float64, bytes, n float64) float64 {
	at := math.Min(math.Max(math.Log2(n)-1, 0), 2)
	low := math.Floor(at)
	t := faster(p, int(low), bytes)
	if at > low {
		t += (at - low) * (faster(p, int(low)+1, bytes) - t)
	}
	return t
}

func faster(p []float64, i int, bytes float64) float64 {
	n := math.Exp2(float64(i + 1))
	one := p[coLaunch+i] + bytes*(n-1)/p[coShot+i]
	two := p[coRing+i] + 2*bytes*(n-1)/n/p[coBandwidth]
	return 1 / math.Pow(math.Pow(one, -4)+math.Pow(two, -4), 0.25)
}
