package main

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/field"
	"plimsoll/engine/sim"
	"plimsoll/engine/sim/build"
	"plimsoll/engine/sim/fleet"
	"plimsoll/planner"
	"plimsoll/planner/observe"
	"plimsoll/planner/replay"
	"plimsoll/profile"
)

// comparison is every policy's way through the same load.
type comparison struct {
	options   replayOptions
	fleet     build.Fleet
	facts     loadFacts
	start     planner.Replicas // of all policies but the static ones
	span      time.Duration    // of one pass of the load
	hindsight hindsight
	outcomes  []outcomeOf
	warnings  []profile.Warning
}

// outcomeOf is a policy's.
type outcomeOf struct {
	policy  replayPolicy
	start   planner.Replicas
	static  planner.Replicas // what a static policy asks for, whatever the budget leaves of it
	about   string
	results []replay.Result // one a seed
}

// newComparison reads the load once and says what every policy begins with.
func newComparison(o replayOptions, say func(string)) (comparison, error) {
	c := comparison{options: o}
	var err error
	o.load.blockSize = sim.DefaultBlockSize // of engines that are to be chosen
	if !o.choose {
		if c.fleet, err = o.build(); err != nil {
			return c, err
		}
		o.load.blockSize = c.fleet.BlockSize
	}
	if o.load, err = o.load.scaled(); err != nil {
		return c, err
	}
	if c.facts, err = o.load.facts(); err != nil {
		return c, err
	}
	if c.facts.once {
		return c, field.Errorf("--trace %s can be read only once, but every policy reads it", o.load.arrivals.file).Hint("write it to a file first")
	}
	c.options, c.span = o, o.load.span(c.facts)
	if err := o.load.repeated(c.span); err != nil {
		return c, err
	}
	if c.length() < time.Second {
		return c, field.Errorf("--warmup %v: the load lasts only %v, so nothing is left to replay", o.load.warmup, short(c.span*time.Duration(o.load.repeat)))
	}
	if o.choose {
		if c.warnings, err = c.options.chooseEngines(c.facts, say); err != nil {
			return c, err
		}
		if c.fleet, err = c.options.build(); err != nil {
			return c, err
		}
	}
	c.furnish()
	if err := c.sizes(); err != nil {
		return c, err
	}
	c.caveats()
	return c, nil
}

// length is the time that is replayed.
func (c comparison) length() time.Duration {
	return c.span*time.Duration(c.options.load.repeat) - c.options.load.warmup
}

// furnish gives the pools what a scaled fleet has.
func (c *comparison) furnish() {
	o := c.options
	c.fleet.MaxInFlight = 0 // replay's own
	c.fleet.Provenance = profile.Weakest(c.fleet.Provenance, profile.Simulated)
	for i := range c.fleet.Pools {
		p := &c.fleet.Pools[i]
		p.StartUp, p.GPUs = engine.FromDuration(o.startUpOf(p.Engine.Role)), o.deployment().Pool(p.Engine.Role).GPUs
		if c.fleet.Steps != nil {
			p.Timer = c.fleet.Steps.Tabled(p.Engine.Limits.MaxNumSeqs, min(p.Engine.Limits.MaxModelLen, tabledContext))
		}
	}
}

// tabledContext is the longest mean context whose steps are looked up: beyond it
// they are computed each time.
const tabledContext = 16_384

