package main

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/engine"
	"plimsoll/engine/field"
	"plimsoll/engine/sim/build"
	"plimsoll/engine/sim/fleet"
	"plimsoll/planner"
	"plimsoll/planner/observe"
	"plimsoll/profile"
)

// replayFlags are those of planner serve, so that its file does for both, those of
// engine simulate that say what a fleet and a load are, and replay's own.
func replayFlags() []cli.Flag {
	own := append(stringFlags("replay", [][3]string{
		{"replica-startup", "60s", "simulated `time` from asking for a replica to its serving; where this is not given, each pool's own by the profile, if its launches were measured; --startup-time is what the default policy believes"},
		{"drain-time", short(drainTime), "`time` after the load in which what is in flight may end"},
		{"metric-buckets", "", "buckets of the histograms in which policies see percentiles, `exact|vllm|sglang|trtllm|dynamo|sla`; trtllm has none of ITL and lengths, which are exact then; sla: the engine's with finer ones around --ttft and --itl (default: those of the profile's engine or of --backend)"},
		{"metric-delay", "0s", "how old the metrics are that a decision sees, `time`; the policies of planner serve take none older than 1m30s, others none older than 5m, as Prometheus"},
		{"start-replicas", "", "what the policies start with, but for the static ones: `prefill=2,decode=3` or aggregated=4 (default: what the profile asks for the load's first 5 minutes)"},
		{"hpa-utilization", fmt.Sprint(defaultUtilization), "hpa:sla, keda:sla and wva-v2:sla: requests served to keep, as a `fraction` of those that fill a replica by the profile"},
		{"keda-queue", "1", "keda, aggregated: waiting `requests` for which there is a replica"},
		{"oracle", "none", "what somebody who knows all arrivals could do, `none|plan`: a schedule that meets both promises of 99 % of the requests, with a simulation for each try"},
		{"oracle-simulations", "0", "of a plan at most, `N`; 0: the oracle's own number"},
		{"seed", "1", "seed of arrivals, lengths and noise, `N`"},
		{"seeds", "1", "`N` runs of each policy with seeds from --seed on, the same for all: means with their 95 % intervals"},
	}),
		&cli.StringFlag{Name: "output-dir", Usage: "also write replay.json and report.html into `DIR`", Category: "output"},
		&cli.BoolFlag{Name: "force", Usage: "move what another replay left in --output-dir aside", Category: "output"})
	simulated := slices.Concat(own, replayLoadFlags(), fleetFlags())
	known := map[string]bool{} // urfave/cli works a flag's name out on each call
	for _, f := range simulated {
		known[f.Names()[0]] = true
	}
	serving := plannerFlags()
	for _, f := range serving {
		if !known[f.Names()[0]] {
			hideServing(f)
		}
	}
	taken := map[string]bool{"replicas": true, "prefill-replicas": true, "decode-replicas": true} // not replay's
	var out []cli.Flag
	for _, f := range slices.Concat(own, serving, simulated) {
		if name := f.Names()[0]; !taken[name] {
			taken[name] = true
			out = append(out, replayDefault(f))
		}
	}
	return out
}

// The defaults of --hpa-utilization and --drain-time.
const (
	defaultUtilization = 0.8
	drainTime          = 10 * time.Minute
)

