package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"plimsoll/capacity"
	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/latency"
	"plimsoll/engine/sim"
	"plimsoll/engine/sim/fleet"
	"plimsoll/interpolation"
	"plimsoll/profile"
	"plimsoll/profile/store"
)

// modelSource times steps by the latency model.
type modelSource struct {
	model   catalog.Model
	gpu     catalog.GPU
	config  engine.Config
	storage weightStorage
	latency latency.Model
}

func newModelSource(f fleetPlan) (modelSource, error) {
	s, fit, err := findSource(f.catalog, f.model, f.gpu, f.fit)
	if err != nil {
		return s, err
	}
	s, err = s.laidOut(engine.Config{
		Kind: engine.KindSim, Parallelism: f.parallelism, Weights: f.weights, Limits: latency.Limits(s.model, s.gpu, f.limits),
	}, fit)
	if err == nil && f.slower > 0 {
		s.latency = s.latency.Slower(f.slower)
	}
	return s, err
}

// findSource looks up what the flags name.
func findSource(file, model, gpu, fit string) (modelSource, latency.Fit, error) {
	s := modelSource{}
	cat, err := loadCatalog(file)
	if err != nil {
		return s, latency.Fit{}, err
	}
	if s.model, err = findModel(cat, model); err != nil {
		return s, latency.Fit{}, usagef("--model: %v", err)
	}
	if s.gpu, err = cat.GPU(gpu); err != nil {
		return s, latency.Fit{}, usagef("--gpu: %v", err)
	}
	f, err := loadFit("fit", fit)
	return s, f, err
}

// laidOut is s as c lays it out, whose weights may be left to the model.
func (s modelSource) laidOut(c engine.Config, fit latency.Fit) (modelSource, error) {
	s.storage = storageOf(c.Weights, s.model).on(s.gpu)
	c.Model, c.GPU, c.Weights = s.model.Name, s.gpu.Name, s.storage.weights
	s.config = c
	var err error
	if s.latency, err = latency.NewWith(s.model, s.gpu, c, fit); err != nil {
		return s, noRoom(s.model, s.gpu, c, err)
	}
	return s, nil
}

func (s modelSource) pool(role engine.Role) (fleet.Pool, error) {
	p := fleet.Pool{Engine: simulatedEngine(s.latency, role), Timer: s.latency, GPUs: s.config.GPUs()}
	if role != engine.RoleDecode { // its requests have paid it before prefill
		p.Overhead = s.latency.Overhead()
	}
	return p, nil
}

func (s modelSource) label(engine.Role) string { return s.config.Parallelism.Label() }

func (s modelSource) kvBytes() float64 { return s.model.KVBytesPerToken(s.config.KV) }

func (s modelSource) about(f *simulatedFleet) {
	f.model, f.gpu = s.model.Name, s.gpu.Name
	f.source = fmt.Sprintf("latency model, fit %s", s.latency.Fit().Name)
	f.ttft, f.itl = modelError(s.latency.TTFTError()), modelError(s.latency.ITLError())
	fit := s.latency.Fit()
	f.fit = &fit
	f.note, f.warnings = s.storage.note, append(f.warnings, s.storage.warnings...)
}

// profileSource times steps by a profile's surfaces.
type profileSource struct {
	dir     string
	rec     store.Recommendation
	run     store.Run
	prefill interpolation.Prefill
	steps   interpolation.Steps
	kvMax   int
	most    int           // requests in flight that it was measured with
	limits  engine.Limits // as asked for
	bytes   float64
	model   catalog.Model // zero where the catalog does not know it
}