// sizes is what every policy begins with.
func (c *comparison) sizes() error {
	o, f := c.options, c.facts
	s, p99 := o.policies[0].settings, f.p99()
	var start planner.Replicas
	if o.start != nil {
		start = *o.start
	} else {
		d, err := s.sized(f.first(o.load.warmup, startMinutes), p99)
		if err != nil {
			return err
		}
		start = d.Want
	}
	c.start = start
	peak, asked, err := s.peak(f.busiest(), p99)
	if err != nil {
		return err
	}
	mean, err := s.sized(f.mean(), p99)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(s.deployment.Pools, func(p planner.Pool) bool { return peak.Of(p.Role) < asked.Of(p.Role) }) {
		c.warnings = append(c.warnings, profile.Warnf("budget_below_peak", "the load's busiest minutes need %s by the profile, %s, but bounds and budget leave %s. Raise --max-gpu-budget or --max-endpoint", asked, engine.Count(s.deployment.GPUs(asked), "GPU"), peak))
	}
	for _, p := range o.policies {
		x := outcomeOf{policy: p, start: start, about: policyOf(p.policy).about, results: make([]replay.Result, o.seeds)}
		switch p.policy {
		case "static-peak":
			x.start, x.static = peak, asked
		case "static-mean":
			x.start, x.static = mean.Want, mean.Proposed
		}
		x.about += o.settingsOf(p.policy)
		c.outcomes = append(c.outcomes, x)
	}
	return nil
}

// startMinutes are looked at for what the policies start with.
const startMinutes = 5

// scenario is a policy's, with a seed.
func (c comparison) scenario(x outcomeOf, seed uint64) replay.Scenario {
	o, s := c.options, x.policy.settings
	maxAge := 5 * time.Minute // which Prometheus looks back for an instant
	if policyOf(x.policy.policy).serves {
		maxAge = observe.DefaultMaxAge
	}
	return replay.Scenario{
		Fleet: c.fleet.Config, Deployment: s.deployment, Start: x.start, Origin: epoch(), Warmup: o.load.warmup,
		Length: c.length(), Drain: o.drain,
		Pace:   s.pace(),
		Scrape: min(s.pull, s.pulse), Delay: o.delay, MaxAge: maxAge, Bounds: o.bounds(s), Seed: seed,
	}
}

// run replays all policies with all seeds, as many at a time as there are
// processors.
func (c *comparison) run(say func(string)) error {
	n := len(c.outcomes) * c.options.seeds
	watch := progressOf{say: say, runs: n, length: c.length()}
	err := atOnce(n, func(i int) error {
		x, seed := &c.outcomes[i/c.options.seeds], i%c.options.seeds
		r, err := c.one(*x, c.options.seed+uint64(seed), &watch) //nolint:gosec // a seed's number is not negative
		if err != nil {
			return fmt.Errorf("policy %s: %w", x.policy.name, err)
		}
		x.results[seed] = r
		watch.done()
		return nil
	})
	if err != nil {
		return err
	}
	return c.lookBack(say)
}

func (c comparison) one(x outcomeOf, seed uint64, watch *progressOf) (replay.Result, error) {
	rule, err := c.rule(x)
	if err != nil {
		return replay.Result{}, err
	}
	x.policy.settings.surfaces.rec.Warnings = nil // the fleet has them, once for all policies
	core, err := x.policy.settings.coreOf(rule, epoch().Add(-c.options.load.warmup))
	if err != nil {
		return replay.Result{}, err
	}
	s := c.scenario(x, seed)
	var fail error
	requests := watch.through(x.policy.name, c.options.load.requests(seed, c.span, &fail))
	r, err := replay.Run(requests, s, core)
	return r, cmp.Or(fail, err)
}

// progressOf is how far the runs are.
type progressOf struct {
	mutex    sync.Mutex
	say      func(string)
	runs     int
	finished int
	length   time.Duration
}

func (p *progressOf) done() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.finished++
}

// through tells of every so many requests as they go by.
func (p *progressOf) through(policy string, requests iter.Seq[fleet.Request]) iter.Seq[fleet.Request] {
	return func(yield func(fleet.Request) bool) {
		n := 0
		for q := range requests {
			if n++; n%1000 == 0 {
				p.mutex.Lock()
				p.say(fmt.Sprintf("%d of %s done; %s at %v of %v", p.finished, engine.Count(p.runs, "run"), policy, q.At.Duration().Round(time.Second), short(p.length)))
				p.mutex.Unlock()
			}
			if !yield(q) {
				return
			}
		}
	}
}
