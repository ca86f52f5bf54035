package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/field"
	"plimsoll/interpolation"
	"plimsoll/profile"
	"plimsoll/profile/store"
	"plimsoll/recommend"
	"plimsoll/sweep"
)

func importCommand() *cli.Command {
	return &cli.Command{
		Name: "import", Usage: "turn NVIDIA Dynamo's NPZ files into a profile directory", ArgsUsage: "FILE [FILE]",
		Description: "FILE is a folder that holds selected_prefill_interpolation and selected_decode_interpolation. Or give two files\n" +
			"in any order: the raw_data.npz of each, or the pre-swept file of each. Pre-swept files hold many\n" +
			"configurations; --row or the other filters choose one.\n" +
			"Dynamo's files do not say how they came about: they count as published unless --provenance says more.\n" +
			"Figures that cannot be right end it with exit code 2: throughput above the GPU's peak, which --model and --gpu\n" +
			"say, TTFT that hardly grows with the prompt, or KV use above 2. --accept implausible imports them all the same.\n\n" +
			"   plimsoll profile-sla import --tp 1 --isl 3000 --osl 300 --ttft 200 --itl 10 h200_profile/\n" +
			"   plimsoll profile-sla import --tp 1 prefill.npz decode.npz\n" +
			"   plimsoll profile-sla import --row 3 swept_prefill.npz swept_decode.npz",
		Flags: append(stringFlags("", [][3]string{
			{"isl", "3000", "input sequence length, `tokens`"},
			{"osl", "500", "output sequence length, `tokens`"},
			{"ttft", "50", "SLA: time to first token, `ms`"},
			{"itl", "10", "SLA: inter-token latency, `ms`"},
			{"row", "", "`N`-th configuration of a pre-swept file, from 0"},
			{"tp", "", "tensor-parallel size: of an engine that its files do not name, or to choose a row, `N`"},
			{"gpu", "", "GPU: of an engine that its files do not name, or to choose a row, `name`"},
			{"model", "", "model, likewise, `name`"},
			{"framework", "", "framework, likewise, `name`"},
			{"accept", "", "import it although these are wrong, separated by commas: `implausible`, figures that no GPU can have; whatever reads the profile then says so first"},
			{"provenance", "published", "how the numbers came about: `measured|simulated|estimated|published`"},
			{"catalog", "", "`FILE` of further models or GPUs"},
			{"output-dir", "profiling_results", "`DIR` to write"},
		}), &cli.BoolFlag{Name: "force", Usage: "move another run in --output-dir aside"}, detailsFlag()),
		Action: importAction,
	}
}

// imported is one configuration's two surfaces, and what they are of.
type imported struct {
	prefill          profile.PrefillSurface
	decode           profile.DecodeSurface
	layout           engine.Parallelism
	gpu, model       string
	framework        string
	frameworkVersion string
	limits           engine.Limits
}

func importAction(c *cli.Context) error {
	p := &parser{c: c}
	o := profileOptions{
		isl: p.integer("isl", 1, maxTokens, 0), osl: p.outputTokens("osl"),
		sla: profile.SLA{TTFT: p.millis("ttft"), ITL: p.millis("itl"), Stat: profile.Mean},
		dir: c.String("output-dir"), force: c.Bool("force"), catalog: c.String("catalog"),
		quiet: c.Bool("quiet"), details: c.Bool("details"), format: c.String("format"),
	}
	accepted := p.accepted(implausible)
	prov, err := profile.ParseProvenance(p.choice("provenance", "published", "measured", "simulated", "estimated"))
	if err := cmp.Or(p.err, err); err != nil {
		return err
	}
	if !c.Args().Present() {
		return field.Errorf("import needs a folder or two files").Hint("see plimsoll profile-sla import --help")
	}
	in, err := readImport(c, p, store.LoadOptions{Provenance: &prov})
	if err != nil {
		return err
	}
	dep, err := in.deployment(o)
	if err != nil {
		return err
	}
	if err := in.plausible(&dep, slices.Contains(accepted, implausible)); err != nil {
		return err
	}
	return writeImport(c, o, dep, in)
}

