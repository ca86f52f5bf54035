package replay

import (
	"container/heap"
	"math"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/engine/sim/fleet"
)

// failures are the ends of replicas that nobody decided.
type failures struct {
	lifetime time.Duration // mean; 0 = for ever
	seed     uint64
	known    int // replicas, by number
	ends     ends
}

func newFailures(s Scenario) failures {
	return failures{lifetime: s.Lifetime, seed: sim.Mix(s.Seed, failureSalt)}
}

// failureSalt makes lifetimes other numbers of the seed than all else.
const failureSalt = 0x6661696c75726573

// adopt gives replicas that are new their lifetimes. Each is that of the seed and
// the replica's number, whatever else happens.
func (f *failures) adopt(all []fleet.Replica, now engine.Picoseconds) {
	if f.lifetime == 0 {
		return
	}
	known := f.known
	for _, r := range all {
		if r.Number < known {
			continue
		}
		f.known = max(f.known, r.Number+1)
		u := (float64(sim.Mix(f.seed, uint64(r.Number))>>11) + 0.5) / (1 << 53)
		heap.Push(&f.ends, end{sim.Plus(now, engine.FromSeconds(-math.Log(u)*f.lifetime.Seconds())), r.Number})
	}
}

// next is when the next replica fails, if it is still there.
func (f *failures) next() engine.Picoseconds {
	if len(f.ends) == 0 {
		return never
	}
	return f.ends[0].at
}

// pop is the number of the replica whose time has come.
func (f *failures) pop() int { return heap.Pop(&f.ends).(end).number } //nolint:forcetypeassert // Push takes no other

// end is when a replica fails.
type end struct {
	at     engine.Picoseconds
	number int
}

// ends are a heap.
type ends []end

func (e ends) Len() int { return len(e) }
func (e ends) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].number < e[j].number
}
func (e ends) Swap(i, j int) { e[i], e[j] = e[j], e[i] }

// Push implements heap.Interface.
func (e *ends) Push(x any) { *e = append(*e, x.(end)) } //nolint:forcetypeassert // adopt gives no other

// Pop implements heap.Interface.
func (e *ends) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}
