package main

import (
	"math"
	"slices"

	"plimsoll/engine"
	"plimsoll/planner"
	"plimsoll/planner/replay"
	"plimsoll/profile"
)

// replaySchemaVersion is that of replay.json.
const replaySchemaVersion = 1

// replayFile is replay.json, and what --format json prints.
type replayFile struct {
	Schema      int                `json:"schema"`
	Version     string             `json:"version"` // of plimsoll
	Command     string             `json:"command"` // that makes this again
	Provenance  profile.Provenance `json:"provenance"`
	Load        replayLoadFile     `json:"load"`
	Fleet       replayFleetFile    `json:"fleet"`
	SLA         replaySLAFile      `json:"sla"`
	Seconds     float64            `json:"seconds"` // replayed
	Seeds       []int              `json:"seeds"`
	NotModelled []string           `json:"not_modelled"`
	Policies    []replayPolicyFile `json:"policies"`
	Warnings    []profile.Warning  `json:"warnings"`
}

type replayLoadFile struct {
	Words         string      `json:"words"`
	Trace         *traceFacts `json:"trace,omitempty"`
	Requests      int         `json:"requests"` // of one pass, with the first seed
	Seconds       float64     `json:"seconds"`
	Rate          float64     `json:"requests_per_second"`
	BusiestMinute int         `json:"requests_in_busiest_minute"`
	ISL           float64     `json:"mean_isl"`
	OSL           float64     `json:"mean_osl"`
	Repeat        int         `json:"repeat"`
	Warmup        float64     `json:"warmup_seconds"`
}

type replayFleetFile struct {
	Model       string             `json:"model"`
	GPU         string             `json:"gpu"`
	Source      string             `json:"source"`           // of the step times
	Chosen      string             `json:"chosen,omitempty"` // which engines were chosen and why, where no flag says them
	TTFTError   profile.ModelError `json:"ttft_error,omitzero"`
	ITLError    profile.ModelError `json:"itl_error,omitzero"`
	Pools       []replayPoolFile   `json:"pools"`
	StartUp     float64            `json:"startup_seconds"` // of the slowest pool
	Drain       float64            `json:"drain_seconds"`
	MetricDelay float64            `json:"metric_delay_seconds"`
	Noise       float64            `json:"noise"`
	BudgetGPUs  int                `json:"max_gpu_budget"` // below 0: no bound
}

type replayPoolFile struct {
	Role     engine.Role `json:"role"`
	Label    string      `json:"label"`
	GPUs     int         `json:"gpus"` // of a replica
	Router   string      `json:"router"`
	KVTokens int         `json:"kv_tokens"`
}

type replaySLAFile struct {
	TTFT    float64           `json:"ttft_ms"`
	ITL     float64           `json:"itl_ms"`
	Planned profile.Statistic `json:"planned_by"` // by the policies; attainment is of each request
}

// replayPolicyFile is one policy; figures are means over the seeds.
type replayPolicyFile struct {
	Name     string           `json:"name"`
	About    string           `json:"about"`
	Claim    string           `json:"claim,omitempty"` // what its source says that it saves
	Interval float64          `json:"interval_seconds"`
	Start    planner.Replicas `json:"start"`

	Both         seedMean `json:"attainment"`
	TTFT         seedMean `json:"attainment_ttft"`
	ITL          seedMean `json:"attainment_itl"`
	GoodRequests seedMean `json:"goodput_requests"`
	GoodTokens   seedMean `json:"goodput_tokens"`
	GPUHours     seedMean `json:"gpu_hours"`
	UnderSLO     seedMean `json:"time_under_slo"`
	Scalings     seedMean `json:"scalings"`
	HeldBack     seedMean `json:"held_back_by_budget,omitzero"` // share of the decisions

	OverPlan *seedMean         `json:"gpu_hours_over_plan,omitempty"` // a ratio, where there is a plan that meets 99 %
	Against  *replayDifference `json:"against_last,omitempty"`        // the policy that is last in the list, seed by seed
	Runs     []replayRunFile   `json:"runs"`
	Warnings []profile.Warning `json:"warnings,omitempty"` // of the first seed's run
}

// seedMean is a mean over seeds, and half of its 95 % interval by Student's t; none
// of one seed.
type seedMean struct {
	Mean float64  `json:"mean"`
	Half *float64 `json:"half_95,omitempty"`
}

// replayDifference is a policy's figures less another's, paired by seed.
type replayDifference struct {
	Policy   string   `json:"policy"`
	Both     seedMean `json:"attainment"`
	GPUHours seedMean `json:"gpu_hours"`
}

type replayRunFile struct {
	Seed    int             `json:"seed"`
	TTFT    replayLatencies `json:"ttft_ms"`
	TPOT    replayLatencies `json:"tpot_ms"`
	E2E     replayLatencies `json:"e2e_ms"`
	Outcome replay.Result   `json:"result"`
}

