package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/engine"
	"plimsoll/engine/field"
	"plimsoll/interpolation"
	"plimsoll/planner"
	"plimsoll/planner/forecast"
	"plimsoll/planner/policy"
	"plimsoll/profile"
	"plimsoll/profile/store"
)

// plannerSettings is one deployment as flags, file and profile say it.
type plannerSettings struct {
	name       string
	model      string // empty: whichever is served
	deployment planner.Deployment
	promise    string // whose the SLA is; empty: the flags'
	advise     bool
	blocking   bool
	priority   int
	weight     int
	gpus       []string // that local workers may have
	slots      int      // instead of these
	unseen     error    // why there are neither
	allDevices bool     // which are the budget, as none is given

	surfaces profileSurfaces
	policy   string
	load     policy.LoadOptions
	careful  policy.DefaultOptions // without surfaces and forecasters
	measured bool                  // careful.Ahead is what the profile's launches took
	forecast forecast.Options
	warmup   string

	interval, pull time.Duration // between adjustments, and between looks
	pulse          time.Duration // between decisions
	steady         bool          // it decides whatever is under way
	startTimeout   time.Duration
	onLoss         planner.OnLoss
	onLossSaid     bool // rather than taken for the default
	static         planner.Replicas
	noCorrection   bool
	stateFile      string
}

// profileSurfaces are what a profile says of one engine of each pool; the zero
// value is no profile.
type profileSurfaces struct {
	dir        string
	id         string // of their content
	prefill    interpolation.Prefill
	decode     interpolation.Decode
	rec        store.Recommendation
	provenance profile.Provenance
	workload   store.Lengths
	doubts     []profile.Warning // of surfaces without a recommendation
	rate       policy.Rated      // that one aggregated engine holds; zero = a profile's pick says it, or nothing does
	running    float64           // requests in it at that rate, mean
}

// parsePlanner reads the settings of one deployment.
func parsePlanner(c *cli.Context) (plannerSettings, error) {
	p := &parser{c: c}
	s := plannerSettings{policy: p.choice("policy", servedPolicies()...)}
	dir := p.name("profile")
	if dir == "" && !p.c.IsSet("policy") {
		s.policy = "load" // the only one that needs none
	}
	if dir != "" && p.err == nil {
		s.surfaces, p.err = loadSurfaces(dir, p)
	} else if s.policy != "load" {
		p.fail(field.Errorf("--policy %s needs --profile", s.policy).Hint("plimsoll profile-sla writes one; --policy load needs none"))
	}
	p.fitPolicies(s.policy)
	return s.parse(p)
}

// parse reads the settings of a deployment whose policy and surfaces are known.
func (s plannerSettings) parse(p *parser) (plannerSettings, error) {
	s.name, s.model, s.advise = p.name("namespace"), p.name("served-model-name"), p.c.Bool("no-operation")
	if s.name == "" || strings.ContainsAny(s.name, "/ \t\n") {
		p.fail(field.Errorf("--namespace %q: want a name without spaces and slashes", p.c.String("namespace")))
	}
	s.deployment, s.promise = parseDeployment(p, s.surfaces.rec), promiseFrom(p.c)
	s.parseDevices(p)
	s.parseRules(p)
	s.parseForecast(p)
	s.startTimeout = p.duration("start-timeout")
	s.priority, s.weight = p.integer("priority", -1000, 1000, 0), p.integer("weight", 1, 1000, 1)
	s.stateFile = p.name("state-file")
	if s.policy != "load" { // which looks at no SLA
		p.fail(notPromised(s.deployment.SLA))
	}
	if p.err == nil {
		if err := s.deployment.Check(); err != nil {
			bad := field.Errorf("%v", err)
			if s.allDevices {
				bad = bad.Hint("more of --slots or --gpus, which are the budget; or --max-gpu-budget N")
			}
			p.fail(bad)
		}
	}
	return s, p.err
}

// parseDeployment reads pools, budget and SLA: flags first, then the profile, then,
// but for the SLA, the defaults.
func parseDeployment(p *parser, rec store.Recommendation) planner.Deployment {
	d := planner.Deployment{
		SLA:    parsePromise(p, rec),
		Budget: planner.Budget{Max: p.integer("max-gpu-budget", -1, maxGPUs, 0), Min: p.integer("min-gpu-budget", -1, maxGPUs, 0)},
		Ratio:  planner.Ratio{Least: p.number("min-prefill-decode-ratio", 0, 1000), Most: p.number("max-prefill-decode-ratio", 0, 1000)},
	}
	least, most := p.integer("min-endpoint", 0, maxReplicas, 1), p.integer("max-endpoint", 0, maxReplicas, 0)
	if least == 0 && !p.c.IsSet("min-gpu-budget") {
		d.Budget.Min = 0 // one GPU that is kept would be half of a deployment, which serves nobody
	}
	pool := func(role engine.Role, flag string, pick *store.Pick) planner.Pool {
		gpus := 1
		if pick != nil {
			gpus = pick.GPUs
		}
		return planner.Pool{Role: role, GPUs: p.integer(flag, 1, maxGPUs, gpus), Min: least, Max: most}
	}
	mode := rec.Mode
	if p.c.IsSet("mode") {
		mode = store.Mode(p.choice("mode", string(store.Disaggregated), string(store.Aggregated)))
	}
	p.needs(mode != store.Aggregated, "with --mode disaggregated", "min-prefill-decode-ratio", "max-prefill-decode-ratio")
	if mode == store.Aggregated {
		d.Pools = []planner.Pool{pool(engine.RoleAggregated, "decode-engine-num-gpu", rec.PickOf(engine.RoleAggregated))}
		return d
	}
	if rec.Mode == store.Aggregated {
		p.fail(field.Errorf("--mode disaggregated: the profile %s is of aggregated engines, and has no picks of prefill and decode", p.name("profile")).
			Hint("leave --mode out, or plimsoll profile-sla --mode disaggregated picks those"))
	}
	d.Pools = []planner.Pool{pool(engine.RolePrefill, "prefill-engine-num-gpu", rec.Prefill), pool(engine.RoleDecode, "decode-engine-num-gpu", rec.Decode)}
	return d
}

