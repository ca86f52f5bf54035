// Package interpolation fits a profile's measured surfaces and predicts between
// their points: TTFT and prefill throughput over ISL, ITL and decode throughput
// over load and context. It also turns the question around: the largest load
// that keeps an ITL.
//
// It takes the surfaces of package profile and gives numbers with an error and a
// verdict on whether the measured range covers them. A fit is a trend of
// physical terms with weights that are not negative, times a correction.
//
//	TTFT  constant + ISL + ISL²               and one bend
//	ITL   constant + n + n·context            and one bend, n in flight
//
// The bend is a knee, where work stops hiding behind the reading of weights, or a
// filling, where sequences come to need all experts of a mixture. These terms are
// what a step is made of (package engine/latency has the same), so that a few
// samples determine them and they hold where a spline through neighbours has
// none: at the ends of rows, between rows measured at different loads, with three
// points or one context. The weights are fitted by least absolute, then bisquare,
// relative errors, which one wild sample cannot bend. The correction is a
// Gaussian process over what remains: it passes through samples that agree with
// each other, up to their rounding, and between samples that scatter; its noise
// is that under which the samples are likeliest. Samples that all others
// contradict, or whose throughput says another load than they are filed under,
// get little weight, and the Check functions name them. Predictions do not fall
// with ISL or load, whatever the data.
//
// Errors are such that nine of ten samples lie within them, tested on samples
// left out. Outside the measured range predictions err on the slow side, their
// errors grow, and they say so. It refuses surfaces that are empty, unordered,
// or hold what is not a positive finite number. The Check functions name what is
// wrong with a surface that can be fitted nevertheless. Everything is pure and
// safe for concurrent use.
package interpolation
