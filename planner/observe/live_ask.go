package observe

import (
	"fmt"
	"maps"
	"slices"

	"plimsoll/engine"
	"plimsoll/planner"
)

// liveSeries are the series of one deployment: those that see each request, and
// those in which engines speak for themselves, which may be the same.
type liveSeries struct {
	edge, engines choice
	roles         []planner.Role
	selectors     map[planner.Role]map[string]string
}

// first is a list's name; "" = there is none.
func first(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return names[0]
}

// with are the labels and a role's.
func (l labels) with(more map[string]string) labels {
	out := labels{}
	maps.Copy(out, l)
	maps.Copy(out, more)
	return out
}

// apart reports whether prefill and decode engines count each request, both.
func (s liveSeries) apart() bool {
	return s.edge.names.PerEngine && slices.Contains(s.roles, engine.RolePrefill) && slices.Contains(s.roles, engine.RoleDecode)
}

// confused reports whether requests are counted twice, and nothing tells which are.
func (s liveSeries) confused() bool {
	return s.edge.twice || s.apart() && (!s.known(engine.RolePrefill) || !s.known(engine.RoleDecode))
}

// known reports whether a role's engines can be told from others.
func (s liveSeries) known(role planner.Role) bool {
	return len(s.selectors[role]) > 0 || len(s.roles) == 1
}

// front and back are where a request comes in, and where it ends.
func (s liveSeries) front() labels { return s.side(engine.RolePrefill) }
func (s liveSeries) back() labels  { return s.side(engine.RoleDecode) }

func (s liveSeries) side(role planner.Role) labels {
	if s.apart() {
		return s.edge.labels.with(s.selectors[role])
	}
	return s.edge.labels
}

// answering is the role whose engines give a request's tokens but the first.
func answering(roles []planner.Role) planner.Role {
	if slices.Contains(roles, engine.RoleDecode) {
		return engine.RoleDecode
	}
	return engine.RoleAggregated
}

// asking is the role whose engines read a request's prompt.
func asking(roles []planner.Role) planner.Role {
	if slices.Contains(roles, engine.RolePrefill) {
		return engine.RolePrefill
	}
	return engine.RoleAggregated
}

// whole are labels of a gauge that is split beside its whole.
func (n Names) whole(l labels) labels {
	if n.Shares == "" {
		return l
	}
	return l.with(labels{n.Shares: ""})
}

// metric is what is asked for under a key.
type metric struct {
	key, name string
	at        labels
}

// histograms are those of the edge, by key.
func (s liveSeries) histograms() []metric {
	n := s.edge.names
	tpot, ends := first(n.TPOT), s.back()
	// A frontend counts gaps only, and a router's may stay empty.
	if role, of := answering(s.roles), first(s.engines.names.TPOT); !n.PerEngine && of != "" && s.known(role) {
		tpot, ends = of, s.engines.labels.with(s.selectors[role])
	}
	return []metric{
		{"isl", first(n.ISL), s.front()},
		{"osl", first(n.OSL), s.back()},
		{"ttft", first(n.TTFT), s.front()},
		{"itl", first(n.ITL), s.back()},
		{"tpot", tpot, ends},
		{"e2e", first(n.E2E), s.edge.labels},
	}
}

// cache are the names of the counters of the prefix cache, where prompts come in: decode
// engines look up what they were handed. Of a frontend that has none, the engines'.
func (s liveSeries) cache() (lookups, hits string, at labels) {
	n, at := s.edge.names, s.front()
	if role := asking(s.roles); len(n.Hits) == 0 && s.known(role) {
		n, at = s.engines.names, s.engines.labels.with(s.selectors[role])
	}
	return first(n.Lookups), first(n.Hits), at
}

// ask puts all into one question.
func (s liveSeries) ask(q *question) {
	if !s.confused() {
		s.askRequests(q)
	}
	s.askGauges(q)
	for _, role := range s.roles {
		if s.known(role) && s.engines.names.Preset != "" {
			s.askPool(q, role)
		}
	}
}

// growth asks what gauges were when they were last seen, and at the start, where a scrape
// may have failed.
func (q *question) growth(key string, gauges []string, at labels) {
	for k, name := range gauges {
		q.over(nth(key, k), "sum", "last_over_time", at.selector(name))
		q.ask(nth(key, k)+".before", "sum(last_over_time(%s[%s] offset %s))", at.selector(name), promDuration(q.last), promDuration(q.window))
	}
}

// gauges asks what some are at the end.
func (q *question) gauges(key string, names []string, at labels) {
	for k, name := range names {
		q.ask(nth(key, k), "sum(%s)", at.selector(name))
		q.ask(nth(key, k)+".at", "max(timestamp(%s))", at.selector(name))
	}
}

