package main

import (
	"bytes"
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/urfave/cli/v2"

	"plimsoll/capacity"
	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/dynamo"
	"plimsoll/engine/field"
	"plimsoll/engine/sim"
	"plimsoll/engine/sim/build"
	"plimsoll/engine/vllm"
	"plimsoll/planner/observe"
	"plimsoll/profile/store"
)

// emitted is what --emit prints instead of the plan; the empty word is the plan.
func emitted(p *parser) string {
	if p.name("emit") == "" {
		return ""
	}
	word := p.choice("emit", "kubernetes", "planner")
	if p.c.String("format") != "text" {
		p.fail(field.Errorf("--emit %s prints YAML and excludes --format %s", word, p.c.String("format")))
	}
	return word
}

// emit prints the cheapest plan for what is to run it.
func (o capacityOptions) emit(c *cli.Context, out sizedPlans) error {
	if !feasible(out.Plans) {
		return showPlans(c, out) // why there is nothing to run
	}
	p := out.Plans[0]
	for _, pool := range p.Pools {
		if err := manyNodes("--emit "+o.emitAs, pool.Nodes); err != nil {
			return err.Hint("--max-gpus-per-engine %d, and --tp no larger, plans engines of one node", pool.Nodes.GPUs)
		}
	}
	e := emission{o, p, emittedKind(o.fleet)}
	var docs []yaml.MapSlice
	var notes []string
	var err error
	switch {
	case o.emitAs == "planner":
		docs, notes = e.plannerConfig()
	case p.Strategy == capacity.Disaggregated:
		docs, notes, err = e.graphDeployment()
	default:
		docs, notes, err = e.deployment()
	}
	if err != nil {
		return field.Errorf("--emit %s: %v", o.emitAs, err)
	}
	if o.fleet.Profile == "" && o.fleet.Weights != "" && o.fleet.Weights != engine.BF16 {
		notes = append(notes, fmt.Sprintf("the plan assumes weights in %s. Use a checkpoint that has them", o.fleet.Weights))
	}
	notes = append(notes, e.conditions()...)
	var b bytes.Buffer
	fmt.Fprintf(&b, "# plimsoll capacity plan: %d × %s, %s; latencies are %s\n", p.TotalGPUsFinal, p.Pools[0].GPU, p.Layout, p.Provenance)
	for _, n := range notes {
		fmt.Fprintf(&b, "# %s\n", n)
	}
	for _, w := range p.Warnings {
		fmt.Fprintf(&b, "# warning: %s\n", w.Message)
	}
	for i, doc := range docs {
		if i > 0 {
			b.WriteString("---\n")
		}
		body, err := yaml.MarshalWithOptions(doc, yaml.IndentSequence(true))
		if err != nil {
			return fmt.Errorf("writing YAML: %w", err)
		}
		b.Write(body)
	}
	return show(c.App.Writer, b.Bytes())
}

// manyNodes refuses a manifest of an engine that spans nodes; nil where it does not.
func manyNodes(what string, n engine.Nodes) *field.Error {
	if n.Count == 0 {
		return nil
	}
	return field.Errorf("%s: an engine takes %d nodes of %s, and no pod spans nodes: it would wait for ever", what, n.Count, engine.Count(n.GPUs, "GPU")).
		Hint("--gpus-per-node N says how many GPUs a node has")
}

// emission is a plan that is written down for a kind of engine.
type emission struct {
	capacityOptions
	plan sizedPlan
	kind engine.Kind
}

func item(key string, value any) yaml.MapItem { return yaml.MapItem{Key: key, Value: value} }

// graphDeployment are the replicas, GPUs and engine arguments of NVIDIA Dynamo's two
// worker services, under the names that its deployments give them (v1alpha1;
// examples/backends/*/deploy/disagg.yaml, read in November 2026).
func (e emission) graphDeployment() ([]yaml.MapSlice, []string, error) {
	var services yaml.MapSlice
	_, note := e.buckets(false) // the graph's image has a vLLM of its own
	for i, pool := range e.plan.Pools {
		args, err := dynamo.Arguments(e.engineConfig(i))
		if err != nil {
			return nil, nil, err
		}
		name := string(pool.Role)
		if e.kind == engine.KindVLLM {
			name = map[engine.Role]string{engine.RolePrefill: "VllmPrefillWorker", engine.RoleDecode: "VllmDecodeWorker"}[pool.Role]
		}
		services = append(services, item(name, yaml.MapSlice{
			item("componentType", "worker"), item("subComponentType", string(pool.Role)), item("replicas", pool.Engines+pool.SpareEngines),
			item("resources", yaml.MapSlice{item("limits", yaml.MapSlice{item("gpu", itoa(gpusPerEngine(pool)))})}),
			item("extraPodSpec", yaml.MapSlice{item("mainContainer", yaml.MapSlice{item("command", []string{"python3", "-m", "dynamo." + string(e.kind)}), item("args", args)})}),
		}))
	}
	return []yaml.MapSlice{{
		item("apiVersion", "nvidia.com/v1alpha1"), item("kind", "DynamoGraphDeployment"),
		item("metadata", yaml.MapSlice{item("name", "plimsoll-plan")}), item("spec", yaml.MapSlice{item("services", services)}),
	}}, append([]string{"replica counts, GPUs and all arguments of the engines: kubectl patch dynamographdeployment NAME --type merge --patch-file FILE"}, note...), nil
}