func readProfileSource(f fleetPlan) (profileSource, error) {
	s := profileSource{dir: f.profile, limits: f.limits}
	if rec, err := store.ReadRecommendation(s.dir); err == nil && rec.Mode == store.Aggregated {
		return s, aggregatedProfile(s.dir)
	}
	err := s.read(f.slower)
	if errors.Is(err, os.ErrNotExist) {
		return s, usagef("--profile: %s holds no finished profile: %v", f.profile, err)
	}
	if err != nil {
		return s, usagef("--profile %s: %v", f.profile, err)
	}
	if s.rec.Prefill == nil || s.rec.Decode == nil {
		return s, usagef("--profile %s: it has no pick for both prefill and decode", f.profile)
	}
	if f.replicas > 0 && s.rec.Prefill.Parallelism().Normal() != s.rec.Decode.Parallelism().Normal() {
		return s, usagef("--profile %s: prefill was profiled at %s and decode at %s: no engine does both", f.profile, s.rec.Prefill.Label, s.rec.Decode.Label).
			hint("--prefill-replicas N --decode-replicas N simulate the two pools")
	}
	cat, err := loadCatalog(f.catalog)
	if err != nil {
		return s, err
	}
	if m, err := cat.Model(s.rec.Model); err == nil {
		s.model, s.bytes = m, m.KVBytesPerToken(engine.BF16)
	}
	return s, nil
}

// read reads the profile; slower stretches its times, 0 = not at all.
func (s *profileSource) read(slower float64) error {
	var err error
	if s.rec, err = store.ReadRecommendation(s.dir); err != nil {
		return err
	}
	if s.run, err = store.ReadRun(s.dir); err != nil {
		return err
	}
	weakest := profile.Published
	ps, err := store.LoadPrefill(s.dir, store.LoadOptions{Provenance: &weakest})
	if err != nil {
		return err
	}
	ds, err := store.LoadDecode(s.dir, store.LoadOptions{Provenance: &weakest})
	if err != nil {
		return err
	}
	if slower > 0 {
		stretch(&ps, &ds, slower)
	}
	if s.prefill, err = fitPrefill(s.dir, ps, max(slower, 0)); err != nil {
		return err
	}
	gpus := 1
	if s.rec.Decode != nil {
		gpus = s.rec.Decode.GPUs
	}
	decode, err := interpolation.FitDecode(ds, gpus)
	if err != nil {
		return err
	}
	s.steps, s.kvMax = interpolation.NewSteps(s.prefill, decode), ds.MaxKVTokens
	s.most = int(math.Round(decode.MostInFlight()))
	return nil
}

// fitPrefill fits a profile's prefill surface, with what the folder says of several
// prompts at once; slower stretches the latter's times, 0 = not at all.
func fitPrefill(dir string, ps profile.PrefillSurface, slower float64) (interpolation.Prefill, error) {
	p, err := interpolation.FitPrefill(ps)
	if err != nil {
		return p, err
	}
	b, err := store.LoadBatched(dir)
	if errors.Is(err, os.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return p, err
	}
	for i := range b.Samples {
		b.Samples[i].ThroughputPerGPU /= cmp.Or(slower, 1)
	}
	return p.WithBatched(b)
}

// stretch makes every time of two surfaces so many times as long.
func stretch(ps *profile.PrefillSurface, ds *profile.DecodeSurface, by float64) {
	times := func(d time.Duration) time.Duration { return time.Duration(math.Round(float64(d) * by)) }
	for i := range ps.Samples {
		x := &ps.Samples[i]
		x.TTFT, x.ThroughputPerGPU = times(x.TTFT), x.ThroughputPerGPU/by
	}
	for i := range ds.Samples {
		x := &ds.Samples[i]
		x.ITL, x.ThroughputPerGPU = times(x.ITL), x.ThroughputPerGPU/by
	}
}

