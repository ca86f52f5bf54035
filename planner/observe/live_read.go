package observe

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"plimsoll/planner"
)

// reader turns results into numbers.
type reader struct {
	results
	end     time.Time
	window  time.Duration
	lacks   string  // why an engine does not say how many requests run and wait
	stretch float64 // the range that increase() is of over the time between the scrapes
}

// age is of a key's newest sample; what has none at the end is missing.
func (r reader) age(key string) (time.Duration, bool) {
	at, ok := r.values[key+".at"]
	if !ok || math.IsNaN(at) || math.IsInf(at, 0) {
		return 0, false
	}
	return max(0, r.end.Sub(time.UnixMilli(int64(at*1000)))), true
}

// counter is by how much one rose; two samples of one series are the least.
func (r reader) counter(key, name string) number {
	v, ok := r.values[key]
	age, seen := r.age(key)
	switch {
	case name == "":
		return number{}
	case !seen:
		return lacking("no samples of %s at the end of the interval", name)
	case !ok:
		return lacking("fewer than two samples of %s in %v", name, r.window)
	}
	return given(v, age)
}

// gauge is a number that a key has at an instant, or over the window.
func (r reader) gauge(key, at, name string) number {
	v, ok := r.values[key]
	age, seen := r.age(at)
	switch {
	case name == "":
		return lacking("%s", cmp.Or(r.lacks, "the metrics do not say"))
	case !ok || !seen:
		return lacking("no samples of %s", name)
	}
	return given(v, age)
}

// gauges are some at the end, added up.
func (r reader) gauges(key string, names []string) number {
	return r.several(key, "", names, r.gauge)
}

// several adds up what a gauge came to for those of some that have samples.
func (r reader) several(key, what string, names []string, gauge func(key, at, name string) number) number {
	all := r.gauge("", "", first(names))
	for k, name := range names {
		if one := gauge(nth(key, k)+what, nth(key, k), name); one.given {
			all = given(all.v+one.v, max(all.age, one.age))
		}
	}
	return all
}

func (s liveSeries) read(r reader, ready replicas) interval {
	i := interval{}
	if s.confused() {
		why := lacking("prefill and decode engines both count every request, and no labels tell them apart")
		if s.edge.twice {
			why = lacking(twiceWords)
		}
		i.arrivals, i.finished = why, why
	} else {
		s.readRequests(r, &i)
	}
	c := s.edge
	if s.enginesHold() {
		c = s.engines
	}
	i.edgeWaiting = !c.names.PerEngine
	i.running = r.gauges("running", c.names.Running)
	i.waiting = r.gauges("waiting", c.names.Waiting)
	if c.names.RunningHasWaiting && i.running.given && i.waiting.given {
		i.running.v = max(0, i.running.v-i.waiting.v)
	}
	for _, role := range s.roles {
		i.pools = append(i.pools, s.readPool(r, role, ready[role]))
	}
	return i
}

func (s liveSeries) readRequests(r reader, i *interval) {
	n := s.edge.names
	i.finished, i.ended = r.counter("finished", first(n.Finished)), r.counter("ended", first(n.Finished))
	i.arrivals = s.arrived(r)
	if len(n.FirstTokens) > 0 {
		i.firsts = r.counter("counted", n.requests())
		if ran, ok := r.growth("ran", n.Running); ok {
			i.left = less(less(i.firsts, i.ended), given(ran, 0))
		}
		i.tokens = less(r.counter("output", first(n.OutputTokens)), r.counter("answered", first(n.FirstTokens)))
	}
	i.promptTokens, i.outputTokens = r.counter("prompt", first(n.PromptTokens)), r.counter("output", first(n.OutputTokens))
	lookups, hits, _ := s.cache()
	i.lookups, i.hits = r.counter("lookups", lookups), r.counter("hits", hits)
	for k, into := range []*gain{&i.isl, &i.osl, &i.ttft, &i.itl, &i.tpot, &i.e2e} {
		h := s.histograms()[k]
		into.count = r.counter(h.key+".count", h.name)
		if sum, ok := r.values[h.key+".sum"]; into.count.given && ok {
			into.sum = given(sum, into.count.age)
		} else if into.count.given && into.count.v > 0 {
			into.sum = lacking("no samples of %s_sum", h.name)
		}
		into.counts = common(r.buckets[h.key+".bucket"], r.buckets[h.key+".series"])
	}
	if s.apart() {
		i.e2e = gain{count: lacking("no engine sees whole requests if prefill and decode are separate")}
	}
	for _, x := range []struct{ key, unknown string }{
		{"came", "appeared within the interval. Lengths and latencies before their first samples are unknown"},
		{"went", "disappeared within the interval. Their counts after their last samples are unknown"},
	} {
		if v := r.values[x.key]; v > 0 {
			i.problems = append(i.problems, fmt.Sprintf("%.0f series of requests %s", v, x.unknown))
		}
	}
}