// deployment runs aggregated engines. The file of an engine that has one is in a ConfigMap.
func (e emission) deployment() ([]yaml.MapSlice, []string, error) {
	const folder = "/etc/plimsoll"
	pool, name := e.plan.Pools[0], "plimsoll-plan"
	i := slices.IndexFunc(toldEngines, func(told toldEngine) bool { return told.kind == e.kind })
	spec, err := toldEngines[i].server.Spec(e.engineConfig(0), engine.Launch{Port: 8000, LogPath: folder + "/engine.log"})
	if err != nil {
		return nil, nil, err
	}
	spec.Argv[slices.Index(spec.Argv, "--host")+1] = "0.0.0.0"
	own, note := e.buckets(true)
	spec.Argv = append(spec.Argv, own...)
	labels := yaml.MapSlice{item("app", name)}
	container := yaml.MapSlice{
		item("name", "engine"), item("image", toldEngines[i].image), item("command", spec.Argv),
		item("resources", yaml.MapSlice{item("limits", yaml.MapSlice{item("nvidia.com/gpu", gpusPerEngine(pool))})}),
	}
	pod, docs := yaml.MapSlice{}, []yaml.MapSlice{}
	for _, f := range spec.Files {
		container = append(container, item("volumeMounts", []yaml.MapSlice{{item("name", "engine"), item("mountPath", folder)}}))
		pod = yaml.MapSlice{item("volumes", []yaml.MapSlice{{item("name", "engine"), item("configMap", yaml.MapSlice{item("name", name)})}})}
		docs = append(docs, yaml.MapSlice{
			item("apiVersion", "v1"), item("kind", "ConfigMap"), item("metadata", yaml.MapSlice{item("name", name)}),
			item("data", yaml.MapSlice{item(path.Base(f.Path), f.Text)}),
		})
	}
	notes := append([]string{"pin the image's version, and the nodes' GPU to " + pool.GPU, "an existing one: kubectl patch deployment NAME --patch '{\"spec\":{\"replicas\":" + itoa(pool.Engines+pool.SpareEngines) + "}}'"}, note...)
	return append(docs, yaml.MapSlice{
		item("apiVersion", "apps/v1"), item("kind", "Deployment"), item("metadata", yaml.MapSlice{item("name", name)}),
		item("spec", yaml.MapSlice{
			item("replicas", pool.Engines+pool.SpareEngines), item("selector", yaml.MapSlice{item("matchLabels", labels)}),
			item("template", yaml.MapSlice{
				item("metadata", yaml.MapSlice{item("labels", labels)}),
				item("spec", append(yaml.MapSlice{item("containers", []yaml.MapSlice{container})}, pod...)),
			}),
		}),
	}), notes, nil
}

// buckets are vLLM's arguments for histograms that tell whether the SLO is kept, where the
// profile's version is what runs and takes them; else a note that has them.
func (e emission) buckets(profiled bool) (arguments, notes []string) {
	if e.kind != engine.KindVLLM {
		return nil, nil
	}
	version := ""
	if rec, err := store.ReadRecommendation(e.fleet.Profile); err == nil && profiled {
		version = rec.Engine.Version
	}
	b := observe.Bounds("vllm").Around(e.slo.SLA())
	words, takes := vllm.Buckets(version, b.TTFT, b.ITL)
	if takes {
		return words, nil
	}
	return nil, []string{"with vLLM 0.32 or newer add this, so that the planner sees whether p99 is within the SLO (older ones end with it): " + words[0] + " '" + words[1] + "'"}
}

