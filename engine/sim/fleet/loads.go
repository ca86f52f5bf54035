package fleet

import "math"

// loads knows which of a pool's ready replicas is loaded least. It is a tournament:
// the leaves are the replicas, every other entry is the lesser of its two. A change
// costs the height of the tree. A look at all replicas would be a large part of what
// a request costs.
type loads []uint64 // from 1 on; the entries below i are 2i and 2i+1

// An entry is a replica's score and, in its lower bits, its turn. A score that does
// not fit counts as the highest.
const (
	turnBits  = 40
	mostScore = 1<<(64-turnBits) - 2
)

// newLoads is the tournament of replicas that know their places.
func newLoads(ready []*replica) loads {
	leaves := 1
	for leaves < len(ready) {
		leaves *= 2
	}
	l := make(loads, 2*leaves)
	for i := range l {
		l[i] = math.MaxUint64 // nobody
	}
	for _, r := range ready {
		l.set(r)
	}
	return l
}

// set notes the load of a replica.
func (l loads) set(r *replica) {
	i := len(l)/2 + r.place
	l[i] = uint64(min(r.score(), mostScore))<<turnBits | uint64(r.turn)
	for i /= 2; i > 0; i /= 2 {
		l[i] = min(l[2*i], l[2*i+1])
	}
}

// least is the place of the replica with the lowest score. Ties go to the oldest
// turn, then to the lowest place. There must be a replica.
func (l loads) least() int {
	i := 1
	for i < len(l)/2 {
		i *= 2
		if l[i] != l[1] {
			i++
		}
	}
	return i - len(l)/2
}
