package sweep

import (
	"cmp"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
)

// meanStay is the mean time from due to the end, of the requests that ended well.
func meanStay(rs []profile.Request) time.Duration {
	sum, n := 0.0, 0
	for _, q := range rs {
		if q.OK() {
			sum += float64(q.Last - q.Due)
			n++
		}
	}
	return time.Duration(sum / float64(max(n, 1)))
}

// summarizeOpen makes a point of a load: throughput is that of the window in which
// the load was full, prompt tokens in prefill, otherwise output tokens. Aggregated
// engines that keep up give what is asked of them, rate × OSL: in a window of a few
// residence times they may have given more or less.
func summarizeOpen(m Measurement, l openLoad, phase profile.Phase, cfg engine.Config, f profile.EngineFacts, sla profile.SLA) profile.Point {
	var w profile.Window
	if rs := m.Requests; len(rs) > 0 {
		w = l.window(rs[0].Due, rs[len(rs)-1].Due)
	}
	planned := w
	w = profile.Played(m.Requests, w)
	a := l.attain(m.Requests, w, sla, cfg)
	p := profile.Point{
		Rate: l.rate, Load: &a, TTFT: a.TTFT, ITL: a.ITL, TPOT: a.TPOT, InFlight: a.InFlight, Context: a.Context,
		Requests: a.Requests, Failures: a.Failures, FailsTooOften: a.FailsTooOften,
	}
	if f.KVTokens > 0 {
		p.KVUsage = min(1, f.KVUse(decoding(m.Requests, w), p.Context))
	}
	ended := kept(m.Requests)
	s := m.summarize(ended, w)
	p.Warnings, p.Invalid = s.Warnings, s.Invalid
	gpus := float64(cfg.GPUs())
	if p.ThroughputPerGPU = a.TokensPerSec / gpus; phase == profile.Prefill {
		_, tokens := firstTokens(ended)
		p.ThroughputPerGPU = a.Achieved * tokens / gpus
	} else if tokens := answers(ended, w); phase == profile.Aggregated && tokens > 0 && !a.FailsTooOften && !a.Growing && w == planned {
		p.ThroughputPerGPU = l.rate * tokens / gpus * float64(a.Requests-a.Failures) / float64(a.Requests)
	}
	if s.Cached > 0.05 && len(l.fill) == 0 {
		hit := profile.Warnf("prefix_hit", "%.0f %% of prompt tokens came from the prefix cache, so TTFT is too low", 100*s.Cached)
		if p.Warnings = append(p.Warnings, hit); phase != profile.Decode {
			a.Easier = hit.Message
		}
	}
	if len(l.fill) > 0 && unskipped(f, l.fill[0].ISL, s.Cached) {
		kept := profile.Warnf("prefill_not_skipped", "only %.0f %% of prompt tokens came from the prefix cache", 100*s.Cached)
		p.Warnings, a.Harder = append(p.Warnings, kept), "prefill was not skipped, "+kept.Message
	}
	return p
}

// decoding is how many requests were between their first token and their end,
// averaged over w: those that hold KV cache for certain, where others may wait.
func decoding(rs []profile.Request, w profile.Window) float64 {
	var busy time.Duration
	for _, q := range rs {
		if q.First > 0 {
			busy += max(0, min(cmp.Or(q.End, w.To), w.To)-max(q.First, w.From))
		}
	}
	return float64(busy) / float64(max(w.Length(), 1))
}

// answers is the mean output length of the requests that were due inside w.
func answers(rs []profile.Request, w profile.Window) float64 {
	tokens, n := 0, 0
	for _, q := range rs {
		if q.OK() && q.Due >= w.From && q.Due <= w.To {
			tokens, n = tokens+q.OutputTokens, n+1
		}
	}
	return float64(tokens) / float64(max(n, 1))
}

// kept are the records of requests that were not stopped.
func kept(rs []profile.Request) (out []profile.Request) {
	for _, q := range rs {
		if q.Failure != profile.FailCanceled {
			out = append(out, q)
		}
	}
	return out
}
