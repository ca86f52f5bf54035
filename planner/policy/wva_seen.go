package policy

import (
	"fmt"
	"math"
	"time"

	"plimsoll/planner"
)

// glance is what a pool's replicas showed in an interval.
type glance struct {
	At       time.Time
	Replicas []planner.ReplicaObservation
}

const (
	wvaWindow   = time.Minute     // of KV use and queue
	wvaLengths  = 5 * time.Minute // of the mean lengths
	mostGlances = 10_000
)

// glanced adds a glance and forgets those that are older than the window.
func glanced(all []glance, now time.Time, replicas []planner.ReplicaObservation) []glance {
	all = append(all, glance{now, replicas})
	for len(all) > mostGlances || !all[0].At.After(now.Add(-wvaWindow)) {
		all = all[1:]
	}
	return all
}

// highest is the highest of all glances, of each replica that the last one showed:
// metrics of pods that are gone are left out.
func highest(all []glance) []planner.ReplicaObservation {
	last := len(all) - 1
	at := map[int]int{}
	out := make([]planner.ReplicaObservation, len(all[last].Replicas))
	for i, r := range all[last].Replicas {
		at[r.Number], out[i] = i, r
	}
	for _, g := range all[:last] {
		for _, r := range g.Replicas {
			if i, ok := at[r.Number]; ok {
				out[i].KVUsage, out[i].Waiting = max(out[i].KVUsage, r.KVUsage), max(out[i].Waiting, r.Waiting)
			}
		}
	}
	return out
}

// replicas are those of a pool that serve. A source that does not tell them apart
// gives the pool's mean for each that is ready.
func (n *figures) replicas(p planner.PoolObservation) []planner.ReplicaObservation {
	if len(p.Replicas) > 0 {
		return p.Replicas
	}
	kv, queue := n.need(p.KVUsage, fmt.Sprintf("the KV use of %s", p.Role)), n.need(p.Queue, fmt.Sprintf("the %s queue", p.Role))
	if math.IsNaN(kv) || math.IsNaN(queue) {
		return nil
	}
	out := make([]planner.ReplicaObservation, p.Ready)
	for i := range out {
		out[i] = planner.ReplicaObservation{Number: i, KVUsage: kv, Waiting: queue}
	}
	return out
}

// lengths are the requests that ended in an interval, and their mean tokens.
type lengths struct {
	At       time.Time
	Requests float64
	ISL      float64
	OSL      float64
}

// remembered adds an interval's lengths, and forgets those older than 5 min. An
// interval that does not know its requests counts as one.
func remembered(all []lengths, s planner.Situation) []lengths {
	isl, okIn := number(s.ISL.Mean)
	osl, okOut := number(s.OSL.Mean)
	if okIn && okOut && isl <= maxLength && osl <= maxLength {
		all = append(all, lengths{s.End(), max(1, min(s.ISL.Count, mostQueue)), isl, osl})
	}
	for len(all) > 0 && (len(all) > mostGlances || !all[0].At.After(s.End().Add(-wvaLengths))) {
		all = all[1:]
	}
	return all
}

// knowsLengths reports whether an interval in which requests ended tells their lengths.
func knowsLengths(s planner.Situation) bool {
	_, isl := number(s.ISL.Mean)
	_, osl := number(s.OSL.Mean)
	return isl && osl || s.Finished.Or(1) == 0
}

const maxLength = 1e9 // tokens of a request; more is a mistake

// meanLengths are 0 where no request ended: it estimates nothing by them then.
func meanLengths(all []lengths) (isl, osl float64) {
	n := 0.0
	for _, l := range all {
		n, isl, osl = n+l.Requests, isl+l.Requests*l.ISL, osl+l.Requests*l.OSL
	}
	if n == 0 {
		return 0, 0
	}
	return isl / n, osl / n
}
