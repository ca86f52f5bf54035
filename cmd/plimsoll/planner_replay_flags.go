package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/engine"
	"plimsoll/engine/sim/fleet"
	"plimsoll/planner"
	"plimsoll/profile"
)

// replayFlags are those of planner serve, so that its file does for both, those of
// engine simulate that say what a fleet and a load are, and replay's own.
func replayFlags() []cli.Flag {
	own := append(stringFlags("replay", [][3]string{
		{"replica-startup", "60s", "simulated `time` from asking for a replica to its serving; --startup-time is what the default policy believes"},
		{"replica-startup-spread", "0", "how far each replica's own start-up lies from that at most, `fraction` from 0 to 1"},
		{"replica-lifetime", "", "mean `time` until a replica fails and another starts (default: none fails)"},
		{"drain-time", "10m", "`time` after the load in which what is in flight may end"},
		{"metric-delay", "0s", "how old the metrics are that a decision sees, `time`; as planner serve, policies take none older than 1m30s"},
		{"start-replicas", "", "what the policies start with, but for the static ones: `prefill=2,decode=3` or aggregated=4 (default: what the profile asks for the load's first 5 minutes)"},
		{"hpa-utilization", "0.8", "hpa:sla, keda:sla and wva-v1:sla: requests served to keep, as a `fraction` of those that fill a replica by the profile"},
		{"keda-queue", "1", "keda, aggregated: waiting `requests` for which there is a replica"},
		{"oracle", "none", "what somebody who knows all arrivals could do: `none|bound|plan`: GPU-hours that no schedule goes below, and also a schedule that meets both promises of 99 % of the requests, with a simulation for each try"},
		{"oracle-simulations", "0", "of a plan at most, `N`; 0: the oracle's own number"},
		{"seed", "1", "seed of arrivals, lengths, start-up times, failures and noise, `N`"},
		{"seeds", "1", "`N` runs of each policy with seeds from --seed on, the same for all: means with their 95 % intervals"},
		{"cost-per-gpu-hour", "", "`USD` (default: no money is shown)"},
	}),
		&cli.BoolFlag{Name: "fluid", Usage: "serve rates per minute instead of requests one by one, a table of rates as it is: weeks in seconds, less exactly", Category: "replay"},
		&cli.StringFlag{Name: "output-dir", Usage: "also write replay.json, comparison.md, report.html and a picture of each policy into `DIR`", Category: "output"},
		&cli.BoolFlag{Name: "force", Usage: "move what another replay left in --output-dir aside", Category: "output"})
	simulated := slices.Concat(own, replayLoadFlags(), fleetFlags())
	serving := plannerFlags()
	for _, f := range serving {
		if !slices.ContainsFunc(simulated, func(o cli.Flag) bool { return o.Names()[0] == f.Names()[0] }) {
			hideServing(f)
		}
	}
	flags := slices.Concat(own, serving, simulated)
	var out []cli.Flag
	for _, f := range flags {
		name := f.Names()[0]
		twice := slices.ContainsFunc(out, func(o cli.Flag) bool { return o.Names()[0] == name })
		if !twice && !slices.Contains([]string{"replicas", "prefill-replicas", "decode-replicas", "max-waiting"}, name) {
			out = append(out, replayDefault(f))
		}
	}
	return out
}

// replayDefault is a flag of another command as it is here.
func replayDefault(f cli.Flag) cli.Flag {
	s, ok := f.(*cli.StringFlag)
	if !ok {
		return f
	}
	switch s.Name {
	case "policy":
		s.Usage = "`POLICIES` to compare, separated by commas, or all: " + strings.Join(policyWords(), ", ")
	case "adjustment-interval":
		s.Usage = "`seconds` between decisions of all policies (default: each policy's own)"
	case "metric-pulling-interval":
		s.Value, s.Usage = "", "`seconds` between looks at replicas and gauges of all policies (default: each policy's own)"
	case "accept-provenance": // nobody's fleet is scaled
		s.Value = profile.Published.String()
	case "router":
		s.Value = string(fleet.LeastLoaded)
	}
	return s
}