// parsePromise reads what planner serve keeps and planner replay plans by. What nobody
// says is 0.
func parsePromise(p *parser, rec store.Recommendation) profile.SLA {
	sla := profile.SLA{Stat: profile.Mean}
	if rec.SLA.TTFTMillis > 0 {
		sla = rec.SLA.SLA()
	}
	if p.c.IsSet("ttft") {
		sla.TTFT = p.millis("ttft")
	}
	if p.c.IsSet("itl") {
		sla.ITL = p.millis("itl")
	}
	if p.c.IsSet("sla-stat") {
		stat, err := profile.ParseStatistic(p.c.String("sla-stat"))
		if err != nil {
			p.fail(field.Errorf("--sla-stat: %v", err))
		}
		sla.Stat = stat
	}
	return sla
}

// notPromised refuses an SLA of which something is missing; nil where nothing is.
func notPromised(sla profile.SLA) *field.Error {
	var missing []string
	if sla.TTFT == 0 {
		missing = append(missing, "--ttft")
	}
	if sla.ITL == 0 {
		missing = append(missing, "--itl")
	}
	if len(missing) == 0 {
		return nil
	}
	return field.Errorf("%s: want the latencies to keep, in ms", areMissing(missing)).
		Hint("for example --ttft 500 --itl 50; a profile of profile-sla has those that it was made for")
}

// promiseFrom says which part of an SLA is the profile's; empty where flags say both.
func promiseFrom(c *cli.Context) string {
	switch ttft, itl := c.IsSet("ttft"), c.IsSet("itl"); {
	case ttft && itl:
		return ""
	case ttft:
		return "the ITL is the profile's"
	case itl:
		return "the TTFT is the profile's"
	default:
		return "both are the profile's"
	}
}

// pace is how often the planner decides.
func (s plannerSettings) pace() planner.Pace {
	return planner.Pace{Every: s.pulse, Blocking: s.blocking, Timeout: scalingTimeout, Steady: s.steady}
}

// fitPolicies refuses flags that none of some policies looks at.
func (p *parser) fitPolicies(policies ...string) {
	one := func(names ...string) bool {
		return slices.ContainsFunc(policies, func(s string) bool { return slices.Contains(names, s) })
	}
	p.needs(one("default"), "with --policy default", "startup-time", "headroom", "scale-down-after", "scale-to-zero-after",
		"max-scale-up", "max-scale-down")
	p.needs(one("default", "upstream"), "with --policy default or upstream", "no-correction", "load-predictor", "load-prediction-window-size",
		"load-predictor-warmup-trace", "load-predictor-log1p", "kalman-q-level", "kalman-q-trend", "kalman-r", "kalman-min-points")
	p.needs(one("load"), "with --policy load", "decode-kv-scale-up-threshold", "decode-kv-scale-down-threshold",
		"prefill-queue-scale-up-threshold", "prefill-queue-scale-down-threshold")
}

