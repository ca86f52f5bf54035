package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/command"
	dep "plimsoll/engine/deployment"
	"plimsoll/engine/field"
	"plimsoll/engine/gpu"
	"plimsoll/engine/latency"
	"plimsoll/engine/sim"
	"plimsoll/engine/sim/build"
	"plimsoll/profile"
	"plimsoll/sweep"
)

// What the embedded engine simulates unless told otherwise.
const (
	simModel = "meta-llama/Meta-Llama-3.1-8B"
	simGPU   = "H100-SXM"
	simGPUs  = 4
)

// deployment is what will be profiled: which engine, model and GPUs.
type deployment struct {
	kind        engine.Kind
	server      server           // of the kinds that are launched
	template    command.Template // kind command
	model       *catalog.Model   // nil where the catalog does not know it
	modelName   string           // as the engine is asked for it; may be empty for a server with one model
	weights     dep.Storage
	gpu         *catalog.GPU // nil where unknown
	fit         latency.Fit  // of the latency model
	gpuName     string       // as shown
	gpuCount    int
	imported    bool         // gpuCount is of one engine: nobody said how many GPUs there are
	unknownGPUs bool         // gpuCount is 1: nobody said how many an endpoint has
	visible     []gpu.Device // for engines; nil where none are assigned
	cpu         bool         // the engine runs on the CPU: its GPUs are threads
	driver      string
	kvTokens    int            // of one engine, as asked for; 0 = what is there
	context     int            // tokens of a request
	failing     *sweep.Failing // of somebody's server; nil = of an engine of our own
	missing     string         // the engine's program, where it is not on PATH; only a dry run goes on without it
	provenance  profile.Provenance
	notes       []string // how it came to this, for stderr
	warnings    []profile.Warning
}

// gpuLister lists this machine's GPUs; a test hands over another one.
type gpuLister func(catalog.Catalog) (gpu.Inventory, error)

// localGPUs asks the drivers, within CUDA_VISIBLE_DEVICES and its likes.
func localGPUs(ctx context.Context) gpuLister {
	return func(cat catalog.Catalog) (gpu.Inventory, error) { return gpu.List(ctx, os.LookupEnv, cat) }
}

// resolve turns what was asked for into what will be run.
func resolve(o *profileOptions, cat catalog.Catalog, list gpuLister) (deployment, error) {
	d := deployment{provenance: profile.Measured, kvTokens: o.kvTokens, context: o.isl + o.osl}
	switch {
	case o.endpoint != "":
		d.kind, d.failing = engine.KindEndpoint, &sweep.Failing{SLA: o.sla, Gone: o.endpointGone}
	case o.command != "":
		d.kind = engine.KindCommand
	case o.engine == "sim":
		d.kind = engine.KindSim
	case o.engine == "estimate":
		d.kind = engine.KindEstimate
	}
	if real, ok := realEngineOf(engine.Kind(o.engine)); ok {
		d.kind = real.kind
		switch err := real.present(); {
		case err == nil:
		case o.dryRun: // its command line is known without it
			d.missing = real.program
		default:
			return d, err
		}
	}
	var found gpu.Inventory
	var noGPUs error
	if d.kind == "" || d.onGPUs() || d.kind == engine.KindEstimate && o.gpu == "" {
		found, noGPUs = list(cat)
	}
	if d.kind == "" {
		if err := d.auto(*o, found, noGPUs); err != nil {
			return d, err
		}
	}
	if d.kind == engine.KindSim && o.require {
		return d, field.WithHint(fmt.Errorf("--require measured: %s", strings.Join(d.notes, "; ")), "give --command TEMPLATE or --endpoint URL")
	}
	d.cpu = d.kind == engine.KindLlamaCpp && len(found.Devices) == 0 && o.gpu == ""
	if err := o.take(&d); err != nil {
		return d, err
	}
	var err error
	if d.fit, err = build.LoadFit(field.Fit, o.fit); err != nil {
		return d, err
	}
	if isReal(string(d.kind)) && d.fit.Engine != string(d.kind) {
		if o.fit != "" {
			return d, field.Errorf("--fit %s: the engine is %s", o.fit, d.kind)
		}
		d.fit = latency.FitFor(d.kind, "")
	}
	if err := d.setModel(*o, cat); err != nil {
		return d, err
	}
	if err := d.setGPUs(*o, cat, found); err != nil {
		return d, err
	}
	if d.modelled() {
		d.warnings = append(d.warnings, dep.FitWarnings(d.fit, d.gpu.Name, o.isl, o.osl)...)
	}
	if err := d.setServer(*o); err != nil {
		return d, err
	}
	d.warnings = slices.Concat(d.warnings, dynamoWarnings(*o), d.unplanned(*o))
	switch {
	case d.kind == engine.KindSim:
		d.provenance = profile.Simulated
	case d.kind == engine.KindEstimate:
		d.provenance = profile.Estimated
	case o.provGiven:
		d.provenance = o.provenance
	}
	return d, nil
}

// onGPUs reports whether the program starts the engine on this machine's GPUs.
func (d deployment) onGPUs() bool {
	_, real := realEngineOf(d.kind)
	return real || d.kind == engine.KindCommand
}

