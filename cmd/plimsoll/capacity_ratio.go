package main

import (
	"cmp"
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/capacity"
	"plimsoll/engine"
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
		Flags: append(stringFlags("", [][3]string{
			{"isl", "", "prompt `tokens`, the mean (default: the five classic shapes)"},
			{"osl", "", "output `tokens`, the mean"},
			{"osl-p99", "", "with --throughput model or --profile: their 99th percentile, `tokens`; running requests then hold more KV (default: the mean)"},
			{"throughput", "published", "`published|model`: a rule of thumb, or what the latency model says of one engine"},
			{"model", "llama-3.1-70b", "model, a catalog `name` or a config.json"},
			{"gpu", simGPU, "with --throughput model: GPU, a catalog `name`"},
			{"tp", "", "with --throughput model: tensor-parallel size, `N` (default: of 1, 2, 4 and 8 that of the most tokens/s/GPU within --itl-p99 that holds a request)"},
			{"gpus-per-node", "", "with --throughput model: " + perNodeUsage},
			{"weights", published, "with --throughput model: " + weightsUsage},
			{"kv-dtype", "", "with --throughput model: " + kvUsage},
			{"memory-fraction", "", "with --throughput model: " + memoryUsage},
			{"fit", "", fitUsage},
			{"catalog", "", catalogUsage},
			{"profile", "", "throughput from the profile in `DIR`, the best source there is"},
			{"itl-p99", "50", "with --throughput model or --profile: what a decode step may take, `ms`"},
		}), detailsFlag()),
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
	return showCard(c, ratios, func() card { return ratioCard(ratios, afterRatio(p, ratios)) }, func() string { return ratioWhy(ratios) })
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

// oneEngine is the engine whose tokens/s are asked for, of requests within an ITL.
type oneEngine struct {
	demand
	fleet build.Options
	asked []engine.Parallelism // layouts; nil = those worth trying
}

// parseThroughput gives what one engine does with requests of a shape.
func parseThroughput(p *parser) func(capacity.Shape) (capacity.Throughput, error) {
	o := oneEngine{fleet: p.engines()}
	gpu := p.name("gpu")
	if p.name("tp") != "" {
		o.asked = []engine.Parallelism{engine.TP(p.integer("tp", 1, maxGPUs, 1))}
	}
	published := p.choice("throughput", "published", "model") == "published" && o.fleet.Profile == ""
	o.slo.ITL = p.millis("itl-p99")
	p.needs(o.fleet.Profile == "", "without --profile, which says it", "throughput", "model", "gpu", "gpus-per-node", "tp", "weights", "kv-dtype", "memory-fraction", "fit")
	p.needs(!published, "with --throughput model or --profile", "gpu", "gpus-per-node", "tp", "weights", "kv-dtype", "memory-fraction", "fit", "itl-p99", "osl-p99")
	p.needs(p.name("osl") != "", "with --osl", "osl-p99")
	if p.name("osl-p99") != "" {
		o.workload.OSLP99 = p.number("osl-p99", p.number("osl", 1, maxTokens), maxTokens)
	}
	return func(s capacity.Shape) (capacity.Throughput, error) {
		if o.fleet.Profile != "" {
			return o.profileThroughput(s)
		}
		cat, m, err := catalogModel(o.fleet)
		if err != nil {
			return capacity.Throughput{}, err
		}
		if published {
			return publishedThroughput(m, "--throughput model works for every model of the catalog")
		}
		g, err := cat.GPU(gpu)
		if err != nil {
			return capacity.Throughput{}, field.Errorf("--gpu: %v", err)
		}
		g.PerNode = cmp.Or(o.fleet.PerNode, g.PerNode)
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
func (o oneEngine) profileThroughput(s capacity.Shape) (capacity.Throughput, error) {
	source, err := build.ReadProfile(o.fleet)
	if err != nil {
		return capacity.Throughput{}, err
	}
	prefill, err1 := source.Pool(engine.RolePrefill)
	decode, err2 := source.Pool(engine.RoleDecode)
	if err := cmp.Or(err1, err2); err != nil {
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
	n, step := widest(decode, o.workload.Context(), o.slo.ITL)
	if step > o.slo.ITL.Seconds() {
		return capacity.Throughput{}, tooSlow(step, source.Recommendation.GPU+", "+source.Recommendation.Decode.Label, o.slo.ITL, source.Steps.Provenance())
	}
	return capacity.Throughput{
		Name: fmt.Sprintf("%s on %s, %s", source.Recommendation.Model, source.Recommendation.GPU, source.Recommendation.Decode.Label), Model: source.Recommendation.Model, GPU: source.Recommendation.GPU, TP: decode.GPUs,
		PrefillTPS: promptRate(source, prefill, s.ISL), DecodeTPS: float64(n) / step, MaxBatch: n,
		// The ratio needs neither; a profile need not know them.
		KVBytesPerToken: max(1, int64(source.KVBytes().PerToken)), GPUMemoryBytes: capacity.PublishedGPUBytes,
		Provenance: source.Steps.Provenance(), Warnings: source.Caveats(profile.P99),
	}, nil
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

func ratioCard(ratios []shapeRatio, next string) card {
	weakest := profile.Measured
	t := newTable("shape", "ISL", "OSL", "engine", "prefill tokens/s", "decode tokens/s", "prefill:decode", "prefill's share", "saved over 1:1", "pools of their own")
	var apart []string
	for _, r := range ratios {
		weakest = profile.Weakest(weakest, r.Provenance)
		advice := "no"
		if r.Disaggregate {
			advice, apart = "yes", append(apart, r.Name)
		}
		_, engine, _ := strings.Cut(r.Throughput.Name, " on ")
		t.row(r.Name, plain(r.ISL), plain(r.OSL), engine, fmt.Sprintf("%.0f", r.Throughput.PrefillTPS), fmt.Sprintf("%.0f", r.Throughput.DecodeTPS),
			r.Text, tenths(r.PrefillShare), tenths(r.SavingOver1To1), advice)
	}
	first := ratios[0]
	answer := fmt.Sprintf("%s prefill to decode engines; %s", first.Text, first.Why)
	if len(ratios) > 1 {
		answer = "prefill and decode in pools of their own for " + cmp.Or(strings.Join(apart, ", "), "none of these shapes")
	}
	return card{
		head:  []string{marked(weakest), shortModel(first.Throughput.Model), "prefill to decode engines"},
		facts: []detail{{"Answer", answer}}, table: t,
		below: []string{
			"prefill's share: of an aggregated engine's time; where it is large, prompts often delay decoding",
			"saved over 1:1: engines that a split by this ratio saves over as many prefill as decode engines, in large fleets",
		},
		warnings: first.Throughput.Warnings, next: next,
	}
}

func ratioWhy(ratios []shapeRatio) string {
	var b strings.Builder
	for _, r := range ratios {
		fmt.Fprintf(&b, "  %s: %s\n", r.Name, r.Why)
	}
	return b.String()
}

// afterRatio is the command with better tokens/s, or of a profile the plan.
func afterRatio(p *parser, ratios []shapeRatio) string {
	model, lengths, t := p.name("model"), "", ratios[0].Throughput
	if len(ratios) == 1 {
		lengths = fmt.Sprintf(" --isl %s --osl %s", plain(ratios[0].ISL), plain(ratios[0].OSL))
	}
	switch dir := p.name("profile"); {
	case dir != "":
		return fmt.Sprintf("plimsoll capacity plan --profile %s --gpu-count %d%s", dir, 2*t.TP, lengths)
	case t.Provenance == profile.Published:
		return fmt.Sprintf("plimsoll capacity ratio --throughput model --model %s%s", model, lengths)
	default:
		return fmt.Sprintf("plimsoll profile-sla --model %s --gpu %s --itl %s%s", model, p.name("gpu"), p.name("itl-p99"), lengths)
	}
}

// unmetError says why an engine breaks an SLO with one request that has it to
// itself: no number of engines mends that.
type unmetError struct {
	Why        string             `json:"infeasible"`
	Provenance profile.Provenance `json:"provenance"`
}

func (e *unmetError) Error() string { return e.Why }

// tooSlow is an engine whose steps of so many seconds with one sequence break
// the ITL.
func tooSlow(step float64, on string, itl time.Duration, p profile.Provenance) *unmetError {
	return &unmetError{fmt.Sprintf("decoding alone takes %.4g ms a token on %s (limit %.4g ms)", step*1e3, on, itl.Seconds()*1e3), p}
}

// showUnmet prints why nothing meets the SLO, and ends so.
func showUnmet(c *cli.Context, u *unmetError) error {
	said := card{head: []string{marked(u.Provenance)}, facts: []detail{{"SLO", "no number of engines holds it: " + u.Why}}}
	if err := showCard(c, u, func() card { return said }, func() string { return "" }); err != nil {
		return err
	}
	return &infeasibleError{u.Why}
}