func (s profileSource) pool(role engine.Role) (fleet.Pool, error) {
	phase, pick := s.pick(role)
	facts := s.facts(phase, pick)
	l := s.limits
	l.MaxNumSeqs = cmp.Or(l.MaxNumSeqs, facts.MaxNumSeqs, s.most)
	l.MaxModelLen = cmp.Or(l.MaxModelLen, s.maxModelLen(facts))
	l.BlockSize = cmp.Or(l.BlockSize, facts.BlockSize, sim.DefaultBlockSize)
	p := fleet.Pool{
		// A profile does not say how its engine schedules: as recent ones do.
		Engine: sim.Config{
			Role: role, Limits: l, KVBlocks: max(facts.KVTokens/l.BlockSize, 1),
			AsyncScheduling: true, ReserveFullPrompt: true,
		},
		Timer: s.steps, GPUs: pick.GPUs,
	}
	if role != engine.RoleDecode {
		p.Overhead = s.steps.Overhead()
	}
	return p, nil
}

// maxModelLen is the longest prompt and answer of the engine behind the profile.
// Where the sweep itself set that limit, to what the surfaces were to hold, it is
// the model's; 0 = not known.
func (s profileSource) maxModelLen(facts profile.EngineFacts) int {
	if k := s.rec.Engine.Kind; k == engine.KindEstimate || k == engine.KindSim {
		return cmp.Or(s.model.MaxContext, facts.MaxModelLen)
	}
	return cmp.Or(facts.MaxModelLen, s.model.MaxContext)
}

// assumed says which limits the profile leaves open.
func (s profileSource) assumed() []profile.Warning {
	facts := s.facts(s.pick(engine.RoleDecode))
	if s.limits.MaxNumSeqs > 0 || facts.MaxNumSeqs > 0 {
		return nil
	}
	return []profile.Warning{profile.Warnf("max_num_seqs_assumed", "the profile does not say how many sequences its engine runs at once: %d are taken, the most that it was measured with; --max-num-seqs says another number", s.most)}
}

// pick is what the profile chose for a role.
func (s profileSource) pick(role engine.Role) (profile.Phase, *store.Pick) {
	if role == engine.RolePrefill {
		return profile.Prefill, s.rec.Prefill
	}
	return profile.Decode, s.rec.Decode
}

func (s profileSource) label(role engine.Role) string {
	_, p := s.pick(role)
	return p.Label
}

// facts are what the profiled engine said of itself, and the surface's KV
// capacity where it said nothing.
func (s profileSource) facts(phase profile.Phase, pick *store.Pick) profile.EngineFacts {
	both := pick.Parallelism().Slug() // of an engine that served both phases
	own := string(phase) + "/" + both
	for _, e := range s.run.Engines {
		if (e.Key == own || e.Key == both) && e.KVTokens > 0 {
			return e.EngineFacts
		}
	}
	return profile.EngineFacts{KVTokens: s.kvMax}
}

func (s profileSource) kvBytes() float64 { return s.bytes }

func (s profileSource) about(f *simulatedFleet) {
	f.model, f.gpu = s.rec.Model, s.rec.GPU
	f.source = fmt.Sprintf("profile %s (%s)", s.dir, s.rec.Provenance)
	f.Provenance = s.steps.Provenance()
	f.ttft, f.itl = s.rec.Prefill.ModelError, s.rec.Decode.ModelError
	f.steps = &s.steps
	f.SLA.TTFT = cmp.Or(f.SLA.TTFT, s.run.SLA.TTFT)
	f.SLA.ITL = cmp.Or(f.SLA.ITL, s.run.SLA.ITL)
	f.warnings = append(f.warnings, s.assumed()...)
	f.warnings = append(f.warnings, s.caveats()...)
}

// caveats are those of the picks, and what the profile warns of itself.
func (s profileSource) caveats() []profile.Warning {
	return append(s.rec.Caveats(), s.rec.Doubts()...)
}

// fitWarnings are those of an estimate's fit for a workload, as without a profile.
func (s profileSource) fitWarnings(w capacity.Workload) []profile.Warning {
	f, err := latency.FitByName(s.rec.Engine.Fit)
	if s.rec.Engine.Fit == "" || err != nil { // a file's fit, which may be gone
		return nil
	}
	return fitWarnings(f, s.rec.GPU, int(w.P99ISL), int(w.P99OSL))
}
