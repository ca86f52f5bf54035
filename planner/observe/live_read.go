package observe

import (
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
		return lacking("the metrics do not say")
	case !ok || !seen:
		return lacking("no samples of %s", name)
	}
	return given(v, age)
}

func (s liveSeries) read(r reader, ready replicas) interval {
	i := interval{}
	if s.confused() {
		why := lacking("prefill and decode engines both count every request, and no labels tell them apart")
		i.arrivals, i.finished = why, why
	} else {
		s.readRequests(r, &i)
	}
	c := s.edge
	if s.enginesHold() {
		c = s.engines
	}
	i.edgeWaiting = !c.names.PerEngine
	i.running = r.gauge("running", "running", first(c.names.Running))
	i.waiting = r.gauge("waiting", "waiting", first(c.names.Waiting))
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
	i.arrivals = r.counter("started", first(n.Started))
	if len(n.Started) == 0 {
		i.arrivals = s.arrived(r)
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
		into.counts = r.buckets[h.key+".bucket"]
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
	if len(s.edge.names.Started) > 0 {
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

// arrived are the requests that ended and those by which running and waiting grew:
// what ends is no more than the engines can do, however many come (dynamo#8861).
func (s liveSeries) arrived(r reader) number {
	n := s.edge.names
	ended := r.counter("ended", first(n.Finished))
	if !ended.given {
		return ended
	}
	held, before := 0.0, 0.0
	keys := []string{"held", "held.waiting"}
	if n.RunningHasWaiting {
		keys = keys[:1]
	}
	for _, key := range keys {
		now, ok := r.values[key]
		if !ok {
			return lacking("requests are counted as they end, and the number that run or wait is unknown")
		}
		held, before = held+now, before+r.values[key+".before"]
	}
	return given(max(0, ended.v+(held-before)*r.stretch), ended.age)
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
	sum := func(what, name string) number { // what went counts for as long as it was there
		sum := r.gauge(key+what, key+what, name)
		if went, ok := r.values[key+what+".went"]; ok && sum.given {
			sum.v += went / r.values[key+what+".looks"]
		}
		return sum
	}
	p.running = sum(".running", first(n.Running))
	p.kvMean = r.gauge(key+".kv.mean", key+".kv", first(n.KVUse))
	p.kvMost = r.gauge(key+".kv.most", key+".kv", first(n.KVUse))
	queue := func(part string) number { return r.gauge(key+".queue"+part, key+".queue", first(n.Waiting)) }
	p.waiting = queue(".end")
	engines := r.values[key+".queue.here"]
	if ready != nil && !(ready.value() > engines) { // the others are not seen, and may have a queue too
		engines = ready.value()
	}
	p.queue = perReplica(sum(".queue", first(n.Waiting)), engines, "")
	p.queueOpen = perReplica(queue(".open"), engines, "")
	p.queueEnd = perReplica(p.waiting, engines, "")
	return p
}
