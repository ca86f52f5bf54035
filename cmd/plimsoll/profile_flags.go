package main

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/engine"
	"plimsoll/engine/argv"
	"plimsoll/engine/dynamo"
	"plimsoll/profile"
	"plimsoll/profile/load"
	"plimsoll/profile/store"
	"plimsoll/profile/trace"
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
	quickReach  = 16384 // tokens of a modelled engine's or an endpoint's surfaces, which is said
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

	traceOptions trace.Options
	dataset      string // file of prompts; empty = made-up ones
	traffic      traffic
	loadTime     time.Duration // that an open-loop load is judged for at most; 0 = the kind's default
	seed         uint64

	engine   string // a word of engineKinds
	model    string
	catalog  string
	weights  engine.DType // "" = as the model says
	gpu      string
	gpuCount int
	perNode  int                  // GPUs of one server; 0 = as the catalog says
	layouts  []engine.Parallelism // to try, by --tp or --parallelism; nil = those of the model
	limits   engine.Limits
	noise    float64
	fit      string // of the latency model; empty = the default
	explain  bool
	require  bool // measured or nothing

	dir                   string
	results               string // ConfigMap for the results; empty = none
	resume, force, dryRun bool
	details               bool
	maxTime               time.Duration
	maxContext            int
	requestTimeout        time.Duration

	prefillGranularity, decodeGranularity int // 0 = the kind's default

	command    string
	readyPath  string
	readyAfter time.Duration
	extra      []string        // arguments for the engine's own program; once it is known, without those that are taken into the fields here
	typed      []string        // all of them
	quantized  engine.DType    // the weights, by them
	unknown    []argv.Argument // of them
	memory     float64         // share of a GPU's memory; 0 = the engine's choice
	kv         engine.DType
	kvTokens   int
	kvPattern  string

	dynamo dynamo.Worker // of --config; zero = it is none of Dynamo's

	endpoint     string
	endpointGPUs int
	maxInFlight  int
	provenance   profile.Provenance
	provGiven    bool
	api          load.Endpoint
	apiKey       string
	headers      []load.Header
	hidden       *credentials

	format         string
	quiet, verbose bool
	inputs         map[string]string // what a resumed run must agree on
	secret         store.Inputs      // as they were typed, those that hold credentials
}

