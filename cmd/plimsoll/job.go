package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
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
	started time.Time
	inputs  store.Inputs
}

// openJob takes the output folder: a new one, or one to resume.
func openJob(o profileOptions, d deployment) (*job, error) {
	j := &job{opts: o, dep: d, started: time.Now(), inputs: runInputs(o, d)}
	var err error
	switch {
	case o.resume:
		j.dir, err = store.Resume(o.dir)
	case o.force:
		if state, serr := store.Inspect(o.dir); serr == nil && state == store.OurRun {
			if _, err := store.MoveAside(o.dir); err != nil {
				return nil, folderError(fmt.Errorf("moving it aside: %w", err))
			}
		}
		j.dir, err = store.Create(o.dir)
	default:
		j.dir, err = store.Create(o.dir)
		if errors.Is(err, store.ErrOtherRun) && nothingIn(o.dir) {
			j.dir, err = takeOver(o.dir)
		}
	}
	if err != nil {
		return nil, folderError(err)
	}
	if err := j.openJournal(); err != nil {
		return nil, errors.Join(err, j.dir.Close())
	}
	return j, nil
}

func folderError(err error) error {
	e := usagef("--output-dir: %v", err)
	switch {
	case errors.Is(err, store.ErrNoRun):
		return e.hint("leave --resume out for a first run")
	case errors.Is(err, store.ErrLocked):
		return e.hint("wait until that run has ended, or name another folder")
	}
	return e
}

// nothingIn reports whether the run in dir ended before it knew anything: then
// there is nothing to lose, and nothing to ask about.
func nothingIn(dir string) bool {
	log, err := store.ReadJournal(filepath.Join(dir, store.JournalFile))
	return errors.Is(err, store.ErrNoHeader) || err == nil && len(log.Points)+len(log.Skips) == 0
}

