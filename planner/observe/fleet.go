package observe

import (
	"cmp"
	"fmt"
	"slices"

	"plimsoll/planner"
)

// fleet is what was seen of all endpoints.
type fleet struct {
	queue bool // the frontends have a gauge of the prefill queue

	members map[Endpoint]*member
	pools   map[planner.Role]*poolLooks // since the last interval; "" = the frontends
	looks   int                         // since the last interval
	before  int                         // in the last interval
	begun   bool                        // there was a look, so that who comes now is new
}

// member is what was seen of one endpoint.
type member struct {
	endpoint Endpoint
	last     reading
	read     bool // there is a last reading
	listed   bool
	away     int   // intervals for which it is not listed
	missed   int   // looks in a row that failed, until now
	err      error // of the last look

	// Since the last interval.
	late     int // looks that had been missed at its beginning
	gained   map[counterKey]float64
	compared bool   // gained is of two readings at least, or of all that a new one counted
	blind    bool   // what it counted began before the interval did, or was lost in it
	moved    string // that its requests are read from another metric
	restarts int
	failures int
	failure  error
	kv, most mean
}

// poolLooks are the sums over a role's endpoints, at the looks at which all of
// them answered.
type poolLooks struct {
	running, waiting, queue, prefillQueue gauge

	lacks   string // why some do not say what runs and waits
	partial bool   // the last look lacked some
	mixed   bool   // requests are in queue whose KV cache is on its way
}

// gauge is a sum of gauges over an interval.
type gauge struct {
	mean        mean
	open, close number
}

func (g *gauge) add(v float64) {
	g.close = given(v, 0)
	if g.mean.n == 0 {
		g.open = g.close
	}
	g.mean.add(v)
}

// forget is for how many intervals an endpoint that is not listed is remembered:
// if it comes back it is the same process, or another.
const forget = 10

// looked takes a look at all endpoints in.
func (f *fleet) looked(looks []glance) {
	if f.members == nil {
		f.members, f.pools = map[Endpoint]*member{}, map[planner.Role]*poolLooks{}
	}
	f.looks++
	for _, m := range f.members {
		m.listed = false
	}
	for _, l := range looks {
		m := f.members[l.endpoint]
		if m == nil {
			m = &member{endpoint: l.endpoint, gained: map[counterKey]float64{}}
			if f.begun { // it counted nothing before it was there
				m.read, m.last = true, reading{began: missing()}
			}
			f.members[l.endpoint] = m
		}
		m.listed, m.away = true, 0
		m.look(l, f.before)
	}
	f.begun = true
	f.sum(looks)
}

// unlisted is a look that there was not, for want of a list.
func (f *fleet) unlisted() {
	f.looks++
	for _, m := range f.members {
		m.missed++
	}
}

// tolerance is the share of an interval's looks that may have been missed at its
// end, so that what was counted then is taken as of the next interval.
const tolerance = 0.1

// look takes in one.
func (m *member) look(l glance, before int) {
	m.err = l.err
	if l.err != nil {
		m.missed++
		m.failures, m.failure = m.failures+1, l.err
		return
	}
	switch {
	case !m.read:
		m.blind = m.missed > 0
	case float64(m.late) > tolerance*float64(before):
		m.blind = true
	default:
		if was := m.last.counted; was != "" && l.reading.counted != was && m.last.counters[counterKey{what: arrived}] > 0 {
			m.moved, m.blind = fmt.Sprintf("%s: requests are read from %s, and no longer from %s", m.endpoint, l.reading.counted, was), true
		}
		// Dynamo's frontend has no series of its own before its first request: until then
		// its router's are read, whose histograms have other bounds.
		if l.reading.preset != m.last.preset {
			clear(m.gained)
		}
		if l.reading.another(m.last) && len(m.last.counters) > 0 && l.reading.preset == m.last.preset {
			m.restarts++
			// What the process before counted while nobody saw it is not known.
			m.blind = m.blind || float64(m.missed) > tolerance*float64(before)
		}
		for key, v := range l.reading.since(m.last) {
			m.gained[key] += v
		}
		m.compared = true
	}
	m.last, m.read, m.missed, m.late = l.reading, true, 0, 0
	if kv := l.reading.kvMean; kv >= 0 {
		m.kv.add(kv)
		m.most.add(l.reading.kvMost)
	}
}

// unknown reports whether what an endpoint counted in the interval is not known.
func (m *member) unknown() bool { return m.err != nil || m.blind || !m.compared }

// sum adds the gauges of a look up, by role.
func (f *fleet) sum(looks []glance) {
	for _, l := range looks {
		if f.pools[l.endpoint.Role] == nil {
			f.pools[l.endpoint.Role] = &poolLooks{}
		}
	}
	for role, p := range f.pools { // whose engines are all gone hold nothing any more (llm-d#769)
		var sum reading
		p.partial, p.lacks, p.mixed = false, "", false
		for _, l := range looks {
			if l.endpoint.Role == role {
				p.partial, p.lacks = p.partial || l.err != nil, cmp.Or(p.lacks, l.reading.lacks)
				sum.running, sum.waiting = sum.running+l.reading.running, sum.waiting+l.reading.waiting
				sum.queue, sum.prefillQueue = sum.queue+l.reading.queue, sum.prefillQueue+l.reading.prefillQueue
				p.mixed = p.mixed || l.reading.mixed
			}
		}
		if !p.partial {
			p.running.add(sum.running)
			p.waiting.add(sum.waiting)
			p.queue.add(sum.queue)
			p.prefillQueue.add(sum.prefillQueue)
		}
	}
}

// next begins the next interval.
func (f *fleet) next() {
	f.before, f.looks = f.looks, 0
	f.pools = map[planner.Role]*poolLooks{}
	for endpoint, m := range f.members {
		if !m.listed {
			if m.away++; m.away > forget {
				delete(f.members, endpoint)
				continue
			}
		}
		*m = member{
			endpoint: m.endpoint, last: m.last, read: m.read, listed: m.listed, away: m.away, missed: m.missed,
			err: m.err, late: m.missed, gained: map[counterKey]float64{},
		}
	}
}

// seen are the endpoints that were there in the interval, in order.
func (f *fleet) seen() []*member {
	var out []*member
	for _, m := range f.members {
		if m.listed || m.compared || m.failures > 0 {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b *member) int {
		return slices.Compare([]string{string(a.endpoint.Role), a.endpoint.URL}, []string{string(b.endpoint.Role), b.endpoint.URL})
	})
	return out
}

// problems say what happened to an endpoint.
func (m *member) problems(looks int) []string {
	var out []string
	if m.failures > 0 {
		out = append(out, fmt.Sprintf("%s: %d of %d looks failed, the last one: %v", m.endpoint, m.failures, looks, m.failure))
	}
	if m.moved != "" {
		out = append(out, m.moved)
	}
	if m.restarts > 0 {
		out = append(out, fmt.Sprintf("%s restarted. Its counts between the last look and the restart are unknown", m.endpoint))
	}
	if !m.listed {
		out = append(out, fmt.Sprintf("%s is gone. Its counts after the last look are unknown", m.endpoint))
	}
	return out
}
