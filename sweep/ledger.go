package sweep

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"plimsoll/profile"
	"plimsoll/recommend"
)

// ledger is what the trials of a run share: what each found, what it all cost,
// how far it is, and the recorder. What it gives back is in the order in which the
// trials were begun.
type ledger struct {
	now      func() time.Time
	deadline time.Time // zero = none
	known    Known     // of an earlier run
	rec      Recorder
	progress func(Progress)

	meter     meter
	trials    []*trial // in the order in which they were begun
	hosts     []*host  // theirs
	skips     []profile.Skip
	engines   map[string]profile.EngineFacts
	loading   time.Duration // what the last launch took
	why       []string      // something is missing, beside what a trial says
	underLoad []*Verification
}

// account is what a trial has in the ledger.
type account struct {
	points    []profile.Point
	discarded []profile.Point
	skips     []profile.Skip
	partial   string
}

func newLedger(o Options, rec Recorder, known Known, progress func(Progress)) *ledger {
	if progress == nil {
		progress = func(Progress) {}
	}
	l := &ledger{now: o.Now, deadline: o.Deadline, known: known, rec: rec, progress: progress, meter: newMeter(Plan(o)), engines: map[string]profile.EngineFacts{}}
	for k, f := range known.Engines {
		l.engines[k] = f
	}
	return l
}

// begin opens the account of a trial, unless it is open.
func (l *ledger) begin(s *trial) {
	if !slices.Contains(l.trials, s) {
		l.trials = append(l.trials, s)
	}
}

// recall books a point that an earlier run measured.
func (l *ledger) recall(s *trial, stage profile.Stage, p profile.Point, expected time.Duration) {
	s.account.points = append(s.account.points, p)
	l.meter.done(s.step(stage), expected, 0)
}

// recallAll books the known points of a configuration that is dropped: they stay in
// the files, though they cannot be picked.
func (l *ledger) recallAll(s *trial) {
	for _, p := range l.known.Points {
		if p.Discarded == "" && p.Stage == profile.StageSweep && p.Phase == s.phase && p.Config.Slug() == s.cfg.Slug() {
			s.account.points = append(s.account.points, p)
		}
	}
}

// keep records a point that was measured now.
func (l *ledger) keep(s *trial, p profile.Point, rs []profile.Request, expected time.Duration) error {
	if err := l.rec.Point(p, rs, l.spent()); err != nil {
		return fmt.Errorf("keeping point %s: %w", p.ID, err)
	}
	s.account.points = append(s.account.points, p)
	l.meter.done(s.step(p.Stage), expected, p.Elapsed)
	l.progress(l.at(p.ID))
	return nil
}

// skip books why a trial's configuration is left out.
func (l *ledger) skip(s *trial, sk profile.Skip) {
	s.account.skips = append(s.account.skips, sk)
}

// skipped reports whether a configuration is left out in a phase.
func (l *ledger) skipped(phase profile.Phase, label string) bool {
	return slices.ContainsFunc(l.allSkips(), func(s profile.Skip) bool {
		return s.Label == label && (s.Phase == "" || s.Phase == phase)
	})
}

// launching says that the trial's engine is being started.
func (l *ledger) launching(s *trial) {
	if !slices.Contains(l.hosts, s.host) {
		l.hosts = append(l.hosts, s.host)
	}
	s.begun = l.now()
	s.cost.Launches++
	l.progress(l.at("starting " + s.name))
}

// launched books the engine's facts, and refuses those of another engine than an
// earlier run measured. Of several launches the longest start-up is kept.
func (l *ledger) launched(s *trial) error {
	s.busy = s.inst.Busy
	l.loaded(s)
	if err := l.known.otherEngine(s); err != nil {
		return err
	}
	if s.busy == nil && !s.inst.Found {
		s.facts.StartUpSeconds = max(l.loading.Seconds(), l.engines[s.name].StartUpSeconds)
	}
	l.engines[s.name] = s.facts
	if err := l.rec.Engine(s.name, s.facts); err != nil {
		return fmt.Errorf("keeping the facts of %s: %w", s.name, err)
	}
	return nil
}

// ended books what the trial's engine cost.
func (l *ledger) ended(s *trial) {
	s.bill(l.now())
}

// failed books a launch that gave no engine.
func (l *ledger) failed(s *trial) {
	l.loaded(s)
	s.bill(l.now())
}

// loaded books what the launch that ends now took; in virtual time nothing.
func (l *ledger) loaded(s *trial) {
	l.loading = l.now().Sub(s.begun)
	if s.busy == nil {
		s.cost.LoadingSeconds += l.loading.Seconds()
	}
}

