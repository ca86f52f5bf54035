// Package interpolation fits a profile's measured surfaces and predicts between
// their points: TTFT and prefill throughput over ISL, ITL and decode throughput
// over load and context. It also turns the question around: the largest load
// that keeps an ITL.
//
// It takes the surfaces of package profile and gives numbers with a verdict on
// whether the measured range covers them. Inside the range curves keep the shape
// of the data: they pass through the points, never overshoot them, and never
// fall where the data rises. Outside it they err on the slow side and say so. It
// refuses surfaces that are empty, unordered, or hold what is not a positive
// finite number. The Check functions name what is wrong with a surface that can
// be fitted nevertheless. Everything is pure and safe for concurrent use.
package interpolation