// importedCode is of a profile that another program measured.
const importedCode = "imported"

// implausible is the word of --accept for figures that cannot be right.
const implausible = "implausible"

// accepted reads --accept: what is taken although it is wrong.
func (p *parser) accepted(words ...string) []string {
	given := fields(p.c.String("accept"))
	for _, w := range given {
		if !slices.Contains(words, w) {
			p.fail(field.Errorf("--accept %q: want %s", w, orList(words)))
		}
	}
	return given
}

// plausible refuses figures that cannot be right, unless they are accepted: then they are
// the first of dep's warnings. It warns where nobody can tell.
func (in imported) plausible(dep *deployment, accepted bool) error {
	facts := dep.surfaceFacts(engine.Config{Parallelism: in.layout, Limits: in.limits})
	wrong := profile.Implausible(append(interpolation.CheckPrefill(in.prefill, facts), interpolation.CheckDecode(in.decode, facts)...))
	known := dep.model != nil && dep.gpu != nil
	if len(wrong) > 0 && !accepted {
		var said []string
		for _, w := range wrong {
			said = append(said, w.Message)
		}
		e := field.Errorf("import: the figures are implausible: %s", strings.Join(said, "; "))
		if !known {
			e = e.Hint("--model and --gpu of the catalog hold them against the GPU's peak instead")
		}
		return e.Hint("--accept %s imports them anyway; every command that reads the profile then warns", implausible)
	}
	dep.warnings = append(wrong, dep.warnings...)
	if !known {
		why := fmt.Sprintf("the catalog does not have model %q on GPU %q. Set --model and --gpu, or add them with --catalog FILE", in.model, in.gpu)
		if in.model == "" && in.gpu == "" {
			why = "no --model and --gpu were given"
		}
		dep.warnings = append(dep.warnings, profile.Warnf("peak_unchecked", "throughput was not checked against the GPU's peak: %s", why))
	}
	return nil
}

func readImport(c *cli.Context, p *parser, lo store.LoadOptions) (imported, error) {
	tp := p.integer("tp", 1, maxGPUs, 0)
	row := p.integer("row", 0, maxTokens, -1)
	if p.err != nil {
		return imported{}, p.err
	}
	paths := c.Args().Slice()
	info, err := os.Stat(paths[0])
	if err != nil {
		return imported{}, field.Errorf("import: %v", err)
	}
	if info.IsDir() {
		return readFolder(paths[0], tp, c, lo)
	}
	want := func(s store.SweptConfig) bool {
		return s == (store.SweptConfig{}) || (tp == 0 || s.TP == tp) && matches(s.GPUType, c.String("gpu")) && matches(s.Model, c.String("model")) && matches(s.Framework, c.String("framework"))
	}
	var in imported
	var chosen []store.SweptRow
	for _, path := range paths {
		rows, err := store.ReadSwept(path, lo)
		if err != nil {
			return in, field.Errorf("import: %v", err)
		}
		r, err := oneRow(path, store.FilterSwept(rows, want), row)
		if err != nil {
			return in, err
		}
		chosen = append(chosen, r)
		if r.Phase == profile.Prefill {
			in.prefill = r.Prefill
		} else {
			in.decode = r.Decode
		}
	}
	if first, last := chosen[0].Phase, chosen[len(chosen)-1].Phase; first == last {
		missing := map[profile.Phase]profile.Phase{profile.Prefill: profile.Decode, profile.Decode: profile.Prefill}[first]
		return in, field.Errorf("import %s: only %s: the file of %s is missing", strings.Join(paths, " "), first, missing).Hint("give both, in any order")
	}
	if chosen[0].Config.Parallelism() != chosen[1].Config.Parallelism() || chosen[0].Config.Model != chosen[1].Config.Model {
		return in, field.Errorf("import: the two rows differ: %s and %s", chosen[0].Config, chosen[1].Config)
	}
	s := chosen[0].Config
	if s == (store.SweptConfig{}) {
		err := in.named(strings.Join(paths, " "), tp, c)
		return in, err
	}
	in.layout, in.gpu, in.model, in.framework, in.frameworkVersion = s.Parallelism(), s.GPUType, s.Model, s.Framework, s.FrameworkVersion
	in.limits = engine.Limits{BlockSize: s.BlockSize, MaxNumSeqs: s.MaxBatchSize}
	return in, nil
}

