package main

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/engine"
	"plimsoll/engine/command"
	"plimsoll/engine/dynamo"
	"plimsoll/profile"
	"plimsoll/profile/load"
	"plimsoll/recommend"
	"plimsoll/sweep"
)

// Bounds of what may be asked for; beyond them is a slip of the keyboard.
const (
	maxTokens   = 10_000_000
	leastMillis = 0.001
	maxMillis   = 3_600_000
	maxGPUs     = 4096
	maxKVTokens = math.MaxInt32
	maxGrain    = 1000
	quickISLs   = 8     // the embedded engine's first run: fewer points,
	quickCells  = 4     // and which is said
	quickReach  = 16384 // tokens
)

// profileOptions is what profile-sla was asked for, checked.
type profileOptions struct {
	isl, osl int
	sla      profile.SLA
	rank     recommend.Rank
	search   sweep.Search
	mode     sweep.Mode
	verify   string // auto, always or never
	trace    string // file of arrivals and lengths; empty = Poisson arrivals of ISL and OSL
	dataset  string // file of prompts; empty = made-up ones
	traffic  traffic
	loadTime time.Duration // that an open-loop load is judged for at most; 0 = the kind's default
	seed     uint64

	engine   string // a word of engineKinds
	model    string
	catalog  string
	weights  engine.DType // "" = as the model says
	gpu      string
	gpuCount int
	layouts  []engine.Parallelism // to try, by --tp or --parallelism; nil = those of the model
	limits   engine.Limits
	parallel int // engines at once
	maxGPUs  int // that they may have together; 0 = the GPU count
	noise    float64
	fit      string // of the latency model; empty = the default
	explain  bool
	require  bool // measured or nothing

	dir                   string
	resume, force, dryRun bool
	retry                 bool // what failed before
	maxTime               time.Duration
	maxContext            int
	islPoints, cells      int // 0 = the kind's default
	requestTimeout        time.Duration

	command    string
	readyPath  string
	readyAfter time.Duration
	extra      []string // arguments for the engine's own program
	memory     float64  // share of a GPU's memory; 0 = the engine's choice
	kv         engine.DType
	kvTokens   int
	kvPattern  string

	graph     dynamo.Graph // kind dynamo
	graphPath string
	graphDir  string

	endpoint     string
	endpointGPUs int
	maxInFlight  int
	provenance   profile.Provenance
	provGiven    bool
	api          load.Endpoint
	prompts      load.PromptMode
	apiKey       string
	headers      []load.Header

	kube kubeOptions

	format         string
	quiet, verbose bool
	inputs         map[string]string // what a resumed run must agree on
}