// replayDefault is a flag of another command as it is here.
func replayDefault(f cli.Flag) cli.Flag {
	s, ok := f.(*cli.StringFlag)
	if !ok {
		return f
	}
	switch s.Name {
	case "policy":
		s.Usage = "`POLICIES` to compare, separated by commas, or all: " + strings.Join(policyWords(), ", ")
		s.Value = strings.Join(comparedPolicies(), ",")
	case "mode":
		s.Usage = "`disaggregated|aggregated` (default: the profile's; without one and --tp, that of capacity plan's first row for this load)"
	case "ttft", "itl":
		s.Usage = strings.ToUpper(s.Name) + " to keep, `ms` (default: the profile's; needed without it)"
	case "max-gpu-budget":
		s.Value, s.Usage = "-1", "`GPUs` that are never exceeded; -1: no bound (planner serve has 8 where nothing is said)"
	case "adjustment-interval":
		s.Usage = "`seconds` between decisions of all policies (default: each policy's own)"
	case "metric-pulling-interval":
		s.Value, s.Usage = "", "`seconds` between looks at replicas and gauges of all policies (default: each policy's own)"
	case "accept-provenance": // nobody's fleet is scaled
		s.Value = profile.Published.String()
	case "tp":
		s.Value, s.Usage = "", "tensor-parallel size of each engine, `N` (default: the layout of capacity plan's first row for this load)"
	case "backend":
		s.Category, s.Hidden = "fleet", false
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
	context     *cli.Context // the flags and the file together
	policies    []replayPolicy
	fleet       build.Options
	choose      bool            // engines as capacity plan does: nobody says which
	engines     *build.Pair     // that were chosen; nil: none were yet
	chosen      string          // which ones, and why
	planned     profileSurfaces // of the engines that were chosen
	load        replayLoad
	buckets     string // "": the engine's
	startUp     time.Duration
	drain       time.Duration
	delay       time.Duration
	start       *planner.Replicas // nil: as the profile says
	hpaFull     float64
	queue       float64
	seed        uint64
	seeds       int
	oracle      string
	simulations int
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
	return o, cmp.Or(err, p.err)
}

// parseReplayed reads what is replayed by some policies.
func parseReplayed(p *parser, arguments []string, chosen []chosenPolicy) (replayOptions, error) {
	o := replayOptions{
		fleet:   readFleet(p),
		startUp: p.upTo("replica-startup", maxStartUp), drain: p.upTo("drain-time", maxStartUp), delay: p.upTo("metric-delay", maxStartUp),
		context: p.c, seeds: p.integer("seeds", 1, 1000, 1), command: commandLine(arguments),
	}
	if p.c.IsSet("metric-buckets") {
		o.buckets = p.choice("metric-buckets", "exact", "vllm", "sglang", "trtllm", "dynamo", "sla")
	}
	o.hpaFull, o.queue = p.number("hpa-utilization", 0.01, 1), p.number("keda-queue", 0.01, 1e6)
	said := func(name string) bool { return p.c.IsSet(name) }
	o.choose = !slices.ContainsFunc([]string{"profile", "tp", "prefill-engine-num-gpu", "decode-engine-num-gpu"}, said)
	if b := p.name("backend"); o.fleet.Fit == "" && o.fleet.Profile == "" && isReal(b) {
		o.fleet.Fit = b // the engine that is named
	}
	o.seed = o.fleet.Seed
	o.load = parseReplayLoad(p, o.seed)
	names := make([]string, len(chosen))
	for i, k := range chosen {
		names[i] = k.policy
	}
	p.fitPolicies(names...)
	p.needs(slices.ContainsFunc(names, func(n string) bool { return slices.Contains([]string{"hpa:sla", "keda:sla", "wva-v2:sla"}, n) }), "with --policy hpa:sla, keda:sla or wva-v2:sla", "hpa-utilization")
	p.needs(slices.Contains(names, "keda"), "with --policy keda", "keda-queue")
	if p.err != nil {
		return o, p.err
	}
	if err := o.settings(p, chosen); err != nil {
		return o, err
	}
	checkFleet(p, &o.fleet)
	return o, p.err
}

// resettle reads what depends on the engines again, when others are chosen.
func (o *replayOptions) resettle() error {
	var chosen []chosenPolicy
	for _, k := range o.policies {
		chosen = append(chosen, k.chosenPolicy)
	}
	o.policies = nil
	return o.settings(&parser{c: o.context}, chosen)
}

// deployment is what all policies plan for.
func (o replayOptions) deployment() planner.Deployment { return o.policies[0].settings.deployment }

// startUpOf is how long a replica of a role takes to start: what --replica-startup says,
// then what the profile measured, then the flag's default.
func (o replayOptions) startUpOf(role planner.Role) time.Duration {
	if d := o.policies[0].settings.surfaces.rec.StartUp(role); d > 0 && !o.context.IsSet("replica-startup") {
		return d
	}
	return o.startUp
}

// bounds are those of the histograms in which a policy sees percentiles.
func (o replayOptions) bounds(s plannerSettings) planner.Bounds {
	own := observe.Bounds(string(s.surfaces.rec.Engine.Kind))
	if own.TTFT == nil {
		own = observe.Bounds(o.context.String("backend"))
	}
	if own.TTFT == nil {
		own = observe.Bounds("vllm")
	}
	switch o.buckets {
	case "":
		return own
	case "sla":
		return own.Around(s.deployment.SLA)
	}
	return observe.Bounds(o.buckets)
}

// slowestStart is the longest of startUpOf.
func (o replayOptions) slowestStart() (longest time.Duration) {
	for _, pool := range o.deployment().Pools {
		longest = max(longest, o.startUpOf(pool.Role))
	}
	return longest
}

// startUpWords say how long replicas take to start, and by what.
func (o replayOptions) startUpWords() string {
	var each []string
	measured := false
	for _, pool := range o.deployment().Pools {
		d := short(o.startUpOf(pool.Role))
		each = append(each, d+roleWords(o.deployment(), pool.Role))
		measured = measured || o.startUpOf(pool.Role) != o.startUp
	}
	if !measured {
		return "a replica starts in " + short(o.startUp)
	}
	return "a replica starts in " + strings.Join(each, ", ") + " by the profile's launches"
}

// settings reads those of each policy, and gives the fleet the deployment's pools.
func (o *replayOptions) settings(p *parser, chosen []chosenPolicy) error {
	surfaces, err := o.surfaces(p)
	if err != nil {
		return err
	}
	// Whatever the policy, attainment is of it.
	if p.fail(notPromised(parsePromise(p, surfaces.rec))); p.err != nil {
		return p.err
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
	o.fleet.SLA.Stat = o.deployment().SLA.Stat // by which policies plan
	o.fleet.Replicas, o.fleet.Prefill, o.fleet.Decode = 0, 1, 1
	if o.deployment().Aggregated() {
		o.fleet.Replicas, o.fleet.Prefill, o.fleet.Decode = 1, 0, 0
	}
	o.start = p.replicas("start-replicas", o.deployment())
	return p.err
}

// surfaces are what the policies plan by: a profile's, or the latency model's, which
// are not there before engines are chosen.
func (o *replayOptions) surfaces(p *parser) (profileSurfaces, error) {
	switch {
	case o.fleet.Profile != "":
		return loadSurfaces(o.fleet.Profile, p)
	case o.engines != nil:
		return o.planned, nil
	case o.choose:
		_, _, err := build.FindModel(o.fleet)
		return profileSurfaces{provenance: profile.Estimated}, err
	}
	m, err := build.NewModel(o.fleet)
	if err != nil {
		return profileSurfaces{}, err
	}
	return estimatedSurfaces(build.Pair{Prefill: m, Decode: m})
}

// build makes the fleet of the engines that were said or chosen.
func (o replayOptions) build() (build.Fleet, error) {
	if o.engines != nil {
		return o.fleet.Of(*o.engines)
	}
	return o.fleet.Build()
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
	bad := field.Errorf("--%s %q: want %s, replicas from 0 to %d", name, s, strings.Join(want, ","), maxReplicas)
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
		p.fail(field.Errorf("--%s %q takes %d GPUs, and --max-gpu-budget is %d: want 0 to %d GPUs in all", name, p.name(name), gpus, d.Budget.Max, d.Budget.Max).
			Hint("a larger --max-gpu-budget, -1 for no bound, or fewer replicas"))
	}
	for _, pool := range d.Pools {
		if n := r.Of(pool.Role); pool.Max > 0 && n > pool.Max {
			p.fail(field.Errorf("--%s %q has %d %s replicas, and --max-endpoint is %d: want 0 to %d", name, p.name(name), n, pool.Role, pool.Max, pool.Max))
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
		return nil, field.Errorf("--config %s: it has %d deployments: one is replayed at a time", c.String("config"), len(contexts)).
			Hint("a file of its own for each")
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
