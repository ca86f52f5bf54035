package recommend

// Engine is one engine of a pool: its GPUs, and the requests/s that it carries.
type Engine struct {
	GPUs int
	RPS  float64
}

// Split is how many engines of each pool a number of GPUs is best shared among.
type Split struct {
	Prefill, Decode int     // engines
	GPUs            int     // that they take
	RPS             float64 // requests/s that both pools carry
}

// SplitGPUs shares gpus, 0 or more, among prefill and decode engines so that both pools
// carry the most requests, and of equals on the fewest GPUs: n engines carry n times what
// one does, each with a queue of its own. Where there is no room for one of each, the
// result is one of each, with more GPUs than were given.
func SplitGPUs(gpus int, prefill, decode Engine) Split {
	pair := func(p, d int) Split {
		return Split{p, d, p*prefill.GPUs + d*decode.GPUs, min(float64(p)*prefill.RPS, float64(d)*decode.RPS)}
	}
	best := pair(1, 1)
	for p := 1; p*prefill.GPUs+decode.GPUs <= gpus; p++ {
		for d := (gpus - p*prefill.GPUs) / decode.GPUs; d >= 1; d-- {
			s := pair(p, d)
			if s.RPS < best.RPS {
				break // fewer decode engines carry no more
			}
			if s.RPS > best.RPS || s.GPUs < best.GPUs {
				best = s
			}
		}
	}
	return best
}
