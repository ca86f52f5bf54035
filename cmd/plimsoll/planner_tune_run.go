package main

import (
	"context"
	"fmt"
	"sync"

	"plimsoll/planner/replay"
	"plimsoll/planner/tune"
)

// tuning is a search and what it found.
type tuning struct {
	options     tuneOptions
	fit, report comparison // one policy's way through each part, with the default settings
	fitted      map[string][]replay.Result
	found       tune.Outcome
	reported    [2][]replay.Result // on the report part: the default settings, the best ones
	mutex       *sync.Mutex        // of what replays that go on after a Ctrl-C write
}

// newTuning reads both parts of the load.
func newTuning(o tuneOptions) (tuning, error) {
	t := tuning{options: o, fitted: map[string][]replay.Result{}, mutex: &sync.Mutex{}}
	whole, err := newComparison(o.replay)
	if err != nil {
		return t, err
	}
	o.replay = whole.options // its load has the scale that was asked for, of the whole
	o.replay.load.toRate = 0
	fit, report, err := halves(o.fit, o.report, whole.span)
	if err != nil {
		return t, err
	}
	o.fit, o.report = &fit, &report
	t.options = o
	if t.fit, err = t.part("fit-on", fit); err != nil {
		return t, err
	}
	t.report, err = t.part("report-on", report)
	return t, err
}

// part is one part of the load.
func (t tuning) part(flag string, w span) (comparison, error) {
	o := t.options.replay
	o.load.arrivals.window = w
	c, err := newComparison(o)
	if err != nil {
		return c, fmt.Errorf("the part of --%s: %w", flag, err)
	}
	return c, nil
}

// run searches on the one part, and replays what was found on the other one.
func (t *tuning) run(ctx context.Context, say func(string)) error {
	space := t.options.space()
	space.Valid = t.valid
	watch := progressOf{say: func(what string) { say("fit: " + what) }, runs: t.options.budget, length: t.fit.length()}
	var err error
	t.found, err = tune.Search(space, func(batch []tune.Trial) ([]tune.Figures, error) { return t.batch(ctx, batch, &watch) })
	if err != nil {
		return err
	}
	settings := []tune.Setting{t.found.Default.Setting}
	if t.changed() {
		settings = append(settings, t.found.Best.Setting)
	}
	seeds := t.options.replay.seeds
	watch = progressOf{say: func(what string) { say("report: " + what) }, runs: len(settings) * seeds, length: t.report.length()}
	for i := range t.reported {
		t.reported[i] = make([]replay.Result, seeds)
	}
	var ways []passage
	for _, s := range settings {
		w, err := t.passage(t.report, s)
		if err != nil {
			return err
		}
		ways = append(ways, w)
	}
	err = stoppable(ctx, func() error {
		return atOnce(len(ways)*seeds, func(i int) (err error) {
			t.reported[i/seeds][i%seeds], err = ways[i/seeds].replay(ctx, i%seeds, &watch)
			return err
		})
	})
	if !t.changed() {
		t.reported[1] = t.reported[0]
	}
	return err
}

// changed reports whether anything but the default settings was found.
func (t tuning) changed() bool { return len(t.options.changed(t.found.Best.Setting)) > 0 }

// passage is a setting's through a part of the load.
type passage struct {
	comparison
	outcome outcomeOf
}

func (t tuning) passage(part comparison, s tune.Setting) (passage, error) {
	o, err := t.options.variant(t.options.changed(s))
	if err != nil {
		return passage{}, err
	}
	o.load = part.options.load
	part.options = o
	// What the rules of others are told of lengths beforehand is what the fit part
	// had: nobody knows those of the time to come.
	part.facts.minutes, part.facts.stats = t.fit.facts.minutes, t.fit.facts.stats
	return passage{part, outcomeOf{policy: o.policies[0], start: part.start}}, nil
}

func (w passage) replay(ctx context.Context, seed int, watch *progressOf) (replay.Result, error) {
	if err := ctx.Err(); err != nil {
		return replay.Result{}, err
	}
	defer watch.done()
	r, err := w.one(w.outcome, w.options.seed+uint64(seed), watch) //nolint:gosec // a seed's number is not negative
	r.Timeline = nil                                               // of hundreds of replays nobody looks at
	return r, err
}