// setServer is how the engine is started, where it is.
func (d *deployment) setServer(o profileOptions) error {
	if real, ok := realEngineOf(d.kind); ok {
		d.server = real.server(o, *d)
		return nil
	}
	switch d.kind { //nolint:exhaustive // the others are not launched
	case engine.KindSim:
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("finding this program: %w", err)
		}
		d.server = simulator{opts: o, self: self}
	case engine.KindCommand:
		d.template = command.Template{Argv: o.command, ReadyPath: o.readyPath, ReadyTimeout: o.readyAfter}
		if o.kvPattern != "" {
			re, err := command.ParseKVPattern(o.kvPattern)
			if err != nil {
				return field.Errorf("--kv-tokens-pattern: %v", err)
			}
			d.template.KVPattern = re
		}
		if err := d.template.Validate(); err != nil {
			return field.Errorf("--command: %v", err)
		}
		d.server = d.template
	}
	return nil
}

// auto chooses an engine: a real one on a machine with GPUs, the embedded one on a
// machine without, and says why. GPUs that nothing can run on are an error: they are
// never simulated unless that is asked for.
func (d *deployment) auto(o profileOptions, found gpu.Inventory, noGPUs error) error {
	real, missing := installed()
	n := len(found.Devices)
	switch {
	case errors.Is(noGPUs, gpu.ErrUnavailable):
		d.notes = append(d.notes, "no GPU to measure on: "+noGPUs.Error())
	case noGPUs != nil:
		return unmeasured(o, found, noGPUs.Error())
	case n == 0 && len(found.Warnings) > 0:
		return unmeasured(o, found, "no GPU can be used: "+strings.Join(found.Warnings, "; "))
	case n == 0:
		d.notes = append(d.notes, "no GPU to measure on: none is visible")
	case o.model == "":
		return unmeasured(o, found, fmt.Sprintf("--model is missing: this machine has %s, but no model to serve", shownGPUs(found)))
	case missing != nil:
		return unmeasured(o, found, fmt.Sprintf("no engine is installed: this machine has %s, but %v", shownGPUs(found), missing))
	default:
		d.kind = real.kind
		return nil
	}
	d.kind = engine.KindSim
	return nil
}

// unmeasured is the error of a machine with GPUs that are not measured, with the ways
// to go on.
func unmeasured(o profileOptions, found gpu.Inventory, why string) error {
	model := cmp.Or(o.model, "NAME")
	estimate := "--engine estimate --model " + model
	if len(found.Devices) == 0 || found.Devices[0].SKU == "" {
		estimate += " --gpu NAME"
	}
	return field.Errorf("%s", why).
		Hint("to measure: --model %s and an engine on PATH (vllm, sglang or trtllm-serve) or --command TEMPLATE; or --endpoint URL of a server", model).
		Hint("to estimate these GPUs without running anything: %s", estimate).
		Hint("to simulate 4 × H100-SXM instead: --engine sim")
}

// shownGPUs are a machine's GPUs: 8 × H100-SXM.
func shownGPUs(found gpu.Inventory) string {
	d := found.Devices[0]
	return fmt.Sprintf("%d × %s", len(found.Devices), cmp.Or(d.SKU, d.Name))
}

func (d *deployment) setModel(o profileOptions, cat catalog.Catalog) error {
	d.modelName, d.weights = o.model, dep.StorageOf(cmp.Or(o.weights, o.quantized), o.kv, catalog.Model{})
	if d.kind == engine.KindSim && o.model == "" {
		d.modelName = simModel
	}
	if d.modelName == "" {
		return nil
	}
	m, err := cat.ModelOrFile(d.modelName)
	switch {
	case err == nil:
		if _, real := realEngineOf(d.kind); d.kind == engine.KindLlamaCpp || !real && !d.modelled() {
			m.KV, m.KVQuantization = "", "" // nobody says that it follows the checkpoint
		}
		d.model, d.weights = &m, dep.StorageOf(o.weights, o.kv, m)
		if o.weights == "" && o.quantized != "" && d.weights.Weights == engine.BF16 { // a checkpoint that is quantized knows better
			d.weights.Weights, d.weights.Note = o.quantized, fmt.Sprintf("weights in %s, as the engine's arguments say", o.quantized)
		}
		d.warnings = append(d.warnings, d.weights.Warnings...)
		d.modelName = d.asLoaded(m)
		return nil
	case d.modelled():
		return field.Errorf("--model: %w", err)
	default: // a real engine may know what the catalog does not
		d.warnings = append(d.warnings, profile.Warnf("model_unknown",
			"%s is not in the catalog, so memory and throughput are not checked against the GPU's limits", d.modelName))
		return nil
	}
}

// asLoaded is the model's name as the engine takes it. One that loads models from
// Hugging Face's hub gets the full name for a short one, and the folder for its
// config.json.
func (d deployment) asLoaded(m catalog.Model) string {
	switch d.kind {
	case engine.KindSim, engine.KindEstimate:
		return m.Name
	case engine.KindVLLM, engine.KindSGLang, engine.KindTRTLLM:
	default:
		return d.modelName
	}
	if strings.HasSuffix(d.modelName, ".json") {
		return filepath.Dir(d.modelName)
	}
	if _, err := os.Stat(d.modelName); err == nil || strings.Contains(d.modelName, "/") {
		return d.modelName
	}
	return m.Name
}

