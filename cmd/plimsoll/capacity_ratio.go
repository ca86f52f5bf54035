package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/capacity"
	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/field"
	"plimsoll/engine/sim/build"
	"plimsoll/engine/sim/fleet"
	"plimsoll/profile"
)

func capacityRatioCommand() *cli.Command {
	return &cli.Command{
		Name: "ratio", Usage: "how many prefill engines go with how many decode engines",
		Description: "(ISL / prefill tokens/s) / (OSL / decode tokens/s), for one shape of requests (tokens) or for the five that are\n" +
			"used as examples, with the share of an aggregated engine's time that prefill takes.\n\n" +
			"   plimsoll capacity ratio --model llama-3.1-70b --isl 3000 --osl 150\n" +
			"   plimsoll capacity ratio --throughput model --model llama-3.1-8b --gpu l40s --itl-p99 40",
		Flags: stringFlags("", [][3]string{
			{"isl", "", "prompt `tokens`, the mean (default: the five classic shapes)"},
			{"osl", "", "output `tokens`, the mean"},
			{"throughput", "published", "`published|model`: a rule of thumb, or what the latency model says of one engine"},
			{"model", "llama-3.1-70b", "model, a catalog `name` or a config.json"},
			{"gpu", simGPU, "with --throughput model: GPU, a catalog `name`"},
			{"tp", "", "with --throughput model: tensor-parallel size, `N` (default: of 1, 2, 4 and 8 that of the most tokens/s/GPU within --itl-p99 that holds a request)"},
			{"weights", published, "with --throughput model: " + weightsUsage},
			{"kv-dtype", "", "with --throughput model: " + kvUsage},
			{"fit", "", fitUsage},
			{"catalog", "", catalogUsage},
			{"profile", "", "throughput from the profile in `DIR`, the best source there is"},
			{"itl-p99", "50", "with --throughput model or --profile: what a decode step may take, `ms`"},
		}),
		Action: showRatios,
	}
}

// shapeRatio is a shape's ratio and the throughput that it comes from.
type shapeRatio struct {
	capacity.PhaseRatio
	Throughput capacity.Throughput `json:"throughput"`
}

func showRatios(c *cli.Context) error {
	p := &parser{c: c}
	shapes := parseShapes(p)
	throughput := parseThroughput(p)
	if p.err != nil {
		return p.err
	}
	var ratios []shapeRatio
	for _, s := range shapes {
		t, err := throughput(s)
		if unmet := (*unmetError)(nil); errors.As(err, &unmet) {
			return showUnmet(c, unmet)
		}
		if err != nil {
			return err
		}
		r, err := capacity.Ratio(s, t)
		if err != nil {
			return field.Errorf("%v", err)
		}
		ratios = append(ratios, shapeRatio{r, t})
	}
	if c.String("format") == "json" {
		return printJSON(c.App.Writer, ratios)
	}
	var b bytes.Buffer
	ratioText(&b, ratios)
	return show(c, b.Bytes())
}

func parseShapes(p *parser) []capacity.Shape {
	isl, osl := p.name("isl"), p.name("osl")
	switch {
	case isl == "" && osl == "":
		return capacity.ClassicShapes()
	case isl == "" || osl == "":
		p.fail(field.Errorf("--isl and --osl go together: want both or none"))
		return nil
	}
	return []capacity.Shape{{Name: "as given", ISL: p.number("isl", 1, maxTokens), OSL: p.number("osl", 1, maxTokens)}}
}

// parseThroughput gives what one engine does with requests of a shape.
func parseThroughput(p *parser) func(capacity.Shape) (capacity.Throughput, error) {
	o := capacityOptions{fleet: build.Options{
		Profile: p.name("profile"), Model: p.name("model"), Catalog: p.name("catalog"), Fit: p.name("fit"),
		Weights: p.weights(), KV: p.kvDType(),
	}}
	gpu := p.name("gpu")
	if p.name("tp") != "" {
		o.asked = []engine.Parallelism{engine.TP(p.integer("tp", 1, maxGPUs, 1))}
	}
	published := p.choice("throughput", "published", "model") == "published" && o.fleet.Profile == ""
	o.slo.ITLP99 = p.millis("itl-p99")
	p.needs(o.fleet.Profile == "", "without --profile, which says it", "throughput", "model", "gpu", "tp", "weights", "kv-dtype", "fit")
	p.needs(!published, "with --throughput model or --profile", "gpu", "tp", "weights", "kv-dtype", "fit", "itl-p99")
	return func(s capacity.Shape) (capacity.Throughput, error) {
		if o.fleet.Profile != "" {
			return o.profileThroughput(s)
		}
		cat, err := catalog.Load(o.fleet.Catalog)
		if err != nil {
			return capacity.Throughput{}, err
		}
		m, err := cat.ModelOrFile(o.fleet.Model)
		if err != nil {
			return capacity.Throughput{}, field.Errorf("--model: %w", err)
		}
		if published {
			return publishedThroughput(m, "--throughput model works for every model of the catalog")
		}
		g, err := cat.GPU(gpu)
		if err != nil {
			return capacity.Throughput{}, field.Errorf("--gpu: %v", err)
		}
		o.workload.ISL, o.workload.OSL = s.ISL, s.OSL
		sizes, err := o.modelThroughputs(cat, m, g)
		if err != nil {
			return capacity.Throughput{}, err
		}
		return sizes[0], nil
	}
}

