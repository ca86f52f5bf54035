package sweep

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"plimsoll/engine"
	"plimsoll/profile"
	"plimsoll/recommend"
)

// layout is one candidate of the adaptive search: both phases are measured on one
// engine where that can be, prefill first.
type layout struct {
	prefill, decode *trial
	done            map[profile.Phase]bool // nothing more is to be known of it
}

// newLayout makes the trials of a candidate. Prefix caching stays on for both:
// prompts of prefill are new to the engine each time. Bursts need an engine of another
// shape for prefill.
func newLayout(cfg engine.Config) *layout {
	l := &layout{decode: newTrial(profile.Decode, cfg), done: map[profile.Phase]bool{}}
	if bursts(cfg) {
		l.prefill = newTrial(profile.Prefill, cfg)
		return l
	}
	l.decode.name = l.decode.cfg.Slug()
	l.prefill = &trial{phase: profile.Prefill, cfg: l.decode.cfg, host: l.decode.host}
	return l
}

func (l *layout) of(phase profile.Phase) *trial {
	if phase == profile.Prefill {
		return l.prefill
	}
	return l.decode
}

// apart gives prefill an engine of its own.
func (l *layout) apart() {
	own := newTrial(profile.Prefill, l.prefill.cfg)
	l.prefill.cfg, l.prefill.host = own.cfg, own.host
}

// adaptive sweeps the candidates, each in both phases on one engine; what comes after the
// picks is measured on the engine that runs as soon as nothing to come is expected to be
// better.
func (r *runner) adaptive(ctx context.Context) error {
	r.layouts = nil
	var heads []*trial
	for _, cfg := range r.ordered() {
		r.layouts = append(r.layouts, newLayout(cfg))
	}
	for _, phase := range phases { // points are in the order of the candidates, whichever is tried first
		for _, cfg := range r.opts.Candidates {
			i := slices.IndexFunc(r.layouts, func(l *layout) bool { return l.decode.cfg.Parallelism == cfg.Parallelism })
			r.book.begin(r.layouts[i].of(phase))
		}
	}
	byHead := map[*trial]*layout{}
	for _, l := range r.layouts {
		heads = append(heads, l.decode)
		byHead[l.decode] = l
	}
	if err := r.each(ctx, heads, func(ctx context.Context, s *trial) error { return r.layout(ctx, byHead[s]) }); err != nil {
		return err
	}
	if err := r.choose(); err != nil {
		return err
	}
	if err := r.remaining(ctx); err != nil {
		return err
	}
	return r.finish()
}

var phases = [...]profile.Phase{profile.Prefill, profile.Decode}

// ordered are the candidates in the order to try: where all have a latency model,
// first the one that it expects to win in decode, then in prefill, because what
// the best is decides which others need not be measured at all.
func (r *runner) ordered() []engine.Config {
	cs := slices.Clone(r.opts.Candidates)
	rank := map[engine.Config]float64{}
	for _, phase := range phases {
		best, most := engine.Config{}, 0.0
		for _, c := range cs {
			if _, ok := r.opts.expect(c); !ok {
				return cs
			}
			if v := r.opts.value(r.opts.expected(phase, c, 1), r.opts.Rank); v > most {
				best, most = c, v
			}
		}
		if most > 0 {
			rank[best] = min(rank[best], map[profile.Phase]float64{profile.Prefill: -1, profile.Decode: -2}[phase])
		}
	}
	slices.SortStableFunc(cs, func(a, b engine.Config) int { return cmp.Compare(rank[a], rank[b]) })
	return cs
}

// layout measures one candidate in both phases.
func (r *runner) layout(ctx context.Context, l *layout) (err error) {
	defer func() {
		err = r.end(ctx, l.prefill, profile.StageSweep, err)
		err = r.end(ctx, l.decode, profile.StageSweep, err)
	}()
	later, err := r.prefillOf(ctx, l)
	if err != nil {
		return err
	}
	if err := r.phase(ctx, l, profile.Decode); err != nil {
		return err
	}
	if later {
		if err := r.stop(ctx, l.decode); err != nil {
			return err
		}
		l.apart()
		return r.phase(ctx, l, profile.Prefill)
	}
	return nil
}

