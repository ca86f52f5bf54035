package fleet

import "plimsoll/engine"

// flight is a request in the fleet. Its index in flights is its name inside,
// for the engines too.
type flight struct {
	Outcome
	prefix []uint64
	// entered is when it came to the router of the pool that it is in.
	entered engine.Picoseconds
	pool    int8
	replica int32    // ordinal of the replica that holds it; none = no replica does
	need    int      // while it is at a KV-aware replica: see replica.backlog
	holder  *replica // the prefill engine that keeps its KV; nil = none does
	next    int32    // in the line that it is in, or the free list
	live    bool
}

// none is the index of no flight.
const none = int32(-1)

// flights are the requests in the fleet, in slots that are used again: memory
// is that of the most requests that were in flight at once.
type flights struct {
	slots []flight
	free  int32 // head of the list of unused slots
	n     int   // in use
}

// take is an unused slot.
func (f *flights) take() int32 {
	f.n++
	if f.free == none {
		f.slots = append(f.slots, flight{})
		return int32(len(f.slots) - 1)
	}
	i := f.free
	f.free = f.slots[i].next
	return i
}

func (f *flights) release(i int32) {
	f.n--
	x := &f.slots[i]
	x.live, x.prefix, x.holder, x.next = false, nil, nil, f.free
	f.free = i
}

// line is a queue of flights, first come first served. A flight is in one line
// at most.
type line struct {
	head, tail int32
	n          int
}

func emptyLine() line { return line{head: none, tail: none} }

func (l *line) push(f *flights, i int32) {
	f.slots[i].next = none
	if l.n == 0 {
		l.head = i
	} else {
		f.slots[l.tail].next = i
	}
	l.tail = i
	l.n++
}

// pop takes the first of a line that is not empty.
func (l *line) pop(f *flights) int32 {
	i := l.head
	l.head = f.slots[i].next
	l.n--
	return i
}
