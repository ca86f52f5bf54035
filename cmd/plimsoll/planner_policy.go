package main

import (
	"errors"
	"strings"
	"time"

	"plimsoll/engine/field"
	"plimsoll/planner"
	"plimsoll/planner/forecast"
	"plimsoll/planner/policy"
	"plimsoll/profile/trace"
)

// core makes the planner's core of one deployment, which begins now.
func (s plannerSettings) core(now time.Time) (*planner.Core, error) {
	rule, err := s.rule()
	if err != nil {
		return nil, err
	}
	return s.coreOf(rule, now)
}

// coreOf makes the core of a policy that has not decided yet; now is the instant at
// which it begins.
func (s plannerSettings) coreOf(rule planner.Policy, now time.Time) (*planner.Core, error) {
	core, err := planner.New(planner.Options{
		Deployment: s.deployment, Policy: rule, OnLoss: s.onLoss, Static: s.static, Provenance: s.surfaces.provenance, Caveats: s.surfaces.caveats(s.deployment.SLA.Stat),
	})
	if err != nil {
		return nil, field.Errorf("%v", err)
	}
	return core, s.warm(core, now)
}

// rule makes the policy, which has not decided yet.
func (s plannerSettings) rule() (rule planner.Stateful, err error) {
	defer func() {
		if err != nil {
			err = field.Errorf("%v", err)
		}
	}()
	if s.policy == "load" {
		return policy.NewLoad(s.load)
	}
	var series [3]planner.Forecaster
	for i := range series {
		if series[i], err = forecast.New(s.forecast); err != nil {
			return nil, err
		}
	}
	if s.policy == "upstream" {
		return policy.NewUpstream(policy.UpstreamOptions{
			Prefill: s.surfaces.prefill, Decode: s.surfaces.decode, Requests: series[0], ISL: series[1], OSL: series[2],
			Interval: s.interval, NoCorrection: s.noCorrection,
		})
	}
	o := s.careful
	o.Prefill, o.Decode, o.Rate, o.ISLs, o.OSLs = s.surfaces.prefill, s.surfaces.decode, series[0], series[1], series[2]
	o.Rated = s.surfaces.rated()
	return policy.NewDefault(o)
}

// warm tells the core of a trace that came before now.
func (s plannerSettings) warm(core *planner.Core, now time.Time) error {
	if s.warmup == "" {
		return nil
	}
	bad := func(err error) error { // no flag says its unit
		text, _, unit := strings.Cut(ofTrace(err), "(hint: "+field.TimeUnit)
		if unit {
			text += "(hint: a CSV says it in its header: arrival_s or arrival_ms)"
		}
		return field.Errorf("--load-predictor-warmup-trace %s: %s", s.warmup, text)
	}
	r, _, err := openFile(s.warmup)
	if err != nil {
		return bad(err)
	}
	defer r.Close() //nolint:errcheck // only read
	f, err := trace.Open(r, s.warmup, trace.Options{ZeroAsOne: true})
	if err != nil {
		return bad(err)
	}
	intervals, err := forecast.Intervals(trace.Rebase(f.Arrivals()), s.pulse)
	if err != nil {
		return bad(err)
	}
	if len(intervals) == 0 {
		return bad(errors.New("it holds no request"))
	}
	begin := now.Add(-time.Duration(len(intervals)) * s.pulse)
	for i, x := range intervals {
		core.Tell(planner.Told(begin.Add(time.Duration(i)*s.pulse), s.pulse, x.Requests, x.ISL, x.OSL))
	}
	return nil
}