// prefillOf measures prefill on the engine that decode is then measured on; later
// says that it needs one of its own, and has to wait for this one to end.
func (r *runner) prefillOf(ctx context.Context, l *layout) (later bool, err error) {
	s := l.prefill
	if s.host != l.decode.host { // see newLayout
		if err := r.phase(ctx, l, profile.Prefill); err != nil {
			return false, err
		}
		return false, r.stop(ctx, s)
	}
	if !r.wanted(l, profile.Prefill) {
		r.pass(l, profile.Prefill)
		return false, nil
	}
	proven, err := r.proven(ctx, s)
	if err != nil {
		return false, r.failedIn(ctx, l, s, err)
	}
	if !proven {
		return true, nil
	}
	return false, r.phase(ctx, l, profile.Prefill)
}

// phase sweeps one phase of a layout and, where nothing to come is expected to be
// better, measures its surface. An engine that fails is a Skip, not an error.
func (r *runner) phase(ctx context.Context, l *layout, phase profile.Phase) error {
	s := l.of(phase)
	if !r.wanted(l, phase) {
		r.pass(l, phase)
		return nil
	}
	sweep := r.decodeSweep
	if phase == profile.Prefill {
		sweep = r.prefillSweep
	}
	err := r.failedIn(ctx, l, s, sweep(ctx, s))
	r.book.close(s, profile.StageSweep)
	if err != nil {
		return err
	}
	r.mark(l, phase)
	return r.surfacesOn(ctx, r.due(l, phase))
}

// due are the trials whose surfaces come after the sweep of a phase. Both phases are swept
// first where one engine serves both, and with a deadline always: an answer comes before
// its details.
func (r *runner) due(l *layout, phase profile.Phase) []*trial {
	ts, shared := []*trial{l.of(phase)}, l.prefill.host == l.decode.host
	switch {
	case shared && phase == profile.Prefill:
		return nil
	case shared && r.marked(l, profile.Prefill):
		ts = []*trial{l.prefill, l.decode}
	case !r.opts.Deadline.IsZero() && (!r.marked(l, profile.Prefill) || !r.marked(l, profile.Decode)):
		return nil
	}
	return slices.DeleteFunc(ts, func(s *trial) bool { return !r.settledOn(s) || slices.Contains(r.surfaced, s) })
}

// failedIn makes a Skip of an engine's failure, and stops the engine: what comes
// next needs one that works.
func (r *runner) failedIn(ctx context.Context, l *layout, s *trial, err error) error {
	var failed *engineError
	if !errors.As(err, &failed) {
		return err
	}
	r.mark(l, s.phase)
	r.book.skip(s, r.skipOf(failed, s))
	return r.stop(ctx, s)
}

// mark says that nothing more is to be known of a layout in a phase.
func (r *runner) mark(l *layout, phase profile.Phase) {
	l.done[phase] = true
}

func (r *runner) marked(l *layout, phase profile.Phase) bool {
	return l.done[phase]
}

// wanted reports whether a layout is to be measured in a phase.
func (r *runner) wanted(l *layout, phase profile.Phase) bool {
	return !r.book.skipped(phase, l.decode.label()) && r.cannotWin(l.of(phase), r.opts.Rank) == ""
}

// pass books a layout that is not measured in a phase.
func (r *runner) pass(l *layout, phase profile.Phase) {
	s := l.of(phase)
	defer r.mark(l, phase)
	r.book.close(s, profile.StageSweep)
	if !r.book.skipped(phase, s.label()) {
		why := r.cannotWin(s, r.opts.Rank)
		r.book.show("leaving out " + s.key())
		r.book.skip(s, profile.Skip{Phase: phase, Label: s.label(), Reason: why})
	}
	r.book.recallAll(s)
}

// settledOn reports whether s is the pick of its phase and will stay it, as far as
// is known or expected. With a deadline, sweeps come first.
func (r *runner) settledOn(s *trial) bool {
	best, ok := r.best(s.phase, r.opts.Rank)
	if !ok || best.Point.Config.Parallelism != s.cfg.Parallelism {
		return false
	}
	for _, l := range r.layouts {
		t := l.of(s.phase)
		if t == s || r.marked(l, s.phase) || r.book.skipped(s.phase, t.label()) || r.cannotWin(t, r.opts.Rank) != "" {
			continue
		}
		_, known := r.opts.expect(t.cfg)
		above := reach(best, t, r.opts.Rank)
		if t.cfg.GPUs() < s.cfg.GPUs() { // of a tie it is the pick, and no model tells that beforehand
			above = min(above, (1-recommend.TieShare)*best.Value(r.opts.Rank))
		}
		if !known || !r.opts.Deadline.IsZero() || r.opts.value(r.opts.expected(s.phase, t.cfg, 1), r.opts.Rank) >= above {
			return false
		}
	}
	return true
}

