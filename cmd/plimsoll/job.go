package main

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"plimsoll/engine"
	"plimsoll/interpolation"
	"plimsoll/profile"
	"plimsoll/profile/store"
	"plimsoll/recommend"
	"plimsoll/sweep"
)

// job is one profile run in its output folder: it records every point as it
// finishes, and in the end writes everything that follows from them.
type job struct {
	opts    profileOptions
	dep     deployment
	dir     *store.Dir
	journal *store.Journal
	known   sweep.Known
	damaged []int // lines of the journal that could not be read
	started time.Time
	inputs  store.Inputs
	spent   store.Spent

	estimate bool // no raw records, and a journal that waits for no disk: all of it can be computed again
}

// runInputs are what a resumed run must agree on: the flags, and what they were
// resolved to on this machine.
func runInputs(o profileOptions, d deployment) store.Inputs {
	in := store.Inputs{}
	for k, v := range o.inputs {
		in["--"+k] = v
	}
	for flag, path := range map[string]string{"--catalog": o.catalog, "--fit": o.fit, "--model": o.model, "--trace": o.trace, "--dataset": o.dataset} {
		if b, err := os.ReadFile(path); err == nil {
			in["contents of "+flag] = fmt.Sprintf("%.6x", sha256.Sum256(b))
		}
	}
	if len(o.typed) > 0 {
		in["engine arguments"] = strings.Join(o.redacted(o.typed), " ")
	}
	in["engine kind"] = string(d.kind)
	if d.modelled() {
		in["fit"] = d.fitName()
	}
	in["model"], in["GPU"], in["GPU count"] = d.modelName, d.gpuName, itoa(d.gpuCount)
	return in
}

func knownFrom(log store.JournalLog) sweep.Known {
	k := sweep.Known{Points: log.Points, Cost: sweep.Cost(log.Spent.Total), Engines: map[string]profile.EngineFacts{}}
	for _, e := range log.Engines {
		k.Engines[e.Key] = e.EngineFacts
	}
	return k
}

// Point implements sweep.Recorder: the raw records are on disk before the journal
// says that the point is done. Those of an estimate are not kept: its seed makes them
// again.
func (j *job) Point(p profile.Point, rs []profile.Request, spent sweep.Cost) error {
	if !j.estimate {
		if err := store.WriteRequests(j.dir.Path, p.ID, rs); err != nil {
			return err
		}
	}
	j.spent.Reach(p.Stage, store.Cost(spent))
	return j.journal.Append(store.PointEntry(p, store.Cost(spent)))
}

// Engine implements sweep.Recorder.
func (j *job) Engine(key string, f profile.EngineFacts) error {
	return j.journal.Append(store.EngineEntry(store.EngineFacts{Key: key, EngineFacts: f}))
}

func (j *job) close() error { return errors.Join(j.journal.Close(), j.dir.Close()) }

// outcome is everything that a finished profile shows.
type outcome struct {
	opts profileOptions
	dep  deployment
	dir  string
	res  sweep.Result
	rec  store.Recommendation
	self *store.Client // nil in virtual time

	stages map[profile.Stage]store.Cost // what each cost
}

// finish writes surfaces, links, run.json, report.html, pictures and recommendation. Nobody
// finds a recommendation beside files that are not of it: that of an earlier end is
// gone before the first of them, and the new one comes when they are all there.
func (j *job) finish(res sweep.Result, so sweep.Options) (outcome, error) {
	dir := j.dir.Path
	if err := store.WithdrawRecommendation(dir); err != nil {
		return outcome{}, err
	}
	rec := j.recommendation(res, so)
	if err := j.alternatives(&rec, res, so); err != nil {
		return outcome{}, err
	}
	if !hasSurfaces(res) {
		return j.complete(res, rec)
	}
	if err := errors.Join(store.WritePrefill(dir, res.PrefillSurface), store.WriteDecode(dir, res.DecodeSurface), store.WriteBatched(dir, res.Batched)); err != nil {
		return outcome{}, fmt.Errorf("writing the surfaces: %w", err)
	}
	for phase, role := range map[profile.Phase]engine.Role{profile.Prefill: engine.RolePrefill, profile.Decode: engine.RoleDecode} {
		if err := store.Link(dir, phase, rec.PickOf(role).Parallelism().Slug()); err != nil {
			return outcome{}, fmt.Errorf("linking the %s surface: %w", phase, err)
		}
	}
	return j.complete(res, rec)
}

// hasSurfaces reports whether there is something of both surfaces: they come last, and the
// time or the engine may end before.
func hasSurfaces(res sweep.Result) bool {
	return len(res.PrefillSurface.Samples) > 0 && len(res.DecodeSurface.Samples) > 0
}

