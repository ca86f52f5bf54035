package main

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/urfave/cli/v2"

	"plimsoll/capacity"
	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/field"
	"plimsoll/engine/sim"
	"plimsoll/profile/store"
)

// emitted is what --emit prints instead of the plan; the empty word is the plan.
func emitted(p *parser) string {
	if p.name("emit") == "" {
		return ""
	}
	word := p.choice("emit", "kubernetes", "planner")
	if p.c.String("format") != "text" {
		p.fail(field.Errorf("--emit %s prints YAML: --format %s has no place beside it", word, p.c.String("format")))
	}
	return word
}

// emit prints the cheapest plan for what is to run it.
func (o capacityOptions) emit(c *cli.Context, out sizedPlans) error {
	if len(out.Plans) == 0 || out.Plans[0].Infeasible != nil {
		return showPlans(c, out) // why there is nothing to run
	}
	p := out.Plans[0]
	var doc yaml.MapSlice
	var notes []string
	switch {
	case o.emitAs == "planner":
		doc, notes = o.plannerConfig(p)
	case p.Strategy == capacity.Disaggregated:
		doc, notes = o.graphDeployment(p)
	default:
		doc, notes = o.deployment(p)
	}
	notes = append(notes, o.conditions(p)...)
	body, err := yaml.MarshalWithOptions(doc, yaml.IndentSequence(true))
	if err != nil {
		return fmt.Errorf("writing YAML: %w", err)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# plimsoll capacity plan: %d × %s, %s; latencies are %s\n", p.TotalGPUsFinal, p.Pools[0].GPU, p.Layout, p.Provenance)
	for _, n := range notes {
		fmt.Fprintf(&b, "# %s\n", n)
	}
	for _, w := range p.Warnings {
		fmt.Fprintf(&b, "# warning: %s\n", w.Message)
	}
	b.Write(body)
	return show(c, b)
}

func item(key string, value any) yaml.MapItem { return yaml.MapItem{Key: key, Value: value} }

// graphDeployment are the replica counts of NVIDIA Dynamo's two worker services,
// under the names that its vLLM recipes give them (v1alpha1).
func (o capacityOptions) graphDeployment(p sizedPlan) (yaml.MapSlice, []string) {
	names := map[engine.Role]string{engine.RolePrefill: "VllmPrefillWorker", engine.RoleDecode: "VllmDecodeWorker"}
	var services yaml.MapSlice
	notes := []string{"replica counts and GPUs only: kubectl patch dynamographdeployment NAME --type merge --patch-file FILE"}
	for i, pool := range p.Pools {
		notes = append(notes, fmt.Sprintf("the plan is for a %s with %s", names[pool.Role], strings.Join(p.engineArgs(i), " ")))
		services = append(services, item(names[pool.Role], yaml.MapSlice{
			item("componentType", "worker"), item("subComponentType", string(pool.Role)), item("replicas", pool.Engines+pool.SpareEngines),
			item("resources", yaml.MapSlice{item("limits", yaml.MapSlice{item("gpu", itoa(gpusPerEngine(pool)))})}),
		}))
	}
	return yaml.MapSlice{
		item("apiVersion", "nvidia.com/v1alpha1"), item("kind", "DynamoGraphDeployment"),
		item("metadata", yaml.MapSlice{item("name", "plimsoll-plan")}), item("spec", yaml.MapSlice{item("services", services)}),
	}, notes
}

// deployment runs aggregated engines.
func (o capacityOptions) deployment(p sizedPlan) (yaml.MapSlice, []string) {
	pool := p.Pools[0]
	labels := yaml.MapSlice{item("app", "plimsoll-plan")}
	args := append([]string{"--model", o.servedModel()}, p.engineArgs(0)...)
	container := yaml.MapSlice{
		item("name", "engine"), item("image", "vllm/vllm-openai"), item("args", args),
		item("resources", yaml.MapSlice{item("limits", yaml.MapSlice{item("nvidia.com/gpu", gpusPerEngine(pool))})}),
	}
	notes := []string{"pin the image's version, and the nodes' GPU to " + pool.GPU, "an existing one: kubectl patch deployment NAME --patch '{\"spec\":{\"replicas\":" + itoa(pool.Engines+pool.SpareEngines) + "}}'"}
	if o.fleet.Profile == "" && o.fleet.Weights != "" && o.fleet.Weights != engine.BF16 {
		notes = append(notes, fmt.Sprintf("the plan is for weights in %s: name a checkpoint that has them", o.fleet.Weights))
	}
	return yaml.MapSlice{
		item("apiVersion", "apps/v1"), item("kind", "Deployment"), item("metadata", yaml.MapSlice{item("name", "plimsoll-plan")}),
		item("spec", yaml.MapSlice{
			item("replicas", pool.Engines+pool.SpareEngines), item("selector", yaml.MapSlice{item("matchLabels", labels)}),
			item("template", yaml.MapSlice{
				item("metadata", yaml.MapSlice{item("labels", labels)}),
				item("spec", yaml.MapSlice{item("containers", []yaml.MapSlice{container})}),
			}),
		}),
	}, notes
}

// engineArgs are vLLM's, for the layout, the limits and the caches that a pool's
// engines were sized with: others have other latencies. Limits are those of one
// attention replica.
func (p sizedPlan) engineArgs(pool int) []string {
	e := p.candidate.layout.Pools[pool].Engine
	layout, err := engine.ParseParallelism(p.Pools[pool].Engine)
	if err != nil {
		layout = engine.TP(gpusPerEngine(p.Pools[pool]))
	}
	layout = layout.Normal()
	seqs := cmp.Or(e.Limits.MaxNumSeqs, sim.DefaultMaxNumSeqs)
	tokens := cmp.Or(e.Limits.MaxNumBatchedTokens, max(seqs, sim.DefaultMaxNumBatchedTokens))
	args := []string{"--tensor-parallel-size", itoa(layout.TP)}
	if layout.PP > 1 {
		args = append(args, "--pipeline-parallel-size", itoa(layout.PP))
	}
	if layout.DP > 1 {
		args = append(args, "--data-parallel-size", itoa(layout.DP))
	}
	if layout.EP > 1 {
		args = append(args, "--enable-expert-parallel")
	}
	args = append(args, "--max-num-seqs", itoa(max(1, seqs/layout.DP)), "--max-num-batched-tokens", itoa(max(1, tokens/layout.DP)))
	if n := p.Pools[pool].MaxModelLen; n > 0 {
		args = append(args, "--max-model-len", itoa(n))
	}
	if flag := kvFlags(p.candidate.kv)[engine.KindVLLM]; flag != "" {
		args = append(args, strings.Fields(flag)...)
	}
	if e.PrefixCaching {
		return append(args, "--enable-prefix-caching")
	}
	return append(args, "--no-enable-prefix-caching")
}

// conditions are what the plan depends on beside its engines, in words.
func (o capacityOptions) conditions(p sizedPlan) []string {
	var out []string
	for _, d := range p.details() {
		if d.name == "routing" || d.name == "range" {
			out = append(out, d.name+": "+d.text)
		}
	}
	if bytes := o.caches.dram.Bytes; bytes > 0 {
		out = append(out, fmt.Sprintf("the plan has %g GiB of the host's memory for KV below each engine that takes prompts", bytes/(1<<30)))
	}
	return out
}

// plannerConfig is the planner's configuration: keys are its flags.
func (o capacityOptions) plannerConfig(p sizedPlan) (yaml.MapSlice, []string) {
	doc := yaml.MapSlice{
		item("ttft", float64(o.slo.TTFTP99.Microseconds())/1e3), item("itl", float64(o.slo.ITLP99.Microseconds())/1e3), item("sla-stat", "p99"),
	}
	if p.Strategy == capacity.Aggregated {
		doc = append(doc, item("mode", string(store.Aggregated)))
	}
	least := 0
	for _, pool := range p.Pools {
		flag, gpus := "decode-engine-num-gpu", gpusPerEngine(pool)
		if pool.Role == engine.RolePrefill {
			flag = "prefill-engine-num-gpu"
		}
		doc, least = append(doc, item(flag, gpus)), least+gpus
	}
	doc = append(doc, item("min-gpu-budget", least), item("max-gpu-budget", p.TotalGPUsFinal))
	if o.fleet.Profile != "" {
		doc = append(yaml.MapSlice{item("profile", o.fleet.Profile)}, doc...)
	}
	return doc, []string{"plimsoll planner serve --config FILE: keys are its flags; milliseconds, GPUs"}
}

// servedModel is the profile's model, or its catalog name, or as it was given.
func (o capacityOptions) servedModel() string {
	if o.fleet.Profile != "" {
		if rec, err := store.ReadRecommendation(o.fleet.Profile); err == nil { // it was read before
			return rec.Model
		}
	}
	if cat, err := catalog.Load(o.fleet.Catalog); err == nil {
		if m, err := cat.Model(o.fleet.Model); err == nil && !strings.HasSuffix(o.fleet.Model, ".json") {
			return m.Name
		}
	}
	return o.fleet.Model
}

// gpusPerEngine is how many GPUs one engine of a pool has.
func gpusPerEngine(p capacity.PoolPlan) int { return p.GPUs / (p.Engines + p.SpareEngines) }
