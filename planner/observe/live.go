package observe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"plimsoll/engine"
	"plimsoll/planner"
)

// DefaultMaxAge is one and a half of Prometheus' own scrape interval, a minute.
const DefaultMaxAge = 90 * time.Second

// lateness is how late samples may come at a window's end, beyond mostEnd, by a delay of
// ingestion or another clock. They fake no load that falls: rates and means are of the time
// from the first scrape to the last.
const lateness = 15 * time.Second

// LiveOptions say what to read from a Prometheus server.
type LiveOptions struct {
	// Presets are the names to look for, the first choice first. Requests are
	// taken from the first that has some; what engines say of themselves from the
	// first that is PerEngine, or, where none is, by the names of auto.
	Presets   []Names
	Model     string // exactly as the server has it; "" = the only one there
	Namespace string // exactly; "" = all of them
	// Selectors are the labels by which a role's engines are known, each exactly.
	// An aggregated deployment needs none.
	Selectors map[planner.Role]map[string]string
	// PrefillQueueQuery is PromQL for the requests that wait for prefill in all,
	// its series added up; "" = the prefill engines' own queues.
	PrefillQueueQuery string
	// MaxAge is how old the newest sample behind a figure may be; 0 = so old that one
	// scrape is missing, and DefaultMaxAge at most.
	MaxAge time.Duration
}

// Live is a planner.Source over a Prometheus server. It is not safe for concurrent
// use.
type Live struct {
	server  *Server
	o       LiveOptions
	answers bool     // the server did once
	ready   replicas // since the last Observe
	settled settled
	lately  lately
	reach   reach
	there   map[planner.Role]int // engines at the last sample, those that start or drain too
	of      string               // the selector of the requests that known had
	known   map[target]traced    // that had requests lately; nil before the first look
	counted string               // the metric that requests were read from last
	said    saidOnce
}

var _ planner.Source = (*Live)(nil)

// NewLive checks o; nothing is asked.
func NewLive(server *Server, o LiveOptions) (*Live, error) {
	var errs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(server == nil, "no Prometheus server is given")
	bad(len(o.Presets) == 0, "no names of metrics are given: want one preset at least")
	bad(o.MaxAge < 0, "the most age of a sample is %v: want above 0, or 0 for %v", o.MaxAge, DefaultMaxAge)
	for role, l := range o.Selectors {
		bad(!slices.Contains(engine.Roles(), role), "labels are given for the role %q: want prefill, decode or aggregated", role)
		for name := range l {
			bad(!model.LegacyValidation.IsValidLabelName(name), "%q of the %s engines is no name of a label", name, role)
		}
	}
	return &Live{server: server, o: o, ready: replicas{}, said: saidOnce{}}, errors.Join(errs...)
}

// Sample notes the replicas that there are. Prometheus samples the gauges: it is only
// asked whether it is there, until it answers.
func (l *Live) Sample(ctx context.Context, s planner.State) error {
	l.ready.note(s)
	l.settled.note(s)
	l.there = map[planner.Role]int{}
	for _, p := range s.Pools {
		l.there[p.Role] = p.Ready + p.Starting + p.Draining
	}
	if l.answers {
		return nil
	}
	_, err := ask[model.Vector](ctx, l.server, "vector(1)", time.Now())
	l.answers = err == nil
	return err
}

// Observe asks for the figures from start to end. It fails with an *Error where
// the server does not answer, and with a *NotFoundError or an *AmbiguousError
// where it has no requests of the model; what else is missing is said in Problems.
func (l *Live) Observe(ctx context.Context, start, end time.Time) (planner.Observation, error) {
	ready := l.ready
	l.ready = replicas{}
	l.settled.next(start, end)
	asked := window{end: end, length: end.Sub(start).Truncate(time.Millisecond)}
	if asked.length <= 0 {
		return planner.Observation{}, fmt.Errorf("an interval from %v to %v: want one millisecond at least", start, end)
	}
	i, err := l.reached(ctx, asked, ready)
	if err != nil {
		l.lately.see(&interval{length: asked.length})
		return planner.Observation{}, err
	}
	i.start, i.length, i.maxAge = start, end.Sub(start), cmp.Or(l.o.MaxAge, DefaultMaxAge)
	if l.o.PrefillQueueQuery != "" {
		l.prefillQueue(ctx, asked, ready, &i)
	}
	i.loseAll(i.stale)
	l.lately.see(&i)
	l.said.news(&i)
	return i.observation(), nil
}