// surfacesOf points to a profile's surfaces.
func surfacesOf(res sweep.Result) store.Surfaces {
	if !hasSurfaces(res) {
		return store.Surfaces{}
	}
	return store.Surfaces{
		Prefill: &store.Surface{File: store.SurfaceNPZ(profile.Prefill), Points: len(res.PrefillSurface.Samples), Provenance: res.PrefillSurface.Provenance},
		Decode:  &store.Surface{File: store.SurfaceNPZ(profile.Decode), Points: len(res.DecodeSurface.Samples), MaxKVTokens: res.DecodeSurface.MaxKVTokens, WindowedKV: res.DecodeSurface.WindowedKV, Provenance: res.DecodeSurface.Provenance},
	}
}

// leave writes run.json of a run that did not end. A recommendation is of the run.json
// beside it: both stay as they are where the run was only stopped, as after a kill, and
// what it measured since is in the journal; otherwise what is known now is another.
func (j *job) leave(res sweep.Result, stopped bool) error {
	dir := j.dir.Path
	if stopped {
		if kept, err := store.HasRecommendation(dir); kept || err != nil {
			return err
		}
	}
	if err := store.WithdrawRecommendation(dir); err != nil {
		return err
	}
	run := j.runFile(res, false)
	run.Warnings = j.ranWith(res)
	return store.WriteRun(dir, run)
}

// complete writes run.json, report.html, pictures and, last of all, the recommendation: a
// folder that has one has all. What cannot be drawn keeps nobody from it.
func (j *job) complete(res sweep.Result, rec store.Recommendation) (outcome, error) {
	dir := j.dir.Path
	run := j.runFile(res, res.Partial == "")
	run.Warnings = rec.Warnings
	if err := store.WriteRun(dir, run); err != nil {
		return outcome{}, err
	}
	drawn := errors.Join(writePage(dir, run, rec, res.PrefillSurface, res.DecodeSurface), drawAll(dir, run, rec, res.PrefillSurface, res.DecodeSurface, res.Batched))
	out := outcome{opts: j.opts, dep: j.dep, dir: dir, res: res, rec: rec, self: run.Client, stages: run.CostByStage}
	return out, errors.Join(drawn, store.WriteRecommendation(dir, rec))
}

// runFile is run.json.
func (j *job) runFile(res sweep.Result, complete bool) store.Run {
	j.spent.End(store.Cost(res.Cost))
	r := store.Run{
		Version: buildVersion(), Inputs: j.inputs, Seed: j.opts.seed, SLA: j.opts.sla, Started: j.started, Ended: time.Now(),
		Provenance: j.dep.provenance, Complete: complete, Points: res.Points, Discarded: res.Discarded, Skips: res.Skips, Cost: store.Cost(res.Cost), CostByStage: j.spent.ByStage, Warnings: j.dep.warnings,
		Client: clientReport(res.Points),
	}
	for _, k := range sortedKeys(res.Engines) {
		r.Engines = append(r.Engines, store.EngineFacts{Key: k, EngineFacts: res.Engines[k]})
		r.Provenance = profile.Weakest(r.Provenance, res.Engines[k].Provenance)
	}
	for i := range j.dep.gpuCount {
		d := store.Device{Index: i, Name: j.dep.gpuName, Driver: j.dep.driver, Simulated: j.dep.modelled()}
		if i < len(j.dep.visible) {
			d.UUID = j.dep.visible[i].UUID
		}
		if j.dep.gpu != nil {
			d.MemoryBytes = j.dep.gpu.MemoryBytes
		}
		r.GPUs = append(r.GPUs, d)
	}
	return r
}

// recommendation is recommendation.json.
func (j *job) recommendation(res sweep.Result, so sweep.Options) store.Recommendation {
	o, cost := j.opts, store.Cost(res.Cost)
	rec := store.Recommendation{
		Schema: store.RecommendationSchemaVersion, Mode: store.Disaggregated, Model: j.shownModel(res), GPU: j.dep.gpuName,
		Engine: store.EngineName{Kind: j.dep.kind, Version: engineVersion(res), Fit: j.dep.fitName()},
		SLA:    store.NewSLA(o.sla), Workload: store.Lengths{ISL: o.isl, OSL: o.osl},
		Verified: verifiedOf(res, so.Open.Source, o.sla), Surfaces: surfacesOf(res), Warnings: j.warnings(res), Cost: &cost,
		Planner:    store.PlannerSettings{TTFTMillis: profile.Milliseconds(o.sla.TTFT), ITLMillis: profile.Milliseconds(o.sla.ITL)},
		Provenance: profile.Weakest(res.PrefillSurface.Provenance, res.DecodeSurface.Provenance),
	}
	if o.mode == sweep.Aggregated {
		aggregatedPicks(&rec, res, so)
	} else {
		disaggregatedPicks(&rec, res, o)
		rec.Assumptions = assumptions(o, j.dep.kind)
	}
	for _, p := range rec.Picks() {
		p.UnderLoad = p.Run.Verdict(o.sla.Stat)
		rec.Feasible = rec.Feasible && (p.Run == nil || p.Run.Holds)
	}
	startUps(&rec, res.Engines, so.Candidates)
	return rec
}