// promptRate is the prompt tokens/s of one engine of a profile: of as many prompts
// at once as fill its steps, or one after the other where that is not known.
func promptRate(source build.Profile, prefill fleet.Pool, isl float64) float64 {
	if b, ok := source.Prefill.Batch(isl); ok {
		return b.ThroughputPerGPU * float64(prefill.GPUs)
	}
	var prompt engine.Batch
	prompt.AddChunk(int(isl), 0)
	return isl / prefill.Timer.StepTime(prompt).Seconds()
}

// profileThroughput is what the picks of a profile do: prompts that fill their
// steps, and the largest batch whose step is within the ITL.
func (o capacityOptions) profileThroughput(s capacity.Shape) (capacity.Throughput, error) {
	source, err := build.ReadProfile(o.fleet)
	if err != nil {
		return capacity.Throughput{}, err
	}
	prefill, err := source.Pool(engine.RolePrefill)
	if err != nil {
		return capacity.Throughput{}, err
	}
	decode, err := source.Pool(engine.RoleDecode)
	if err != nil {
		return capacity.Throughput{}, err
	}
	if prefill.GPUs != decode.GPUs {
		return capacity.Throughput{}, field.Errorf("--profile %s: prefill was profiled on %d GPUs and decode on %d, so their ratio does not carry over to GPUs", source.Dir, prefill.GPUs, decode.GPUs).
			Hint("plimsoll capacity plan --profile %s sizes both pools", source.Dir)
	}
	o.workload.ISL, o.workload.OSL = s.ISL, s.OSL
	if err := o.roomIn(float64(decode.Engine.KVBlocks*decode.Engine.Limits.BlockSize), source.Recommendation.Decode.Label); err != nil {
		return capacity.Throughput{}, field.Errorf("--profile %s: %v", source.Dir, err).Hint("--isl and --osl that it holds")
	}
	n, step := widest(decode, s.ISL+s.OSL/2, o.slo.ITLP99)
	if step > o.slo.ITLP99.Seconds() {
		return capacity.Throughput{}, tooSlow(step, source.Recommendation.GPU+", "+source.Recommendation.Decode.Label, o.slo.ITLP99, source.Steps.Provenance())
	}
	t := capacity.Throughput{
		Name: fmt.Sprintf("%s on %s, %s", source.Recommendation.Model, source.Recommendation.GPU, source.Recommendation.Decode.Label), Model: source.Recommendation.Model, GPU: source.Recommendation.GPU, TP: decode.GPUs,
		PrefillTPS: promptRate(source, prefill, s.ISL), DecodeTPS: float64(n) / step, MaxBatch: n,
		// The ratio needs neither; a profile need not know them.
		KVBytesPerToken: max(1, int64(source.KVBytes().PerToken)), GPUMemoryBytes: capacity.PublishedGPUBytes,
		Provenance: source.Steps.Provenance(), Warnings: source.Caveats(profile.P99),
	}
	return t, nil
}

// widest is the most sequences of so much context that an engine decodes in a
// step within the ITL, at least 1, and the seconds that the step takes.
func widest(p fleet.Pool, context float64, itl time.Duration) (int, float64) {
	step := func(n int) float64 {
		return p.Timer.StepTime(engine.Batch{DecodeSeqs: n, DecodeContext: int64(float64(n) * context)}).Seconds()
	}
	room := max(1, min(p.Engine.Limits.MaxNumSeqs, int(float64(p.Engine.KVBlocks*p.Engine.Limits.BlockSize)/context)))
	n := max(1, sort.Search(room, func(n int) bool { return step(n+1) > itl.Seconds() }))
	return n, step(n)
}

// ratioEngines names the engines, and which shapes are theirs where they differ.
func ratioEngines(ratios []shapeRatio) string {
	var names []string
	shapes := map[string][]string{}
	for _, r := range ratios {
		n := r.Throughput.Name
		if shapes[n] == nil {
			names = append(names, n)
		}
		shapes[n] = append(shapes[n], r.Name)
	}
	if len(names) == 1 {
		return "Engines: " + names[0] + "\n"
	}
	var b strings.Builder
	for _, n := range names {
		fmt.Fprintf(&b, "Engines of %s: %s\n", strings.Join(shapes[n], ", "), n)
	}
	return b.String()
}

func ratioText(b *bytes.Buffer, ratios []shapeRatio) {
	weakest := profile.Measured
	for _, r := range ratios {
		weakest = profile.Weakest(weakest, r.Provenance)
	}
	if len(ratios) > 0 {
		doubtLines(b, ratios[0].Throughput.Warnings, weakest)
	}
	b.WriteString(ratioEngines(ratios) + "\n")
	t := newTable("shape", "ISL", "OSL", "prefill tokens/s", "decode tokens/s", "prefill:decode", "prefill's share", "saved over 1:1", "pools of their own")
	var why []string
	for _, r := range ratios {
		advice := "no"
		if r.Disaggregate {
			advice = "yes"
		}
		t.row(r.Name, plain(r.ISL), plain(r.OSL), fmt.Sprintf("%.0f", r.Throughput.PrefillTPS), fmt.Sprintf("%.0f", r.Throughput.DecodeTPS),
			r.Text, tenths(r.PrefillShare), tenths(r.SavingOver1To1), advice)
		if line := fmt.Sprintf("  %s: %s\n", r.Name, r.Why); !slices.Contains(why, line) {
			why = append(why, line)
		}
	}
	b.WriteString(t.text("  "))
	b.WriteString("\n" + strings.Join(why, ""))
	for _, w := range ratios[0].Throughput.Warnings {
		fmt.Fprintf(b, "\n  warning: %s\n", w.Message)
	}
	b.WriteString("\n  saved over 1:1: engines that a split by this ratio saves over as many prefill as decode engines, in large fleets\n")
}