func policyWords() []string {
	var words []string
	for _, p := range plannerPolicies() {
		if p.name == "upstream" {
			words = append(words, p.name+"[:"+strings.Join(upstreamPredictors(), "|")+"]")
			continue
		}
		words = append(words, p.name)
	}
	return words
}

// replayOptions are what is replayed, as the flags say it.
type replayOptions struct {
	policies    []replayPolicy
	fleet       fleetPlan
	load        replayLoad
	startUp     time.Duration
	spread      float64
	lifetime    time.Duration
	drain       time.Duration
	delay       time.Duration
	start       *planner.Replicas // nil: as the profile says
	hpaFull     float64
	queue       float64
	seed        uint64
	seeds       int
	fluid       bool
	oracle      string
	simulations int
	usd         float64 // of a GPU-hour; 0 = not known
	dir         string
	force       bool
	command     string
}

// replayPolicy is a policy with its settings.
type replayPolicy struct {
	chosenPolicy
	settings plannerSettings
}

func parseReplay(p *parser, arguments []string) (replayOptions, error) {
	o, err := parseReplayed(p, arguments, p.policies())
	o.oracle, o.simulations = p.parseOracle(o), p.integer("oracle-simulations", 0, 100_000, 0)
	o.dir, o.force = p.name("output-dir"), p.c.Bool("force")
	p.needs(o.dir != "", "with --output-dir", "force")
	if err == nil {
		err = p.err
	}
	return o, err
}

// parseReplayed reads what is replayed by some policies.
func parseReplayed(p *parser, arguments []string, chosen []chosenPolicy) (replayOptions, error) {
	o := replayOptions{
		fleet:   readFleet(p),
		startUp: p.startUp("replica-startup"), spread: p.number("replica-startup-spread", 0, 1), lifetime: p.duration("replica-lifetime"),
		drain: p.startUp("drain-time"), delay: p.startUp("metric-delay"),
		seeds: p.integer("seeds", 1, 1000, 1), fluid: p.c.Bool("fluid"), command: commandLine(arguments),
	}
	o.parseOthers(p)
	if o.lifetime > 0 && o.lifetime < time.Minute {
		p.fail(usagef("--replica-lifetime %v: want 1m or more", o.lifetime))
	}
	if p.name("cost-per-gpu-hour") != "" {
		o.usd = p.number("cost-per-gpu-hour", 1e-6, 1e6)
	}
	o.seed = o.fleet.seed
	o.load = parseReplayLoad(p, o.seed)
	names := make([]string, len(chosen))
	for i, k := range chosen {
		names[i] = k.policy
	}
	p.fitPolicies(names...)
	p.needs(slices.ContainsFunc(names, func(n string) bool { return slices.Contains([]string{"hpa:sla", "keda:sla", "wva-v1:sla"}, n) }), "with --policy hpa:sla, keda:sla or wva-v1:sla", "hpa-utilization")
	p.needs(slices.Contains(names, "keda"), "with --policy keda", "keda-queue")
	if p.err != nil {
		return o, p.err
	}
	if err := o.settings(p, chosen); err != nil {
		return o, err
	}
	o.start = p.replicas("start-replicas", o.deployment())
	o.fleet.check(p)
	return o, p.err
}

// parseOthers reads what the rules of others take.
func (o *replayOptions) parseOthers(p *parser) {
	o.hpaFull, o.queue = p.number("hpa-utilization", 0.01, 1), p.number("keda-queue", 0.01, 1e6)
}

// deployment is what all policies plan for.
func (o replayOptions) deployment() planner.Deployment { return o.policies[0].settings.deployment }

// settings reads those of each policy, and gives the fleet the deployment's pools.
func (o *replayOptions) settings(p *parser, chosen []chosenPolicy) error {
	surfaces, err := o.surfaces(p)
	if err != nil {
		return err
	}
	for _, k := range chosen {
		one, err := copyFlags(p.c)
		if err != nil {
			return err
		}
		err = one.Set("policy", k.policy)
		if err == nil && k.predictor != "" {
			err = one.Set("load-predictor", k.predictor)
		}
		if err != nil {
			return err
		}
		s, err := plannerSettings{policy: k.policy, surfaces: surfaces}.parse(&parser{c: one})
		if err != nil {
			return err
		}
		o.policies = append(o.policies, replayPolicy{k, s})
	}
	if o.deployment().Aggregated() {
		o.fleet.replicas = 1
	} else {
		o.fleet.prefill, o.fleet.decode = 1, 1
	}
	return nil
}