// begun adds what targets counted before their first sample, times a factor. Tokens and
// latencies are there for their means, and stay as they are.
func (s liveSeries) begun(i *interval, began []begun, by float64) {
	front, back := 0.0, 0.0
	for _, b := range began {
		if s.front().match(b.labels) {
			front += by * b.requests
		}
		if s.back().match(b.labels) {
			back += by * b.requests
		}
	}
	i.arrivals.v += front
	if s.edge.names.requests() != first(s.edge.names.Finished) {
		return // how many of them ended is not known
	}
	for _, side := range []struct {
		requests, tokens *number
		more             float64
	}{{&i.ended, &i.promptTokens, front}, {&i.finished, &i.outputTokens, back}} {
		if side.requests.v > 0 {
			side.tokens.v *= 1 + side.more/side.requests.v
		}
		side.requests.v += side.more
	}
}

// arrived are the requests that were counted and those by which what is not counted yet
// grew: what ends is no more than the engines can do, however many come (dynamo#8861).
func (s liveSeries) arrived(r reader) number {
	counted := r.counter("counted", s.edge.names.requests())
	if !counted.given {
		return counted
	}
	for k, gauges := range s.edge.names.held() {
		grown, ok := r.growth(nth("held", k), gauges)
		if !ok {
			return lacking("%s does not count requests as they arrive, and the number that run or wait is unknown", s.edge.names.requests())
		}
		counted.v += grown
	}
	return given(max(0, counted.v), counted.age)
}

// growth is by how much gauges rose, added up; false where none has samples.
func (r reader) growth(key string, names []string) (sum float64, some bool) {
	for k := range names {
		if now, ok := r.values[nth(key, k)]; ok {
			sum, some = sum+now-r.values[nth(key, k)+".before"], true
		}
	}
	return sum * r.stretch, some
}

func (s liveSeries) readPool(r reader, role planner.Role, ready *mean) pool {
	p := pool{role: role}
	n, key := s.engines.names, string(role)
	if n.Preset == "" || !s.known(role) {
		why := lacking("no metrics of engines are there")
		if n.Preset != "" {
			why = lacking("no labels tell its engines from others")
		}
		p.running, p.kvMean, p.kvMost, p.queue, p.queueOpen, p.queueEnd = why, why, why, why, why, why
		return p
	}
	sum := func(key, at, name string) number { // what went counts for as long as it was there
		sum := r.gauge(key, at, name)
		if went, ok := r.values[key+".went"]; ok && sum.given {
			sum.v += went / r.values[key+".looks"]
		}
		return sum
	}
	p.running = sum(key+".running", key+".running", first(n.Running))
	p.kvMean = r.gauge(key+".kv.mean", key+".kv", first(n.KVUse))
	p.kvMost = r.gauge(key+".kv.most", key+".kv", first(n.KVUse))
	names, mixed := n.queue()
	queue := func(what string) number { return r.several(key+".queue", what, names, r.gauge) }
	p.waiting, p.mixed = r.gauges(key+".waiting", n.Waiting), mixed
	engines := r.values[nth(key+".queue", 0)+".here"]
	if ready != nil && !(ready.value() > engines) { // the others are not seen, and may have a queue too
		engines = ready.value()
	}
	p.queue = perReplica(r.several(key+".queue", "", names, sum), engines, "")
	p.queueOpen = perReplica(queue(".open"), engines, "")
	p.queueEnd = perReplica(queue(".end"), engines, "")
	return p
}
