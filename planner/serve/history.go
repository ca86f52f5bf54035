package serve

import (
	"slices"
	"sync"
)

// History keeps the newest events, for the page. It is for any goroutine.
type History struct {
	mu     sync.Mutex
	most   int
	events []Event // oldest first
	first  uint64  // number of events[0], counting from the first ever
}

// NewHistory keeps most events.
func NewHistory(most int) *History { return &History{most: most} }

// Add appends an event and forgets the oldest where there are too many.
func (h *History) Add(e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
	if over := len(h.events) - h.most; over > 0 {
		h.events = slices.Delete(h.events, 0, over)
		h.first += uint64(over)
	}
}

// Since gives the events from number on that are kept, and the number that the
// next one will have.
func (h *History) Since(number uint64) (events []Event, next uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	next = h.first + uint64(len(h.events))
	if number >= next {
		return nil, next
	}
	return slices.Clone(h.events[max(number, h.first)-h.first:]), next
}
