package policy

import (
	"fmt"
	"math"
	"time"

	"plimsoll/engine"
	"plimsoll/interpolation"
	"plimsoll/planner"
	"plimsoll/profile"
)

// correct compares the interval with the profile. A factor that cannot be known
// (no replica served, no gap between tokens) stays what it was.
func (u *Upstream) correct(s planner.Situation, seen traffic) planner.Correction {
	var now planner.Correction
	if expected := u.o.Prefill.TTFT(seen.isl).Value; expected > 0 {
		u.by.Prefill = float64(s.TTFT.Mean.Value) / float64(expected)
		now.Prefill = planner.Known(u.by.Prefill)
	}
	if ready := decodePool(s).Ready; ready > 0 && seen.osl > 1 {
		inFlight := u.inFlight(s, seen.requests, ready)
		if expected := u.o.Decode.ITLAt(inFlight, seen.context()).Value; expected > 0 {
			u.by.Decode = float64(s.ITL.Mean.Value) / float64(expected)
			now.Decode = planner.Known(u.by.Decode)
		}
	}
	return now
}

// inFlight is by Little's law the requests that each of n engines runs.
func (u *Upstream) inFlight(s planner.Situation, requests float64, n int) float64 {
	return requests / float64(n) * s.Duration.Mean.Value.Seconds() / u.o.Interval.Seconds()
}

// decodePool is the pool that generates: decode, or the aggregated one.
func decodePool(s planner.Situation) planner.PoolObservation {
	role := engine.RoleDecode
	if s.Deployment.Aggregated() {
		role = engine.RoleAggregated
	}
	p, _ := s.Pool(role)
	return p
}

// needs is the work that is forecast and what one GPU does of it.
type needs struct {
	prompt     float64 // prompt tokens/s, as they are
	work       float64 // prompt tokens/s after the correction
	tokens     float64 // output tokens/s
	promptRate float64 // prompt tokens/s/GPU
	best       interpolation.Best
	limit      time.Duration // ITL that best keeps: the SLA's over the correction
}

// needs asks the surfaces. No requests need none of them.
func (u *Upstream) needs(t traffic, sla profile.SLA) (n needs, missing []string, warnings []profile.Warning) {
	if t.requests == 0 {
		return n, nil, nil
	}
	n.prompt = t.requests * t.isl / u.o.Interval.Seconds()
	n.work = n.prompt * min(1, u.by.Prefill)
	n.tokens = t.requests * t.osl / u.o.Interval.Seconds()
	rate := u.o.Prefill.ThroughputPerGPU(t.isl)
	n.limit = corrected(sla.ITL, u.by.Decode)
	n.promptRate, n.best = rate.Value, u.o.Decode.BestThroughput(n.limit, t.context())
	warnings = append(rate.Warnings(), n.best.Warnings()...)
	if n.promptRate <= 0 {
		missing = append(missing, fmt.Sprintf("prefill throughput at ISL %.0f (the profile says 0)", t.isl))
	}
	if !n.best.Feasible {
		warnings = append(warnings, profile.Warnf("itl_out_of_reach", "ITL is at least %[3]v at a context of %.0[2]f tokens (limit %[1]v). Upstream's rule then plans %.3[4]g requests per engine, within the budget",
			n.limit, t.context(), n.best.ITL, n.best.InFlight))
	}
	return n, missing, warnings
}

// corrected is the ITL to ask the profile for. Factors of 0 and below say nothing.
func corrected(itl time.Duration, by float64) time.Duration {
	if by <= 0 {
		return itl
	}
	if v := float64(itl) / by; v < math.MaxInt64 {
		return time.Duration(math.Round(v))
	}
	return math.MaxInt64
}

// size turns a forecast into replicas, each step with its figures.
func (u *Upstream) size(f *draft, s planner.Situation, next traffic) planner.Decision {
	n, missing, warnings := u.needs(next, f.dep.SLA)
	f.d.Warnings = append(f.d.Warnings, warnings...)
	if len(missing) > 0 {
		return f.without(missing)
	}
	if f.dep.Aggregated() {
		u.sizeAggregated(f, n)
	} else {
		u.sizePrefill(f, n)
		u.sizeDecode(f, n)
	}
	for _, p := range f.dep.Pools {
		if have := f.d.Want.Of(p.Role); have < p.Min {
			f.step("least", p.Role, p.Min, "%d are below the minimum, %d", have, p.Min)
		}
	}
	f.budget()
	f.d.Capacity = u.capacity(s, next, n, f.d.Want)
	return f.d
}

