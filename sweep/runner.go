package sweep

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"plimsoll/profile"
)

// runner is one Run.
type runner struct {
	opts     Options
	launcher Launcher
	known    map[string]profile.Point // by id; only read
	book     *ledger
	res      Result // picks and surfaces, set between stages

	disturbed int // repeats in a row during which others held the machine too

	layouts  []*layout // of the adaptive search, in the order to try
	surfaced []*trial  // whose surface was measured, or tried
}

func newRunner(o Options, l Launcher, rec Recorder, known Known, progress func(Progress)) *runner {
	r := &runner{opts: o, launcher: l, known: map[string]profile.Point{}, book: newLedger(o, rec, known, progress)}
	for _, p := range known.Points {
		r.known[p.ID] = p // one that was discarded has an id that nobody asks for
	}
	return r
}

// each does the trials in their order, until one fails or the time is up.
func (r *runner) each(ctx context.Context, trials []*trial, do func(context.Context, *trial) error) error {
	for _, s := range trials {
		r.book.begin(s)
		if err := do(ctx, s); err != nil {
			return err
		}
	}
	return nil
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

// usable reports whether a point of an earlier run need not be measured again:
// more failures than are allowed, figures that cannot be right and missing ones may have been an
// outage's, or a busy client's.
func usable(p profile.Point) bool { return !p.FailsTooOften && !p.Unmeasured() }

// point gives the point of that id: a known one, or one measured now. What it costs is
// expected to be as far off as other points' costs were.
func (r *runner) point(ctx context.Context, s *trial, stage profile.Stage, id string, cost time.Duration, measure measuring) (profile.Point, error) {
	return r.timed(ctx, s, stage, id, cost, r.book.scaled(cost), measure)
}

type measuring func(context.Context) (profile.Point, []profile.Request, error)

// timed is point where it is known how long measuring takes.
func (r *runner) timed(ctx context.Context, s *trial, stage profile.Stage, id string, cost, takes time.Duration, measure measuring) (profile.Point, error) {
	if p, ok := r.known[id]; ok && usable(p) && !r.opts.SLA.Exceeds(p.Failures, p.Requests) {
		r.book.recall(s, stage, p, cost)
		return p, nil
	}
	if r.late(takes) {
		return profile.Point{}, errTimeUp
	}
	if err := r.launch(ctx, s); err != nil {
		return profile.Point{}, err
	}
	r.book.show(id)
	s.stage, s.id = stage, id
	began := r.opts.Now()
	p, rs, err := measure(ctx)
	if err := r.verdict(ctx, s, id, err); err != nil {
		return profile.Point{}, err
	}
	r.sign(s, &p, stage, id)
	p.Started, p.Elapsed = began, r.opts.Now().Sub(began)
	p.Warnings = append(p.Warnings, warmUpFailures(s.warmUps)...)
	p.Warnings = append(append(p.Warnings, p.Machine.Warnings()...), p.Server.Warnings()...)
	s.warmUps = nil
	r.judge(&p)
	failing := r.opts.Failing.after(id, p.Asked <= 1 && p.Rate == 0 && p.Batch == 0)
	if f, ok := errors.AsType[*FailingError](failing); ok && f.dead {
		return p, errors.Join(failing, r.discard(s, p, rs, "the server ended"))
	}
	if err := r.book.keep(s, p, rs, cost); err != nil {
		return profile.Point{}, err
	}
	return p, failing
}

// late reports whether something that takes d would end after the deadline.
func (r *runner) late(d time.Duration) bool {
	return !r.opts.Deadline.IsZero() && r.opts.Now().Add(d).After(r.opts.Deadline)
}

// verdict turns what a measurement says about its engine into an error: the
// program was stopped, the engine died or is gone, or the load could not be sent.
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
	if errors.Is(err, ErrGone) {
		return fmt.Errorf("stopped at %s: %w", id, err)
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
	if r.late(r.book.loads()) {
		return errTimeUp
	}
	r.book.launching(s)
	inst, err := r.launcher.Launch(ctx, s.cfg)
	if ctx.Err() != nil {
		r.book.failed(s)
		cause := context.Cause(ctx)
		if inst == nil {
			return cause
		}
		if stop := inst.Stop(context.WithoutCancel(ctx)); stop != nil {
			return errors.Join(cause, fmt.Errorf("stopping %s: %w", s.name, stop))
		}
		return cause
	}
	if err != nil {
		r.book.failed(s)
		return &engineError{launch: true, err: err}
	}
	s.inst, s.facts, s.warm = inst, inst.Facts, 0
	return r.book.launched(s)
}

// facts makes s.facts known, from a journal or by launching.
func (r *runner) facts(ctx context.Context, s *trial) error {
	if f, ok := r.book.factsOf(s); ok {
		s.facts = f
		return nil
	}
	return r.launch(ctx, s)
}

// end stops the trial's engine after err, and closes its step. An engine that
// would not stop is more than time that is up.
func (r *runner) end(ctx context.Context, s *trial, stage profile.Stage, err error) error {
	r.book.close(s, stage)
	stop := r.stop(ctx, s)
	switch {
	case stop == nil:
		return err
	case errors.Is(err, errTimeUp):
		return stop
	}
	return errors.Join(err, stop)
}

// stop ends the trial's engine, also when the run was canceled.
func (r *runner) stop(ctx context.Context, s *trial) error {
	if s.inst == nil {
		return nil
	}
	inst := s.inst
	r.book.ended(s)
	s.inst = nil
	if err := inst.Stop(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("stopping %s: %w", s.name, err)
	}
	return nil
}

// seed gives each point its own prompts, reproducibly.
func (r *runner) seed(id string) uint64 { return r.opts.seed(id) }

func (o Options) seed(id string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // a hash takes everything
	return o.Seed ^ h.Sum64()
}
