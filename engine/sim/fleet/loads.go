package fleet

import "math"

// loads knows which of a pool's ready replicas has the fewest requests: a
// tournament, whose leaves are their loads and whose every other entry is the
// lesser of its two. A change costs the height of the tree, where a look at all
// replicas would be a large part of what a request costs.
type loads []uint64 // from 1 on; the entries below i are 2i and 2i+1

// newLoads is that of replicas in order of their numbers.
func newLoads(ready []*replica) loads {
	leaves := 1
	for leaves < len(ready) {
		leaves *= 2
	}
	l := make(loads, 2*leaves)
	for i := range l {
		l[i] = math.MaxUint64 // nobody
	}
	for i, r := range ready {
		l.set(i, r.load)
	}
	return l
}

// set notes the load of the replica at a place among the ready ones. The place is
// part of the entry, so that the lower one wins where two have as few.
func (l loads) set(place, load int) {
	i := len(l)/2 + place
	l[i] = uint64(load)<<32 | uint64(place)
	for i /= 2; i > 0; i /= 2 {
		l[i] = min(l[2*i], l[2*i+1])
	}
}

// least is the place of the replica with the fewest requests, the lowest where
// several are; there must be one.
func (l loads) least() int { return int(uint32(l[1])) }