// disaggregatedPicks fills in what is of engines that do one each.
func disaggregatedPicks(rec *store.Recommendation, res sweep.Result, o profileOptions) {
	pre, dec := res.Prefill, res.Decode
	rec.Prefill, rec.Decode, rec.Feasible = pickOf(pre, o), pickOf(dec, o), pre.Feasible && dec.Feasible
	rec.Rejected, rec.Thresholds = append(rejectedOf(pre, res.Skips), rejectedOf(dec, res.Skips)...), thresholdsOf(res, o)
	rec.Planner.PrefillEngineNumGPU, rec.Planner.DecodeEngineNumGPU = rec.Prefill.GPUs, rec.Decode.GPUs
	rec.Provenance = profile.Weakest(rec.Provenance, pre.Picked.Point.Provenance, dec.Picked.Point.Provenance)
	for _, p := range rec.Picks() {
		corrected(p.Pick, p.Run)
	}
}

// startUps fills in what the slowest launch of each layout took. The time of an engine
// that is not real says nothing.
func startUps(rec *store.Recommendation, engines map[string]profile.EngineFacts, candidates []engine.Config) {
	took := map[string]float64{} // by label
	for _, c := range candidates {
		for key, f := range engines {
			if path.Base(key) == c.Slug() && f.Provenance == profile.Measured {
				took[c.Label()] = max(took[c.Label()], f.StartUpSeconds)
			}
		}
	}
	for _, p := range rec.Picks() {
		p.StartUpSeconds = took[p.Label]
	}
	for i := range rec.Rejected {
		rec.Rejected[i].StartUpSeconds = took[rec.Rejected[i].Label]
	}
}

// ranWith are the caveats of a run, its engines and its loads, whatever came of it.
func (j *job) ranWith(res sweep.Result) []profile.Warning {
	ws := slices.Clone(j.dep.warnings)
	for _, k := range sortedKeys(res.Engines) {
		ws = append(ws, res.Engines[k].Warnings...)
	}
	if res.Partial != "" {
		ws = append(ws, partialWarning(res))
	}
	return distinct(append(ws, res.Warnings...))
}

// noSurfaces is the code of a profile that has a rate only.
const noSurfaces = "no_surfaces"

func partialWarning(res sweep.Result) profile.Warning {
	return profile.Warnf("partial", "not everything planned was measured: %s", res.Partial)
}

// warnings gathers the caveats of everything that the recommendation rests on.
func (j *job) warnings(res sweep.Result) []profile.Warning {
	ws := slices.Clone(j.dep.warnings)
	if res.Partial != "" {
		ws = append(ws, partialWarning(res))
	}
	for _, k := range sortedKeys(res.Engines) {
		ws = append(ws, res.Engines[k].Warnings...)
	}
	ws = slices.Concat(ws, res.Prefill.Warnings, res.Decode.Warnings, res.Aggregated.Warnings, res.Warnings, pointCaveats(restsOn(res)))
	prefill, decode := res.Prefill.Picked.Point.Config, res.Decode.Picked.Point.Config
	if j.opts.mode == sweep.Aggregated {
		prefill, decode = res.Aggregated.Picked.Point.Config, res.Aggregated.Picked.Point.Config
		ws = append(ws, aggregatedDoubts(res, j.opts.sla)...)
	}
	if !hasSurfaces(res) {
		if res.Partial == "" {
			ws = append(ws, profile.Warnf(noSurfaces, "no surfaces were measured, as the server does not tell its KV capacity. Set --kv-tokens N if capacity plan or the planner is to use this profile"))
		}
		return byUrgency(distinct(ws))
	}
	return byUrgency(distinct(slices.Concat(ws, interpolation.CheckPrefill(res.PrefillSurface, j.dep.surfaceFacts(prefill)),
		interpolation.CheckDecode(res.DecodeSurface, j.dep.surfaceFacts(decode)), windowedKV(res.DecodeSurface))))
}

