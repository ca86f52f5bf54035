package main

import (
	"iter"
	"math"
	"slices"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/field"
	"plimsoll/engine/sim/fleet"
	"plimsoll/planner"
	"plimsoll/planner/observe"
	"plimsoll/planner/policy"
	"plimsoll/planner/replay"
	"plimsoll/profile/trace"
)

// autoscaled is the plan's fleet and the same fleet autoscaled, on the same requests.
// Results are those of the part that is replayed.
type autoscaled struct {
	options  autoscaleOptions
	plan     sizedPlan
	share    float64         // of the fleet and its load that is replayed
	scenario replay.Scenario // of that part, static
	runs     []autoscaledRun // the static fleet's first; none where the plan is infeasible
}

// autoscaledRun is how one policy served the requests.
type autoscaledRun struct {
	policy  string
	startUp time.Duration
	result  replay.Result
}

const staticPeak, scaledBySLA, scaledByArticle = "static-peak", "hpa:sla", "article"

// compare takes the first row of the plan and replays it, as it is and autoscaled.
func (o autoscaleOptions) compare(say func(string)) (autoscaled, error) {
	z, err := o.chosen()
	if err != nil {
		return autoscaled{}, err
	}
	d := autoscaled{options: o, plan: z.plans[0]}
	if d.plan.Infeasible != nil {
		return d, nil
	}
	var replicas []int
	replicas, d.share = o.part(d.plan)
	if d.scenario, err = d.static(replicas); err != nil {
		return d, err
	}
	s := plannerSettings{deployment: d.scenario.Deployment, careful: policy.NewDefaultOptions(), onLoss: planner.Hold}
	s.careful.ISL, s.careful.OSL = o.workload.ISL, o.workload.OSL
	if s.surfaces, err = z.surfaces(); err != nil {
		return d, err
	}
	d.runs = []autoscaledRun{{policy: staticPeak}}
	for _, policy := range []string{scaledBySLA, scaledByArticle} {
		for _, startUp := range o.startUps {
			d.runs = append(d.runs, autoscaledRun{policy: policy, startUp: startUp})
		}
	}
	watch := progressOf{say: say, runs: len(d.runs), length: d.scenario.Length}
	return d, atOnce(len(d.runs), func(i int) (err error) {
		d.runs[i].result, err = d.run(d.runs[i], s, &watch)
		watch.done()
		return err
	})
}

// mostReplayed bounds the requests of one replay, which then takes about a minute.
const mostReplayed = 10_000_000

// part says how many of the plan's engines are replayed, and their share of the load,
// which is their share of the GPUs. It is the whole fleet, unless the day has more than
// mostReplayed requests. Then every pool shrinks, to no less than one engine, and of the
// sizes tried the one closest to the plan's proportions is taken.
func (o autoscaleOptions) part(plan sizedPlan) (replicas []int, share float64) {
	all, l := plan.sized.Replicas, plan.candidate.layout
	smallest := slices.Min(all)
	most := max(mostReplayed/(o.workload.AverageRate()*86400), 1/float64(smallest))
	if o.arrivals != nil || most >= 1 {
		return all, 1
	}
	last, nearest := all[len(all)-1], math.Inf(1)
	least := (last + smallest - 1) / smallest
	first := max(least, int(most*float64(last)))
	for n := first; n >= max(least, (first+1)/2); n-- {
		some := slices.Clone(all)
		far := 0.0
		for i := range some {
			some[i] = max(1, (all[i]*n+last/2)/last)
		}
		of := float64(l.GPUs(some)) / float64(l.GPUs(all))
		for i := range some {
			far = max(far, math.Abs(float64(some[i])/(of*float64(all[i]))-1))
		}
		if far < nearest {
			replicas, share, nearest = some, of, far
		}
	}
	return replicas, share
}