func profileFlags() []cli.Flag {
	s := func(name, def, usage, cat string) cli.Flag {
		return &cli.StringFlag{Name: name, Value: def, Usage: usage, Category: cat}
	}
	const target, eng, runs, grid, ep = "target", "engine", "run", "points", "endpoint"
	return append([]cli.Flag{
		s("isl", "3000", "input sequence length, `tokens`", target),
		s("osl", "500", "output sequence length, `tokens`", target),
		s("ttft", "50", "SLA: time to first token, `ms`", target),
		s("itl", "10", "SLA: inter-token latency, `ms`", target),
		s("sla-stat", "mean", "statistic that the SLA is held against: `mean|p50|p90|p95|p99`", target),
		&cli.BoolFlag{Name: "itl-per-request", Usage: "a percentile of ITL is that of requests' mean ITL, not of single gaps between tokens", Category: target},
		s("mode", "disaggregated", "deployment: `disaggregated|aggregated`: prefill and decode engines apart, or both on one engine, by the highest Poisson rate at which TTFT and ITL hold", target),
		s("verify", "auto", "run the picks under open-loop load at their recommended rate, and lower it where they miss: `auto|always|never`; auto: with --trace or --dataset, and else not with --search grid, nor at an --endpoint unless aggregated", target),
		s("trace", "", "`FILE` of arrivals and lengths for those loads, as plimsoll engine simulate takes it, its gaps scaled to the rate (default: Poisson arrivals of --isl and --osl)", target),
		s("dataset", "", "`FILE` of prompts for those loads: JSONL with prompt and output_tokens, OpenAI's messages or ShareGPT's conversations", target),
		s("load-time", "", "judge each of those loads for at most this `time`, such as 5m: the busier the engine, the longer it takes to be sure (default: 1m; sim: as long as it takes, in virtual time, with --mode aggregated 40s in real time; estimate: as long as it takes)", target),
		s("rank", "throughput", "rule of the pick: `throughput|sustained`", target),

		s("engine", "auto", "`KIND`: "+orList(engineKinds())+"; auto takes --command or --endpoint if given, the first of vllm, sglang and trtllm that is on PATH if there are GPUs and a --model, else the embedded simulated engine; estimate computes it all in virtual time, in seconds, for any --model and --gpu of the catalog", eng),
		s("model", "", "model, a catalog `name` (sim: llama-3.1-8b), a config.json, or what the engine calls it", eng),
		s("catalog", "", catalogUsage, eng),
		s("weights", published, weightsUsage, eng),
		s("gpu", "", "GPU, a catalog `name` (default: NVML's; sim: h100-sxm)", eng),
		s("gpu-count", "", "`GPUs` to use (default: those visible; sim: 4; estimate: 8)", eng),
		s("tp", "", "tensor-parallel sizes to try, a `list` such as 1,2,4 (default: as --parallelism)", eng),
		s("parallelism", "", "layouts to try instead, a `list` such as TP:4,TEP:8,DEP:8,TP:4 PP:2 (default: powers of two up to the GPU count of TP, and of TEP and DEP for models with experts)", eng),
		s("max-num-seqs", "", "sequences that the engine runs at once, `N` (sim: 64; estimate: vLLM's default for the GPU)", eng),
		s("max-num-batched-tokens", "", "tokens in one engine step, `N` (sim, estimate: vLLM's default for the GPU)", eng),
		s("memory-fraction", "", "share of each GPU's memory that the engine may take, `fraction`: vllm: of the whole, for everything; sglang: of the whole, for weights and KV cache; trtllm: of what weights leave free, for the KV cache; others: as vllm (default: the engine's own; the plan then takes 0.9 of the whole)", eng),
		s("parallel", "1", "profile `N` candidates side by side, on GPUs of their own; with --engine estimate or --launcher kubernetes", eng),
		s("max-gpus", "", "`GPUs` in use at once, over all candidates (default: --gpu-count)", eng),
		s("kv-dtype", "", "storage of the KV cache, `bf16|fp8` (default: the engine's)", eng),
		s("noise", "0", "sim, estimate: relative jitter of each step, `fraction`", eng),
		s("fit", "", fitUsage, eng),
		s("command", "", "argv `TEMPLATE` that starts an engine: {{.TP}} {{.Port}} {{.Model}} {{.GPUs}} {{.PrefixCaching}}", eng),
		s("ready-path", "/health", "`PATH` that answers 2xx when the engine is ready", eng),
		s("ready-timeout", "30m", "`time` for an engine to become ready", eng),
		s("kv-tokens", "", "KV cache capacity of one engine, `tokens` (default: from its log or /metrics; sim, estimate: what the GPU's memory holds)", eng),
		s("kv-tokens-pattern", "", "`REGEX` with one group that finds the KV capacity in the engine's log", eng),
		s("launcher", "local", "where engines run: `local|kubernetes`", eng),
		s("require", "", "`measured`: fail instead of falling back to the simulated engine", eng),

		s("endpoint", "", "`URL` of a server that already runs; nothing is launched", ep),
		s("endpoint-gpus", "", "GPUs behind the endpoint, `N`", ep),
		s("max-in-flight", "", "never send more than `N` requests at once (required with --endpoint)", ep),
		s("provenance", "", "what the endpoint's answers are: `measured|simulated|estimated`", ep),
		s("api", "completions", "API to call: `completions|chat`", ep),
		s("prompts", "auto", "prompts as `auto|tokens|text`", ep),
		&cli.StringFlag{Name: "api-key", Usage: "bearer token; written to no file", EnvVars: []string{"PLIMSOLL_API_KEY"}, Category: ep},
		&cli.StringSliceFlag{Name: "header", Usage: "extra `\"Name: value\"` header, may repeat; written to no file", EnvVars: []string{"PLIMSOLL_HEADERS"}, Category: ep},
		s("request-timeout", "10m", "`time` for one request", ep),

		s("max-context-length", "", "the surfaces reach up to this context, `tokens` (default: the model's; sim, estimate: 16384)", grid),
		s("prefill-interpolation-granularity", "16", "ISLs of the prefill surface, `N` (sim without this flag: 8)", grid),
		s("decode-interpolation-granularity", "6", "contexts and in-flight counts of the decode surface, `N` each (sim without this flag: 4)", grid),
		s("search", "adaptive", "in-flight counts by `adaptive|grid` search", grid),

		s("output-dir", "profiling_results", "`DIR` for everything that is written", runs),
		&cli.BoolFlag{Name: "resume", Usage: "continue the run in --output-dir", Category: runs},
		&cli.BoolFlag{Name: "retry", Usage: "with --resume: try configurations again that failed before", Category: runs},
		&cli.BoolFlag{Name: "force", Usage: "move another run in --output-dir aside", Category: runs},
		&cli.BoolFlag{Name: "explain", Usage: "sim, estimate: show what the picks' TTFT and ITL are made of", Category: runs},
		&cli.BoolFlag{Name: "dry-run", Usage: "print the plan and start nothing", Category: runs},
		s("max-time", "", "end early with what is known after this `time`, such as 30m", runs),
		s("seed", "1", "seed of prompts and noise, `N`", runs),
		s("config", "", "YAML `FILE` whose keys are these flags' names; flags win; with --engine dynamo also a graph's", runs),
	}, append(dynamoFlags(eng), kubeFlags()...)...)
}