// windowedKV says what readers of a decode surface with one max_kv_tokens miss where
// some layers keep a window, or a state, instead of the whole context.
func windowedKV(s profile.DecodeSurface) []profile.Warning {
	if !s.WindowedKV.Known() || len(s.Samples) == 0 {
		return nil
	}
	shortest := slices.MinFunc(s.Samples, func(a, b profile.DecodeSample) int { return cmp.Compare(a.Context, b.Context) }).Context
	n := s.KVTokensAt(shortest)
	return []profile.Warning{profile.Warnf("windowed_kv",
		"some layers keep a sliding window or a state instead of the whole context: the KV cache holds %d tokens at a context of %.0f tokens, %d (max_kv_tokens) at the longest. x_kv_usage counts tokens in flight against max_kv_tokens, so the cache is full at %.2f at the shortest context",
		n, shortest, s.MaxKVTokens, float64(n)/float64(s.MaxKVTokens))}
}

// surfaceFacts are what the surfaces of an engine can be held against. Where nobody says
// which numbers it computes with, its GPU's fastest count.
func (d deployment) surfaceFacts(cfg engine.Config) interpolation.Facts {
	f := interpolation.Facts{GPUs: cfg.GPUs(), MaxNumSeqs: cfg.Limits.MaxNumSeqs}
	if m := d.model; m != nil {
		f.Params = float64(m.ActiveParams)
	}
	if g := d.gpu; g != nil {
		if f.PeakFLOPS, _ = g.FLOPS(cfg.Weights); cfg.Weights == "" {
			f.PeakFLOPS = max(g.BF16FLOPS, g.FP8FLOPS, g.FP4FLOPS)
		}
	}
	return f
}

func (j *job) shownModel(res sweep.Result) string {
	return cmp.Or(j.dep.modelName, firstSaid(res, func(f profile.EngineFacts) string { return f.Model }), "unknown")
}

func engineVersion(res sweep.Result) string {
	return firstSaid(res, func(f profile.EngineFacts) string { return f.Version })
}

// firstSaid is what the first engine that says something says.
func firstSaid(res sweep.Result, of func(profile.EngineFacts) string) string {
	for _, k := range sortedKeys(res.Engines) {
		if s := of(res.Engines[k]); s != "" {
			return s
		}
	}
	return ""
}

func pickOf(c recommend.Choice, o profileOptions) *store.Pick {
	p := c.Picked.Point
	out := store.NewPick(p.Config)
	out.InFlight, out.KVUsage, out.ThroughputPerGPU = p.InFlight, p.KVUsage, p.ThroughputPerGPU
	out.SustainedRPS, out.Interval, out.Margin, out.Why = c.Picked.RPS, p.ThroughputInterval(), c.Picked.Margin, c.Why
	sla := o.sla
	if out.ModelError = p.ModelError; c.Feasible && sla.Stat.Quantile() < profile.MostRequests {
		most := sla
		most.Stat = profile.P95
		out.MostRPS = c.MostRPS(most, o.osl)
	}
	if c.Phase == profile.Prefill {
		out.TTFTMillis = profile.Milliseconds(p.Latency(sla))
	} else {
		out.ITLMillis = profile.Milliseconds(p.Latency(sla))
	}
	return &out
}

// rejectedOf lists the points that lost in a phase, and the configurations that
// were never compared there.
func rejectedOf(c recommend.Choice, skips []profile.Skip) []store.Rejected {
	var rs []store.Rejected
	for _, r := range c.Rejected {
		reason := r.Reason
		if c.Phase == profile.Decode {
			reason = fmt.Sprintf("at %.0f in flight: %s", r.InFlight, reason)
		}
		rs = append(rs, store.Rejected{Phase: r.Phase, Label: r.Label, Reason: reason, Metric: r.Metric, Value: r.Value})
	}
	for _, s := range skips {
		if s.Phase == "" || s.Phase == c.Phase {
			rs = append(rs, store.Rejected{Phase: c.Phase, Label: s.Label, Reason: s.Reason})
		}
	}
	return rs
}

// thresholdsOf are the bounds of the Suggested lines, and those at the recommended rate.
// A grid's are upstream's to the digit: it takes the requests that it asked for, and knows
// no attention replicas.
func thresholdsOf(res sweep.Result, o profileOptions) store.Thresholds {
	pre, dec := res.Prefill.Picked.Point, res.Decode.Picked.Point
	n, replicas := dec.InFlight, pre.Config.Parallelism.Normal().DP
	if o.search == sweep.Grid {
		n, replicas = float64(dec.Asked), 1
	}
	t := store.Thresholds{PrefillQueueSize: store.Bounds(recommend.PrefillQueue(o.sla.TTFT, pre.Latency(o.sla), replicas))}
	if use, known := recommend.KVUse(n, o.isl, o.osl, dec.KVTokensAt(float64(o.isl)+float64(o.osl)/2)); known {
		rate := store.Bounds(recommend.DecodeKV(decodeUse(res)))
		t.DecodeKVUtilization, t.DecodeKVAtRate = store.Bounds(recommend.DecodeKV(use)), &rate
	}
	return t
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
