package main

import (
	"errors"
	"time"

	"plimsoll/planner"
	"plimsoll/planner/forecast"
	"plimsoll/planner/policy"
	"plimsoll/profile/trace"
)

// core makes the planner's core of one deployment.
func (s plannerSettings) core() (*planner.Core, error) {
	rule, err := s.rule()
	if err != nil {
		return nil, err
	}
	core, err := planner.New(planner.Options{
		Deployment: s.deployment, Policy: rule, OnLoss: s.onLoss, Static: s.static, Provenance: s.surfaces.provenance,
	})
	if err != nil {
		return nil, usagef("%v", err)
	}
	return core, s.warm(core)
}

func (s plannerSettings) rule() (planner.Policy, error) {
	if s.policy == "load" {
		l, err := policy.NewLoad(s.load)
		if err != nil {
			return nil, usagef("%v", err)
		}
		return l, nil
	}
	var series [3]planner.Forecaster
	for i := range series {
		f, err := forecast.New(s.forecast)
		if err != nil {
			return nil, usagef("%v", err)
		}
		series[i] = f
	}
	if s.policy == "upstream" {
		u, err := policy.NewUpstream(policy.UpstreamOptions{
			Prefill: s.surfaces.prefill, Decode: s.surfaces.decode, Requests: series[0], ISL: series[1], OSL: series[2],
			Interval: s.interval, NoCorrection: s.noCorrection,
		})
		if err != nil {
			return nil, usagef("%v", err)
		}
		return u, nil
	}
	o := s.careful
	o.Prefill, o.Decode, o.Rate, o.ISLs, o.OSLs = s.surfaces.prefill, s.surfaces.decode, series[0], series[1], series[2]
	d, err := policy.NewDefault(o)
	if err != nil {
		return nil, usagef("%v", err)
	}
	return d, nil
}

// warm tells the core of a trace that came before.
func (s plannerSettings) warm(core *planner.Core) error {
	if s.warmup == "" {
		return nil
	}
	bad := func(err error) error { return usagef("--load-predictor-warmup-trace %s: %v", s.warmup, err) }
	r, _, err := openFile(s.warmup)
	if err != nil {
		return bad(err)
	}
	defer r.Close() //nolint:errcheck // only read
	f, err := trace.Open(r, s.warmup, trace.Options{ZeroAsOne: true})
	if err != nil {
		return bad(err)
	}
	intervals, err := forecast.Intervals(trace.Rebase(f.Arrivals()), s.interval)
	if err != nil {
		return bad(err)
	}
	if len(intervals) == 0 {
		return bad(errors.New("it holds no request"))
	}
	begin := time.Now().Add(-time.Duration(len(intervals)) * s.interval)
	for i, x := range intervals {
		o := planner.Observation{Start: begin.Add(time.Duration(i) * s.interval), Length: s.interval, Warmup: true}
		o.Arrivals, o.Finished = planner.Known(x.Requests), planner.Known(x.Requests)
		if x.Requests > 0 {
			o.ISL.Mean, o.OSL.Mean = planner.Known(x.ISL), planner.Known(x.OSL)
		}
		core.Tell(o)
	}
	return nil
}