// takeOver takes the folder of a run that knew nothing.
func takeOver(dir string) (*store.Dir, error) {
	d, err := store.Resume(dir)
	if err != nil {
		return nil, err
	}
	if err := os.Remove(filepath.Join(dir, store.JournalFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// runInputs are what a resumed run must agree on: the flags, and what they were
// resolved to on this machine.
func runInputs(o profileOptions, d deployment) store.Inputs {
	in := store.Inputs{}
	for k, v := range o.inputs {
		in["--"+k] = v
	}
	for flag, path := range map[string]string{"--catalog": o.catalog, "--fit": o.fit, "--model": o.model, "--graph": o.graphPath} {
		if b, err := os.ReadFile(path); err == nil {
			in["contents of "+flag] = fmt.Sprintf("%.6x", sha256.Sum256(b))
		}
	}
	if len(o.extra) > 0 {
		in["engine arguments"] = strings.Join(o.redacted(o.extra), " ")
	}
	in["engine kind"] = string(d.kind)
	if d.modelled() {
		in["fit"] = d.fitName()
	}
	in["model"], in["GPU"], in["GPU count"] = d.modelName, d.gpuName, itoa(d.gpuCount)
	return in
}

// openJournal reads what a resumed run knows, refuses changed inputs, and opens
// the journal for more.
func (j *job) openJournal() error {
	path := filepath.Join(j.dir.Path, store.JournalFile)
	fresh := !j.opts.resume
	if !fresh {
		log, err := store.ReadJournal(path)
		switch {
		case errors.Is(err, store.ErrNoHeader):
			fresh = true
		case err != nil:
			return withHint(fmt.Errorf("reading the journal: %w", err), "--force moves this run aside and starts over; its files stay readable")
		default:
			if diff := store.DiffInputs(log.Header.Inputs, j.inputs); len(diff) > 0 {
				return usagef("--resume: the run in %s was another: %s", j.dir.Path, strings.Join(diff, "; ")).
					hint("ask for the same, or start over with --force")
			}
			j.started, j.known = log.Header.Started, knownFrom(log)
		}
	}
	var err error
	if j.journal, err = store.OpenJournal(path); err != nil {
		return fmt.Errorf("opening the journal: %w", err)
	}
	if j.dep.kind == engine.KindEstimate {
		j.journal.Lazy() // what a power failure takes is computed again in no time
	}
	switch {
	case !fresh && j.opts.retry:
		j.known.Skips = nil
		return j.journal.Append(store.RetryEntry())
	case !fresh:
		return nil
	}
	return j.journal.Append(store.HeaderEntry(store.NewHeader(j.inputs, buildVersion(), j.started)))
}

func knownFrom(log store.JournalLog) sweep.Known {
	k := sweep.Known{Points: log.Points, Skips: log.Skips, Cost: sweep.Cost(log.Cost), Engines: map[string]profile.EngineFacts{}}
	for _, e := range log.Engines {
		k.Engines[e.Key] = e.EngineFacts
	}
	return k
}

// Point implements sweep.Recorder: the raw records are written before the journal
// says that the point is done, and of an engine that is there they are on disk;
// those of an estimate are brought there at the end, before its journal is.
func (j *job) Point(p profile.Point, rs []profile.Request, spent sweep.Cost) error {
	write := store.WriteRequests
	if j.dep.kind == engine.KindEstimate {
		write = store.WriteRequestsLazily
	}
	if err := write(j.dir.Path, p.ID, rs); err != nil {
		return err
	}
	return j.journal.Append(store.PointEntry(p, store.Cost(spent)))
}

// Skip implements sweep.Recorder.
func (j *job) Skip(s profile.Skip) error { return j.journal.Append(store.SkipEntry(s)) }

// Engine implements sweep.Recorder.
func (j *job) Engine(key string, f profile.EngineFacts) error {
	return j.journal.Append(store.EngineEntry(store.EngineFacts{Key: key, EngineFacts: f}))
}

func (j *job) close() error {
	var err error
	if j.dep.kind == engine.KindEstimate {
		err = store.SyncRequests(j.dir.Path)
	}
	return errors.Join(err, j.journal.Close(), j.dir.Close())
}

// outcome is everything that a finished profile shows.
type outcome struct {
	opts profileOptions
	dep  deployment
	dir  string
	res  sweep.Result
	rec  store.Recommendation
}

// finish writes surfaces, links, recommendation, run.json and pictures.
func (j *job) finish(res sweep.Result, so sweep.Options) (outcome, error) {
	dir := j.dir.Path
	if err := errors.Join(store.WritePrefill(dir, res.PrefillSurface), store.WriteDecode(dir, res.DecodeSurface)); err != nil {
		return outcome{}, fmt.Errorf("writing the surfaces: %w", err)
	}
	for phase, c := range map[profile.Phase]recommend.Choice{profile.Prefill: res.Prefill, profile.Decode: res.Decode} {
		if err := store.Link(dir, phase, c.Picked.Point.Config.Parallelism.Slug()); err != nil {
			return outcome{}, fmt.Errorf("linking the %s surface: %w", phase, err)
		}
	}
	rec := j.recommendation(res, so)
	if err := store.WriteRecommendation(dir, rec); err != nil {
		return outcome{}, err
	}
	run := j.runFile(res, res.Partial == "")
	run.Warnings = rec.Warnings
	if err := store.WriteRun(dir, run); err != nil {
		return outcome{}, err
	}
	out := outcome{opts: j.opts, dep: j.dep, dir: dir, res: res, rec: rec}
	return out, drawAll(dir, run, rec, res.PrefillSurface, res.DecodeSurface)
}

// runFile is run.json.
func (j *job) runFile(res sweep.Result, complete bool) store.Run {
	r := store.Run{
		Version: buildVersion(), Inputs: j.inputs, Seed: j.opts.seed, SLA: j.opts.sla, Started: j.started, Ended: time.Now(),
		Provenance: j.dep.provenance, Complete: complete, Points: res.Points, Skips: res.Skips, Cost: store.Cost(res.Cost), Warnings: j.dep.warnings,
		Client: clientVerdict(res.Points),
	}
	for _, k := range sortedKeys(res.Engines) {
		r.Engines = append(r.Engines, store.EngineFacts{Key: k, EngineFacts: res.Engines[k]})
		r.Provenance = profile.Weakest(r.Provenance, res.Engines[k].Provenance)
	}
	for i := range j.dep.gpuCount {
		d := store.Device{Index: i, Name: j.dep.gpuName, Driver: j.dep.driver, Simulated: j.dep.modelled()}
		if i < len(j.dep.visible) {
			d.UUID = j.dep.visible[i]
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
	o := j.opts
	pre, dec := res.Prefill, res.Decode
	rec := store.Recommendation{
		Schema: store.RecommendationSchemaVersion, Mode: store.Disaggregated, Feasible: pre.Feasible && dec.Feasible, Model: j.shownModel(res), GPU: j.dep.gpuName,
		Engine: store.EngineName{Kind: j.dep.kind, Version: engineVersion(res), Fit: j.dep.fitName()},
		SLA:    store.NewSLA(o.sla), Workload: store.Lengths{ISL: o.isl, OSL: o.osl},
		Prefill: pickOf(pre, o.sla), Decode: pickOf(dec, o.sla),
		Rejected:    append(rejectedOf(pre, res.Skips), rejectedOf(dec, res.Skips)...),
		Assumptions: assumptions(o),
		Surfaces: store.Surfaces{
			Prefill: &store.Surface{File: store.SurfaceNPZ(profile.Prefill), Points: len(res.PrefillSurface.Samples), Provenance: res.PrefillSurface.Provenance},
			Decode:  &store.Surface{File: store.SurfaceNPZ(profile.Decode), Points: len(res.DecodeSurface.Samples), MaxKVTokens: res.DecodeSurface.MaxKVTokens, Provenance: res.DecodeSurface.Provenance},
		},
		Thresholds: thresholdsOf(pre, dec, o.sla),
		Planner: store.PlannerSettings{
			PrefillEngineNumGPU: pre.Picked.Point.Config.GPUs(), DecodeEngineNumGPU: dec.Picked.Point.Config.GPUs(),
			TTFTMillis: profile.Milliseconds(o.sla.TTFT), ITLMillis: profile.Milliseconds(o.sla.ITL),
		},
	}
	rec.Provenance = profile.Weakest(pre.Picked.Point.Provenance, dec.Picked.Point.Provenance, res.PrefillSurface.Provenance, res.DecodeSurface.Provenance)
	rec.Warnings = j.warnings(res, so)
	return rec
}

// warnings gathers the caveats of everything that the recommendation rests on.
func (j *job) warnings(res sweep.Result, so sweep.Options) []profile.Warning {
	ws := slices.Clone(j.dep.warnings)
	if res.Partial != "" {
		ws = append(ws, profile.Warnf("partial", "not everything planned was measured: %s", res.Partial))
	}
	if n := quickNote(j.opts, j.dep, so); n != "" {
		ws = append(ws, profile.Warnf("fewer_points", "%s", n))
	}
	for _, k := range sortedKeys(res.Engines) {
		ws = append(ws, res.Engines[k].Warnings...)
	}
	ws = append(ws, res.Prefill.Warnings...)
	ws = append(ws, res.Decode.Warnings...)
	ws = append(ws, res.Warnings...)
	ws = append(ws, surfaceWarnings(res)...)
	ws = append(ws, interpolation.CheckPrefill(res.PrefillSurface, j.surfaceFacts(res.Prefill))...)
	ws = append(ws, interpolation.CheckDecode(res.DecodeSurface, j.surfaceFacts(res.Decode))...)
	var out []profile.Warning
	for _, w := range ws {
		if !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}

// surfaceWarnings sums up the caveats of the surfaces' points: one line for each
// kind, with how many points and the first of them.
func surfaceWarnings(res sweep.Result) []profile.Warning {
	type kind struct {
		n     int
		first string
	}
	kinds := map[string]kind{}
	note := func(code, first string) {
		k := kinds[code]
		if k.n++; k.n == 1 {
			k.first = first
		}
		kinds[code] = k
	}
	for _, p := range res.Points {
		if p.Stage != profile.StageSurface {
			continue
		}
		if p.Failures > 0 || p.Latency(profile.Mean) <= 0 {
			note("points_dropped", p.ID+" has failures or no latency, and is not in the surface")
		}
		for _, w := range p.Warnings {
			note(w.Code, p.ID+": "+w.Message)
		}
	}
	var ws []profile.Warning
	for _, code := range sortedKeys(kinds) {
		ws = append(ws, profile.Warnf(code, "%d surface points: %s", kinds[code].n, kinds[code].first))
	}
	return ws
}

// clientVerdict says whether the measuring client shows in the numbers. It is
// not calibrated against a server that knows better, and says so.
func clientVerdict(points []profile.Point) string {
	var at []string
	for _, p := range points {
		if slices.ContainsFunc(p.Warnings, func(w profile.Warning) bool { return w.Code == "coalesced" || w.Code == "client_late" }) {
			at = append(at, p.ID)
		}
	}
	if len(at) > 0 {
		return "client may be the bottleneck at " + strings.Join(at, ", ")
	}
	return "no sign of a client bottleneck (not calibrated)"
}

func (j *job) surfaceFacts(c recommend.Choice) interpolation.Facts {
	cfg := c.Picked.Point.Config
	f := interpolation.Facts{GPUs: cfg.GPUs(), MaxNumSeqs: cfg.Limits.MaxNumSeqs}
	if m := j.dep.model; m != nil {
		f.Params = float64(m.ActiveParams)
	}
	if g := j.dep.gpu; g != nil {
		f.PeakFLOPS, _ = g.FLOPS(cfg.Weights)
	}
	return f
}

func (j *job) shownModel(res sweep.Result) string {
	if j.dep.modelName != "" {
		return j.dep.modelName
	}
	for _, k := range sortedKeys(res.Engines) {
		if m := res.Engines[k].Model; m != "" {
			return m
		}
	}
	return "unknown"
}

func engineVersion(res sweep.Result) string {
	for _, k := range sortedKeys(res.Engines) {
		if v := res.Engines[k].Version; v != "" {
			return v
		}
	}
	return ""
}

func pickOf(c recommend.Choice, sla profile.SLA) *store.Pick {
	p := c.Picked.Point
	out := store.NewPick(p.Config.Parallelism)
	out.InFlight, out.KVUsage, out.ThroughputPerGPU = p.InFlight, p.KVUsage, p.ThroughputPerGPU
	out.SustainedRPS, out.Interval, out.Margin, out.Why = c.Picked.RPS, p.ThroughputInterval(), c.Picked.Margin, c.Why
	out.ModelError = p.ModelError
	if c.Phase == profile.Prefill {
		out.TTFTMillis = profile.Milliseconds(p.Latency(sla.Stat))
	} else {
		out.ITLMillis = profile.Milliseconds(p.Latency(sla.Stat))
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

func thresholdsOf(pre, dec recommend.Choice, sla profile.SLA) store.Thresholds {
	picked := pre.Picked.Point
	q := recommend.PrefillQueue(sla.TTFT, picked.Latency(sla.Stat), picked.Config.Parallelism.Normal().DP)
	u := recommend.DecodeKV(dec.Picked.Point.KVUsage)
	return store.Thresholds{PrefillQueueSize: store.Bounds(q), DecodeKVUtilization: store.Bounds(u)}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
