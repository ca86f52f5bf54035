package main

import (
	"math"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"plimsoll/engine"
	"plimsoll/engine/command"
	"plimsoll/engine/field"
	"plimsoll/profile"
	"plimsoll/profile/load"
	"plimsoll/profile/trace"
	"plimsoll/recommend"
	"plimsoll/sweep"
)

// parseProfile reads a profile's flags.
func parseProfile(c *cli.Context) (o profileOptions, err error) {
	o.hidden = credentialsOf(c)
	if o.dynamo, err = applyProfileConfig(c); err != nil {
		return o, err
	}
	p := &parser{c: c}
	p.target(&o)
	p.engine(&o)
	p.endpoint(&o)
	p.run(&o)
	for _, name := range []string{"command", "endpoint", "model"} {
		if c.IsSet(name) && strings.TrimSpace(c.String(name)) == "" {
			p.fail(field.Errorf("--%s is empty: was a shell variable not set?", name))
		}
	}
	if p.err != nil {
		return o, p.err
	}
	o.confide(c)
	o.inputs, o.secret = o.inputsOf(c)
	if err := o.check(); err != nil {
		return o, err
	}
	if err := o.checkMode(c); err != nil {
		return o, err
	}
	o.traffic, err = openTraffic(o)
	return o, err
}

// target reads what is promised, for which requests, and how the pick is found.
func (p *parser) target(o *profileOptions) {
	o.isl, o.osl = p.integer("isl", 1, maxTokens, 0), p.outputTokens("osl")
	o.sla = profile.SLA{
		TTFT: p.millis("ttft"), ITL: p.millis("itl"),
		Stat: profile.Statistic(p.choice("sla-stat", "mean", "p50", "p90", "p95", "p99")),
	}
	o.sla.Stall, o.sla.MaxFailures = p.optionalMillis("stall-p99"), p.fraction("max-failures")
	p.needs(p.c.String("mode") == "aggregated", "with --mode aggregated", "stall-p99")
	o.search = sweep.Search(p.choice("search", "adaptive", "grid"))
	o.mode, o.verify = sweep.Mode(p.choice("mode", "disaggregated", "aggregated")), p.choice("verify", "auto", "always", "never")
	o.rank = ruleOf(o.search, o.mode)
	o.trace, o.dataset, o.loadTime = p.name("trace"), p.name("dataset"), p.duration("load-time")
	o.traceOptions = p.traceOptions(1)
	o.traceOptions.SortWithin = trace.RequestTraceSort
	p.needs(o.trace != "", "with --trace", "trace-format", "time-unit", "spread-ticks")
	o.maxContext = p.integer("max-context-length", 2, maxTokens, 0)
	if p.c.IsSet("prefill-interpolation-granularity") {
		o.prefillGranularity = p.integer("prefill-interpolation-granularity", 2, maxGrain, 0)
	}
	if p.c.IsSet("decode-interpolation-granularity") {
		o.decodeGranularity = p.integer("decode-interpolation-granularity", 2, maxGrain, 0)
	}
}

// ruleOf is the rule of the pick: a grid's is Dynamo's, and loads of an aggregated engine
// are what they sustain.
func ruleOf(search sweep.Search, mode sweep.Mode) recommend.Rank {
	if search == sweep.Grid || mode == sweep.Aggregated {
		return recommend.BySingle
	}
	return recommend.BySustained
}

// engine reads what is to be started.
func (p *parser) engine(o *profileOptions) {
	c := p.c
	o.engine = p.choice("engine", engineKinds()...)
	o.model, o.catalog, o.weights = c.String("model"), c.String("catalog"), p.weights()
	o.gpu, o.gpuCount, o.perNode, o.layouts = c.String("gpu"), p.integer("gpu-count", 1, maxGPUs, 0), p.perNode(), p.layouts()
	o.limits = engine.Limits{
		MaxNumSeqs:          p.integer("max-num-seqs", 1, 1_000_000, 0),
		MaxNumBatchedTokens: p.integer("max-num-batched-tokens", 1, maxTokens, 0),
	}
	o.memory, o.kv = p.share("memory-fraction"), p.kvDType()
	o.noise, o.fit, o.explain = p.fraction("noise"), strings.TrimSpace(c.String("fit")), c.Bool("explain")
	o.details = c.Bool("details")
	o.command, o.extra = c.String("command"), extraArguments(c)
	o.typed = o.extra
	o.readyPath, o.readyAfter = c.String("ready-path"), p.duration("ready-timeout")
	o.kvTokens, o.kvPattern = p.integer("kv-tokens", 1, maxKVTokens, 0), c.String("kv-tokens-pattern")
	if c.String("require") != "" {
		o.require = p.choice("require", "measured") != ""
	}
}

// endpoint reads how a server is spoken with, one that runs already among them.
func (p *parser) endpoint(o *profileOptions) {
	c := p.c
	o.endpoint, o.endpointGPUs = rootURL(c.String("endpoint")), p.integer("endpoint-gpus", 1, maxGPUs, 0)
	o.maxInFlight = p.integer("max-in-flight", 1, 1_000_000, 0)
	o.api = load.Endpoint(p.choice("api", "completions", "chat"))
	o.apiKey, o.headers = c.String("api-key"), p.headers("header")
	o.requestTimeout = p.duration("request-timeout")
	if c.String("provenance") != "" {
		pr, err := profile.ParseProvenance(p.choice("provenance", "measured", "simulated", "estimated"))
		o.provenance, o.provGiven = pr, err == nil
	}
}