func profileFlags() []cli.Flag {
	s := func(name, def, usage, cat string) cli.Flag {
		return &cli.StringFlag{Name: name, Value: def, Usage: usage, Category: cat}
	}
	const target, eng, runs, grid, ep = "target", "engine", "run", "points", "endpoint"
	tr := traceFlags(target)
	return []cli.Flag{
		s("isl", "3000", "input sequence length, `tokens`", target),
		s("osl", "500", "output sequence length, `tokens`", target),
		s("ttft", "50", "SLA: time to first token, `ms`", target),
		s("itl", "10", "SLA: inter-token latency, each request's mean over its output tokens, `ms`", target),
		s("sla-stat", "mean", "statistic that the SLA is held against: `mean|p50|p90|p95|p99`", target),
		s("stall-p99", "", "SLA: single gaps between tokens, 99th percentile, `ms`; with --mode aggregated (default: not promised)", target),
		s("max-failures", "1%", "SLA: requests that may fail, a `share`; below it they are left out of every figure and said", target),
		s("mode", "disaggregated", "`disaggregated|aggregated`: prefill and decode on engines of their own, or both on each, by the highest Poisson rate within the SLA", target),
		s("verify", "auto", "run the picks under open-loop load at their recommended rate, and lower it where they miss: `auto|always|never`; auto: with --trace or --dataset, and else not with --search grid, nor at an --endpoint unless aggregated", target),
		s("trace", "", "`FILE` of arrivals and lengths for those loads, as plimsoll engine simulate takes it, its gaps scaled to the rate; the first 100,000 are played (default: Poisson arrivals of --isl and --osl)", target),
		tr[0], tr[1], tr[2],
		s("dataset", "", "`FILE` of prompts for those loads: JSONL with prompt and output_tokens, OpenAI's messages or ShareGPT's conversations; the first 100,000 are played, or 512 MiB of text", target),
		s("load-time", "", "judge each of those loads for at most this `time`, such as 5m: the busier the engine, the longer it takes to be sure (default: 1m; sim: as long as it takes, in virtual time, with --mode aggregated 40s in real time; estimate: as long as it takes)", target),

		s("engine", "auto", "what is profiled, `KIND`: "+orList(engineKinds())+"; auto: --command or --endpoint if given, with GPUs and --model the first of vllm, sglang and trtllm on PATH, without GPUs sim, the embedded engine; estimate: computed in seconds, for any --model and --gpu", eng),
		s("model", "", "model, a catalog `name` (sim: llama-3.1-8b), a config.json, or what the engine calls it", eng),
		s("catalog", "", catalogUsage, eng),
		s("weights", published, weightsUsage, eng),
		s("gpu", "", "GPU, a catalog `name` (default: this machine's; sim: h100-sxm)", eng),
		s("gpu-count", "", "`GPUs` to use (default: those visible; sim: 4; estimate: 8)", eng),
		s("gpus-per-node", "", perNodeUsage, eng),
		s("tp", "", "tensor-parallel sizes to try, a `list` such as 1,2,4 (default: as --parallelism)", eng),
		s("parallelism", "", "layouts to try instead, a `list` such as TP:4,TEP:8,DEP:8,TP:4 PP:2 (default: powers of two up to the GPU count of TP, and of TEP and DEP for models with experts)", eng),
		s("max-num-seqs", "", "sequences that the engine runs at once, `N` (sim, estimate: the engine's default for the GPU)", eng),
		s("max-num-batched-tokens", "", "tokens in one engine step, `N` (sim, estimate: the engine's default for the GPU)", eng),
		s("memory-fraction", "", "share of each GPU's memory that the engine may take, `fraction`: vllm: of the whole, for everything; sglang: of the whole, for weights and KV cache; trtllm: of what weights leave free, for the KV cache; others: as vllm, sim and estimate as the engine of --fit (default: the engine's own; the plan takes its newest release's, or that of --fit)", eng),
		s("kv-dtype", "", "storage of the KV cache, `bf16|fp8|nvfp4` (default: the engine's; sim, estimate: the checkpoint's, else bf16)", eng),
		s("noise", "0", "sim, estimate: relative jitter of each step, `fraction`", eng),
		s("fit", "", fitUsage, eng),
		s("command", "", "argv `TEMPLATE` that starts an engine: {{.TP}} {{.Port}} {{.Model}} {{.GPUs}} {{.PrefixCaching}}", eng),
		s("ready-path", "/health", "`PATH` that answers 2xx when the engine is ready", eng),
		s("ready-timeout", "30m", "`time` for an engine to become ready", eng),
		s("kv-tokens", "", "KV cache capacity of one engine, `tokens` (default: from its log or /metrics; sim, estimate: what the GPU's memory holds)", eng),
		s("kv-tokens-pattern", "", "`REGEX` with one group that finds the KV capacity in the engine's log", eng),
		s("require", "", "`measured`: fail instead of falling back to the simulated engine", eng),

		s("endpoint", "", "`URL` of a server that already runs; nothing is launched", ep),
		s("endpoint-gpus", "", "GPUs behind the endpoint, `N`", ep),
		s("max-in-flight", "", "never send more than `N` requests at once (required with --endpoint)", ep),
		s("provenance", "", "what the endpoint's answers are: `measured|simulated|estimated`", ep),
		s("api", "completions", "API to call: `completions|chat`", ep),
		&cli.StringFlag{Name: "api-key", Usage: "bearer token; written to no file", EnvVars: []string{"PLIMSOLL_API_KEY"}, Category: ep},
		&cli.StringSliceFlag{Name: "header", Usage: "extra `\"Name: value\"` header, may repeat; written to no file", EnvVars: []string{"PLIMSOLL_HEADERS"}, Category: ep},
		s("request-timeout", "10m", "`time` for one request", ep),

		s("max-context-length", "", "the surfaces reach up to this context, `tokens` (default: the model's; sim, estimate, endpoint: 16384)", grid),
		s("prefill-interpolation-granularity", "16", "ISLs of the prefill surface, `N`", grid),
		s("decode-interpolation-granularity", "6", "contexts and in-flight counts of the decode surface, `N` each", grid),
		s("search", "adaptive", "in-flight counts by `adaptive|grid` search", grid),

		s("output-dir", "profiling_results", "`DIR` for everything that is written", runs),
		&cli.BoolFlag{Name: "resume", Usage: "continue the run in --output-dir", Category: runs},
		&cli.BoolFlag{Name: "force", Usage: "move another run in --output-dir aside", Category: runs},
		detailsFlag(),
		&cli.BoolFlag{Name: "explain", Usage: "sim, estimate: show what the picks' TTFT and ITL are made of", Category: runs},
		&cli.BoolFlag{Name: "dry-run", Usage: "print the plan and start nothing", Category: runs},
		s("max-time", "", "end early with what is known after this `time`, such as 30m", runs),
		s("seed", "1", "seed of prompts and noise, `N`", runs),
		s("config", "", "YAML `FILE` whose keys are these flags' names; flags win. Or a file of Dynamo's, a graph of dynamo serve or a DynamoGraphDeployment: engine, model and arguments are its decode worker's", runs),
		s("results-configmap", "", "ConfigMap `NAME` that gets the results too, for planner manifest --profile-config-map; in a Job of profile-sla manifest", runs),
	}
}

