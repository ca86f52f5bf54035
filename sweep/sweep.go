// Package sweep decides which configurations and which operating points to
// measure, in which order, until the answer is known: it takes candidates and
// a target, drives a Launcher and a Measurer, and gives the points, the picks
// and the surfaces at the picks. It always stops what it started; a
// configuration that fails is recorded with its reason and the rest goes on;
// points already known (a resumed run) are not measured again.
package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
	"plimsoll/recommend"
)

// Search is how the decode sweep chooses in-flight counts.
type Search string

// The searches.
const (
	// Adaptive brackets and closes in on the SLA's boundary.
	Adaptive Search = "adaptive"
	// Grid is upstream's plan, point for point: see grid.go.
	Grid Search = "grid"
)

// Sentinels that end a run early.
var (
	// ErrNothing says that a phase has no usable point at all. Run returns it
	// wrapped, beside a Result that holds the reasons.
	ErrNothing = errors.New("no configuration could be measured")
	// ErrOverload says that somebody's server was failing by Options.Failing. Run
	// returns it wrapped.
	ErrOverload = errors.New("too many requests failed")
	// ErrGone says that an engine that somebody else runs takes no connections any
	// more, which says nothing of the configuration. Run returns it wrapped.
	ErrGone = errors.New("the server is gone")
	// ErrOtherEngine says that an engine is not the one that an earlier run measured:
	// points of both would be one curve of two engines. Run returns it wrapped.
	ErrOtherEngine = errors.New("the engine is not the one that was measured")

	errTimeUp = errors.New("the time allowed ran out")
)

// Options is one sweep.
type Options struct {
	Candidates []engine.Config // in the order to try; of one parallelism there may be several, by tokens in a step
	ISL, OSL   int             // target workload, tokens
	SLA        profile.SLA
	Rank       recommend.Rank
	Search     Search

	PrefillRequests    int // per prefill point, after warm-up
	PrefillWarmups     int // discarded requests before them
	SurfaceRequests    int // per point of the prefill surface
	PrefillGranularity int // ISLs of the prefill surface
	DecodeGranularity  int // contexts and in-flight counts of the decode surface, each
	SurfaceOSL         int // output tokens per request of the decode surface
	MaxContext         int // tokens; the surfaces reach up to it; 0 = what the engine says
	MostContext        int // tokens; they reach no further whatever the engine says; 0 = no such limit
	MaxInFlight        int // never more at once; 0 = the engine's own limits

	GPUMemory int64 // of one GPU, bytes; 0 = not known

	RequestTimeout time.Duration
	Failing        *Failing // stops everything where too many requests fail; nil = never
	Seed           uint64

	Open OpenLoop // how picks are verified, and aggregated engines are loaded

	// Virtual says that engines run in virtual time: a point takes what its
	// computing takes, not what its steps would.
	Virtual bool
	// VirtualSurfaces: so do surfaces, also those of an engine in real time.
	VirtualSurfaces bool

	Deadline time.Time        // no new point that would not fit before it, and one under way is ended by it; zero = none
	Now      func() time.Time // the clock
	// Peak gives the tokens/s/GPU that a configuration's GPUs cannot exceed; nil
	// or 0 where that is not known.
	Peak func(engine.Config) float64
	// Expect gives the latency model of a configuration, for time estimates, the
	// order of candidates and, where it says how far it may be off, for leaving
	// out what would lose; nil or false where there is none.
	Expect func(engine.Config) (Expectation, bool)
}

// Expectation is what a latency model says of a configuration.
type Expectation interface {
	TTFT(isl int) time.Duration
	ITL(inFlight int, context float64) time.Duration
	KVTokens() int
	// WindowedKV is the KV cache where layers have a sliding window; else zero.
	WindowedKV() engine.WindowedKV
	// Errors are how far TTFT and ITL may be off; zero where that is not known.
	Errors() (ttft, itl profile.ModelError)
}

// Recorder keeps what is known, synced before the next point starts.
type Recorder interface {
	// Point comes with what the sweep has cost until then.
	Point(p profile.Point, rs []profile.Request, spent Cost) error
	Engine(key string, f profile.EngineFacts) error
}

// Known is what an earlier run of the same inputs left.
type Known struct {
	Points  []profile.Point
	Engines map[string]profile.EngineFacts // by trial key
	Cost    Cost
}

// Result is what a sweep found.
type Result struct {
	Points         []profile.Point // by stage, phase and candidate, then in the order measured; known ones included
	Discarded      []profile.Point // what was sent again; known ones included
	Skips          []profile.Skip
	Engines        map[string]profile.EngineFacts
	Prefill        recommend.Choice
	Decode         recommend.Choice
	Aggregated     recommend.Choice // in that mode; then the others are empty
	Verified       []Verification   // picks that were loaded at their rates
	PrefillSurface profile.PrefillSurface
	DecodeSurface  profile.DecodeSurface
	Batched        profile.BatchedPrefill // no samples where no prompt is short, or none was batched
	Cost           Cost
	Settled        bool              // the picks stand; of a run that was stopped, what is missing is surfaces
	Warnings       []profile.Warning // of the whole; points carry their own
	Partial        string            // why not everything planned was measured; empty = all was
}

