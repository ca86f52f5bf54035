package main

import (
	"fmt"
	"time"

	"plimsoll/capacity"
	"plimsoll/engine"
	"plimsoll/engine/field"
	"plimsoll/planner"
	"plimsoll/planner/policy"
)

// settingsOf are the settings of a rule that flags or the fleet say, in words.
func (o replayOptions) settingsOf(name string) string {
	switch {
	case name == "hpa:sla" || name == "keda:sla" || name == "wva-v2:sla":
		return fmt.Sprintf(", %.0f %% of what fills a replica by the profile", 100*o.hpaFull)
	case name == "keda" && o.deployment().Aggregated():
		return fmt.Sprintf(": a replica for each 16 requests served and for each %g waiting; twice as many in 15 s, down after 300 s", o.queue)
	case name == "keda":
		return ": a prefill replica for 1.5 s of prompts, a decode replica for 0.8 of a KV cache; one more in 3 min, one fewer in 5"
	}
	return ""
}

// rule makes a policy that has not decided yet.
func (c comparison) rule(x outcomeOf) (planner.Policy, error) {
	rule, err := c.rival(x)
	if rule == nil && err == nil {
		return x.policy.settings.rule()
	}
	if err != nil {
		return nil, field.Errorf("--policy %s: %v", x.policy.name, err)
	}
	return rule, nil
}

// rival makes a rule that is there to compare with; nil where planner serve has it.
func (c comparison) rival(x outcomeOf) (planner.Policy, error) {
	s := x.policy.settings
	switch name := x.policy.policy; name {
	case "static-peak", "static-mean":
		return policy.Static{Replicas: x.static}, nil
	case "hpa:sla", "article":
		return byFullLoad(name, s, c.facts.mean(), c.facts.p99(), c.options.hpaFull)
	case "hpa", "keda", "keda:sla":
		targets, err := c.targets(name, s)
		if err != nil {
			return nil, err
		}
		behavior := kubernetesBehavior(name, len(c.fleet.Pools))
		if name == "hpa" {
			return policy.NewHPA(policy.HPAOptions{Targets: targets, Behavior: behavior}), nil
		}
		return policy.NewKEDA(policy.KEDAOptions{Targets: targets, Behavior: behavior, EmptyIsZero: !s.onLossSaid}), nil
	case "wva-v2", "wva-v2:sla":
		o, err := c.variantAutoscaler(name, s)
		if err != nil {
			return nil, err
		}
		return policy.NewWVA(o), nil
	}
	return nil, nil
}

// byFullLoad is a rule that is set by the requests that fill a replica by the profile, at
// the load's mean minute: the article's, or a HorizontalPodAutoscaler with Kubernetes'
// defaults, whose target is a share of them.
func byFullLoad(name string, s plannerSettings, mean minute, p99 lengths, share float64) (planner.Policy, error) {
	d, err := s.sized(mean, p99)
	if err != nil {
		return nil, err
	}
	targets := fullLoads(s, d)
	if name == "article" {
		return policy.NewArticle(targets), nil
	}
	for i := range targets {
		targets[i].Value *= share
	}
	return policy.NewHPA(policy.HPAOptions{Targets: targets, Behavior: policy.NoBehavior()}), nil
}

// kubernetesBehavior is the guides' own, or none, as KEDA's default is: those for one
// pool double in 15 s, that for prefill and decode adds one in 3 min and takes one away
// in 5.
func kubernetesBehavior(name string, pools int) policy.Behavior {
	b := policy.DefaultBehavior()
	switch {
	case name == "keda:sla":
		return policy.NoBehavior()
	case name == "keda" && pools > 1:
		b.Up = policy.Scaling{Pods: 1, Period: 180 * time.Second}
		b.Down = policy.Scaling{Window: b.Down.Window, Pods: 1, Period: 300 * time.Second}
	default:
		b.Up.Pods = 0
	}
	return b
}

