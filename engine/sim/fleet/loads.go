package fleet

import "cmp"

// loads knows which of a pool's ready replicas is loaded least: a tournament, whose
// leaves are the replicas and whose every other entry is the winner of its two. A
// change costs the height of the tree, where a look at all replicas would be a large
// part of what a request costs.
type loads []entrant // from 1 on; the entries below i are 2i and 2i+1

// entrant is a replica and what it had when it was set: a copy, since entries are
// compared far more often than set. Without a replica it is nobody.
type entrant struct {
	r           *replica
	score, turn int
}

// newLoads is that of replicas, each of which knows its place.
func newLoads(ready []*replica) loads {
	leaves := 1
	for leaves < len(ready) {
		leaves *= 2
	}
	l := make(loads, 2*leaves)
	for _, r := range ready {
		l.set(r)
	}
	return l
}

// set notes the load of a replica.
func (l loads) set(r *replica) {
	i := len(l)/2 + r.place
	l[i] = entrant{r, r.score(), r.turn}
	for i /= 2; i > 0; i /= 2 {
		l[i] = l[2*i]
		if l[2*i+1].before(l[i]) {
			l[i] = l[2*i+1]
		}
	}
}

// before reports whether x wins against y: the lower score, the turn that is longer
// ago, the lower place, which is y's where both are alike.
func (x entrant) before(y entrant) bool {
	if x.r == nil || y.r == nil {
		return x.r != nil
	}
	return cmp.Or(cmp.Compare(x.score, y.score), cmp.Compare(x.turn, y.turn)) < 0
}