// Run sweeps, with one engine at a time. On cancellation and on ErrNothing the
// Result holds what is known, the best of each phase so far included.
func Run(ctx context.Context, o Options, l Launcher, rec Recorder, known Known, progress func(Progress)) (Result, error) {
	r := newRunner(o, l, rec, known, progress)
	if !o.Deadline.IsZero() {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, o.Deadline.Sub(o.Now()), errTimeUp)
		defer stop()
	}
	err := r.run(ctx)
	switch {
	case errors.Is(err, errTimeUp):
		why := errTimeUp.Error()
		if left := o.Deadline.Sub(o.Now()).Round(time.Second); left > 0 {
			why = fmt.Sprintf("what comes next would take longer than the %v left", left)
		}
		err = r.endEarly(why)
	case ctx.Err() != nil:
		r.res.Settled = r.settled() && r.endEarly("the run was stopped") == nil
		if !r.res.Settled {
			_ = r.choose() // the best so far, where there is any
		}
	default:
		r.res.Settled = err == nil
	}
	r.book.into(&r.res)
	return r.res, err
}

// settled reports whether the picks are final: the sweeps are over, or their surfaces were
// begun because nothing better was expected; or some rate is known to hold.
func (r *runner) settled() bool {
	if r.opts.Open.Bracket && r.opts.Open.Mode == Aggregated {
		ch, err := recommend.ChooseAggregated(r.sweepPoints(profile.Aggregated), r.opts.SLA)
		return err == nil && ch.Feasible
	}
	begun := func(phase profile.Phase) bool {
		return len(r.choiceFound(phase).All) > 0 || slices.ContainsFunc(r.surfaced, func(s *trial) bool { return s.phase == phase })
	}
	return begun(profile.Aggregated) || begun(profile.Prefill) && begun(profile.Decode)
}

// choiceFound is the choice of a phase once its sweeps are over.
func (r *runner) choiceFound(phase profile.Phase) recommend.Choice {
	return map[profile.Phase]recommend.Choice{profile.Prefill: r.res.Prefill, profile.Decode: r.res.Decode, profile.Aggregated: r.res.Aggregated}[phase]
}

// endEarly finishes with what is known, and claims no more than that.
func (r *runner) endEarly(why string) error {
	chosen := len(r.res.Decode.All)+len(r.res.Aggregated.All) > 0 // the sweep was complete, only surfaces are cut short
	r.book.missing(nil, why)
	if err := r.finish(); err != nil {
		return fmt.Errorf("%s: %w", why, err)
	}
	if chosen {
		return nil
	}
	for _, c := range r.choices() {
		for _, cfg := range r.opts.Candidates {
			label := cfg.Label()
			measured := slices.ContainsFunc(c.All, func(x recommend.Candidate) bool { return x.Label() == label })
			if !measured && !r.book.skipped(c.Phase, label) {
				r.book.skips = append(r.book.skips, profile.Skip{Phase: c.Phase, Label: label, Reason: "not measured: " + why})
			}
		}
		if c.Feasible {
			c.Why = "the best of what was measured before time ran out"
		}
	}
	return nil
}

// run measures by the search that was asked for; errTimeUp leaves what is known
// in the ledger.
func (r *runner) run(ctx context.Context) error {
	if r.opts.Open.Mode == Aggregated {
		return r.runAggregated(ctx)
	}
	if r.opts.Search == Grid {
		return r.stages(ctx, r.gridSweep, r.gridSurface)
	}
	return r.adaptive(ctx)
}

// stages measures the candidates in both phases by sweep, picks, and measures
// around the picks by surface, each on an engine of its own.
func (r *runner) stages(ctx context.Context, sweep, surface func(context.Context, *trial) error) error {
	for _, phase := range []profile.Phase{profile.Prefill, profile.Decode} {
		var trials []*trial
		for _, cfg := range r.opts.Candidates {
			trials = append(trials, newTrial(phase, cfg))
		}
		if err := r.each(ctx, trials, func(ctx context.Context, s *trial) error { return r.candidate(ctx, s, sweep) }); err != nil {
			return err
		}
	}
	if err := r.choose(); err != nil {
		return err
	}
	picks := []*trial{
		newTrial(profile.Prefill, r.res.Prefill.Picked.Point.Config),
		newTrial(profile.Decode, r.res.Decode.Picked.Point.Config),
	}
	if err := r.each(ctx, picks, func(ctx context.Context, s *trial) error { return r.surface(ctx, s, surface) }); err != nil {
		return err
	}
	return r.finish()
}