// loads is how long the last launch took.
func (l *ledger) loads() time.Duration {
	return l.loading
}

// factsOf are the facts of an engine that ran, or did in an earlier run.
func (l *ledger) factsOf(s *trial) (profile.EngineFacts, bool) {
	f, ok := l.engines[s.name]
	return f, ok
}

// count adds requests to what the trial spent.
func (l *ledger) count(s *trial, rs []profile.Request) {
	c := &s.cost
	c.Requests += len(rs)
	for _, q := range rs {
		c.PromptTokens += int64(q.PromptTokens)
		c.OutputTokens += int64(q.OutputTokens)
	}
}

// spend adds to what the trial spent.
func (l *ledger) spend(s *trial, c Cost) {
	s.cost = s.cost.plus(c)
}

// show reports what a trial is about to do.
func (l *ledger) show(text string) {
	l.progress(l.at(text))
}

// close drops what was still expected of a trial.
func (l *ledger) close(s *trial, stage profile.Stage) {
	l.meter.close(s.step(stage))
}

// scaled corrects an expected duration by how long the points took so far.
func (l *ledger) scaled(d time.Duration) time.Duration {
	return l.meter.scaled(d)
}

// missing notes why something planned was not done; s is nil for the run as a whole.
func (l *ledger) missing(s *trial, why string) {
	if s == nil {
		l.why = append(l.why, why)
		return
	}
	s.account.partial = why
}

// points are all points so far, in the order of the trials.
func (l *ledger) points() (ps []profile.Point) {
	for _, s := range l.trials {
		ps = append(ps, s.account.points...)
	}
	order := func(p profile.Point) int {
		return 10*slices.Index([]profile.Stage{profile.StageSweep, profile.StageSurface, profile.StageVerify}, p.Stage) +
			slices.Index([]profile.Phase{profile.Prefill, profile.Decode, profile.Aggregated}, p.Phase)
	}
	slices.SortStableFunc(ps, func(a, b profile.Point) int { return cmp.Compare(order(a), order(b)) })
	return ps
}

// allSkips are those of the trials, and then l.skips.
func (l *ledger) allSkips() (out []profile.Skip) {
	for _, s := range l.trials {
		out = append(out, s.account.skips...)
	}
	return append(out, l.skips...)
}

// spent is the cost so far, running engines included.
func (l *ledger) spent() Cost {
	c := l.known.Cost
	for _, h := range l.hosts {
		c = c.plus(h.spent(l.now()))
	}
	return c.rounded()
}

// at is where the run stands; the deadline bounds the time that is left.
func (l *ledger) at(text string) Progress {
	p := l.meter.at(text)
	if p.Remaining > 0 { // launches take as long as the last one did
		running := ""
		for _, s := range l.trials {
			if s.inst != nil {
				running = s.label()
			}
		}
		p.Remaining += time.Duration(l.meter.launches(running)) * l.loading
	}
	if !l.deadline.IsZero() {
		p.Remaining = min(p.Remaining, max(0, l.deadline.Sub(l.now())))
	}
	return p
}

// verified keeps what a pick attained under load.
func (l *ledger) verified(v Verification) *Verification {
	l.underLoad = append(l.underLoad, &v)
	return &v
}

// ofPicks are the verifications of what r picks, prefill before decode: others are
// of configurations that were the best for a while.
func (l *ledger) ofPicks(r *Result) (vs []Verification) {
	for _, c := range []*recommend.Choice{&r.Prefill, &r.Decode, &r.Aggregated} {
		for _, v := range l.underLoad {
			if v.of(c) {
				vs = append(vs, *v)
			}
		}
	}
	return vs
}

// into fills in what the trials found.
func (l *ledger) into(r *Result) {
	r.Points, r.Skips, r.Engines, r.Cost = l.points(), l.allSkips(), l.engines, l.spent()
	r.Discarded = l.allDiscarded()
	r.Warnings, r.Verified = nil, nil
	var why []string
	for _, s := range l.trials {
		if s.account.partial != "" {
			why = append(why, s.account.partial)
		}
	}
	for _, v := range l.ofPicks(r) {
		r.Warnings = profile.JoinWarnings(r.Warnings, v.warnings)
		if v.missing != "" {
			why = append(why, v.missing)
		}
		if v.Point.ID != "" {
			r.Verified = append(r.Verified, v)
		}
	}
	r.Partial = strings.Join(append(why, l.why...), "; ")
}
