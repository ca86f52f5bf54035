package policy

import "math"

// batching is a prefill engine whose prompts share steps, in seconds: a step takes
// alone for one prompt and more for each further one, up to most of them.
type batching struct{ alone, more, most float64 }

// batching is false where the profile knows of one prompt at a time only, or no
// two of the demand's prompts fit into a step.
func (e engines) batching(need demand) (batching, bool) {
	b, ok := e.prefill.Batch(need.prompt())
	slow := e.slower.Prefill
	return batching{b.Alone.Seconds() * slow, b.More.Seconds() * max(slow, e.slower.Full), float64(b.Most)}, ok
}

// takes is a step of n prompts.
func (b batching) takes(n float64) float64 { return b.alone + (n-1)*b.more }

// shared is the prompts in a step of an engine that gets rate prompts/s, at least 1;
// +Inf where it does not keep up.
func (b batching) shared(rate float64) float64 {
	left := 1 - rate*b.more
	if left <= 0 {
		return math.Inf(1)
	}
	return max(1, rate*(b.alone-b.more)/left)
}

// ttft is the mean TTFT in seconds, or what it rarely exceeds, of an engine that
// gets rate prompts/s. What arrives during a step is the next one: with n prompts
// in a step n = rate·takes(n), which is
//
//	n = rate·(alone − more)/(1 − rate·more), at least 1
//
// A prompt waits for what is left of the step that runs, half of it in the mean
// and all of it at worst, in the share of the time in which one runs, and for its
// own. At worst there are as many prompts in a step as a Poisson number exceeds in
// 1 % of cases. +Inf where the engine does not keep up, or needs more than most.
func (b batching) ttft(rate float64, worst bool) float64 {
	n := b.shared(rate)
	if math.IsInf(n, 1) {
		return n
	}
	busy, waits := min(1, rate*b.takes(n)/n), 0.5
	if worst {
		n, waits = crowdHigh(n), 1
	}
	if n > b.most {
		return math.Inf(1)
	}
	return b.takes(n) * (1 + waits*busy)
}

// servers is the fewest engines, at most n, that share rate prompts/s within limit
// seconds of TTFT, and the TTFT that they have.
func (b batching) servers(rate, limit float64, worst bool, n int) (int, float64) {
	low := 0 // too few
	for high := n; high-low > 1; {
		if mid := low + (high-low)/2; b.ttft(rate/float64(mid), worst) <= limit {
			high, n = mid, mid
		} else {
			low = mid
		}
	}
	return n, b.ttft(rate/float64(n), worst)
}