// targets are the metrics that a rule of Kubernetes keeps, of every pool.
func (c comparison) targets(name string, s plannerSettings) ([]policy.PoolTarget, error) {
	d, err := c.facts.meanSized(s)
	if err != nil {
		return nil, err
	}
	var out []policy.PoolTarget
	for _, full := range fullLoads(s, d) {
		running := policy.PoolTarget{Role: full.Role, Metric: policy.MetricRunning, Value: c.options.hpaFull * full.Value}
		waiting := policy.PoolTarget{Role: full.Role, Metric: policy.MetricWaiting}
		switch name {
		case "hpa": // README.hpa-epp.md, which says that both are to be tuned
			running.Value, running.As = 250, policy.PerReplica
			waiting.Value, waiting.As = 250, policy.InAll
		case "keda":
			if full.Role != engine.RoleAggregated {
				out = append(out, c.facts.tokenAware(s, full.Role))
				continue
			}
			// keda-epp-queue/optimized-baseline/base/scaledobject.yaml
			running.Value, running.As = 16, policy.PerReplica
			waiting.Value, waiting.As = c.options.queue, policy.PerReplica
		case "keda:sla":
			running.As = policy.PerReplica
			waiting.Value, waiting.As = c.facts.patience(s, full.Role), policy.PerReplica
		}
		out = append(out, running)
		if waiting.Value > 0 {
			out = append(out, waiting)
		}
	}
	return out, nil
}

// tokenAware is llm-d's trigger of a pool that prefills, 1.5 s of prompts at the
// throughput that is measured of it, or that decodes, 0.8 of a full KV cache
// (keda-epp-token-aware/pd-disaggregation/base).
func (f loadFacts) tokenAware(s plannerSettings, role engine.Role) policy.PoolTarget {
	if role == engine.RolePrefill {
		return policy.PoolTarget{Role: role, Metric: policy.MetricHeld, Value: 1.5 * f.prompts(s, role), As: policy.PerReplica}
	}
	return policy.PoolTarget{Role: role, Metric: policy.MetricKV, Value: 0.8, As: policy.PerReplica}
}

// patience is how many prompts of the mean length may wait at a replica until the
// last of them misses TTFT, by the profile: at least one.
func (f loadFacts) patience(s plannerSettings, role engine.Role) float64 {
	return max(1, s.deployment.SLA.TTFT.Seconds()*f.prompts(s, role)-1)
}

// prompts are those of the mean length that a replica does in a second by the profile.
func (f loadFacts) prompts(s plannerSettings, role engine.Role) float64 {
	isl := f.stats.ISL.Mean
	return s.surfaces.prefill.ThroughputPerGPU(isl).Value * float64(s.deployment.Pool(role).GPUs) / isl
}

// meanSized is the mean load by the profile.
func (f loadFacts) meanSized(s plannerSettings) (planner.Decision, error) {
	return s.sized(f.mean(), f.p99())
}

// variantAutoscaler is llm-d's, by its chart, or as one sets it up for an SLA: a
// replica is saturated at the KV use that it has when it is full by the profile, and
// its HPA goes up at once, down as Kubernetes does, and in single steps at any size.
// It keeps a replica at 0.70 to 0.85 of saturation. The default of --hpa-utilization
// lies between these; another value moves the threshold in proportion.
func (c comparison) variantAutoscaler(name string, s plannerSettings) (policy.WVAOptions, error) {
	o := policy.WVAOptions{Behavior: policy.WVABehavior()}
	d, err := c.facts.meanSized(s)
	if err != nil {
		return o, err
	}
	full := fullLoads(s, d)
	for i, p := range c.fleet.Pools {
		l := p.Engine.Limits
		e := policy.WVAEngine{
			Role: p.Engine.Role, KVTokens: p.Engine.KVTokens(), MaxBatchedTokens: l.MaxNumBatchedTokens, MaxSeqs: l.MaxNumSeqs,
			KVThreshold: policy.DefaultKVThreshold,
		}
		if name == "wva-v2:sla" {
			o.Behavior = policy.DefaultBehavior()
			o.Behavior.Tolerance = 0
			e.KVThreshold = min(e.KVThreshold, full[i].Value*c.facts.context(e.Role)/float64(e.KVTokens)) * (c.options.hpaFull / defaultUtilization)
		}
		o.Engines = append(o.Engines, e)
	}
	return o, nil
}

// context is the tokens of a request in an engine of a role, on average.
func (f loadFacts) context(role engine.Role) float64 {
	if role == engine.RolePrefill {
		return f.stats.ISL.Mean
	}
	return capacity.Workload{ISL: f.stats.ISL.Mean, OSL: f.stats.OSL.Mean, OSLP99: f.stats.OSL.P99}.Context()
}
