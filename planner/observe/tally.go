package observe

import (
	"maps"
	"math"
	"slices"
	"strings"

	"plimsoll/engine"
	"plimsoll/planner"
)

// tally adds up what endpoints counted.
type tally []*member

// of are the endpoints of a role.
func (t tally) of(role planner.Role) tally {
	return slices.DeleteFunc(slices.Clone(t), func(m *member) bool { return m.endpoint.Role != role })
}

// count is a sum over the endpoints.
func (t tally) count(what string) number {
	if lost := t.lost((*member).unknown); lost.why != "" {
		return lost
	}
	sum, some := 0.0, false
	for _, m := range t {
		v, ok := m.gained[counterKey{what: what}]
		sum, some = sum+v, some || ok
	}
	if !some {
		return lacking("no endpoint says it")
	}
	return given(sum, 0)
}

// lost are the endpoints of which something is not known, in words.
func (t tally) lost(unknown func(*member) bool) number {
	var names []string
	for _, m := range t {
		if unknown(m) {
			names = append(names, m.endpoint.String())
		}
	}
	const most = 5
	switch n := len(names); {
	case n == 0:
		return number{}
	case n > most:
		return lacking("not known of %s and %d more", strings.Join(names[:most], ", "), n-most)
	}
	return lacking("not known of %s", strings.Join(names, ", "))
}

// histogram is the sum of one.
func (t tally) histogram(what string) gain {
	g := gain{counts: map[float64]float64{}, count: t.count(what + ".count"), sum: t.count(what + ".sum")}
	if g.count.why != "" {
		g.sum.why = ""
	}
	members := map[float64]float64{}
	for _, m := range t {
		for key, v := range m.gained {
			if key.what == what+".bucket" {
				g.counts[key.bound] += v
				members[key.bound]++
			}
		}
	}
	g.counts = common(g.counts, members)
	return g
}

// interval is what was seen since the last one.
func (f *fleet) interval(ready replicas) interval {
	t := tally(f.seen())
	i := interval{}
	roles := map[planner.Role]bool{}
	for _, m := range t {
		i.problems, i.notes = append(i.problems, m.problems(f.looks)...), append(i.notes, m.last.caveats...)
		roles[m.endpoint.Role] = true
	}
	t.requests(&i, roles)
	f.gauges(&i, roles)
	for role := range ready {
		roles[role] = true
	}
	delete(roles, "")
	for _, role := range slices.Sorted(maps.Keys(roles)) {
		i.pools = append(i.pools, f.pool(t.of(role), role, ready[role]))
	}
	if f.queue {
		f.prefillQueue(&i, ready[engine.RolePrefill])
	}
	return i
}

// partly takes for missing what some engines of a role are not listed for.
func (f *fleet) partly(i *interval, s settled) {
	listed := map[planner.Role]int{}
	for e, m := range f.members {
		if m.listed {
			listed[e.Role]++
		}
	}
	for _, p := range i.pools {
		if listed[p.role] == 0 { // of which there is no figure
			continue
		}
		i.partly(p.role, listed[p.role], s.engines(p.role), listed[""] > 0)
	}
}

// requests are counted by the frontends where there are some; else by the engines,
// of which those of prefill and decode count each request, both.
func (t tally) requests(i *interval, roles map[planner.Role]bool) {
	front, back, apart := t.of(""), t.of(""), false
	if !roles[""] {
		front, back = t, t
		if apart = roles[engine.RolePrefill] && roles[engine.RoleDecode]; apart {
			front, back = t.of(engine.RolePrefill), t.of(engine.RoleDecode)
		}
	}
	i.arrivals, i.ended, i.finished = front.count(arrived), front.count("finished"), back.count("finished")
	i.arrivals.v = max(0, i.arrivals.v)
	i.firsts, i.left = front.count("firsts"), front.count(left)
	i.tokens = less(back.count("output"), back.count("firsts"))
	i.promptTokens, i.outputTokens = front.count("prompt"), back.count("output")
	i.lookups, i.hits = front.count("lookups"), front.count("hits")
	if roles[""] && !i.hits.given { // a frontend that does not count what caches held
		prompts := t.of(asking(slices.Collect(maps.Keys(roles))))
		i.lookups, i.hits = prompts.count("lookups"), prompts.count("hits")
	}
	i.isl, i.osl = front.histogram("isl"), back.histogram("osl")
	i.ttft, i.itl, i.e2e = front.histogram("ttft"), back.histogram("itl"), front.histogram("e2e")
	i.tpot = back.histogram("tpot")
	// A frontend counts gaps only, and a router's may stay empty.
	if of := t.of(answering(slices.Collect(maps.Keys(roles)))).histogram("tpot"); roles[""] && (of.count.given || !i.tpot.count.given) {
		i.tpot = of
	}
	if !i.tpot.count.given {
		i.tpot = gain{} // few servers have it: it is missing without a word
	}
	if apart {
		i.e2e = gain{count: lacking("no engine sees whole requests if prefill and decode are separate")}
	}
}

