package main

import (
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/engine/field"
)

// plannerPolicy is a rule that a planner runs by.
type plannerPolicy struct {
	name   string
	serves bool          // planner serve runs it, too; others are to compare with
	steady bool          // it decides on and on, whatever is under way
	every  time.Duration // between decisions, where nothing else is said
	look   time.Duration // between samples of the metrics, likewise
	about  string
	source string // where it is from; empty: it is the project's own
	claim  string // what the source says that it saves; empty: nothing
}

// plannerPolicies are all of them, in the order in which they are compared. A rule of
// others decides and looks as often as it does where it comes from. The loop of the
// HorizontalPodAutoscaler, which also carries out what KEDA and the
// workload-variant-autoscaler decide, runs every 15 s, and llm-d's monitoring and chart
// scrape as often. The capacity article does not say how often its rule decides; 15 s
// here. Where a rule has settings that know no SLA, name:sla is the same rule as somebody
// sets it who has the profile.
func plannerPolicies() []plannerPolicy {
	const s = time.Second
	return []plannerPolicy{
		{name: "static-peak", every: 180 * s, look: s, about: "replicas for the busiest minutes, always"},
		{name: "static-mean", every: 180 * s, look: s, about: "replicas for the mean load, always"},
		{
			name: "hpa", steady: true, every: 15 * s, look: 15 * s,
			about:  "HorizontalPodAutoscaler as llm-d's guide has it: 250 requests served by each replica, or 250 waiting in all; down after 300 s",
			source: "llm-d/llm-d 1b624fa, guides/workload-autoscaling/README.hpa-epp.md; kubernetes v1.36.3",
		},
		{
			name: "hpa:sla", steady: true, every: 15 * s, look: 15 * s,
			about:  "HorizontalPodAutoscaler by Kubernetes' defaults on the requests that a replica serves",
			source: "kubernetes v1.36.3, pkg/controller/podautoscaler; the target is the profile's",
		},
		{
			name: "keda", steady: true, every: 15 * s, look: 15 * s,
			about:  "KEDA as llm-d's guides have it",
			source: "llm-d/llm-d 903da90, guides/workload-autoscaling/keda-epp-queue, of prefill and decode keda-epp-token-aware/pd-disaggregation; kedacore/keda 8b4f083",
		},
		{
			name: "keda:sla", steady: true, every: 15 * s, look: 15 * s,
			about:  "KEDA on the requests served and on as many waiting as TTFT has time for",
			source: "kedacore/keda 8b4f083; the triggers' thresholds are the profile's",
		},
		{
			name: "wva-v2", steady: true, every: 15 * s, look: 15 * s,
			about:  "llm-d's variant autoscaler by tokens every 30 s, through the HPA of its chart: 240 s of stabilization, 10 replicas in 150 s",
			source: "llm-d/llm-d-workload-variant-autoscaler b08b1c7, internal/engines/analyzers/saturation_v2, charts",
		},
		{
			name: "wva-v2:sla", steady: true, every: 15 * s, look: 15 * s,
			about:  "llm-d's variant autoscaler, V2, its KV threshold by the profile, through an HPA that goes up at once, without tolerance",
			source: "llm-d/llm-d-workload-variant-autoscaler b08b1c7, internal/engines/analyzers/saturation_v2",
		},
		{
			name: "article", steady: true, every: 15 * s, look: 15 * s,
			about:  "4 GPUs more above 0.85 of what fills a replica, from 100 waiting or 1 % missed on, 8 above 5 %; 4 fewer below 0.40; 120 s apart",
			source: "an article on capacity planning for disaggregated serving, read in 2026",
			claim:  "the article says 30 to 45 % for a peak of twice the mean",
		},
		{
			name: "load", serves: true, every: 30 * s, look: s, about: "Dynamo's thresholds on queue and KV use",
			source: "ai-dynamo/dynamo of 2025-05, examples/llm/components/planner.py",
		},
		{
			name: "upstream", serves: true, every: 180 * s, look: s, about: "Dynamo's SLA planner by its own formulas",
			source: "ai-dynamo/dynamo 0761925, components/planner/src/dynamo/planner/utils/planner_core.py, with the budget rule of e2f1e04",
		},
		{name: "default", serves: true, every: 180 * s, look: s, about: "sized by the profile for the load expected, corrected by what is seen"},
	}
}

// policyOf is the rule of a name; empty of what is none, such as a schedule in hindsight.
func policyOf(name string) plannerPolicy {
	for _, p := range plannerPolicies() {
		if p.name == name {
			return p
		}
	}
	return plannerPolicy{}
}

// claimed is what a policy's source claims beside what it took against static-peak, in
// words; nothing where that was not compared.
func claimed(name, claim string, took ...string) string {
	if len(took) > 0 {
		name += " against " + staticPeak + ": " + strings.Join(took, ", ")
	}
	return name + "; " + claim
}

// servedPolicies are the names that planner serve knows, its default first.
func servedPolicies() []string {
	var names []string
	for _, p := range plannerPolicies() {
		if p.serves {
			names = append(names, p.name)
		}
	}
	slices.Reverse(names)
	return names
}

// chosenPolicy is a rule as --policy of planner replay names it: "upstream:kalman".
type chosenPolicy struct {
	name      string
	policy    string
	predictor string // upstream's; empty: that of --load-predictor
}

// upstreamPredictors are those that upstream has.
func upstreamPredictors() []string { return []string{"constant", "arima", "kalman", "prophet"} }

// allPolicies are what "all" means: each rule once, upstream with each predictor.
func allPolicies() []chosenPolicy {
	var all []chosenPolicy
	for _, p := range plannerPolicies() {
		if p.name != "upstream" {
			all = append(all, chosenPolicy{name: p.name, policy: p.name})
			continue
		}
		for _, k := range upstreamPredictors() {
			all = append(all, chosenPolicy{"upstream:" + k, "upstream", k})
		}
	}
	return all
}

// comparedPolicies are those that a replay compares where nobody says which: the
// planner's own, and what most fleets have instead of it.
func comparedPolicies() []string { return []string{"default", "hpa:sla", "static-peak"} }

// policies reads the list of --policy. The one that a file for planner serve names
// stands in for the default one.
func (p *parser) policies() []chosenPolicy {
	s := strings.TrimSpace(p.c.String("policy"))
	typed := slices.ContainsFunc(p.c.Lineage()[1:], func(c *cli.Context) bool { return c.IsSet("policy") })
	if !typed && slices.Contains(servedPolicies(), s) {
		s = strings.Join(append([]string{s}, comparedPolicies()[1:]...), ",")
	}
	if s == "all" {
		return allPolicies()
	}
	known := append([]chosenPolicy{{name: "upstream", policy: "upstream"}}, allPolicies()...)
	names := make([]string, len(known))
	for i, k := range known {
		names[i] = k.name
	}
	var out []chosenPolicy
	for word := range strings.SplitSeq(s, ",") {
		word = strings.TrimSpace(word)
		i := slices.Index(names, word)
		if i < 0 {
			p.fail(meant(field.Errorf("--policy %q: want all, or some of %s, separated by commas", word, strings.Join(names, ", ")), word, names))
			return nil
		}
		if slices.Contains(out, known[i]) {
			p.fail(field.Errorf("--policy %q: %s is listed twice", s, word))
			return nil
		}
		out = append(out, known[i])
	}
	return out
}
