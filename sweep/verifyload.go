package sweep

import (
	"fmt"
	"math"
	"time"

	"plimsoll/profile"
)

// busyStay bounds how many service times of a prefill queue are taken for the
// stay of a request: the queue's memory of where it began fades in about
// 1/(1−ρ)² of them.
const busyStay = 25

// busyFor is taken for the stay of a request whose service takes so long, at a use.
func busyFor(service time.Duration, use float64) time.Duration {
	idle := max(1-use, 1e-3)
	return time.Duration(float64(service) * min(max(2, 1/(idle*idle)), busyStay))
}

// verifyingLoad is the load of a phase's pick, and what it does not show.
func (r *runner) verifyingLoad(s *trial) (openLoad, []string, error) {
	c := r.choiceOf(s.phase)
	p := c.Picked.Point
	l := openLoad{stage: profile.StageVerify, seed: r.seed("verify")}
	switch s.phase {
	case profile.Prefill:
		l = l.stays(busyFor(p.TTFT.Mean, c.Picked.Utilization), 1)
		l.decides = r.opts.decidesTTFT(c.Picked.Utilization, float64(p.TTFT.Std)/float64(max(p.TTFT.Mean, 1)))
		l.change = func(asks []profile.Ask) []profile.Ask {
			for i := range asks {
				asks[i].OSL = 1
			}
			return asks
		}
		return l, []string{"one engine, with a queue of its own: a router in front of several does better", "KV transfer takes no time"}, nil
	case profile.Decode:
		l.residence = time.Duration(r.opts.OSL) * max(p.TPOT.Mean, p.ITL.Mean)
		l.settle, l.head = l.residence, int(math.Round(c.Picked.Together))
		l.decides = r.opts.decidesTPOT(c.Picked.Together, c.Picked.Slack)
		long, err := r.cachedPrompts(&l, max(1, p.Asked), s.facts)
		limits := []string{
			fmt.Sprintf("%d cached prompts take turns to skip prefill. Requests that share one share its KV cache, so KV use is understated", len(l.fill)),
			"the number in flight varies around the pick's",
			"TTFT excludes prefill and is not judged; a warning tells if it alone exceeds the SLA",
		}
		if left := computed(l.fill, s.facts); left > 0.1 {
			limits = append(limits, fmt.Sprintf("%.0f %% of each prompt is computed: the prefix cache keeps whole blocks of %d tokens", 100*left, s.facts.BlockSize))
		}
		if long > 0 {
			limits = append(limits, fmt.Sprintf("%d of %d prompts exceed the engine's context of %d tokens and were left out", long, max(1, p.Asked), s.facts.MaxModelLen))
		}
		return l, limits, err
	default:
		alone := r.aloneOf(s)
		l = l.stays(p.Load.E2E.Mean+p.Load.E2E.Mean/4, r.slack(alone))
		l.decides = r.decides(s.cfg, alone, p.Rate, p.Load.E2E.Mean)
		return l, []string{"one engine, with a queue of its own: a router in front of several does better"}, nil
	}
}

// computed is the share of cached prompts that their last blocks leave to compute.
func computed(fill []profile.Ask, f profile.EngineFacts) float64 {
	all, left := 0, 0
	for _, a := range fill {
		all, left = all+a.ISL, left+a.ISL-f.Cacheable(a.ISL)
	}
	return float64(left) / float64(max(all, 1))
}

// cachedPrompts makes the load's requests take turns in at most n prompts, no more
// than the KV cache holds with their answers; long of the n are longer than the
// engine's context, and left out.
func (r *runner) cachedPrompts(l *openLoad, n int, f profile.EngineFacts) (long int, err error) {
	asks, err := r.opts.Open.Traffic(1, n, l.seed)
	if err != nil {
		return 0, fmt.Errorf("making the prompts of a load: %w", err)
	}
	for i, a := range asks {
		asks[i].OSL = max(a.OSL, 2)
		if a.Prompt == "" {
			asks[i].ISL = cachedISL(f, a.ISL, asks[i].OSL)
		}
	}
	if asks, long = fitting(asks, f); len(asks) == 0 {
		return long, allLong(f)
	}
	room := f.KVTokens
	for i, a := range asks {
		if room -= a.ISL + a.OSL; room < 0 && i > 0 {
			break
		}
		l.fill = append(l.fill, profile.Ask{ISL: a.ISL, OSL: 1, Prompt: a.Prompt, Shared: i + 1})
	}
	whole := asks[:len(l.fill)]
	l.change = func(asks []profile.Ask) []profile.Ask {
		for i := range asks {
			k := i % len(whole)
			asks[i].ISL, asks[i].OSL, asks[i].Prompt, asks[i].Shared = whole[k].ISL, whole[k].OSL, whole[k].Prompt, k+1
		}
		return asks
	}
	return long, nil
}