type replayLatencies struct {
	N    int     `json:"n"`
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P95  float64 `json:"p95"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
}

func latenciesOf(d profile.Distribution) replayLatencies {
	ms := profile.Milliseconds
	return replayLatencies{d.N, ms(d.Mean), ms(d.P50), ms(d.P90), ms(d.P95), ms(d.P99), ms(d.Max)}
}

func meanOf(values []float64) seedMean {
	mean, half := profile.MeanInterval(values)
	if len(values) < 2 || math.IsNaN(half) {
		return seedMean{Mean: mean}
	}
	return seedMean{mean, &half}
}

func (c comparison) file() replayFile {
	o, d := c.options, c.options.deployment()
	s := c.facts.stats
	f := replayFile{
		Schema: replaySchemaVersion, Version: buildVersion(), Command: o.command, Seconds: c.length().Seconds(), NotModelled: notModelled(),
		Load: replayLoadFile{
			Words: c.facts.words, Trace: c.facts.trace, Requests: s.Requests, Seconds: s.Duration.Seconds(), Rate: s.Rate, BusiestMinute: s.Peaks[0].Requests,
			ISL: s.ISL.Mean, OSL: s.OSL.Mean, Repeat: o.load.repeat, Warmup: o.load.warmup.Seconds(),
		},
		Fleet: replayFleetFile{
			Model: c.fleet.Model, GPU: c.fleet.GPU, Source: c.fleet.Source, Chosen: o.chosen, TTFTError: c.fleet.TTFTError, ITLError: c.fleet.ITLError, StartUp: o.slowestStart().Seconds(),
			Drain: o.drain.Seconds(), MetricDelay: o.delay.Seconds(), Noise: o.fleet.Noise, BudgetGPUs: d.Budget.Max,
		},
		SLA:        replaySLAFile{profile.Milliseconds(d.SLA.TTFT), profile.Milliseconds(d.SLA.ITL), d.SLA.Stat},
		Provenance: c.fleet.Provenance, Warnings: append([]profile.Warning{}, c.warnings...),
	}
	for i := range o.seeds {
		f.Seeds = append(f.Seeds, int(o.seed)+i) //nolint:gosec // as it was read
	}
	for i, p := range c.fleet.Pools {
		f.Fleet.Pools = append(f.Fleet.Pools, replayPoolFile{p.Engine.Role, c.fleet.Labels[i], p.GPUs, string(p.Router), p.Engine.KVTokens()})
	}
	for _, x := range c.outcomes {
		f.Policies = append(f.Policies, c.policyFile(x, f.Seeds))
	}
	return f
}

func (c comparison) policyFile(x outcomeOf, seeds []int) replayPolicyFile {
	over := func(of func(replay.Result) float64) seedMean { return meanOf(each(x.results, of)) }
	f := replayPolicyFile{
		Name: x.policy.name, About: x.about, Claim: policyOf(x.policy.policy).claim, Interval: x.policy.settings.pulse.Seconds(), Start: x.start,
		Both: over(attained), TTFT: over(func(r replay.Result) float64 { return r.Attainment.TTFT }),
		ITL:          over(func(r replay.Result) float64 { return r.Attainment.ITL }),
		GoodRequests: over(func(r replay.Result) float64 { return r.GoodRequests }), GoodTokens: over(func(r replay.Result) float64 { return r.GoodTokens }),
		GPUHours: over(gpuHours), UnderSLO: over(func(r replay.Result) float64 { return r.UnderSLO }),
		Scalings: over(func(r replay.Result) float64 { return float64(r.Scales) }),
		HeldBack: over(heldBack), Warnings: x.results[0].Warnings,
	}
	if last := c.outcomes[len(c.outcomes)-1]; last.policy.name != x.policy.name {
		less := func(of func(replay.Result) float64) seedMean {
			values := each(x.results, of)
			for i, v := range each(last.results, of) {
				values[i] -= v
			}
			return meanOf(values)
		}
		f.Against = &replayDifference{last.policy.name, less(attained), less(gpuHours)}
	}
	if c.hindsight.plan && !c.hindsight.short { // less than enough is nothing to compare with
		over := each(x.results, gpuHours)
		for i, plan := range c.outcomes[0].results {
			over[i] /= plan.GPUHours
		}
		f.OverPlan = new(meanOf(over))
	}
	for i, r := range x.results {
		if i > 0 {
			r.Timeline = []replay.Point{} // one is enough to see how it went
		}
		f.Runs = append(f.Runs, replayRunFile{seeds[i], latenciesOf(r.TTFT), latenciesOf(r.TPOT), latenciesOf(r.E2E), r})
	}
	return f
}

func attained(r replay.Result) float64 { return r.Attainment.Both }

// heldBack is the share of the decisions that the budget held back.
func heldBack(r replay.Result) float64 { return float64(r.HeldBack) / float64(max(1, r.Decisions)) }

func gpuHours(r replay.Result) float64 { return r.GPUHours }

func each(results []replay.Result, of func(replay.Result) float64) []float64 {
	out := make([]float64, len(results))
	for i, r := range results {
		out[i] = of(r)
	}
	return out
}

// all are the warnings of the comparison, and of each policy's run under its name.
func (f replayFile) all() []profile.Warning {
	out := slices.Clone(f.Warnings)
	for _, p := range f.Policies {
		for _, w := range p.Warnings {
			w.Message = p.Name + ": " + w.Message
			out = append(out, w)
		}
	}
	return out
}
