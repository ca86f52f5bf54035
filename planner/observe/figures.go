package observe

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"plimsoll/engine"
	"plimsoll/planner"
)

// number is what metrics came to; the zero value is one that they do not give.
type number struct {
	v     float64
	given bool
	age   time.Duration // of the newest sample behind it
	why   string        // it is not given; "" = nobody need know
}

func given(v float64, age time.Duration) number { return number{v: v, given: true, age: age} }

func lacking(format string, args ...any) number { return number{why: fmt.Sprintf(format, args...)} }

// gain is what a histogram gained in an interval, all series together.
type gain struct {
	counts     map[float64]float64 // cumulative, by bound; empty where there are no buckets
	count, sum number
	meanOnly   bool // its values are no single gaps
}

// pool is what the engines of one role said.
type pool struct {
	role                                                planner.Role
	running, kvMean, kvMost, queue, queueOpen, queueEnd number
	waiting                                             number // in all, at the end
	mixed                                               bool   // requests are in queue whose KV cache is on its way
}

func (p *pool) gauges() []*number {
	return []*number{&p.running, &p.kvMean, &p.kvMost, &p.queue, &p.queueOpen, &p.queueEnd, &p.waiting}
}

// interval is what metrics came to, before it is looked at whether they can be
// believed. Latencies are in seconds.
type interval struct {
	start    time.Time
	length   time.Duration
	looked   time.Duration // that figures are of, where that is longer
	maxAge   time.Duration // 0 = any
	problems []string
	notes    []string // problems that last, each to be said once
	stale    number   // why nothing is known of its end, if so
	counted  string   // the metric that requests are read from

	arrivals, finished, running, waiting number
	ended                                number // as finished, where requests come in
	firsts, left                         number // requests that got a first token there; of them those whose clients left
	tokens                               number // that have a gap before them, counted as they are made
	promptTokens, outputTokens           number // for lengths without a histogram
	lookups, hits                        number // tokens in the prefix cache, where prompts come in
	edgeWaiting                          bool   // waiting is as a frontend has it
	isl, osl, ttft, itl, tpot, e2e       gain
	pools                                []pool
}

// saidOnce is what was said already.
type saidOnce map[string]bool

// news adds an interval's notes to its problems that were not said yet.
func (o saidOnce) news(i *interval) {
	for _, p := range i.pools {
		if p.mixed && p.role == engine.RoleDecode && p.queue.v > 0 {
			i.notes = append(i.notes, "decode queue: requests are in it whose KV cache is on its way, as this version does not tell them apart")
		}
	}
	for _, n := range i.notes {
		if !o[n] {
			o[n], i.problems = true, append(i.problems, n)
		}
	}
}

// common are the buckets whose bounds all series have, by how many have each: engines with
// other bounds are none of the lower ones of these.
func common(counts map[float64]float64, series map[float64]float64) map[float64]float64 {
	all := series[math.Inf(1)]
	maps.DeleteFunc(counts, func(bound, _ float64) bool { return series[bound] < all })
	return counts
}

// highest is the bound of the highest bucket with values.
func (g gain) highest() float64 {
	highest := math.Inf(1)
	for bound, n := range g.counts {
		if n >= g.counts[math.Inf(1)]*(1-rounding) {
			highest = min(highest, bound)
		}
	}
	return highest
}

// rounding is the relative error of counts that are taken for equal.
const rounding = 1e-9

// observation is the interval in figures: what is missing, too old or no number
// is missing there, and said in its problems.
func (i interval) observation() planner.Observation {
	f := figures{maxAge: i.maxAge, problems: i.problems}
	o := planner.Observation{Start: i.start, Length: i.length}
	o.Arrivals, o.Finished = f.figure("arrivals", i.arrivals), f.figure("finished requests", i.finished)
	o.Running, o.Waiting = f.figure("running requests", i.running), f.figure("waiting requests", i.waiting)
	o.ISL, o.OSL = spread(&f, "ISL", planner.Tokens, i.isl), spread(&f, "OSL", planner.Tokens, i.osl)
	o.TTFT = spread(&f, "TTFT", planner.Seconds, i.ttft)
	o.ITL = spread(&f, "ITL", planner.Seconds, i.itl)
	o.TPOT = spread(&f, "requests' mean ITL", planner.Seconds, i.tpot)
	if o.ITL.Count == 0 { // the mean of requests' means is near that of gaps; percentiles are not
		o.ITL = planner.Spread[time.Duration]{Count: o.TPOT.Count, Mean: o.TPOT.Mean}
	}
	o.Duration = spread(&f, "request duration", planner.Seconds, i.e2e)
	f.mean("ISL", &o.ISL, i.promptTokens, i.ended)
	f.mean("OSL", &o.OSL, i.outputTokens, i.finished)
	o.CacheHit = f.share("prefix cache's hits", i.hits, i.lookups)
	for _, p := range i.pools {
		of := func(what string, n number) planner.Figure[float64] { return f.figure(string(p.role)+" "+what, n) }
		o.Pools = append(o.Pools, planner.PoolObservation{
			PoolState: planner.PoolState{Role: p.role},
			Running:   of("running requests", p.running),
			KVUsage:   of("KV use", p.kvMean), KVMost: of("KV use of the fullest replica", p.kvMost),
			Queue: of("queue", p.queue), QueueOpen: of("queue at the start", p.queueOpen), QueueEnd: of("queue at the end", p.queueEnd),
		})
	}
	o.Problems = append(f.problems, f.lacking()...)
	return o
}