// candidate measures one configuration in one phase; an engine that fails is a
// Skip, not an error.
func (r *runner) candidate(ctx context.Context, s *trial, measure func(context.Context, *trial) error) (err error) {
	if r.book.skipped(s.phase, s.label()) {
		r.book.recallAll(s)
		r.book.close(s, profile.StageSweep)
		return nil
	}
	defer func() { err = r.end(ctx, s, profile.StageSweep, err) }()
	err = measure(ctx, s)
	var failed *engineError
	if errors.As(err, &failed) {
		r.book.skip(s, r.skipOf(failed, s))
		return nil
	}
	return err
}

// surface measures around a pick.
func (r *runner) surface(ctx context.Context, s *trial, measure func(context.Context, *trial) error) (err error) {
	defer func() { err = r.end(ctx, s, profile.StageSurface, err) }()
	return r.around(ctx, []*trial{s}, []func(*runner, context.Context, *trial) error{
		func(_ *runner, ctx context.Context, s *trial) error { return measure(ctx, s) }, (*runner).most,
	})
}

// around verifies the picks of trials that share an engine, then measures their surfaces step
// by step, each step for all trials. If the engine fails, the picks stand, and a caveat says
// that a surface is incomplete.
func (r *runner) around(ctx context.Context, trials []*trial, steps []func(*runner, context.Context, *trial) error) error {
	for _, s := range trials {
		if err := r.verify(ctx, s); err != nil {
			return err
		}
	}
	failed := map[*trial]bool{}
	for _, step := range steps {
		for _, s := range trials {
			if failed[s] {
				continue
			}
			err := step(r, ctx, s)
			var broke *engineError
			if errors.As(err, &broke) {
				r.book.missing(s, "the "+s.key()+" surface is incomplete: "+broke.Error())
				failed[s], err = true, nil
			}
			if err == nil && s.inst != nil && s.inst.Died() != nil {
				err = r.stop(ctx, s) // what comes next needs one that works
			}
			if err != nil {
				return err
			}
		}
	}
	for _, s := range trials {
		r.book.close(s, profile.StageSurface)
	}
	return nil
}

// choose picks in both phases, or in the one of aggregated engines.
func (r *runner) choose() error {
	if r.opts.Open.Mode == Aggregated {
		return r.chooseAggregated()
	}
	var errs []error
	for _, phase := range []profile.Phase{profile.Prefill, profile.Decode} {
		c, err := recommend.Choose(phase, r.sweepPoints(phase), r.opts.SLA, r.opts.Rank, r.opts.OSL)
		if errors.Is(err, recommend.ErrUndecided) {
			errs = append(errs, fmt.Errorf("%s: %w: %w", phase, ErrNothing, err))
		} else if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", phase, ErrNothing))
		}
		if phase == profile.Prefill {
			r.res.Prefill = c
		} else {
			r.res.Decode = c
		}
	}
	return errors.Join(errs...)
}

// choices are those of the mode.
func (r *runner) choices() []*recommend.Choice {
	if r.opts.Open.Mode == Aggregated {
		return []*recommend.Choice{&r.res.Aggregated}
	}
	return []*recommend.Choice{&r.res.Prefill, &r.res.Decode}
}

// choiceOf is the choice of a phase.
func (r *runner) choiceOf(phase profile.Phase) recommend.Choice {
	c := r.choiceFound(phase)
	if len(c.All) == 0 && phase != profile.Aggregated { // not all is measured: the best so far
		c, _ = recommend.Choose(phase, r.sweepPoints(phase), r.opts.SLA, r.opts.Rank, r.opts.OSL)
	}
	return c
}

// finish computes picks and surfaces from what is known.
func (r *runner) finish() error {
	if err := r.choose(); err != nil {
		return err
	}
	prefill, decode := r.res.Prefill.Picked.Point.Config, r.res.Decode.Picked.Point.Config
	if r.opts.Open.Mode == Aggregated {
		if len(r.layouts) == 0 {
			return nil // the time was up before the surfaces
		}
		prefill, decode = r.layouts[0].prefill.cfg, r.layouts[0].decode.cfg
	}
	points := r.book.points()
	version := ""
	for _, f := range r.res.Engines {
		version = cmp.Or(version, f.Version)
	}
	tokens, _ := prefill.StepTokens(r.opts.GPUMemory, version)
	r.res.PrefillSurface, r.res.Batched = prefillSurfaceOf(points, prefill), batchedPrefillOf(points, prefill, tokens)
	r.res.DecodeSurface = decodeSurfaceOf(points, decode, r.res.Decode.Picked.Point.ID, r.opts.Search == Grid)
	return nil
}

// sweepPoints are the points of a phase that may be picked: those of the sweep,
// of configurations that were not dropped.
func (r *runner) sweepPoints(phase profile.Phase) []profile.Point {
	var ps []profile.Point
	for _, p := range r.book.points() {
		if p.Stage == profile.StageSweep && p.Phase == phase && !r.book.skipped(phase, p.Config.Label()) {
			ps = append(ps, p)
		}
	}
	return ps
}
