package recommend

import "math"

// A rate at which a latency is expected to be just what is allowed is missed by
// every second load: latencies of one load hang together, and their mean differs
// from load to load. So the rates recommended here leave room for what so many
// requests in a row do as a load is judged by, with 95 % confidence: heldOver of
// them, or as many as an interval takes (profile.QueueRequests, FlightRequests).
const (
	heldOver = 1000
	sure     = 1.645 // the 95 % point of the normal distribution
)

// spreadOf is by how many of a latency's standard deviations the mean of a load may
// lie above the one expected, where so many requests share a latency, and an
// interval takes so many.
func spreadOf(memory float64, interval int) float64 {
	return sure * math.Sqrt(memory/float64(max(heldOver, interval)))
}

// surer is the quantile to aim at for q to hold, by spreadOf; never so much more
// that fewer than half the misses which q allows are left.
func surer(q, spread float64) float64 {
	return q + min(spread*math.Sqrt(q*(1-q)), (1-q)/2)
}