// surfaces are what the policies plan by: a profile's, or the latency model's.
func (o *replayOptions) surfaces(p *parser) (profileSurfaces, error) {
	if o.fleet.profile != "" {
		return loadSurfaces(o.fleet.profile, p)
	}
	source, err := newModelSource(o.fleet)
	if err != nil {
		return profileSurfaces{}, err
	}
	return estimatedSurfaces(source)
}

// startUp reads a time that may be 0.
func (p *parser) startUp(name string) time.Duration {
	d, err := time.ParseDuration(strings.TrimSpace(p.c.String(name)))
	if err != nil || d < 0 || d > maxStartUp {
		p.fail(usagef("--%s %q: want a time from 0s to %s, such as 15s or 2m", name, p.c.String(name), short(maxStartUp)))
		return 0
	}
	return d
}

// replicas reads "prefill=2,decode=3"; nil where there is nothing.
func (p *parser) replicas(name string, d planner.Deployment) *planner.Replicas {
	s := p.name(name)
	if s == "" {
		return nil
	}
	var want []string
	for _, pool := range d.Pools {
		want = append(want, string(pool.Role)+"=N")
	}
	bad := usagef("--%s %q: want %s, replicas from 0 to %d", name, s, strings.Join(want, ","), maxReplicas)
	var out planner.Replicas
	seen := map[engine.Role]bool{}
	for word := range strings.SplitSeq(s, ",") {
		role, number, _ := strings.Cut(strings.TrimSpace(word), "=")
		n, err := strconv.Atoi(number)
		r := engine.Role(role)
		known := slices.ContainsFunc(d.Pools, func(p planner.Pool) bool { return p.Role == r })
		if err != nil || n < 0 || n > maxReplicas || !known || seen[r] {
			p.fail(bad)
			return nil
		}
		seen[r], out = true, out.With(r, n)
	}
	if len(seen) != len(d.Pools) {
		p.fail(bad)
		return nil
	}
	p.fitsBounds(name, out, d)
	return &out
}

// fitsBounds refuses replicas that no planner of a deployment could ask for.
func (p *parser) fitsBounds(name string, r planner.Replicas, d planner.Deployment) {
	if gpus := d.GPUs(r); d.Budget.Max >= 0 && gpus > d.Budget.Max {
		p.fail(usagef("--%s %q takes %d GPUs, and --max-gpu-budget is %d: want 0 to %d GPUs in all", name, p.name(name), gpus, d.Budget.Max, d.Budget.Max).
			hint("a larger --max-gpu-budget, -1 for no bound, or fewer replicas"))
	}
	for _, pool := range d.Pools {
		if n := r.Of(pool.Role); pool.Max > 0 && n > pool.Max {
			p.fail(usagef("--%s %q has %d %s replicas, and --max-endpoint is %d: want 0 to %d", name, p.name(name), n, pool.Role, pool.Max, pool.Max))
		}
	}
}

// commandLine is a command that a shell takes as it is.
func commandLine(arguments []string) string {
	words := []string{"plimsoll"}
	for _, a := range arguments[min(1, len(arguments)):] {
		if a == "" || strings.ContainsFunc(a, func(r rune) bool {
			return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./:,+@%", r)
		}) {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		words = append(words, a)
	}
	return strings.Join(words, " ")
}

// oneDeployment is the context of the deployment that the file and the flags say.
func oneDeployment(c *cli.Context) (*cli.Context, error) {
	contexts, err := plannerContexts(c)
	if err != nil {
		return nil, err
	}
	if len(contexts) > 1 {
		return nil, usagef("--config %s: it has %d deployments: one is replayed at a time", c.String("config"), len(contexts)).
			hint("a file of its own for each")
	}
	return contexts[0], nil
}

// roleWords is "prefill" and "decode", or nothing where there is one pool.
func roleWords(d planner.Deployment, role planner.Role) string {
	if d.Aggregated() {
		return ""
	}
	return fmt.Sprintf(" %s", role)
}