// said is a sum over engines, or why some do not say it.
func (p *poolLooks) said(n number) number {
	if math.IsNaN(n.v) && p.lacks != "" {
		return lacking("%s", p.lacks)
	}
	return n
}

// closing is a sum at the last look.
func (p *poolLooks) closing(g gauge) number {
	if p.partial {
		return lacking("some endpoints did not answer at the end")
	}
	return p.said(g.close)
}

// gauges are the engines' at the end; the frontends' where there are only those.
func (f *fleet) gauges(i *interval, roles map[planner.Role]bool) {
	i.running, i.waiting = given(0, 0), given(0, 0)
	i.edgeWaiting = roles[""] && len(roles) == 1
	seen := false
	for _, role := range slices.Sorted(maps.Keys(roles)) {
		p := f.pools[role]
		if role == "" && len(roles) > 1 || p == nil {
			continue
		}
		seen = true
		i.running = plus(i.running, p.closing(p.running))
		i.waiting = plus(i.waiting, p.closing(p.waiting))
	}
	if !seen {
		i.running, i.waiting = lacking("no endpoint was seen"), lacking("no endpoint was seen")
	}
}

// plus is a sum that is given where both are.
func plus(a, b number) number {
	switch {
	case !a.given:
		return a
	case !b.given:
		return b
	}
	return given(a.v+b.v, max(a.age, b.age))
}

// less is a difference that is given where both are.
func less(a, b number) number {
	b.v = -b.v
	return plus(a, b)
}

// pool is what a role's engines said.
func (f *fleet) pool(t tally, role planner.Role, ready *mean) pool {
	p, looks := pool{role: role}, f.pools[role]
	if looks == nil {
		why := lacking("no endpoint of its engines was seen")
		p.running, p.kvMean, p.kvMost, p.queue, p.queueOpen, p.queueEnd = why, why, why, why, why, why
		return p
	}
	engines := float64(len(t))
	if ready != nil {
		engines = ready.value()
	}
	over := func(g gauge) number {
		if g.mean.n == 0 {
			return lacking("at no look did all endpoints answer")
		}
		return looks.said(given(g.mean.value(), 0))
	}
	p.running = over(looks.running)
	p.waiting, p.mixed = looks.closing(looks.waiting), looks.mixed
	p.queue, p.queueOpen = perReplica(over(looks.queue), engines, ""), perReplica(looks.said(looks.queue.open), engines, "")
	p.queueEnd = perReplica(looks.closing(looks.queue), engines, "")
	if p.kvMean, p.kvMost = t.kv(); looks.lacks != "" && !p.kvMean.given {
		p.kvMean, p.kvMost = lacking("%s", looks.lacks), lacking("%s", looks.lacks)
	}
	return p
}

// kv is the use of the caches: the mean over engines and looks, and of the engine
// whose mean is highest.
func (t tally) kv() (avg, most number) {
	if lost := t.lost(func(m *member) bool { return m.listed && m.kv.n == 0 }); lost.why != "" {
		return lost, lost
	}
	var all mean
	highest := 0.0
	for _, m := range t {
		all.sum, all.n = all.sum+m.kv.sum, all.n+m.kv.n
		if m.most.n > 0 {
			highest = max(highest, m.most.value())
		}
	}
	if all.n == 0 {
		return lacking("no endpoint says it"), lacking("no endpoint says it")
	}
	return given(all.value(), 0), given(highest, 0)
}

// prefillQueue puts the frontends' gauge in the place of the engines' own queues.
func (f *fleet) prefillQueue(i *interval, ready *mean) {
	p := slices.IndexFunc(i.pools, func(p pool) bool { return p.role == engine.RolePrefill })
	looks := f.pools[""]
	if p < 0 || looks == nil {
		i.problems = append(i.problems, "a prefill-queue gauge needs a prefill pool and a frontend")
		return
	}
	g := looks.prefillQueue
	q := queues{mean: given(g.mean.value(), 0), open: g.open, close: looks.closing(g)}
	q.replace(i, p, ready)
}