// catalogUsage is of --catalog, wherever it is.
const catalogUsage = "`FILE` of further models or GPUs on top of the built-in ones: CSV rows, or a model's Hugging Face config.json"

// fitUsage is of --fit, here and of plimsoll engine serve.
const fitUsage = "coefficients of the latency model: a shipped fit's `NAME`, or the file that plimsoll calibrate wrote (default: recent vLLM)"

// kvBlocks is --kv-tokens in blocks, at least one; 0 where it was not given.
func (o profileOptions) kvBlocks(blockSize int) int {
	if o.kvTokens == 0 {
		return 0
	}
	return max(o.kvTokens/blockSize, 1)
}

// headerValue is a header's value in the clear; Secret's own String hides it.
func (o profileOptions) headerValue(h load.Header) string { return string(h.Value) }

// rootURL is an endpoint's address without the /v1 that people paste along.
func rootURL(s string) string {
	return strings.TrimRight(strings.TrimSuffix(strings.TrimRight(strings.TrimSpace(s), "/"), "/v1"), "/")
}

func parseProfileOptions(c *cli.Context) (profileOptions, error) { return parseProfile(c, false) }

// parseProfile reads a profile's flags; one that is for a cluster anyway has no
// --launcher.
func parseProfile(c *cli.Context, onKube bool) (profileOptions, error) {
	if err := applyProfileConfig(c); err != nil {
		return profileOptions{}, err
	}
	p := &parser{c: c}
	o := profileOptions{
		isl: p.integer("isl", 1, maxTokens, 0), osl: p.outputTokens("osl"),
		sla: profile.SLA{
			TTFT: p.millis("ttft"), ITL: p.millis("itl"),
			Stat:       profile.Statistic(p.choice("sla-stat", "mean", "p50", "p90", "p95", "p99")),
			PerRequest: c.Bool("itl-per-request"),
		},
		rank:   recommend.Rank(p.choice("rank", "throughput", "sustained")),
		search: sweep.Search(p.choice("search", "adaptive", "grid")),
		seed:   uint64(p.integer("seed", 0, math.MaxInt, 0)), //nolint:gosec // not negative by the range
		engine: p.choice("engine", engineKinds()...),
		model:  c.String("model"), catalog: c.String("catalog"),
		weights: p.weights(),
		gpu:     c.String("gpu"), gpuCount: p.integer("gpu-count", 1, maxGPUs, 0), layouts: p.layouts(),
		limits: engine.Limits{
			MaxNumSeqs:          p.integer("max-num-seqs", 1, 1_000_000, 0),
			MaxNumBatchedTokens: p.integer("max-num-batched-tokens", 1, maxTokens, 0),
		},
		memory: p.share("memory-fraction"), kv: p.kvDType(),
		parallel: p.integer("parallel", 1, maxGPUs, 1), maxGPUs: p.integer("max-gpus", 1, maxGPUs, 0),
		noise: p.fraction("noise"), fit: strings.TrimSpace(c.String("fit")), explain: c.Bool("explain"),
		dir: c.String("output-dir"), resume: c.Bool("resume"), retry: c.Bool("retry"), force: c.Bool("force"), dryRun: c.Bool("dry-run"),
		maxTime:    p.duration("max-time"),
		maxContext: p.integer("max-context-length", 2, maxTokens, 0),
		command:    c.String("command"), readyPath: c.String("ready-path"), readyAfter: p.duration("ready-timeout"),
		extra:    extraArguments(c),
		kvTokens: p.integer("kv-tokens", 1, maxKVTokens, 0), kvPattern: c.String("kv-tokens-pattern"),
		endpoint: rootURL(c.String("endpoint")), endpointGPUs: p.integer("endpoint-gpus", 1, maxGPUs, 0),
		maxInFlight:    p.integer("max-in-flight", 1, 1_000_000, 0),
		api:            load.Endpoint(p.choice("api", "completions", "chat")),
		prompts:        load.PromptMode(p.choice("prompts", "auto", "tokens", "text")),
		apiKey:         c.String("api-key"),
		headers:        p.headers("header"),
		requestTimeout: p.duration("request-timeout"),
		quiet:          c.Bool("quiet"), verbose: c.Bool("verbose"), format: c.String("format"),
	}
	if c.IsSet("prefill-interpolation-granularity") {
		o.islPoints = p.integer("prefill-interpolation-granularity", 2, maxGrain, 0)
	}
	if c.IsSet("decode-interpolation-granularity") {
		o.cells = p.integer("decode-interpolation-granularity", 2, maxGrain, 0)
	}
	o.mode, o.verify = sweep.Mode(p.choice("mode", "disaggregated", "aggregated")), p.choice("verify", "auto", "always", "never")
	o.trace, o.dataset, o.loadTime = p.name("trace"), p.name("dataset"), p.duration("load-time")
	for _, name := range []string{"command", "endpoint", "model"} {
		if c.IsSet(name) && strings.TrimSpace(c.String(name)) == "" {
			p.fail(usagef("--%s is empty: was a shell variable not set?", name))
		}
	}
	o.kube = p.kube(onKube || p.choice("launcher", "local", "kubernetes") == "kubernetes")
	if c.String("require") != "" {
		o.require = p.choice("require", "measured") != ""
	}
	if c.String("provenance") != "" {
		pr, err := profile.ParseProvenance(p.choice("provenance", "measured", "simulated", "estimated"))
		o.provenance, o.provGiven = pr, err == nil
	}
	if p.err != nil {
		return o, p.err
	}
	if err := o.readGraph(c); err != nil {
		return o, err
	}
	o.inputs = o.inputsOf(c)
	if err := o.check(); err != nil {
		return o, err
	}
	if err := o.checkMode(c); err != nil {
		return o, err
	}
	var err error
	o.traffic, err = openTraffic(o)
	return o, err
}