// valid reports whether the policy takes a setting.
func (t tuning) valid(s tune.Setting) bool {
	w, err := t.passage(t.fit, s)
	if err == nil {
		_, err = w.rule(w.outcome)
	}
	return err == nil
}

// batch replays trials on the fit part, as many at a time as there are processors.
func (t *tuning) batch(ctx context.Context, batch []tune.Trial, watch *progressOf) ([]tune.Figures, error) {
	ways, made := make([]passage, len(batch)), map[string]passage{}
	for i, b := range batch {
		key := fmt.Sprint(b.Setting)
		w, ok := made[key]
		if !ok {
			var err error
			if w, err = t.passage(t.fit, b.Setting); err != nil {
				return nil, err
			}
			made[key] = w
		}
		ways[i] = w
	}
	figures := make([]tune.Figures, len(batch))
	err := stoppable(ctx, func() error {
		return atOnce(len(batch), func(i int) error {
			r, err := ways[i].replay(ctx, batch[i].Seed, watch)
			if err != nil {
				return err
			}
			t.mutex.Lock()
			defer t.mutex.Unlock()
			t.keep(batch[i], r)
			figures[i] = t.figures(r)
			return nil
		})
	})
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return append([]tune.Figures{}, figures...), err
}

// keep remembers a replay.
func (t *tuning) keep(b tune.Trial, r replay.Result) {
	key := fmt.Sprint(b.Setting)
	if t.fitted[key] == nil {
		t.fitted[key] = make([]replay.Result, t.options.replay.seeds)
	}
	t.fitted[key][b.Seed] = r
}

// results are a setting's on the fit part, of the seeds that were run.
func (t tuning) results(s tune.Tried) []replay.Result {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	var out []replay.Result
	for i, f := range s.Figures {
		if f.Known {
			out = append(out, t.fitted[fmt.Sprint(s.Setting)][i])
		}
	}
	return out
}

// figures are what a replay counts in the search.
func (t tuning) figures(r replay.Result) tune.Figures {
	f := tune.Figures{Known: true, Attainment: r.Attainment.Both, Cost: r.GPUHours}
	if t.options.replay.usd > 0 {
		f.Cost = r.Money
	}
	return f
}

// compare is one setting's results less another's.
func (t tuning) compare(one, other []replay.Result) tune.Comparison {
	figures := func(results []replay.Result) []tune.Figures {
		out := make([]tune.Figures, len(results))
		for i, r := range results {
			out[i] = t.figures(r)
		}
		return out
	}
	return tune.Compare(figures(one), figures(other), t.options.target)
}

// holds reports whether results hold the target with all of their interval.
func (t tuning) holds(results []replay.Result) bool { return t.compare(results, results).Holds }

// leastRequests tell 1 % of misses from 2 % (their standard errors are 0.3 and 0.45
// points).
const leastRequests = 1000

// otherLoad is how much rates and lengths of the two parts may differ before that is
// said: a quarter more replicas are another fleet.
const otherLoad = 1.25

// verdict says whether the settings found are recommended, and why.
func (t tuning) verdict() (recommended bool, why string) {
	if !t.changed() {
		return false, "no others were better on the fit part by more than the interval of the differences"
	}
	d := t.compare(t.reported[1], t.reported[0])
	said := fmt.Sprintf("on the report part the attainment changes by %+.2f ± %.2g points and the %s by %+.4g ± %.2g", 100*d.Attainment.Mean, 100*d.Attainment.Half, t.unit(), d.Cost.Mean, d.Cost.Half)
	switch {
	case d.Better && !d.Holds:
		return true, fmt.Sprintf("%s; nothing found holds %g %% there, so that attainment counts alone, whatever it costs", said, 100*t.options.target)
	case d.Better:
		return true, said
	case d.Held && !d.Holds:
		return false, fmt.Sprintf("%s: the default settings hold %g %% there, and these do not", said, 100*t.options.target)
	case !d.Held && !d.Holds && d.Cost.Below(0):
		return false, fmt.Sprintf("%s: neither holds %g %% there, so that saving does not count", said, 100*t.options.target)
	default:
		return false, said + ": that is not better by more than the interval"
	}
}

// unit is what settings cost.
func (t tuning) unit() string {
	if t.options.replay.usd > 0 {
		return "USD"
	}
	return "GPU-hours"
}
