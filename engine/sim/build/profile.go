package build

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/deployment"
	"plimsoll/engine/field"
	"plimsoll/engine/latency"
	"plimsoll/engine/sim"
	"plimsoll/engine/sim/fleet"
	"plimsoll/interpolation"
	"plimsoll/profile"
	"plimsoll/profile/store"
)

// Profile times steps by a profile's surfaces.
type Profile struct {
	Dir            string
	Recommendation store.Recommendation
	run            store.Run
	Prefill        interpolation.Prefill
	Steps          interpolation.Steps
	kvMax          int
	most           int           // requests in flight that it was measured with
	Limits         engine.Limits // as asked for
	Model          catalog.Model // zero where the catalog does not know it
	gpu            catalog.GPU   // likewise
}

// ReadProfile reads a profile that has the engines asked for: one for each pool, or one
// that does both where Options have no pools.
func ReadProfile(f Options) (Profile, error) {
	s := Profile{Dir: f.Profile, Limits: f.Limits}
	if rec, err := store.ReadRecommendation(s.Dir); err == nil {
		switch {
		case !rec.Simulates():
			return s, NoSurfaces(s.Dir)
		case rec.Mode == store.Aggregated && f.Replicas == 0:
			return s, field.Errorf(field.Profile+" %s: it has only aggregated picks, none for prefill or decode alone", s.Dir).
				Hint("plimsoll profile-sla " + field.Mode + " disaggregated picks those")
		}
	}
	err := s.read(f.Slower)
	if errors.Is(err, os.ErrNotExist) {
		return s, field.Errorf(field.Profile+": %s holds no finished profile: %v", f.Profile, err).
			Hint("plimsoll profile-sla writes a profile; plimsoll profile-sla import makes one of NVIDIA Dynamo's NPZ files")
	}
	if err != nil {
		return s, field.Errorf(field.Profile+" %s: %v", f.Profile, err)
	}
	prefill, decode := s.Recommendation.PickOf(engine.RolePrefill), s.Recommendation.PickOf(engine.RoleDecode)
	if prefill == nil || decode == nil {
		return s, field.Errorf(field.Profile+" %s: it has no pick for both prefill and decode", f.Profile)
	}
	if f.Replicas > 0 && prefill.Parallelism().Normal() != decode.Parallelism().Normal() {
		return s, field.Errorf(field.Profile+" %s: prefill was profiled at %s and decode at %s: no engine does both", f.Profile, prefill.Label, decode.Label).
			Hint(field.PrefillReplicas + " N " + field.DecodeReplicas + " N simulate the two pools")
	}
	cat, err := catalog.Load(f.Catalog)
	if err != nil {
		return s, err
	}
	if m, err := cat.Model(s.Recommendation.Model); err == nil {
		s.Model = m
	}
	if g, err := cat.GPU(s.Recommendation.GPU); err == nil {
		s.gpu = g
	}
	return s, nil
}

// read reads the profile; slower stretches its times, zero = not at all.
func (s *Profile) read(slower engine.Factors) error {
	var err error
	if s.Recommendation, err = store.ReadRecommendation(s.Dir); err != nil {
		return err
	}
	if s.run, err = store.ReadRun(s.Dir); err != nil {
		return err
	}
	weakest := profile.Published
	ps, err := store.LoadPrefill(s.Dir, store.LoadOptions{Provenance: &weakest})
	if err != nil {
		return err
	}
	ds, err := store.LoadDecode(s.Dir, store.LoadOptions{Provenance: &weakest})
	if err != nil {
		return err
	}
	if slower != (engine.Factors{}) {
		stretch(&ps, &ds, slower)
	}
	if s.Prefill, err = FitPrefill(s.Dir, ps, slower.TTFT); err != nil {
		return err
	}
	gpus := 1
	if pick := s.Recommendation.PickOf(engine.RoleDecode); pick != nil {
		gpus = pick.GPUs
	}
	decode, err := interpolation.FitDecode(ds, gpus)
	if err != nil {
		return err
	}
	chunk, _ := s.Chunk()
	s.Steps, s.kvMax = interpolation.NewSteps(s.Prefill, decode, chunk), ds.MaxKVTokens
	s.most = int(math.Round(decode.MostInFlight()))
	return nil
}