// check refuses combinations that no single flag shows.
func (o profileOptions) check() error {
	switch {
	case o.dir == "":
		return usagef("--output-dir is empty: want a folder")
	case o.resume && o.force:
		return usagef("--resume and --force exclude each other").hint("--resume continues the old run, --force moves it aside")
	case o.endpoint != "" && o.command != "":
		return usagef("--endpoint and --command exclude each other")
	case o.engine == "endpoint" && o.endpoint == "":
		return usagef("--engine endpoint needs --endpoint URL")
	case o.engine == "command" && o.command == "":
		return usagef("--engine command needs --command TEMPLATE").
			hint(`for example --command 'vllm serve {{.Model}} --tensor-parallel-size {{.TP}} --port {{.Port}}'`)
	case !slices.Contains([]string{"auto", "command", "endpoint"}, o.engine) && (o.endpoint != "" || o.command != ""):
		return usagef("--engine %s takes neither --endpoint nor --command", o.engine)
	case strings.HasPrefix(o.model, "-"):
		return usagef("--model %q: an engine would take it for a flag", o.model).hint("a file of that name is ./%s", o.model)
	case o.engine == "command" && o.endpoint != "", o.engine == "endpoint" && o.command != "":
		return usagef("--engine %s does not go with the other kind's flag", o.engine)
	case o.engine == "sim" && o.require:
		return usagef("--engine sim is simulated: it can never satisfy --require measured")
	case o.engine == "estimate" && o.require:
		return usagef("--engine estimate is estimated: it can never satisfy --require measured")
	case isReal(o.engine) && o.model == "":
		return usagef("--engine %s needs --model NAME", o.engine).hint("as the engine takes it: a Hugging Face name, or a path")
	case o.engine == "estimate" && o.model == "":
		return usagef("--engine estimate needs --model NAME").hint("a name from the catalog, such as llama-3.1-8b; --catalog FILE adds models")
	case o.engine == "estimate" && o.gpu == "":
		return usagef("--engine estimate needs --gpu NAME").hint("a name from the catalog, such as h100-sxm; --catalog FILE adds GPUs")
	case o.require && o.provGiven && o.provenance != profile.Measured:
		return usagef("--provenance %s can never satisfy --require measured", o.provenance)
	case o.sla.PerRequest && o.sla.Stat == profile.Mean:
		return usagef("--itl-per-request goes with a percentile: the mean ITL is that of requests already").hint("for example --sla-stat p90")
	case o.retry && !o.resume:
		return usagef("--retry goes with --resume")
	}
	if err := o.checkKube(); err != nil {
		return err
	}
	if o.endpoint != "" {
		return o.checkEndpoint()
	}
	if o.kvPattern == "" {
		return nil
	}
	if _, err := command.ParseKVPattern(o.kvPattern); err != nil {
		return usagef("--kv-tokens-pattern: %v", err)
	}
	return nil
}