// matches compares without regard to case and separators; an empty want matches all.
func matches(have, want string) bool {
	norm := func(s string) string {
		return strings.ToLower(strings.NewReplacer("_", "", "-", "", " ", "").Replace(s))
	}
	return want == "" || norm(have) == norm(want)
}

func oneRow(path string, rows []store.SweptRow, want int) (store.SweptRow, error) {
	if want >= 0 {
		i := slices.IndexFunc(rows, func(r store.SweptRow) bool { return r.Row == want })
		if i < 0 {
			return store.SweptRow{}, field.Errorf("import %s: no row %d passes the filters", path, want)
		}
		return rows[i], nil
	}
	if len(rows) == 1 {
		return rows[0], nil
	}
	e := field.Errorf("import %s: %d rows pass the filters: choose one with --row", path, len(rows))
	for _, r := range rows[:min(len(rows), 20)] {
		e = e.Hint("row %d: %s", r.Row, r.Config)
	}
	return store.SweptRow{}, e
}

func readFolder(dir string, tp int, c *cli.Context, lo store.LoadOptions) (imported, error) {
	var in imported
	if err := in.named(dir, tp, c); err != nil {
		return in, err
	}
	var perr, derr error
	in.prefill, perr = store.LoadPrefill(dir, lo)
	in.decode, derr = store.LoadDecode(dir, lo)
	if err := errors.Join(perr, derr); err != nil {
		e := field.Errorf("import: %v", err)
		if errors.Is(err, os.ErrNotExist) {
			e = e.Hint("files of other names are given one by one: import --tp N PREFILL.npz DECODE.npz")
		}
		return in, e
	}
	return in, nil
}

// named takes from the flags what engine it is where the files do not say it.
func (in *imported) named(from string, tp int, c *cli.Context) error {
	if tp == 0 {
		return field.Errorf("import %s: nothing there says how many GPUs the engine has: give --tp N", from)
	}
	in.layout, in.gpu, in.model, in.framework = engine.TP(tp), c.String("gpu"), c.String("model"), c.String("framework")
	return nil
}

// deployment is what the imported engine was, as far as the catalog knows it.
func (in imported) deployment(o profileOptions) (deployment, error) {
	cat, err := catalog.Load(o.catalog)
	if err != nil {
		return deployment{}, err
	}
	d := deployment{
		kind: cmp.Or(engine.Kind(in.framework), "unknown"), modelName: in.model, gpuName: in.gpu, gpuCount: in.layout.GPUs(), imported: true,
		provenance: profile.Weakest(in.prefill.Provenance, in.decode.Provenance),
	}
	if m, err := cat.Model(in.model); err == nil {
		d.model, d.modelName = &m, m.Name
	}
	if g, err := cat.GPU(in.gpu); err == nil {
		d.gpu, d.gpuName = &g, g.Name
	}
	return d, nil
}

func writeImport(c *cli.Context, o profileOptions, dep deployment, in imported) (err error) {
	points, err := in.points(o)
	if err != nil {
		return err
	}
	dep.warnings = append(dep.warnings, profile.Warnf(importedCode, "taken from imported surfaces; this program sent no requests"))
	o.inputs, _ = o.inputsOf(c)
	j, err := openJob(o, dep)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.close()) }()
	res, so, err := in.result(points, o)
	if err != nil {
		return err
	}
	out, err := j.finish(res, so)
	if err != nil {
		return err
	}
	ui := newConsole(c, o)
	if err := ui.result(out); err != nil {
		return err
	}
	if !out.rec.Feasible {
		return &infeasibleError{msg: "the imported engine does not meet the SLA"}
	}
	return nil
}