// figures collects why some are missing.
type figures struct {
	maxAge   time.Duration
	problems []string
	whys     []string            // in the order in which they were met
	lacks    map[string][]string // the figures that are missing, by why
	known    bool                // one is
}

func (f *figures) say(format string, args ...any) {
	f.problems = append(f.problems, fmt.Sprintf(format, args...))
}

// lack notes why a figure is missing.
func (f *figures) lack(what, why string) {
	if f.lacks == nil {
		f.lacks = map[string][]string{}
	}
	if len(f.lacks[why]) == 0 {
		f.whys = append(f.whys, why)
	}
	if !slices.Contains(f.lacks[why], what) {
		f.lacks[why] = append(f.lacks[why], what)
	}
}

// lacking says each reason once, with the figures that are missing for it.
func (f *figures) lacking() []string {
	if len(f.whys) == 1 && !f.known {
		return []string{"all figures: " + f.whys[0]}
	}
	out := make([]string, len(f.whys))
	for i, why := range f.whys {
		out[i] = strings.Join(f.lacks[why], ", ") + ": " + why
	}
	return out
}

// figure is a number that can be believed, or missing. Nothing that is counted
// here is below 0.
func (f *figures) figure(what string, n number) planner.Figure[float64] {
	switch {
	case !n.given:
		if n.why != "" {
			f.lack(what, n.why)
		}
	case !(n.v >= 0) || math.IsInf(n.v, 1):
		f.say("%s: the metrics give %v, not a count", what, n.v)
	case f.maxAge > 0 && n.age > f.maxAge:
		f.lack(what, fmt.Sprintf("the newest sample is %v old (limit %v)", n.age.Round(time.Millisecond), f.maxAge))
	default:
		f.known = true
		return planner.Figure[float64]{Value: n.v, Known: true, Age: n.age}
	}
	return planner.Figure[float64]{}
}

// share is a part of a whole, missing where either is or nothing was counted.
func (f *figures) share(what string, part, whole number) planner.Figure[float64] {
	if !part.given || !whole.given { // few servers say both
		return planner.Figure[float64]{}
	}
	a, b := f.figure(what, part), f.figure(what, whole)
	switch {
	case !a.Known || !b.Known || b.Value == 0:
		return planner.Figure[float64]{}
	case a.Value > b.Value*(1+mostOver):
		f.say("%s: %.4g tokens of %.4g is not a share", what, a.Value, b.Value)
		return planner.Figure[float64]{}
	}
	return planner.Figure[float64]{Value: min(a.Value/b.Value, 1), Known: true, Age: max(a.Age, b.Age)}
}

// mostOver is by how much what increase() extrapolates may be above the whole that it is
// a part of.
const mostOver = 0.05

// spread is a histogram's mean and percentiles. Where nothing was counted they are
// missing without a word.
func spread[T float64 | time.Duration](f *figures, what string, unit func(float64) T, g gain) planner.Spread[T] {
	count := f.figure(what, g.count)
	if !count.Known || count.Value == 0 {
		return planner.Spread[T]{}
	}
	sum := f.figure("mean of "+what, g.sum)
	alone := planner.Spread[T]{Count: count.Value}
	if sum.Known {
		alone.Mean = planner.Figure[T]{Value: unit(sum.Value / count.Value), Known: true, Age: count.Age}
	}
	if g.meanOnly {
		return alone
	}
	h, ok := planner.NewHistogram(g.counts, sum.Value)
	if !ok {
		f.say("%s: no percentiles, as its buckets are missing or not numbers", what)
		return alone
	}
	if h.Bent > manyBent {
		f.say("%s: no percentiles. Its buckets are off by %.0f %% of its values, as series with different bounds are mixed", what, 100*h.Bent)
		return alone
	}
	out := planner.SpreadOf(h, unit, count.Age)
	out.Count, out.Mean = alone.Count, alone.Mean
	if out.P99.Open {
		f.say("%s: the p99 is above %v, the histogram's highest bound", what, out.P99.Low)
	}
	return out
}

// mean takes that of a length from a counter of tokens, where there is no histogram
// of it: of requests that were under way at the interval's ends too.
func (f *figures) mean(what string, s *planner.Spread[float64], tokens, requests number) {
	if s.Count > 0 || !tokens.given || !requests.given || !(requests.v > 0) {
		return
	}
	if t := f.figure("tokens of "+what, tokens); t.Known {
		s.Count, s.Mean = requests.v, planner.Figure[float64]{Value: t.Value / requests.v, Known: true, Age: t.Age}
	}
}
