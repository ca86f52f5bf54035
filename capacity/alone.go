package capacity

import (
	"cmp"
	"fmt"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/engine/sim/fleet"
	"plimsoll/profile"
)

// alone says why one request that has the fleet to itself breaks the SLO; empty
// = it does not.
func (s *search) alone() (string, error) {
	one := make([]int, len(s.layout.Pools))
	for i := range one {
		one[i] = 1
	}
	ttft := s.slo.TTFT
	if s.slo.stat() != profile.P99 && s.traffic.ISLP99 > s.traffic.ISL {
		ttft = 0 // the p99 of prompts says nothing about another statistic
	}
	for _, c := range []struct {
		isl, osl float64
		of       func(fleet.Outcome) engine.Picoseconds
		what     string
		promise  time.Duration
	}{
		{s.uncached(), 2, fleet.Outcome.TTFT, "a TTFT", ttft},
		{s.traffic.ISL, max(2, s.traffic.OSL), fleet.Outcome.TPOT, "an ITL", s.slo.ITL},
		{s.traffic.ISL, max(2, s.traffic.OSL), fleet.Outcome.TPOT, "gaps between tokens", s.slo.StallP99},
		{s.traffic.ISL, max(2, s.traffic.OSLP99), fleet.Outcome.E2E, "an end-to-end latency", s.slo.E2EP99},
	} {
		var got fleet.Outcome
		config := s.layout.fleet(one, s.seed)
		config.Done = func(o fleet.Outcome) { got = o }
		f, err := fleet.New(config)
		if err != nil {
			return "", fmt.Errorf("simulating %s: %w", s.layout.Name(), err)
		}
		if err := f.Offer(fleet.Request{ISL: int(c.isl), OSL: int(c.osl)}); err != nil {
			return "", err
		}
		if err := f.Finish(fleet.Forever); err != nil {
			return "", err
		}
		length := fmt.Sprintf("a request of %d prompt and %d output tokens", int(c.isl), int(c.osl))
		if got.Status == fleet.Rejected {
			return length + " exceeds the engine's length limit", nil
		}
		if c.promise > 0 && c.of(got).Duration() > c.promise {
			return fmt.Sprintf("even alone in the fleet, %s has %s of %s ms (limit %s ms)", length, c.what,
				millis(c.of(got).Duration()), millis(c.promise)), nil
		}
	}
	return "", nil
}

func millis(d time.Duration) string { return fmt.Sprintf("%.4g", d.Seconds()*1e3) }

// infeasible is what ample engines do instead.
func (s *search) infeasible(why string, err error) (Sized, error) {
	if err != nil {
		return Sized{}, err
	}
	var ample []int
	var t Trial
	if why != "" { // ample engines miss the SLO too: only their latencies are asked for
		ample = s.times(ampleness[len(ampleness)-1])
		t, err = s.layout.try(ample, s.traffic, s.slo, s.few(), s.seed)
	} else if ample, _, err = s.ample(); err == nil {
		t, err = s.whole(ample)
	}
	if err != nil {
		return Sized{}, err
	}
	if why == "" {
		why = fmt.Sprintf("even with %d times the GPUs that the load needs, %.3g %% of requests still miss the %s", ample[0]/s.layout.floor(s.traffic, s.slo)[0], 100*t.worst().Missed, t.binding())
		if t.Rejected > 0 {
			why += fmt.Sprintf("; %.3g %% exceed the engine's length limit", 100*float64(t.Rejected)/float64(t.Requests))
		}
	}
	return Sized{At: t, Infeasible: &Infeasible{
		Why: why, Replicas: ample, TTFT: t.TTFT.At.Duration(), ITL: t.ITL.At.Duration(), GapP99: t.Gaps.P99.Duration(), E2EP99: t.E2E.P99.Duration(),
	}}, nil
}

// mostPromptSteps bounds a trial that only tells latencies: a second of simulation.
const mostPromptSteps = 1_000_000

// few is how many requests such a trial has: fewer than others where each prompt
// takes many steps.
func (s *search) few() int {
	p := s.layout.Pools[0].Engine
	chunk := cmp.Or(p.Limits.MaxNumBatchedTokens, sim.DefaultMaxNumBatchedTokens)
	steps := 1 + s.traffic.ISL/float64(chunk)
	return min(s.requests, max(leastRequests, int(mostPromptSteps/steps)))
}

// uncached is the 99th percentile of prompts, without what a cache may hold.
func (s *search) uncached() float64 {
	if !s.layout.Pools[0].Engine.PrefixCaching {
		return s.traffic.ISLP99
	}
	return max(1, s.traffic.ISLP99-s.traffic.Shared)
}