// surfacesOn measures what comes after the picks at the configurations of trials, on
// their engine.
func (r *runner) surfacesOn(ctx context.Context, trials []*trial) error {
	if len(trials) == 0 {
		return nil
	}
	r.surfaced = append(r.surfaced, trials...)
	at := make([]*trial, len(trials))
	for i, s := range trials {
		at[i] = &trial{phase: s.phase, cfg: s.cfg, host: s.host}
		r.book.begin(at[i])
	}
	return r.around(ctx, at, surfaceSteps)
}

// surfaceSteps are the steps of a surface in the adaptive search: the ends first, then the
// second rate of the pick, then what lies between.
var surfaceSteps = []func(*runner, context.Context, *trial) error{(*runner).coarse, (*runner).most, (*runner).fine}

func (r *runner) coarse(ctx context.Context, s *trial) error {
	if s.phase == profile.Prefill {
		return r.coarsePrefill(ctx, s)
	}
	return r.coarseDecode(ctx, s)
}

func (r *runner) fine(ctx context.Context, s *trial) error {
	if s.phase == profile.Prefill {
		return r.finePrefill(ctx, s)
	}
	return r.fineDecode(ctx, s)
}

// remaining measures the surfaces of picks that have none yet, those of one engine
// one after the other.
func (r *runner) remaining(ctx context.Context) error {
	todo := map[*trial][]*trial{}
	var heads []*trial
	for _, phase := range phases {
		s := r.picked(phase)
		if s == nil || slices.Contains(r.surfaced, s) {
			continue
		}
		at := &trial{phase: phase, cfg: s.cfg, host: s.host}
		if i := slices.IndexFunc(heads, func(h *trial) bool { return h.host == at.host }); i >= 0 {
			todo[heads[i]] = append(todo[heads[i]], at)
			continue
		}
		heads = append(heads, at)
		todo[at] = []*trial{at}
	}
	return r.each(ctx, heads, func(ctx context.Context, head *trial) (err error) {
		defer func() { err = r.end(ctx, head, profile.StageSurface, err) }()
		for _, at := range todo[head] {
			r.book.begin(at)
		}
		return r.around(ctx, todo[head], surfaceSteps)
	})
}

// picked is the trial of a phase's pick.
func (r *runner) picked(phase profile.Phase) *trial {
	c := r.res.Decode
	if phase == profile.Prefill {
		c = r.res.Prefill
	}
	for _, l := range r.layouts {
		if s := l.of(phase); s.cfg.Parallelism == c.Picked.Point.Config.Parallelism {
			return s
		}
	}
	return nil
}

// proven reports whether the engine, its prefix cache on, says of prompts that are
// new to it that it computed all of them. Somebody else's server is taken as it
// is.
func (r *runner) proven(ctx context.Context, s *trial) (bool, error) {
	if p, ok := r.known[r.prefillID(s)]; ok && usable(p) {
		return p.Config.PrefixCaching, nil
	}
	if err := r.launch(ctx, s); err != nil {
		return false, err
	}
	if err := r.opts.holds(s.facts); err != nil {
		return false, err
	}
	w := r.prompts("warm-up/"+s.key(), s.cfg, r.opts.ISL)
	w.Requests = max(1, r.opts.PrefillWarmups)
	m, err := s.inst.Measurer.Measure(ctx, w)
	r.book.count(s, m.Requests)
	if err := r.verdict(ctx, s, "warm-up/"+s.key(), err); err != nil {
		return false, err
	}
	if err := r.warmed(s, m.Requests); err != nil {
		return false, err
	}
	s.warm = r.opts.ISL
	cached := m.summarize(m.Requests, profile.Whole(m.Requests)).Cached
	if s.cfg.Kind == engine.KindEndpoint || !math.IsNaN(cached) && cached <= profile.PrefixShare {
		return true, nil
	}
	return false, nil
}