// run reads what steers this invocation.
func (p *parser) run(o *profileOptions) {
	c := p.c
	o.dir, o.resume, o.force = c.String("output-dir"), c.Bool("resume"), c.Bool("force")
	o.results = p.name("results-configmap")
	o.dryRun, o.maxTime = c.Bool("dry-run"), p.duration("max-time")
	o.seed = uint64(p.integer("seed", 0, math.MaxInt, 0)) //nolint:gosec // not negative by the range
	o.quiet, o.verbose, o.format = c.Bool("quiet"), c.Bool("verbose"), c.String("format")
}

// check refuses combinations that no single flag shows.
func (o profileOptions) check() error {
	switch {
	case o.dir == "":
		return field.Errorf("--output-dir is empty: want a folder")
	case o.resume && o.force:
		return field.Errorf("--resume and --force exclude each other").Hint("--resume continues the old run, --force moves it aside")
	case o.endpoint != "" && o.command != "":
		return field.Errorf("--endpoint and --command exclude each other")
	case o.engine == "endpoint" && o.endpoint == "":
		return field.Errorf("--engine endpoint needs --endpoint URL")
	case o.engine == "command" && o.command == "":
		return field.Errorf("--engine command needs --command TEMPLATE").
			Hint(`for example --command 'vllm serve {{.Model}} --tensor-parallel-size {{.TP}} --port {{.Port}}'`)
	case !slices.Contains([]string{"auto", "command", "endpoint"}, o.engine) && (o.endpoint != "" || o.command != ""):
		return field.Errorf("--engine %s takes neither --endpoint nor --command", o.engine)
	case strings.HasPrefix(o.model, "-"):
		return field.Errorf("--model %q looks like a flag", o.model).Hint("a file of that name is ./%s", o.model)
	case o.engine == "command" && o.endpoint != "", o.engine == "endpoint" && o.command != "":
		return field.Errorf("--engine %s does not go with the other kind's flag", o.engine)
	case o.engine == "sim" && o.require:
		return field.Errorf("--engine sim is simulated: it can never satisfy --require measured")
	case o.engine == "estimate" && o.require:
		return field.Errorf("--engine estimate is estimated: it can never satisfy --require measured")
	case isReal(o.engine) && o.model == "":
		return field.Errorf("--engine %s needs --model NAME", o.engine).Hint("as the engine takes it: a Hugging Face name, or a path")
	case o.engine == "estimate" && o.model == "" && o.gpu == "":
		return field.Errorf("--engine estimate needs --model NAME, and --gpu NAME where this machine has no GPU").
			Hint("names from the catalog, such as llama-3.1-8b and h100-sxm; --catalog FILE adds more")
	case o.engine == "estimate" && o.model == "":
		return field.Errorf("--engine estimate needs --model NAME").Hint("a name from the catalog, such as llama-3.1-8b, or the config.json of a model of Hugging Face")
	case o.require && o.provGiven && o.provenance != profile.Measured:
		return field.Errorf("--provenance %s can never satisfy --require measured", o.provenance)
	}
	if o.endpoint != "" {
		return o.checkEndpoint()
	}
	if o.kvPattern == "" {
		return nil
	}
	if _, err := command.ParseKVPattern(o.kvPattern); err != nil {
		return field.Errorf("--kv-tokens-pattern: %v", err)
	}
	return nil
}

// checkMode refuses what has no meaning for how engines are to serve.
func (o profileOptions) checkMode(c *cli.Context) error {
	switch {
	case o.mode == sweep.Aggregated && o.search == sweep.Grid:
		return field.Errorf("--mode aggregated searches for a rate and has no grid").Hint("leave --search out")
	case o.mode == sweep.Aggregated && o.explain:
		return field.Errorf("--explain breaks down TTFT and ITL of separate prefill and decode: it does not work with --mode aggregated")
	case o.mode != sweep.Aggregated && o.verify == "never" && o.ownTraffic():
		return field.Errorf("--trace and --dataset are loads for verification, but --verify never turns it off").Hint("leave --verify out")
	case c.IsSet("load-time") && !o.loads():
		return field.Errorf("--load-time is for verification loads, but nothing is verified").Hint("--verify always would")
	}
	return nil
}

// loads reports whether engines are loaded by requests that come on their own, as far
// as flags tell.
func (o profileOptions) loads() bool {
	if o.endpoint != "" {
		return o.verifies(engine.KindEndpoint)
	}
	return o.verifies(engine.Kind(o.engine))
}

func (o profileOptions) checkEndpoint() error {
	switch {
	case o.maxInFlight == 0 && o.endpointGPUs == 0 && o.mode != sweep.Aggregated:
		return field.Errorf("--endpoint needs --max-in-flight N and --endpoint-gpus N").
			Hint("they limit the load on the server, and give its GPUs for throughput per GPU")
	case o.maxInFlight == 0:
		return field.Errorf("--endpoint needs --max-in-flight N").Hint("it limits the requests that the server gets at once")
	case o.endpointGPUs == 0 && o.mode != sweep.Aggregated: // which asks for a rate
		return field.Errorf("--endpoint needs --endpoint-gpus N").Hint("throughput is per GPU, but an endpoint does not tell its number of GPUs")
	}
	if _, err := load.New(load.Options{BaseURL: o.endpoint}); err != nil {
		return field.Errorf("--endpoint: %v", err)
	}
	return nil
}