func (u *Upstream) sizePrefill(f *draft, n needs) {
	if n.work == 0 {
		f.step("demand", engine.RolePrefill, 0, "no prompt is expected")
		return
	}
	gpus := f.dep.Pool(engine.RolePrefill).GPUs
	f.step("demand", engine.RolePrefill, whole(n.work/n.promptRate/float64(gpus)),
		"%.5g prompt tokens/s × min(1, correction %.3g) over %.5g tokens/s/GPU × %d GPUs", n.prompt, u.by.Prefill, n.promptRate, gpus)
}

func (u *Upstream) sizeDecode(f *draft, n needs) {
	if n.tokens == 0 {
		f.step("demand", engine.RoleDecode, 0, "no output is expected")
		return
	}
	gpus := f.dep.Pool(engine.RoleDecode).GPUs
	f.step("demand", engine.RoleDecode, whole(n.tokens/n.best.ThroughputPerGPU/float64(gpus)),
		"%.5g output tokens/s over %.5g tokens/s/GPU × %d GPUs, with an ITL of at most %v (the SLA over the correction %.3g)", n.tokens, n.best.ThroughputPerGPU, gpus, n.limit, u.by.Decode)
}

func (u *Upstream) sizeAggregated(f *draft, n needs) {
	if n.work == 0 && n.tokens == 0 {
		f.step("demand", engine.RoleAggregated, 0, "no request is expected")
		return
	}
	gpus := f.dep.Pool(engine.RoleAggregated).GPUs
	prompt, output := n.work/n.promptRate, 0.0
	if n.tokens > 0 {
		output = n.tokens / n.best.ThroughputPerGPU
	}
	f.step("demand", engine.RoleAggregated, whole((prompt+output)/float64(gpus)),
		"prompts take %.3g GPUs (%.5g tokens/s × min(1, correction %.3g) over %.5g tokens/s/GPU) and outputs %.3g (%.5g tokens/s over %.5g, with an ITL of at most %v), in engines of %d",
		prompt, n.prompt, u.by.Prefill, n.promptRate, output, n.tokens, n.best.ThroughputPerGPU, n.limit, gpus)
}

// capacity is what the profile says of one replica within the SLA, and the
// latency predicted with what is wanted: an idle engine's TTFT, and the ITL at
// the in-flight requests that Little's law gives with the duration seen.
func (u *Upstream) capacity(s planner.Situation, next traffic, n needs, want planner.Replicas) []planner.PoolCapacity {
	if next.requests == 0 {
		return nil
	}
	var out []planner.PoolCapacity
	for _, p := range s.Deployment.Pools {
		c := planner.PoolCapacity{Role: p.Role}
		gpus := float64(p.GPUs)
		perRequest := 0.0 // GPU-seconds
		if p.Role != engine.RoleDecode {
			perRequest += next.isl * min(1, u.by.Prefill) / n.promptRate
			c.Latency = planner.Known(milliseconds(u.o.Prefill.TTFT(next.isl).Value) * u.by.Prefill)
		}
		if p.Role != engine.RolePrefill && n.tokens > 0 {
			perRequest += next.osl / n.best.ThroughputPerGPU
			c.InFlight = planner.Known(n.best.InFlight)
			c.Latency = planner.Figure[float64]{}
			if replicas := want.Of(p.Role); s.Duration.Mean.Known && replicas > 0 {
				itl := u.o.Decode.ITLAt(u.inFlight(s, next.requests, replicas), next.context()).Value
				c.Latency = planner.Known(milliseconds(itl) * u.by.Decode)
			}
		}
		if perRequest > 0 {
			c.Rate = planner.Known(gpus / perRequest)
		}
		out = append(out, c)
	}
	return out
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1e3 }