// over asks for the figures of a window, and what its scrapes span. The figures are of
// the time from the first scrape to the last, brought to the window: what increase() makes
// of a window that is not scraped to its ends is too low.
func (l *Live) over(ctx context.Context, w window, ready replicas) (i interval, s span, err error) {
	victoria, err := l.server.isVictoria(ctx)
	if err != nil {
		return interval{}, span{}, err
	}
	found, err := l.find(ctx, w)
	if err != nil {
		return interval{}, span{}, err
	}
	found.roles = l.roles(ready)
	if s, err = l.spanned(ctx, found, w); err != nil {
		return interval{}, span{}, err
	}
	of := w
	if s.scraped.length > 0 {
		of = s.scraped
	}
	q := questionOf(of, s.every, victoria)
	q.back, s.fromZero = of.end.Sub(w.start()), victoria
	found.ask(&q)
	a, err := q.answer(lookingBack(ctx, s.every), l.server, of.end)
	if err != nil {
		return interval{}, span{}, err
	}
	i = found.read(reader{results: a, end: w.end, window: w.length, lacks: found.engines.names.Lacks, stretch: q.reach.Seconds() / q.window.Seconds()}, ready)
	i.scale(w.length.Seconds() / q.counts.Seconds())
	i.counted = found.edge.names.requests()
	i.notes = append(i.notes, found.edge.caveats...)
	if victoria {
		i.notes = append(i.notes, victoriaWords)
	}
	all, engines := found.edge.names.PerEngine, 0
	for _, role := range found.roles {
		seen, ok := a.values[string(role)+".there"]
		if ok {
			i.partly(role, int(seen), l.settled.engines(role), !found.edge.names.PerEngine)
		}
		all, engines = all && ok && l.there[role] > 0 && seen >= float64(l.there[role]), engines+l.there[role]
	}
	all = all && s.fresh() >= engines // Prometheus answers with samples of up to five minutes ago
	if s.late() {
		i.loseAll(lacking("no samples of %s in the first %v of %v (usually one every %v). Metrics were not scraped", found.edge.names.requests(), s.head().Round(tenth), w.length.Round(tenth), s.every))
	}
	if beyond(s.gap, s.every) {
		i.loseGauges(lacking("no samples of %s for %v within %v (usually one every %v). Metrics were not scraped", found.edge.names.requests(), s.gap.Round(tenth), w.length.Round(tenth), s.every))
	}
	if tail := w.end.Sub(s.scraped.end); l.o.MaxAge == 0 && s.scraped.length > 0 && short(tail-lateness, s.every) && tail <= DefaultMaxAge { // what is older says so
		i.stale = lacking("no samples of %s in the last %v (usually one every %v). Metrics are not scraped", found.edge.names.requests(), tail.Round(tenth), s.every)
	}
	lost, such, err := l.lost(ctx, found, s, all)
	if found.apart() { // both roles count each request, and all of it may be lost of one
		lost.share *= 2
	}
	if lost.share > mostUnseen {
		i.loseAll(lacking("samples miss up to %.0f %% of the requests, as engines or frontends came, went or are not scraped%s", 100*lost.share, such))
	}
	if s.scraped.length > 0 {
		found.begun(&i, lost.began, w.length.Seconds()/s.scraped.length.Seconds())
	}
	return i, s, err
}

// window is the interval as Prometheus is asked for it.
type window struct {
	end    time.Time
	length time.Duration
}

func (w window) start() time.Time { return w.end.Add(-w.length) }

// roles are the pools that the deployment has: those that the target showed, or
// that have labels, or a single one.
func (l *Live) roles(ready replicas) []planner.Role {
	roles := slices.Sorted(maps.Keys(ready))
	if len(roles) == 0 {
		roles = slices.Sorted(maps.Keys(l.o.Selectors))
	}
	if len(roles) == 0 {
		return []planner.Role{engine.RoleAggregated}
	}
	return roles
}

// find sees which names have samples in the window, all presets' in one query.
// It is asked each time: engines change their version, and with it their names.
func (l *Live) find(ctx context.Context, w window) (liveSeries, error) {
	engines := perEngine(l.o.Presets)
	names, by := map[string]bool{}, map[string]bool{"__name__": true}
	for _, n := range slices.Concat(l.o.Presets, engines) {
		for _, name := range n.all() {
			names[name] = true
		}
		by[n.Model], by[n.Namespace], by[n.Phase] = true, true, true
		for label := range n.Only {
			by[label] = true
		}
	}
	delete(by, "")
	query := fmt.Sprintf("count by (%s) (last_over_time(%s[%s]))", strings.Join(slices.Sorted(maps.Keys(by)), ", "),
		labels{}.anyOf(slices.Sorted(maps.Keys(names))), promDuration(w.length))
	vector, err := ask[model.Vector](ctx, l.server, query, w.end)
	if err != nil {
		return liveSeries{}, err
	}
	var all series
	for _, s := range vector {
		all = append(all, s.Metric)
	}
	wanted := wish{server: l.server.name, presets: l.o.Presets, model: l.o.Model, namespace: l.o.Namespace}
	out := liveSeries{selectors: l.o.Selectors}
	var there []string
	if out.edge, there, err = wanted.choose(all); err == nil && out.edge.names.Preset == "" {
		return out, Wanted{Presets: l.o.Presets, Model: l.o.Model, Namespace: l.o.Namespace}.notFound(l.server, there)
	}
	if err == nil && out.edge.names.PerEngine {
		out.engines = out.edge
		return out, nil
	}
	if err == nil {
		edge := out.edge
		wanted.presets, wanted.model, wanted.anyCase = engines, cmp.Or(wanted.model, edge.labels[edge.names.Model]), edge.names.LowerCase
		out.engines, err = wanted.engines(all, out.edge.names)
	}
	return out, err
}

// prefillQueue puts the answer of the configured query in the place of the prefill
// engines' own queues.
func (l *Live) prefillQueue(ctx context.Context, w window, ready replicas, i *interval) {
	const looks = 30
	step := max(time.Second, w.length/looks).Truncate(time.Millisecond)
	first := w.end.Add(-w.length.Truncate(step))
	// An instant has the newest sample of five minutes, unless a shorter time is asked for.
	matrix, err := l.server.along(ctx, l.o.PrefillQueueQuery, first, w.end, step, v1.WithLookbackDelta(i.maxAge))
	queue := queueOf(matrix, w.end)
	if queue.mean.age > step {
		queue = queues{why: fmt.Sprintf("the query for it has no sample newer than %v", i.maxAge)}
	}
	if err != nil {
		queue = queues{why: fmt.Sprintf("the query for it failed: %v", err)}
	}
	p := slices.IndexFunc(i.pools, func(p pool) bool { return p.role == engine.RolePrefill })
	if p < 0 {
		i.problems = append(i.problems, "the prefill-queue query has no prefill pool to apply to")
		return
	}
	queue.replace(i, p, ready[engine.RolePrefill])
}