// result is what a sweep would have found, had it measured these surfaces.
func (in imported) result(points []profile.Point, o profileOptions) (sweep.Result, sweep.Options, error) {
	pre, perr := recommend.Choose(profile.Prefill, points, o.sla, recommend.BySingle, o.osl)
	dec, derr := recommend.Choose(profile.Decode, points, o.sla, recommend.BySingle, o.osl)
	res := sweep.Result{
		Points: points, Prefill: pre, Decode: dec, PrefillSurface: in.prefill, DecodeSurface: in.decode,
		Engines: map[string]profile.EngineFacts{"import": {
			Version: in.frameworkVersion, Model: in.model, KVTokens: in.decode.MaxKVTokens, BlockSize: in.limits.BlockSize,
			MaxNumSeqs: in.limits.MaxNumSeqs, Provenance: profile.Weakest(in.prefill.Provenance, in.decode.Provenance),
		}},
	}
	return res, sweep.Options{ISL: o.isl, OSL: o.osl, SLA: o.sla}, errors.Join(perr, derr)
}

// points are read off the surfaces, as a sweep would have measured them: TTFT at the
// target ISL, and at the target context a row of loads, with the largest that keeps
// the ITL among them.
func (in imported) points(o profileOptions) ([]profile.Point, error) {
	pf, err := interpolation.FitPrefill(in.prefill)
	if err != nil {
		return nil, field.Errorf("import: prefill: %v", err)
	}
	df, err := interpolation.FitDecode(in.decode, in.layout.GPUs())
	if err != nil {
		return nil, field.Errorf("import: decode: %v", err)
	}
	cfg := engine.Config{Model: in.model, GPU: in.gpu, Parallelism: in.layout, Limits: in.limits}
	ttft := pf.TTFT(float64(o.isl))
	points := []profile.Point{{
		ID: "import/prefill", Stage: profile.StageSweep, Phase: profile.Prefill, Config: cfg, Provenance: in.prefill.Provenance,
		ISL: o.isl, OSL: 1, Asked: 1, InFlight: 1, Context: float64(o.isl), TTFT: alone(ttft.Value),
		ThroughputPerGPU: pf.ThroughputPerGPU(float64(o.isl)).Value, Requests: 1, Warnings: ttft.Warnings(),
	}}
	context := float64(o.isl) + float64(o.osl)/2
	for _, n := range importedLoads(df, o.sla.ITL, context) {
		itl := df.ITLAt(n, context)
		points = append(points, profile.Point{
			ID: fmt.Sprintf("import/decode/n%.6g", n), Stage: profile.StageSweep, Phase: profile.Decode, Config: cfg, Provenance: in.decode.Provenance,
			ISL: o.isl, OSL: o.osl, Asked: int(n), InFlight: n, Context: context, KVUsage: n * context / float64(in.decode.MaxKVTokens),
			MaxKV: in.decode.MaxKVTokens, ITL: alone(itl.Value), ThroughputPerGPU: df.ThroughputAt(n, context).Value, Requests: 1, Warnings: itl.Warnings(),
		})
	}
	return points, nil
}

// alone is the distribution of one figure.
func alone(d time.Duration) profile.Distribution {
	return profile.Distribution{N: 1, Mean: d, Min: d, Max: d, P50: d, P90: d, P95: d, P99: d}
}

// importedLoads rise over the measured loads of a context by a factor of √2 at most.
// What is sustained is between them: a load that comes on its own is now above the
// largest that keeps the limit, and now below.
func importedLoads(df interpolation.Decode, limit time.Duration, context float64) []float64 {
	const same = 0.02 // loads so near each other are one
	low, high := df.InFlight(context)
	low, high = max(1, low), max(1, high)
	best := max(1, df.BestThroughput(limit, context).InFlight)
	loads := []float64{best}
	steps := max(1, math.Ceil(2*math.Log2(high/low)))
	for i := range int(steps) + 1 {
		if n := low * math.Pow(high/low, float64(i)/steps); math.Abs(n-best) > same*n {
			loads = append(loads, n)
		}
	}
	slices.Sort(loads)
	return loads
}
