package sweep

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"plimsoll/profile"
)

// runner is the state of one Run.
type runner struct {
	opts     Options
	launcher Launcher
	rec      Recorder
	progress func(Progress)
	known    map[string]profile.Point
	order    []profile.Point // known points, as they were measured
	res      Result
	meter    meter
	loading  time.Duration // what the last launch took
}

func newRunner(o Options, l Launcher, rec Recorder, known Known, progress func(Progress)) *runner {
	if progress == nil {
		progress = func(Progress) {}
	}
	r := &runner{opts: o, launcher: l, rec: rec, progress: progress, known: map[string]profile.Point{}, order: known.Points}
	for _, p := range known.Points {
		r.known[p.ID] = p
	}
	r.res.Skips = append(r.res.Skips, known.Skips...)
	r.res.Cost = known.Cost
	r.res.Engines = map[string]profile.EngineFacts{}
	for k, f := range known.Engines {
		r.res.Engines[k] = f
	}
	r.meter = newMeter(Plan(o))
	return r
}

// engineError is a failure of one engine: the configuration is dropped and the
// sweep goes on.
type engineError struct {
	launch bool
	err    error
}

func (e *engineError) Error() string { return e.err.Error() }
func (e *engineError) Unwrap() error { return e.err }

// skipOf is the Skip that an engine's failure becomes. One that would not start
// for prefill is given up for decode too, which comes later; one that would not
// start for decode keeps the prefill points that it has.
func (r *runner) skipOf(e *engineError, s *trial) profile.Skip {
	sk := profile.Skip{Phase: s.phase, Label: s.label(), Reason: e.err.Error()}
	if e.launch && s.phase == profile.Prefill {
		sk.Phase = ""
	}
	return sk
}

// warn keeps a caveat of the whole run, once.
func (r *runner) warn(code, format string, args ...any) {
	if w := profile.Warnf(code, format, args...); !slices.Contains(r.res.Warnings, w) {
		r.res.Warnings = append(r.res.Warnings, w)
	}
}

// partial notes why something planned is missing.
func (r *runner) partial(why string) {
	if r.res.Partial != "" {
		why = r.res.Partial + "; " + why
	}
	r.res.Partial = why
}

func (r *runner) skip(s profile.Skip) error {
	r.res.Skips = append(r.res.Skips, s)
	return r.rec.Skip(s)
}

// recall keeps the known points of a configuration that was dropped earlier:
// they stay in the files, though they cannot be picked.
func (r *runner) recall(s *trial) {
	for _, p := range r.order {
		if p.Stage == profile.StageSweep && p.Phase == s.phase && p.Config == s.cfg {
			r.res.Points = append(r.res.Points, p)
		}
	}
}

func (r *runner) skipped(phase profile.Phase, label string) bool {
	for _, s := range r.res.Skips {
		if s.Label == label && (s.Phase == "" || s.Phase == phase) {
			return true
		}
	}
	return false
}

// point gives the point of that id: a known one, or one measured now.
func (r *runner) point(ctx context.Context, s *trial, stage profile.Stage, id string, cost time.Duration,
	measure func(context.Context, *Instance) (profile.Point, []profile.Request, error),
) (profile.Point, error) {
	if p, ok := r.known[id]; ok {
		r.res.Points = append(r.res.Points, p)
		r.meter.done(s.step(stage), cost, 0)
		return p, nil
	}
	if r.late(r.meter.scaled(cost)) {
		return profile.Point{}, errTimeUp
	}
	if err := r.launch(ctx, s); err != nil {
		return profile.Point{}, err
	}
	r.progress(r.meter.at(id))
	began := r.opts.Now()
	p, rs, err := measure(ctx, s.inst)
	if err := r.verdict(ctx, s, id, err); err != nil {
		return profile.Point{}, err
	}
	p.ID, p.Stage, p.Phase, p.Config, p.Provenance = id, stage, s.phase, s.cfg, s.facts.Provenance
	p.MaxKV, p.Started, p.Elapsed = s.facts.KVTokens, began, r.opts.Now().Sub(began)
	if p.ModelError = s.facts.ITLError; s.phase == profile.Prefill {
		p.ModelError = s.facts.TTFTError
	}
	if err := r.rec.Point(p, rs, r.spent(s)); err != nil {
		return profile.Point{}, fmt.Errorf("keeping point %s: %w", id, err)
	}
	r.res.Points = append(r.res.Points, p)
	r.meter.done(s.step(stage), cost, p.Elapsed)
	r.progress(r.meter.at(id))
	return p, r.overload(id, rs)
}