// parseRules reads what the policies take.
func (s *plannerSettings) parseRules(p *parser) {
	rule := policyOf(s.policy)
	s.steady = rule.steady
	s.interval = p.inSeconds("adjustment-interval", time.Second, rule.every)
	s.pull = p.inSeconds("metric-pulling-interval", 100*time.Millisecond, rule.look)
	s.blocking = p.c.Bool("blocking") || s.policy == "load"
	s.pulse = s.interval
	if s.policy == "default" {
		s.pulse, s.steady = pulse(s.interval), true
	}
	if p.c.IsSet("metric-pulling-interval") && s.pull > s.pulse {
		p.fail(field.Errorf("--metric-pulling-interval %v: --policy %s decides every %v, and has to look at least as often", s.pull, s.policy, s.pulse).
			Hint("--metric-pulling-interval %v or less, or a longer --adjustment-interval", s.pulse))
	}
	s.noCorrection = p.c.Bool("no-correction")
	s.onLossSaid = p.c.IsSet("on-metrics-loss")
	s.onLoss = planner.OnLoss(p.choice("on-metrics-loss", string(planner.Hold), string(planner.HoldIfHigher)))
	prefill, decode := p.integer("static-prefill", 0, maxReplicas, 1), p.integer("static-decode", 0, maxReplicas, 1)
	s.static = planner.Replicas{Prefill: prefill, Decode: decode}
	if s.deployment.Aggregated() {
		s.static = planner.Replicas{Aggregated: decode}
	}

	s.load = policy.DefaultLoad()
	t := s.surfaces.rec.Thresholds
	if kv := t.LoadKV(); kv.Upper > 0 {
		s.load.KVUp, s.load.KVDown = kv.Upper, kv.Lower
	}
	if queue := t.PrefillQueueSize; queue.Upper > 0 {
		s.load.QueueUp, s.load.QueueDown = queue.Upper, queue.Lower
	}
	for flag, to := range map[string]*float64{
		"decode-kv-scale-up-threshold": &s.load.KVUp, "decode-kv-scale-down-threshold": &s.load.KVDown,
		"prefill-queue-scale-up-threshold": &s.load.QueueUp, "prefill-queue-scale-down-threshold": &s.load.QueueDown,
	} {
		if p.c.IsSet(flag) {
			*to = p.number(flag, 0, 1e6)
		}
	}

	o := policy.NewDefaultOptions()
	o.NoCorrection, o.Every = s.noCorrection, s.interval
	o.Ahead, o.Margin, o.StableFor, o.IdleFor = p.duration("startup-time"), p.number("headroom", 0, 4), p.duration("scale-down-after"), p.duration("scale-to-zero-after")
	o.MostUp, o.MostDown = p.integer("max-scale-up", 0, maxReplicas, 0), p.integer("max-scale-down", 0, maxReplicas, 0)
	o.ISL, o.OSL = float64(s.surfaces.workload.ISL), float64(s.surfaces.workload.OSL)
	if o.AheadSaid = p.c.IsSet("startup-time"); !o.AheadSaid {
		if d := s.slowestStart(); d > 0 {
			o.Ahead, s.measured = d, true
		}
	}
	s.careful = o
}

// startUpWords say how long a replica is believed to take, and by what.
func (s plannerSettings) startUpWords(said bool) string {
	from := "the default, until one was seen to, as the profile has no measured launch; --startup-time says it"
	switch {
	case said:
		from = "by --startup-time"
	case s.measured:
		from = "by the profile, the slowest of its launches, until one was seen to"
	}
	return fmt.Sprintf("a replica is taken to start in %s: %s", short(s.careful.Ahead), from)
}

// slowestStart is the longest that the profile's engines took to start; 0 where no
// launch of them was measured.
func (s plannerSettings) slowestStart() (longest time.Duration) {
	for _, pool := range s.deployment.Pools {
		longest = max(longest, s.surfaces.rec.StartUp(pool.Role))
	}
	return longest
}

// pulse is how often the default policy looks whether it has to go up, between the
// adjustments at which it may go down.
func pulse(adjust time.Duration) time.Duration {
	return min(adjust, max(leastPulse, adjust/pulses).Truncate(time.Second))
}

const (
	pulses     = 12
	leastPulse = 15 * time.Second
)

func (s *plannerSettings) parseForecast(p *parser) {
	kind := forecast.Auto
	switch {
	case p.c.IsSet("load-predictor"):
		kind = forecast.Kind(p.choice("load-predictor", "arima", "constant", "kalman", "prophet", "auto"))
	case s.policy == "upstream":
		kind = forecast.ARIMA
	}
	o := forecast.DefaultOptions(kind)
	o.Log1p, o.Interval = p.c.Bool("load-predictor-log1p"), s.pulse
	o.Window = p.integer("load-prediction-window-size", 2, 10_000, 50)
	o.MinPoints = min(o.Window, p.integer("kalman-min-points", 1, 10_000, 5))
	o.Noise = forecast.Noise{Level: p.number("kalman-q-level", 0, 1e12), Trend: p.number("kalman-q-trend", 0, 1e12), Measurement: p.number("kalman-r", 0, 1e12)}
	s.forecast, s.warmup = o, p.name("load-predictor-warmup-trace")
	if p.err == nil {
		if err := o.Check(); err != nil {
			p.fail(field.Errorf("%v", err))
		}
	}
}

// inSeconds reads seconds up to a day, a bare number as upstream has it or a time with
// its unit.
func (p *parser) inSeconds(name string, least, absent time.Duration) time.Duration {
	s := strings.TrimSpace(p.c.String(name))
	if s == "" {
		return absent
	}
	d, err := parseTime(s, time.Second)
	if err != nil || d < least || d > maxInterval {
		p.fail(field.Errorf("--%s %q: want seconds from %g to %g, or a time such as 90s or 3m", name, s, least.Seconds(), maxInterval.Seconds()))
		return absent
	}
	return d
}

// maxInterval is the longest between two decisions.
const maxInterval = 24 * time.Hour