func (d *deployment) setGPUs(o profileOptions, cat catalog.Catalog, found gpu.Inventory) error {
	d.driver = found.Driver
	name := o.gpu
	switch d.kind {
	case engine.KindSim:
		name = cmp.Or(name, simGPU)
		d.gpuCount = simGPUs
	case engine.KindEstimate:
		d.gpuCount = estimateGPUs
		if name != "" {
			break
		}
		if len(found.Devices) == 0 || found.Devices[0].SKU == "" {
			return field.Errorf("--engine estimate needs --gpu NAME").Hint("a name from the catalog, such as h100-sxm; --catalog FILE adds GPUs")
		}
		name, d.gpuCount = found.Devices[0].SKU, len(found.Devices)
	case engine.KindEndpoint:
		if d.gpuCount = o.endpointGPUs; d.gpuCount == 0 {
			d.gpuCount, d.unknownGPUs = 1, true
			d.warnings = append(d.warnings, profile.Warnf("gpus_unknown", "how many GPUs are behind the endpoint is not known: what is said of a GPU is of the whole endpoint. Set --endpoint-gpus N"))
		}
	default:
		d.gpuCount = len(found.Devices)
		if name == "" && len(found.Devices) > 0 {
			name = found.Devices[0].SKU
			d.gpuName = found.Devices[0].Name
		}
		d.visible = found.Devices
		for _, w := range found.Warnings {
			d.warnings = append(d.warnings, profile.Warnf("gpu", "%s", w))
		}
	}
	if o.gpuCount > 0 && d.kind != engine.KindEndpoint {
		if len(d.visible) > 0 && o.gpuCount > len(d.visible) {
			return field.Errorf("--gpu-count %d: only %d are visible", o.gpuCount, len(d.visible))
		}
		d.gpuCount = o.gpuCount
		if len(d.visible) > 0 {
			d.visible = d.visible[:o.gpuCount]
		}
	}
	if d.onGPUs() && d.gpuCount == 0 {
		return d.noGPUs()
	}
	if d.cpu {
		d.gpuName = cpuThread
		d.warnings = append(d.warnings, profile.Warnf("cpu_threads",
			"no GPU was found. The engine runs on the CPU, TP:n is n threads, and throughput per GPU is per thread"))
	}
	if name == "" {
		return nil
	}
	g, err := cat.GPU(name)
	if err != nil {
		return field.Errorf("--gpu: %v", err).Hint("--catalog FILE adds GPUs")
	}
	g.PerNode = cmp.Or(o.perNode, max(cmp.Or(g.PerNode, catalog.UsualPerNode), len(found.Devices)))
	d.gpu, d.gpuName, d.weights = &g, g.Name, d.weights.On(g)
	return nil
}

// cpuThread stands for a GPU where the engine runs on the CPU.
const cpuThread = "CPU thread"

// noGPUs asks for what no driver tells.
func (d deployment) noGPUs() error {
	e := field.Errorf("no GPU was found: set --gpu-count N")
	switch {
	case d.cpu:
		return e.Hint("llama-server then runs on the CPU, and they are threads")
	case d.kind == engine.KindCommand:
		return e.Hint("for an engine on the CPU, let {{.TP}} mean threads")
	}
	return e
}

// base is the configuration that every candidate starts from.
func (d deployment) base(o profileOptions) engine.Config {
	c := engine.Config{Kind: d.kind, Model: d.modelName, GPU: d.gpuName, Limits: o.limits, Weights: d.weights.Weights, KV: d.weights.KV, MemoryFraction: o.memory}
	if d.modelled() || d.fit.Version != "" {
		c.Release = d.fit.Release()
	}
	if d.modelled() {
		c.Limits.MaxModelLen = simContext(o, *d.model)
		return c
	}
	c.Limits.MaxModelLen = o.maxContext // else the engine's own choice, which it tells
	return c
}

// modelled reports whether a latency model stands for the engine: model and GPU
// are then known.
func (d deployment) modelled() bool {
	return d.kind == engine.KindSim || d.kind == engine.KindEstimate
}

// fitName names the latency model's fit; empty where no model stands for the
// engine.
func (d deployment) fitName() string {
	if !d.modelled() {
		return ""
	}
	return d.fit.Name
}

// simContext is the longest prompt and answer of a modelled engine: as asked,
// else enough for the quick plan, since the model's own may not fit the GPU; no
// more than --kv-tokens hold. Surfaces reach as far; forTraffic gives engines more.
func simContext(o profileOptions, m catalog.Model) int {
	most := min(m.MaxContext, cmp.Or(o.kvBlocks(sim.DefaultBlockSize)*sim.DefaultBlockSize, m.MaxContext))
	return cmp.Or(o.maxContext, max(min(quickReach, most), min(o.isl+max(o.osl, 100), most)))
}

func itoa(n int) string { return strconv.Itoa(n) }