// late reports whether something that takes d would end after the deadline.
func (r *runner) late(d time.Duration) bool {
	return !r.opts.Deadline.IsZero() && r.opts.Now().Add(d).After(r.opts.Deadline)
}

// verdict turns what a measurement says about its engine into an error: the
// program was stopped, the engine died, or the load could not be sent.
func (r *runner) verdict(ctx context.Context, s *trial, id string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if died := s.inst.Died(); died != nil {
		return &engineError{err: fmt.Errorf("engine ended at %s: %w", id, died)}
	}
	if errors.Is(err, ErrOverload) {
		return err
	}
	if err != nil {
		return &engineError{err: fmt.Errorf("measuring %s: %w", id, err)}
	}
	return nil
}

// launch starts the trial's engine if it does not run.
func (r *runner) launch(ctx context.Context, s *trial) error {
	if s.inst != nil {
		return nil
	}
	if r.late(r.loading) {
		return errTimeUp
	}
	r.progress(r.meter.at("starting " + s.key()))
	s.begun = r.opts.Now()
	r.res.Cost.Launches++
	inst, err := r.launcher.Launch(ctx, s.cfg)
	r.loading = r.opts.Now().Sub(s.begun)
	if ctx.Err() != nil {
		if inst != nil {
			return errors.Join(context.Cause(ctx), inst.Stop(context.WithoutCancel(ctx)))
		}
		return context.Cause(ctx)
	}
	if err != nil {
		return &engineError{launch: true, err: err}
	}
	s.inst, s.facts = inst, inst.Facts
	r.res.Engines[s.key()] = s.facts
	if err := r.rec.Engine(s.key(), s.facts); err != nil {
		return fmt.Errorf("keeping the facts of %s: %w", s.key(), err)
	}
	return nil
}

// facts makes s.facts known, from a journal or by launching.
func (r *runner) facts(ctx context.Context, s *trial) error {
	if f, ok := r.res.Engines[s.key()]; ok {
		s.facts = f
		return nil
	}
	return r.launch(ctx, s)
}

// end stops the trial's engine after err, and closes its step.
func (r *runner) end(ctx context.Context, s *trial, stage profile.Stage, err error) error {
	r.meter.close(s.step(stage))
	if stop := r.stop(ctx, s); stop != nil {
		return errors.Join(err, stop)
	}
	return err
}

// stop ends the trial's engine, also when the run was canceled.
func (r *runner) stop(ctx context.Context, s *trial) error {
	if s.inst == nil {
		return nil
	}
	inst := s.inst
	r.res.Cost = r.spent(s)
	s.inst = nil
	if err := inst.Stop(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("stopping %s: %w", s.key(), err)
	}
	return nil
}

// spent is the cost so far, the trial's running engine included.
func (r *runner) spent(s *trial) Cost {
	c := r.res.Cost
	if s.inst != nil {
		secs := r.opts.Now().Sub(s.begun).Seconds()
		c.EngineSeconds += secs
		c.GPUSeconds += secs * float64(s.cfg.GPUs())
	}
	return c
}

// seed gives each point its own prompts, reproducibly.
func (r *runner) seed(id string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // a hash takes everything
	return r.opts.Seed ^ h.Sum64()
}