// FitPrefill fits a profile's prefill surface, with what the folder says of several
// prompts at once; slower stretches the latter's times, 0 = not at all.
func FitPrefill(dir string, ps profile.PrefillSurface, slower float64) (interpolation.Prefill, error) {
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

// stretch makes every time of two surfaces so many times as long, each by its own factor.
func stretch(ps *profile.PrefillSurface, ds *profile.DecodeSurface, by engine.Factors) {
	times := func(d time.Duration, by float64) time.Duration { return time.Duration(math.Round(float64(d) * by)) }
	for i := range ps.Samples {
		x := &ps.Samples[i]
		x.TTFT, x.ThroughputPerGPU = times(x.TTFT, by.TTFT), x.ThroughputPerGPU/by.TTFT
	}
	for i := range ds.Samples {
		x := &ds.Samples[i]
		x.ITL, x.ThroughputPerGPU = times(x.ITL, by.ITL), x.ThroughputPerGPU/by.ITL
	}
}

// Pool implements Source.
func (s Profile) Pool(role engine.Role) (fleet.Pool, error) {
	phase, pick := s.Pick(role)
	facts := s.facts(phase, pick)
	l := s.Limits
	chunk, _ := s.Chunk()
	l.MaxNumBatchedTokens = cmp.Or(l.MaxNumBatchedTokens, chunk)
	if l.MaxNumSeqs == 0 {
		l.MaxNumSeqs = cmp.Or(facts.MaxNumSeqs, s.most)
		if n := l.MaxNumBatchedTokens; n > 0 { // no step holds more
			l.MaxNumSeqs = min(l.MaxNumSeqs, n)
		}
	}
	l.MaxModelLen = cmp.Or(l.MaxModelLen, s.maxModelLen(facts))
	l.BlockSize = cmp.Or(l.BlockSize, facts.BlockSize, sim.DefaultBlockSize)
	blocks, window := max(facts.KVTokens/l.BlockSize, 1), engine.KVWindow{}
	if w := facts.WindowedKV; w.Known() && w.BlockSize == l.BlockSize {
		blocks, window = w.Blocks, w.Window
	}
	p := fleet.Pool{
		// A profile does not say how its engine schedules: as recent ones do.
		Engine: sim.Config{
			Role: role, Limits: l, KVBlocks: blocks, Window: window,
			AsyncScheduling: true, ReserveFullPrompt: true,
		},
		Timer: s.Steps, GPUs: pick.GPUs, Nodes: pick.Nodes,
	}
	if role != engine.RoleDecode {
		p.Overhead, p.PerToken = s.Steps.Overhead(), s.Steps.PerToken()
	}
	return p, nil
}

// Chunk is the most tokens of a step of a profiled aggregated engine, over its attention
// replicas: as it was asked for, else as its kind chooses (assumed); 0 for other profiles,
// whose prompts meet nothing that decodes.
func (s Profile) Chunk() (tokens int, assumed bool) {
	pick := s.Recommendation.Aggregated
	if pick == nil {
		return 0, false
	}
	p := pick.Parallelism().Normal()
	if n := pick.MaxNumBatchedTokens; n > 0 {
		return p.DP * n, false
	}
	for _, x := range s.run.Points {
		if x.Phase == profile.Aggregated && x.Config.Parallelism.Normal() == p {
			tokens, assumed = x.Config.StepTokens(s.gpu.MemoryBytes, s.Recommendation.Engine.Version)
			return p.DP * tokens, assumed
		}
	}
	return 0, true
}

// maxModelLen is the longest prompt and answer of the engine behind the profile.
// Where the sweep itself set that limit, to what the surfaces were to hold, it is
// the model's; 0 = not known.
func (s Profile) maxModelLen(facts profile.EngineFacts) int {
	if k := s.Recommendation.Engine.Kind; k == engine.KindEstimate || k == engine.KindSim {
		return cmp.Or(s.Model.MaxContext, facts.MaxModelLen)
	}
	return cmp.Or(facts.MaxModelLen, s.Model.MaxContext)
}

// Assumed says which limits the profile leaves open, and what its engines have between nodes.
func (s Profile) Assumed() (ws []profile.Warning) {
	var picks []engine.Config
	for _, p := range s.Recommendation.Picks() {
		picks = append(picks, engine.Config{Parallelism: p.Parallelism(), Nodes: p.Nodes})
	}
	ws = deployment.NodesWarnings(picks...)
	facts := s.facts(s.Pick(engine.RoleDecode))
	if s.Limits.MaxNumSeqs == 0 && facts.MaxNumSeqs == 0 {
		ws = append(ws, profile.Warnf("max_num_seqs_assumed", "the profile does not say how many sequences its engine runs at once, so %d are assumed (the most measured). Set "+field.MaxNumSeqs+" to change it", s.most))
	}
	if chunk, assumed := s.Chunk(); assumed && s.Limits.MaxNumBatchedTokens == 0 {
		ws = append(ws, profile.Warnf("chunk_assumed", "the profile does not say how many tokens a step of its engine takes, so %d are assumed (the engine's default). This decides how much prompts delay answers; set "+field.MaxNumBatchedTokens+" to change it", cmp.Or(chunk, sim.DefaultMaxNumBatchedTokens)))
	}
	return ws
}

// Pick is what the profile chose for a role.
func (s Profile) Pick(role engine.Role) (profile.Phase, *store.Pick) {
	switch pick := s.Recommendation.PickOf(role); {
	case s.Recommendation.Mode == store.Aggregated:
		return profile.Aggregated, pick
	case role == engine.RolePrefill:
		return profile.Prefill, pick
	default:
		return profile.Decode, pick
	}
}

// ModelErrors are of the latency model behind TTFT and ITL.
func (s Profile) ModelErrors() (ttft, itl profile.ModelError) {
	if pick := s.Recommendation.Aggregated; pick != nil {
		return s.facts(profile.Aggregated, pick).TTFTError, pick.ModelError
	}
	return s.Recommendation.Prefill.ModelError, s.Recommendation.Decode.ModelError
}

// Label implements Source.
func (s Profile) Label(role engine.Role) string {
	_, p := s.Pick(role)
	return p.Label
}

// facts are what the profiled engine said of itself, and the surface's KV
// capacity where it said nothing.
func (s Profile) facts(phase profile.Phase, pick *store.Pick) profile.EngineFacts {
	both := pick.Parallelism().Slug() // of an engine that served both phases
	own := string(phase) + "/" + both
	for _, e := range s.run.Engines {
		if (e.Key == own || e.Key == both) && e.KVTokens > 0 {
			return e.EngineFacts
		}
	}
	return profile.EngineFacts{KVTokens: s.kvMax}
}

// KVBytes implements Source.
func (s Profile) KVBytes() engine.KVBytes { return s.Model.KVBytes(s.KV()) }

// KV is how the profiled engines store the KV cache; "" = BF16, or not known.
func (s Profile) KV() engine.DType {
	if len(s.run.Points) == 0 {
		return ""
	}
	return s.run.Points[0].Config.KV // one for all of a run
}

func (s Profile) about(f *Fleet) {
	f.Model, f.GPU = s.Recommendation.Model, s.Recommendation.GPU
	f.Source = fmt.Sprintf("profile %s (%s)", s.Dir, s.Recommendation.Provenance)
	f.Provenance = s.Steps.Provenance()
	f.TTFTError, f.ITLError = s.ModelErrors()
	f.Steps = &s.Steps
	f.SLA.TTFT = cmp.Or(f.SLA.TTFT, s.run.SLA.TTFT)
	f.SLA.ITL = cmp.Or(f.SLA.ITL, s.run.SLA.ITL)
	f.Warnings = append(f.Warnings, s.Assumed()...)
	f.Warnings = append(f.Warnings, s.Caveats(f.SLA.Stat)...)
}

// Caveats are those of the picks, what the profile warns of itself, and of a plan by
// another statistic than the picks'.
func (s Profile) Caveats(by profile.Statistic) []profile.Warning {
	return slices.Concat(s.Recommendation.Caveats(), s.Recommendation.Doubts(), s.Recommendation.OtherStat(by))
}

// FitWarnings are those of an estimate's fit for a workload, as without a profile.
func (s Profile) FitWarnings(isl, osl int) []profile.Warning {
	f, ok := s.fit()
	if !ok {
		return nil
	}
	return deployment.FitWarnings(f, s.Recommendation.GPU, isl, osl)
}

// fit is an estimate's; false of other profiles, and of a file's fit, which may be gone.
func (s Profile) fit() (latency.Fit, bool) {
	name, _, _ := strings.Cut(s.Recommendation.Engine.Fit, " for ") // an engine that has no fit of its own
	f, err := latency.FitByName(name)
	return f, err == nil
}

// FromDataSheet implements Source: true only of an estimate.
func (s Profile) FromDataSheet() bool {
	f, ok := s.fit()
	return ok && f.FromDataSheet(s.Recommendation.GPU)
}

// NoSurfaces refuses a profile without surfaces, of a run that ended before them.
func NoSurfaces(dir string) *field.Error {
	return field.Errorf(field.Profile+" %s: it has no prefill and decode surfaces to plan by", dir).
		Hint("the profile-sla command that made it measures them if it gets "+field.Resume+", too; an engine that does not state its KV capacity needs %s N, with %s", field.KVTokens, field.Force)
}