// static is the plan's fleet, or part of it, with the least and the most replicas that
// each pool may be scaled to.
func (d autoscaled) static(replicas []int) (replay.Scenario, error) {
	o, l, rule := d.options, d.plan.candidate.layout, policyOf(scaledBySLA)
	s := replay.Scenario{
		Fleet: fleet.Config{Transfer: l.Transfer}, Deployment: planner.Deployment{SLA: o.slo.SLA(), Budget: planner.Budget{Min: -1, Max: -1}},
		Origin: epoch(), Length: 24 * time.Hour, Drain: drainTime,
		Pace: planner.Pace{Every: rule.every, Steady: rule.steady}, Scrape: rule.look, MaxAge: observe.DefaultMaxAge, Seed: o.seed,
	}
	if o.arrivals != nil {
		s.Length = o.stats.Duration.Truncate(rule.every) + rule.every
	}
	for i, p := range l.Pools {
		pool := planner.Pool{Role: p.Engine.Role, GPUs: p.GPUs}
		of := func(gpus int) int { // engines of so many GPUs of the whole fleet, a rounding error forgiven
			return int(d.share*float64(gpus*replicas[i])/float64(l.GPUs(replicas)) + 1e-6)
		}
		pool.Min = max(1, of(o.least))
		if pool.Max = max(pool.Min, replicas[i]); o.most > 0 {
			pool.Max = of(o.most)
		}
		if pool.Max < pool.Min {
			return s, field.Errorf("--min-gpus and --max-gpus leave the %s pool only %d to %s", pool.Role, pool.Min, engine.Count(pool.Max, "engine")).
				Hint("pools share the bounds like the static fleet's %s, in whole engines", engine.Count(l.GPUs(d.plan.sized.Replicas), "GPU"))
		}
		s.Fleet.Pools, s.Deployment.Pools = append(s.Fleet.Pools, p.Pool), append(s.Deployment.Pools, pool)
		s.Start = s.Start.With(pool.Role, replicas[i])
	}
	return s, nil
}

// run replays the requests with one policy.
func (d autoscaled) run(r autoscaledRun, settings plannerSettings, watch *progressOf) (replay.Result, error) {
	requests, err := d.requests()
	if err != nil {
		return replay.Result{}, err
	}
	requests = watch.through(r.policy, requests)
	s := d.scenario
	if r.policy == staticPeak {
		return replay.RunSchedule(requests, s, nil)
	}
	s.Fleet.Pools = slices.Clone(s.Fleet.Pools)
	for i := range s.Fleet.Pools {
		s.Fleet.Pools[i].StartUp = engine.FromDuration(r.startUp)
	}
	w := d.options.workload
	n := 60 * w.AverageRate()
	rule, err := byFullLoad(r.policy, settings, minute{n, n * w.ISL, n * w.OSL}, lengths{w.ISLP99, w.OSLP99}, defaultUtilization)
	if err != nil {
		return replay.Result{}, err
	}
	core, err := planner.New(planner.Options{Deployment: s.Deployment, Policy: rule, OnLoss: planner.Hold, Provenance: settings.surfaces.provenance})
	if err != nil {
		return replay.Result{}, err
	}
	return replay.Run(requests, s, core)
}

// requests are those of the trace, or of a part of the day. They say what they share in
// the engines' blocks, where these look.
func (d autoscaled) requests() (iter.Seq[fleet.Request], error) {
	o, block := d.options, d.plan.candidate.layout.PrefixBlock()
	t := trace.Of(o.arrivals...)
	if o.arrivals == nil {
		w := o.workload
		w.Rate *= d.share
		var err error
		if t, err = w.DayTrace(o.seed, block); err != nil {
			return nil, err
		}
	}
	if block > 0 {
		t = trace.Reblocked(t, block)
	}
	return func(yield func(fleet.Request) bool) {
		for a, err := range t {
			if err != nil { // what was generated, or collected before, has none
				return
			}
			q := requestOf(a)
			if block == 0 {
				q.Prefix = nil
			}
			if !yield(q) {
				return
			}
		}
	}, nil
}