// checkMode refuses what has no meaning for how engines are to serve.
func (o profileOptions) checkMode(c *cli.Context) error {
	switch {
	case o.mode == sweep.Aggregated && o.search == sweep.Grid:
		return usagef("--mode aggregated searches for a rate: there is no grid of them").hint("leave --search out")
	case o.mode == sweep.Aggregated && o.explain:
		return usagef("--explain shows what TTFT and ITL of prefill and decode apart are made of: it has no meaning with --mode aggregated")
	case o.mode == sweep.Aggregated && c.IsSet("rank"):
		return usagef("--rank has no meaning with --mode aggregated: engines are ranked by output tokens/s/GPU at the highest rate that holds")
	case o.mode != sweep.Aggregated && o.verify == "never" && o.ownTraffic():
		return usagef("--trace and --dataset are for loads that the picks are verified by, and --verify never says that none is").hint("leave --verify out")
	}
	return nil
}

func (o profileOptions) checkEndpoint() error {
	switch {
	case o.maxInFlight == 0:
		return usagef("--endpoint needs --max-in-flight N").hint("it is somebody's server: say how many requests at once it may get from here")
	case o.endpointGPUs == 0:
		return usagef("--endpoint needs --endpoint-gpus N").hint("throughput is per GPU, and an endpoint does not say how many it has")
	}
	if _, err := load.New(load.Options{BaseURL: o.endpoint}); err != nil {
		return usagef("--endpoint: %v", err)
	}
	return nil
}

// inputsOf are the flags that decide a run's result, by name; those that only
// steer this invocation are left out, secrets too.
func (o profileOptions) inputsOf(c *cli.Context) map[string]string {
	skip := map[string]bool{
		"output-dir": true, "resume": true, "retry": true, "force": true, "dry-run": true, "explain": true, "max-time": true, "config": true,
		"format": true, "quiet": true, "verbose": true, "api-key": true, "header": true, "help": true, "ready-timeout": true,
		"kubeconfig": true, "context": true, "schedule-timeout": true, "results-configmap": true,
		"parallel": true, "max-gpus": true,
	}
	in := map[string]string{}
	for _, f := range c.Command.Flags {
		if name := f.Names()[0]; !skip[name] {
			in[name] = strings.Join(o.redacted(typed(c, name)), " --"+name+" ")
		}
	}
	return in
}