// nth is the key of one of several series that are added up.
func nth(key string, k int) string { return fmt.Sprintf("%s.%d", key, k) }

// counter asks by how much one rose. Age and rise are of the same series.
func (q *question) counter(key string, name string, l labels) {
	if name == "" {
		return
	}
	q.over(key, "sum", "increase", l.selector(name))
	q.ask(key+".at", "max(timestamp(%s))", l.selector(name))
}

func (s liveSeries) askRequests(q *question) {
	n := s.edge.names
	q.counter("counted", n.requests(), s.front())
	q.counter("ended", first(n.Finished), s.front())
	q.counter("answered", first(n.FirstTokens), s.back())
	q.counter("finished", first(n.Finished), s.back())
	q.counter("prompt", first(n.PromptTokens), s.front())
	q.counter("output", first(n.OutputTokens), s.back())
	lookups, hits, prompts := s.cache()
	q.counter("lookups", lookups, prompts)
	q.counter("hits", hits, prompts)
	for _, h := range s.histograms() {
		if h.name == "" {
			continue
		}
		q.ask(h.key+".bucket", "sum by (le) (increase(%s[%s]))", h.at.selector(h.name+"_bucket"), promDuration(q.reach))
		q.ask(h.key+".series", "count by (le) (increase(%s[%s]))", h.at.selector(h.name+"_bucket"), promDuration(q.reach))
		q.counter(h.key+".count", h.name+"_count", h.at)
		q.over(h.key+".sum", "sum", "increase", h.at.selector(h.name+"_sum"))
	}
	for k, gauges := range n.held() {
		q.growth(nth("held", k), gauges, n.whole(s.front()))
	}
	if len(n.FirstTokens) > 0 {
		q.growth("ran", n.Running, n.whole(s.front()))
	}
	// Which series there were; engines have one each of the gauge.
	l, name := s.edge.labels, n.requests()
	if len(n.Engines) > 0 {
		name = n.Engines[0]
	}
	seen := l.selector(name) + "[" + promDuration(q.reach) + "]"
	q.ask("came", "count(count_over_time(%s) unless %s offset %s)", seen, l.selector(name), promDuration(q.window))
	q.ask("went", "count(count_over_time(%s) unless %s)", seen, l.selector(name))
}

// enginesHold reports whether engines say what runs and waits.
func (s liveSeries) enginesHold() bool {
	return len(s.engines.names.Running) > 0 && len(s.engines.names.Waiting) > 0
}

// askGauges asks for the end's; the engines' where they speak for themselves, since
// a frontend may not know what waits at them.
func (s liveSeries) askGauges(q *question) {
	c := s.edge
	if s.enginesHold() {
		c = s.engines
	}
	q.gauges("running", c.names.Running, c.names.whole(c.labels))
	q.gauges("waiting", c.names.Waiting, c.names.whole(c.labels))
}

func (s liveSeries) askPool(q *question, role planner.Role) {
	n, of, key := s.engines.names, s.engines.labels.with(s.selectors[role]), string(role)
	q.gauges(key+".waiting", n.Waiting, n.whole(of))
	asked := []metric{{".running", first(n.Running), n.whole(of)}, {".kv", first(n.KVUse), of}}
	queue, _ := n.queue()
	for k, name := range queue {
		asked = append(asked, metric{nth(".queue", k), name, n.whole(of)})
	}
	for _, g := range asked {
		if g.name == "" {
			continue
		}
		selector := g.at.selector(g.name)
		// The mean of what is there now is over its own samples: fewer of them, of an engine
		// that was not scraped all the time, are no lower load.
		window := selector + "[" + promDuration(q.reach) + "]"
		q.ask(key+g.key, "sum(avg_over_time(%s) and %s)", window, selector)
		q.ask(key+g.key+".mean", "avg(avg_over_time(%s) and %s)", window, selector)
		q.ask(key+g.key+".here", "count(count by (job, instance) (avg_over_time(%s) and %s))", window, selector)
		q.ask(key+g.key+".went", "sum(sum_over_time(%s) unless %s)", window, selector)
		q.over(key+g.key+".looks", "max", "count_over_time", selector)
		q.ask(key+g.key+".at", "max(timestamp(%s))", selector)
		q.ask(key+g.key+".open", "sum(%s offset %s)", selector, promDuration(q.back))
		q.ask(key+g.key+".end", "sum(%s)", selector)
		q.over(key+g.key+".most", "max", "avg_over_time", selector)
	}
	if len(n.Engines) > 0 {
		q.ask(key+".there", "count(count by (job, instance) (%s))", n.whole(of).selector(n.Engines[0]))
	}
}
