package trace

import (
	"container/heap"
	"time"
)

// sorter holds arrivals back until nothing earlier can come.
type sorter struct {
	held  queue
	added int
}

// entry is an arrival and what decides between arrivals at the same instant.
type entry struct {
	Arrival
	rank int
}

func (s *sorter) pop() Arrival { return heap.Pop(&s.held).(entry).Arrival }

// add holds a, behind those of the same instant that were added before it.
func (s *sorter) add(a Arrival) {
	heap.Push(&s.held, entry{a, s.added})
	s.added++
}

// release yields what arrives before an instant; false = the receiver is done.
func (s *sorter) release(before time.Duration, yield func(Arrival, error) bool) bool {
	for len(s.held) > 0 && s.held[0].At < before {
		if !yield(s.pop(), nil) {
			return false
		}
	}
	return true
}

// queue is a heap of entries, the earliest first.
type queue []entry

func (q queue) Len() int      { return len(q) }
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q queue) Less(i, j int) bool {
	return q[i].At < q[j].At || (q[i].At == q[j].At && q[i].rank < q[j].rank)
}

// Push implements heap.Interface.
func (q *queue) Push(x any) { *q = append(*q, x.(entry)) }

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = entry{} // lets go of its blocks
	*q = (*q)[:last]
	return e
}