// emittedKind is the engine that a plan is written down for: the one whose step times it
// rests on, where its flags are known, else vLLM.
func emittedKind(f build.Options) engine.Kind {
	fit, _ := build.LoadFit(field.Fit, f.Fit) // it was loaded before
	words := []string{fit.Engine}
	if f.Profile != "" {
		if rec, err := store.ReadRecommendation(f.Profile); err == nil {
			words = []string{string(rec.Engine.Kind), rec.Engine.Fit}
		}
	}
	for _, e := range toldEngines {
		if slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(w, string(e.kind)) }) {
			return e.kind
		}
	}
	return engine.KindVLLM
}

// engineConfig is what an engine of a pool was sized with: layout, limits, of one
// attention replica each, and caches. Others have other latencies.
func (e emission) engineConfig(pool int) engine.Config {
	p, own := e.plan, e.plan.candidate.layout.Pools[pool].Engine
	layout, err := engine.ParseParallelism(p.Pools[pool].Engine)
	if err != nil {
		layout = engine.TP(gpusPerEngine(p.Pools[pool]))
	}
	layout = layout.Normal()
	seqs := cmp.Or(own.Limits.MaxNumSeqs, sim.DefaultMaxNumSeqs)
	tokens := cmp.Or(own.Limits.MaxNumBatchedTokens, max(seqs, sim.DefaultMaxNumBatchedTokens))
	return engine.Config{
		Kind: e.kind, Model: plannedModel(e.fleet), Role: p.Pools[pool].Role, Parallelism: layout, KV: p.candidate.kv, PrefixCaching: own.PrefixCaching, MemoryFraction: e.fleet.MemoryFraction,
		Limits: engine.Limits{MaxNumSeqs: max(1, seqs/layout.DP), MaxNumBatchedTokens: max(1, tokens/layout.DP), MaxModelLen: p.Pools[pool].MaxModelLen},
	}
}

// conditions are what the plan depends on beside its engines, in words.
func (e emission) conditions() []string {
	var out []string
	for _, d := range e.plan.details() {
		if d.name == "routing" || d.name == "range" {
			out = append(out, d.name+": "+d.text)
		}
	}
	if bytes := e.caches.dram.Bytes; bytes > 0 {
		out = append(out, fmt.Sprintf("the plan assumes %g GiB of host memory for KV cache per prefilling engine", bytes/(1<<30)))
	}
	return out
}

// plannerConfig is the planner's configuration: keys are its flags.
func (e emission) plannerConfig() ([]yaml.MapSlice, []string) {
	doc := yaml.MapSlice{
		item("ttft", float64(e.slo.TTFT.Microseconds())/1e3), item("itl", float64(e.slo.ITL.Microseconds())/1e3), item("sla-stat", string(e.slo.SLA().Stat)),
	}
	if e.plan.Strategy == capacity.Aggregated {
		doc = append(doc, item("mode", string(store.Aggregated)))
	}
	least := 0
	for _, pool := range e.plan.Pools {
		flag, gpus := "decode-engine-num-gpu", gpusPerEngine(pool)
		if pool.Role == engine.RolePrefill {
			flag = "prefill-engine-num-gpu"
		}
		doc, least = append(doc, item(flag, gpus)), least+gpus
	}
	budget, why := e.plan.TotalGPUsFinal+least, "the plan's GPUs and those of one engine more in each pool, for the planner's margins and corrections"
	if e.gpuCount > 0 {
		budget, why = e.gpuCount, "there are no more GPUs: where the planner wants more in one pool, the other may lose them"
	}
	doc = append(doc, item("min-gpu-budget", least), item("max-gpu-budget", budget))
	if e.fleet.Profile != "" {
		doc = append(yaml.MapSlice{item("profile", e.fleet.Profile)}, doc...)
	}
	return []yaml.MapSlice{doc}, []string{"plimsoll planner serve --config FILE: keys are its flags; milliseconds, GPUs", "max-gpu-budget: " + why}
}

// plannedModel is the profile's model, or its catalog name, or as it was given.
func plannedModel(f build.Options) string {
	if f.Profile != "" {
		if rec, err := store.ReadRecommendation(f.Profile); err == nil { // it was read before
			return rec.Model
		}
	}
	if cat, err := catalog.Load(f.Catalog); err == nil {
		if m, err := cat.Model(f.Model); err == nil && !strings.HasSuffix(f.Model, ".json") {
			return m.Name
		}
	}
	return f.Model
}

// gpusPerEngine is how many GPUs one engine of a pool has.
func gpusPerEngine(p capacity.PoolPlan) int { return p.GPUs / (p.Engines + p.SpareEngines) }
