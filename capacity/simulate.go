package capacity

import (
	"fmt"

	"plimsoll/engine"
	"plimsoll/engine/sim/fleet"
	"plimsoll/profile"
)

// try simulates the layout at a size.
func (l Layout) try(replicas []int, t Traffic, slo SLO, requests int, seed uint64) (Trial, error) {
	return l.tryUntil(func(*observer) bool { return false }, replicas, t, slo, requests, seed)
}

// tryUntil is a trial that stops where enough is seen, which is asked after every request.
func (l Layout) tryUntil(enough func(*observer) bool, replicas []int, t Traffic, slo SLO, requests int, seed uint64) (Trial, error) {
	o := newObserver(t, slo, t.within(requests))
	source, err := t.sharing(l).requests(seed, o.requests)
	if err != nil {
		return Trial{}, err
	}
	config := l.fleet(replicas, seed)
	config.Done = o.done
	f, err := fleet.New(config)
	if err != nil {
		return Trial{}, fmt.Errorf("simulating %s: %w", l.Name(), err)
	}
	n := 0
	for r := range source {
		if o.ends(n) {
			o.interval(f.Interval())
		}
		n++
		if err := f.Offer(r); err != nil {
			return Trial{}, fmt.Errorf("simulating %s: %w", l.Name(), err)
		}
		if enough(o) {
			return o.stopped(replicas, f), nil
		}
	}
	// What is still in the fleet counts too: those that wait longest are the last
	// to be seen.
	if err := f.Finish(fleet.Forever); err != nil {
		return Trial{}, fmt.Errorf("simulating %s: %w", l.Name(), err)
	}
	if len(o.parts) <= batches {
		o.interval(f.Interval())
	}
	return o.trial(replicas), nil
}

// observer counts what becomes of a trial's requests, by the part that they
// arrived in.
type observer struct {
	requests int // in all
	filling  int // of them, those before the first part
	part     int // requests in each part; the last one of a trace may have more
	recorded bool
	looked   int // parts that were over when it was last asked whether the fleet is ample

	arrived  int64
	rejected int64

	sizes                [batches]float64 // requests of each part
	ttft, itl, gaps, e2e latencies
	waits                [batches]float64 // Σ TTFT, seconds
	squares              float64          // Σ TTFT²
	parts                []fleet.Interval // the filling's, then those of the parts
}

func newObserver(t Traffic, slo SLO, requests int) *observer {
	o := &observer{requests: requests, part: max(1, requests/(batches+3))}
	o.filling = 2 * o.part // and one part more keeps the fleet as busy while the last requests that count finish
	if t.Requests > 0 {
		o.requests, o.filling, o.part, o.recorded = t.Requests, 0, max(1, t.Requests/batches), true
	}
	o.ttft.promise, o.e2e.promise = engine.FromDuration(slo.TTFT), engine.FromDuration(slo.E2EP99)
	o.itl.promise, o.gaps.promise = engine.FromDuration(slo.ITL), engine.FromDuration(slo.StallP99)
	o.ttft.stat, o.itl.stat, o.gaps.stat, o.e2e.stat = slo.stat(), slo.stat(), profile.P99, profile.P99
	for i := range o.sizes {
		o.sizes[i] = float64(o.part)
	}
	if o.recorded {
		o.sizes[batches-1] = float64(max(1, o.requests-(batches-1)*o.part))
	}
	return o
}

// latencies lists every latency that is judged.
func (o *observer) latencies() []*latencies {
	return []*latencies{&o.ttft, &o.itl, &o.gaps, &o.e2e}
}

// ends reports whether a part, or the filling, ends after so many requests.
func (o *observer) ends(n int) bool {
	return n == o.filling+len(o.parts)*o.part && len(o.parts) < o.intervals()
}

// intervals are how many there are that end before the last request.
func (o *observer) intervals() int {
	if o.recorded {
		return batches // its last part ends with what is left in the fleet
	}
	return batches + 1
}

// in is the part of a request by its number, from 1; false where it does not count.
func (o *observer) in(number int64) (int, bool) {
	n := int(number) - 1 - o.filling
	if n < 0 {
		return 0, false
	}
	part := n / o.part
	if o.recorded {
		return min(part, batches-1), true
	}
	return part, part < batches
}

func (o *observer) done(x fleet.Outcome) {
	part, ok := o.in(x.Number)
	if !ok {
		return
	}
	o.arrived++
	if x.Status != fleet.Finished {
		o.rejected++
		o.ttft.refuse(part, o.sizes[part])
		o.e2e.refuse(part, o.sizes[part])
		return
	}
	o.ttft.add(part, o.sizes[part], x.TTFT())
	o.e2e.add(part, o.sizes[part], x.E2E())
	if x.OSL > 1 {
		o.itl.add(part, o.sizes[part], x.TPOT())
	}
	wait := x.TTFT().Seconds()
	o.waits[part] += wait
	o.squares += wait * wait
}

// interval adds the fleet's part that just ended.
func (o *observer) interval(v fleet.Interval) {
	if part := len(o.parts) - 1; part >= 0 {
		o.gaps.merge(part, v.ITL)
	}
	o.parts = append(o.parts, v)
}

func (o *observer) trial(replicas []int) Trial {
	t := Trial{
		Replicas: replicas, Requests: o.arrived, Rejected: o.rejected,
		TTFT: o.ttft.sum(), ITL: o.itl.sum(), Gaps: o.gaps.sum(), E2E: o.e2e.sum(),
	}
	n, sum := 0.0, 0.0
	for i, events := range o.ttft.events {
		n, sum = n+events, sum+o.waits[i]
		o.waits[i] /= max(1, events)
	}
	t.Independent = independent(max(1, n), sum, o.squares, o.waits)
	t.Growing = !o.recorded && rises(o.waits, o.ttft.promise.Seconds()/10)
	parts := o.parts[1:]
	t.Pools = make([]Load, len(parts[0].Pools))
	for _, p := range parts {
		share := float64(p.To-p.From) / float64(max(1, parts[len(parts)-1].To-parts[0].From))
		for i, pool := range p.Pools {
			l := &t.Pools[i]
			l.Utilisation += share * pool.Utilisation
			l.KVUse += share * pool.KVUse
			l.Running += share * pool.RunningMean
			l.Waiting += share * pool.WaitingMean
		}
	}
	return t
}