// catalogUsage is of --catalog, wherever it is.
const catalogUsage = "`FILE` of further models or GPUs on top of the built-in ones: CSV rows, or a model's Hugging Face config.json"

// memoryUsage is of --memory-fraction, wherever an engine is modelled.
const memoryUsage = "share of each GPU's memory that an engine may take, `fraction`, as the engine of --fit means it (default: its release's own: vLLM 0.92 from 0.20 on, 0.9 before)"

// fitUsage is of --fit, wherever it is.
const fitUsage = "coefficients of the latency model: an `ENGINE`, with its version or without, such as trtllm or vllm-0.19; or the file that plimsoll calibrate wrote (default: vllm)"

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

// inputsOf are the flags that decide a run's result, by name; those that only
// steer this invocation are left out. Credentials are taken out of them; secret are those
// that held some, as they were typed.
func (o profileOptions) inputsOf(c *cli.Context) (in map[string]string, secret store.Inputs) {
	skip := map[string]bool{
		"output-dir": true, "resume": true, "force": true, "dry-run": true, "explain": true, "details": true, "max-time": true, "config": true,
		"format": true, "quiet": true, "verbose": true, "api-key": true, "header": true, "help": true, "ready-timeout": true,
		"results-configmap": true, helpAllFlag: true,
	}
	in, secret = map[string]string{}, store.Inputs{}
	for _, f := range c.Command.Flags {
		name := f.Names()[0]
		if skip[name] {
			continue
		}
		words, between := typed(c, name), " --"+name+" "
		in[name] = strings.Join(words, between)
		if _, err := strconv.ParseFloat(in[name], 64); err == nil { // a figure is no credential
			continue
		}
		if clean := o.redacted(words); !slices.Equal(clean, words) {
			secret["--"+name], in[name] = in[name], strings.Join(clean, between)
		}
	}
	if clean := o.redacted(o.extra); !slices.Equal(clean, o.extra) {
		secret["engine arguments"] = strings.Join(o.extra, " ")
	}
	return in, secret
}
