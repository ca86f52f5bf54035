package sweep

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"plimsoll/profile"
)

// ledger is what the trials of a run share: what each found, what it all cost,
// how far it is, and the recorder. It is safe for concurrent use, and what it
// gives back is in the order of the trials, whichever of them finished first.
type ledger struct {
	now      func() time.Time
	known    Known // of an earlier run
	rec      Recorder
	progress func(Progress)

	mu      sync.Mutex
	meter   meter
	trials  []*trial // in the order in which they were begun, which is the candidates'
	skips   []profile.Skip
	engines map[string]profile.EngineFacts
	loading time.Duration // what the last launch took
	why     []string      // something is missing, beside what a trial says
}

// account is what a trial has in the ledger.
type account struct {
	points   []profile.Point
	skips    []profile.Skip
	warnings []profile.Warning
	partial  string
	cost     Cost
	begun    time.Time // of the engine that runs; zero = none does
}

func newLedger(o Options, rec Recorder, known Known, progress func(Progress)) *ledger {
	if progress == nil {
		progress = func(Progress) {}
	}
	l := &ledger{now: o.Now, known: known, rec: rec, progress: progress, meter: newMeter(Plan(o)), engines: map[string]profile.EngineFacts{}}
	for k, f := range known.Engines {
		l.engines[k] = f
	}
	return l
}

// begin opens the account of a trial.
func (l *ledger) begin(s *trial) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trials = append(l.trials, s)
}

// recall books a point that an earlier run measured.
func (l *ledger) recall(s *trial, stage profile.Stage, p profile.Point, expected time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.account.points = append(s.account.points, p)
	l.meter.done(s.step(stage), expected, 0)
}

// recallAll books the known points of a configuration that was dropped earlier:
// they stay in the files, though they cannot be picked.
func (l *ledger) recallAll(s *trial) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.known.Points {
		if p.Stage == profile.StageSweep && p.Phase == s.phase && p.Config == s.cfg {
			s.account.points = append(s.account.points, p)
		}
	}
}

// keep records a point that was measured now.
func (l *ledger) keep(s *trial, p profile.Point, rs []profile.Request, expected time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.rec.Point(p, rs, l.spent()); err != nil {
		return fmt.Errorf("keeping point %s: %w", p.ID, err)
	}
	s.account.points = append(s.account.points, p)
	l.meter.done(s.step(p.Stage), expected, p.Elapsed)
	l.progress(l.at(p.ID))
	return nil
}

// skip records why a trial's configuration is left out.
func (l *ledger) skip(s *trial, sk profile.Skip) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.account.skips = append(s.account.skips, sk)
	return l.rec.Skip(sk)
}

// skipped reports whether a configuration is left out in a phase.
func (l *ledger) skipped(phase profile.Phase, label string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.allSkips(), func(s profile.Skip) bool {
		return s.Label == label && (s.Phase == "" || s.Phase == phase)
	})
}

// warn keeps a caveat of the whole run.
func (l *ledger) warn(s *trial, w profile.Warning) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.account.warnings = append(s.account.warnings, w)
}

// launching says that the trial's engine is being started.
func (l *ledger) launching(s *trial) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.account.begun = l.now()
	s.account.cost.Launches++
	l.progress(l.at("starting " + s.key()))
}

// launched books the engine's facts.
func (l *ledger) launched(s *trial) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.loading = l.now().Sub(s.account.begun)
	l.engines[s.key()] = s.facts
	if err := l.rec.Engine(s.key(), s.facts); err != nil {
		return fmt.Errorf("keeping the facts of %s: %w", s.key(), err)
	}
	return nil
}

// ended books what the trial's engine cost.
func (l *ledger) ended(s *trial) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.bill(l.now())
}

// failed books a launch that gave no engine.
func (l *ledger) failed(s *trial) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.loading = l.now().Sub(s.account.begun)
	s.bill(l.now())
}

// loads is how long the last launch took.
func (l *ledger) loads() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.loading
}

// factsOf are the facts of an engine that ran, or did in an earlier run.
func (l *ledger) factsOf(s *trial) (profile.EngineFacts, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f, ok := l.engines[s.key()]
	return f, ok
}

// count adds requests to what the trial spent.
func (l *ledger) count(s *trial, rs []profile.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &s.account.cost
	c.Requests += len(rs)
	for _, q := range rs {
		c.PromptTokens += int64(q.PromptTokens)
		c.OutputTokens += int64(q.OutputTokens)
	}
}

// show reports what a trial is about to do.
func (l *ledger) show(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.progress(l.at(text))
}

// close drops what was still expected of a trial.
func (l *ledger) close(s *trial, stage profile.Stage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.meter.close(s.step(stage))
}

// scaled corrects an expected duration by how long the points took so far.
func (l *ledger) scaled(d time.Duration) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.meter.scaled(d)
}

// missing notes why something planned was not done; s is nil for the run as a whole.
func (l *ledger) missing(s *trial, why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s == nil {
		l.why = append(l.why, why)
		return
	}
	s.account.partial = why
}

// points are all points so far, in the order of the trials.
func (l *ledger) points() []profile.Point {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.allPoints()
}

func (l *ledger) allPoints() (ps []profile.Point) {
	for _, s := range l.trials {
		ps = append(ps, s.account.points...)
	}
	return ps
}

// allSkips are those of an earlier run, of the trials, and then l.skips.
func (l *ledger) allSkips() []profile.Skip {
	out := slices.Clone(l.known.Skips)
	for _, s := range l.trials {
		out = append(out, s.account.skips...)
	}
	return append(out, l.skips...)
}

// spent is the cost so far, running engines included.
func (l *ledger) spent() Cost {
	c := l.known.Cost
	for _, s := range l.trials {
		c = c.plus(s.spent(l.now()))
	}
	return c
}

// at is where the run stands. Trials that run beside each other share the time
// that is left.
func (l *ledger) at(text string) Progress {
	running := 0
	for _, s := range l.trials {
		if !s.account.begun.IsZero() {
			running++
		}
	}
	p := l.meter.at(text)
	p.Remaining /= time.Duration(max(running, 1))
	return p
}

// into fills in what the trials found.
func (l *ledger) into(r *Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	r.Points, r.Skips, r.Engines, r.Cost = l.allPoints(), l.allSkips(), l.engines, l.spent()
	r.Warnings = nil
	var why []string
	for _, s := range l.trials {
		for _, w := range s.account.warnings {
			if !slices.Contains(r.Warnings, w) {
				r.Warnings = append(r.Warnings, w)
			}
		}
		if s.account.partial != "" {
			why = append(why, s.account.partial)
		}
	}
	r.Partial = strings.Join(append(why, l.why...), "; ")
}
