package observe

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/prometheus/common/model"

	"plimsoll/planner"
)

// mean is of what was added.
type mean struct{ sum, n float64 }

func (m *mean) add(v float64) { m.sum, m.n = m.sum+v, m.n+1 }

// value is NaN where nothing was added.
func (m *mean) value() float64 { return m.sum / m.n }

// replicas are those that were ready, by role.
type replicas map[planner.Role]*mean

// note takes in what a target says.
func (r replicas) note(s planner.State) {
	for _, p := range s.Pools {
		if r[p.Role] == nil {
			r[p.Role] = &mean{}
		}
		r[p.Role].add(float64(p.Ready))
	}
}

// queues are the requests that waited in all.
type queues struct {
	mean, open, close number
	why               string
}

// queueOf adds the series up at each instant.
func queueOf(m model.Matrix, end time.Time) queues {
	at := map[model.Time]float64{}
	for _, s := range m {
		for _, v := range s.Values {
			at[v.Timestamp] += float64(v.Value)
		}
	}
	if len(at) == 0 {
		return queues{why: "the query for it has no answer"}
	}
	times := slices.Sorted(maps.Keys(at))
	sum := 0.0
	for _, v := range at {
		sum += v
	}
	age := max(0, end.Sub(times[len(times)-1].Time()))
	of := func(v float64) number { return given(v, age) }
	return queues{mean: of(sum / float64(len(at))), open: of(at[times[0]]), close: of(at[times[len(times)-1]])}
}

// replace puts q in the place of a pool's own queues: by replica that was ready,
// and in the requests that wait anywhere.
func (q queues) replace(i *interval, at int, ready *mean) {
	p := &i.pools[at]
	engines := math.NaN()
	if ready != nil {
		engines = ready.value()
	}
	each := func(n number) number { return perReplica(n, engines, q.why) }
	own := p.waiting
	p.queue, p.queueOpen, p.queueEnd, p.waiting = each(q.mean), each(q.open), each(q.close), q.close
	switch {
	case i.edgeWaiting: // the frontend's has what waits for prefill
	case !q.close.given || !own.given:
		i.waiting = lacking("the prefill queue is not known")
	default:
		i.waiting.v += q.close.v - own.v
	}
}

// perReplica is a queue by ready replica. Without any, nothing waits at one.
func perReplica(n number, engines float64, why string) number {
	switch {
	case !n.given && why != "":
		return lacking("%s", why)
	case !n.given, n.v == 0:
		return n
	case !(engines > 0):
		return lacking("%.4g requests wait, but no replica is ready", n.v)
	}
	n.v /= engines
	return n
}
