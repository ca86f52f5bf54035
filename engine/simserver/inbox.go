package simserver

import (
	"cmp"
	"slices"
	"sync"

	"plimsoll/engine"
)

// inbox carries requests and cancelations to the driver.
type inbox struct {
	mu       sync.Mutex
	added    []*stream
	canceled []uint64
	taken    instant            // all that was queued up to here is in the engine
	overhead engine.Picoseconds // between the arrival of a request and its place in the queue
	perToken engine.Picoseconds // more of it per prompt token
	wake     chan struct{}      // holds one; full = there is something
}

// add queues a stream the overhead after its arrival, and as long as its KV moves, or
// right behind what the driver took in while the request was being read.
func (b *inbox) add(st *stream) {
	b.mu.Lock()
	st.queued = instant{at: st.arrived}.add(b.overhead + b.perToken*engine.Picoseconds(st.req.PromptTokens)).add(st.moves)
	if !st.queued.after(b.taken) {
		st.queued = b.taken.add(1)
	}
	b.added = append(b.added, st)
	b.mu.Unlock()
	b.ring()
}

func (b *inbox) cancel(id uint64) {
	b.mu.Lock()
	b.canceled = append(b.canceled, id)
	b.mu.Unlock()
	b.ring()
}

func (b *inbox) ring() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// first is the instant of the first request; false where there is none.
func (b *inbox) first() (instant, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.added) == 0 {
		return instant{}, false
	}
	return slices.MinFunc(b.added, inOrder).queued, true
}

// inOrder compares by the instants at which requests are queued.
func inOrder(a, b *stream) int {
	return cmp.Or(a.queued.compare(b.queued), cmp.Compare(a.req.ID, b.req.ID))
}

// take removes what is due: requests queued up to the given instant or, where
// the engine is idle and the first one came later, up to that one, in order;
// and all cancelations but those of requests that are not due. It returns the
// instant.
func (b *inbox) take(until instant, idle bool) (due []*stream, canceled []uint64, start instant) {
	b.mu.Lock()
	defer b.mu.Unlock()
	slices.SortFunc(b.added, inOrder)
	if idle && len(b.added) > 0 && b.added[0].queued.after(until) {
		until = b.added[0].queued
	}
	n := 0
	for n < len(b.added) && !b.added[n].queued.after(until) {
		n++
	}
	due, b.added = slices.Clone(b.added[:n]), slices.Delete(b.added, 0, n)
	canceled = b.splitCanceled()
	if until.after(b.taken) {
		b.taken = until
	}
	return due, canceled, until
}

// splitCanceled removes and returns the cancelations of requests that the
// inbox does not hold.
func (b *inbox) splitCanceled() []uint64 {
	var gone, here []uint64
	for _, id := range b.canceled {
		if slices.ContainsFunc(b.added, func(st *stream) bool { return st.req.ID == id }) {
			here = append(here, id)
		} else {
			gone = append(gone, id)
		}
	}
	b.canceled = here
	return gone
}
