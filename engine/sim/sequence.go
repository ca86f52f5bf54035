package sim

import "container/heap"

// sequence is a request inside the engine: waiting, or running and there
// either the partly computed prompt, done computing in this step, or decoding.
type sequence struct {
	Request
	queue      *queue // that holds it
	prev, next *sequence

	order     uint64   // of arrival
	target    int      // tokens to compute before the next one comes out: prompt and output so far
	computed  int      // of them
	held      int      // blocks, while not decoding
	shared    []*block // of them, known to the cache
	named     int      // full prompt blocks offered to the cache
	cached    int      // prompt tokens found in the cache at the first start
	started   bool     // was running before: counted in the prefix statistics
	recompute bool     // was preempted: nothing of it is transferred

	decoding bool
	base     int64  // while decoding: tokens known in step s are base + s
	last     uint64 // while decoding: the step that gives the last token
	slot     int    // while decoding: index in decoders.seqs
	rank     int    // while decoding: index in decoders.byLast
}

// produced is how many output tokens a sequence that is not decoding has.
func (s *sequence) produced() int { return s.target - s.PromptTokens }

// queue is a list of sequences in order of arrival.
type queue struct {
	head, tail *sequence
	n          int
}

func (q *queue) pushBack(s *sequence) {
	s.queue, s.prev, s.next = q, q.tail, nil
	if q.tail == nil {
		q.head = s
	} else {
		q.tail.next = s
	}
	q.tail = s
	q.n++
}

func (q *queue) pushFront(s *sequence) {
	s.queue, s.prev, s.next = q, nil, q.head
	if q.head == nil {
		q.tail = s
	} else {
		q.head.prev = s
	}
	q.head = s
	q.n++
}

func (q *queue) remove(s *sequence) {
	if s.prev == nil {
		q.head = s.next
	} else {
		s.prev.next = s.next
	}
	if s.next == nil {
		q.tail = s.prev
	} else {
		s.next.prev = s.prev
	}
	s.queue, s.prev, s.next = nil, nil, nil
	q.n--
}

// decoders are the decoding sequences. All of them advance by one token in
// every step, so that sums over them follow from the step number alone.
type decoders struct {
	seqs    []*sequence // in no meaningful order
	byLast  lastHeap
	bases   int64 // Σ base
	growing []int // by step number modulo block size: sequences that need a new block then
}

// context is the number of tokens that all sequences attend to in a step.
func (d *decoders) context(step uint64) int64 {
	return d.bases + int64(len(d.seqs))*int64(step)
}

// join makes s, with target tokens known, decode from the given step on.
func (d *decoders) join(s *sequence, step uint64) {
	left := s.OutputTokens - s.produced()
	s.decoding = true
	s.base = int64(s.target) - int64(step)
	s.last = step + uint64(left) - 1
	s.slot = len(d.seqs)
	d.seqs = append(d.seqs, s)
	heap.Push(&d.byLast, s)
	d.bases += s.base
	d.growing[d.phase(s)]++
}

// leave ends s's decoding before the given step; its target says what it knows.
func (d *decoders) leave(s *sequence, step uint64) {
	end := len(d.seqs) - 1
	d.seqs[s.slot] = d.seqs[end]
	d.seqs[s.slot].slot = s.slot
	d.seqs[end] = nil
	d.seqs = d.seqs[:end]
	heap.Remove(&d.byLast, s.rank)
	d.bases -= s.base
	d.growing[d.phase(s)]--
	s.decoding = false
	s.target = int(s.base + int64(step))
}

// nextLast is the number of the step that gives the next last token. There
// must be a sequence.
func (d *decoders) nextLast() uint64 { return d.byLast[0].last }

// grown is how many new blocks the n steps from the given one need.
func (d *decoders) grown(step, n uint64) int {
	size := uint64(len(d.growing))
	blocks := int(n/size) * len(d.seqs)
	for i := range n % size {
		blocks += d.growing[(step+i)%size]
	}
	return blocks
}

// room is how many of the n steps from the given one need no more than the
// available blocks. There must be a sequence.
func (d *decoders) room(step, n uint64, available int) uint64 {
	size := uint64(len(d.growing))
	rounds := uint64(available / len(d.seqs))
	if n/size < rounds {
		return n // even if the last steps were a whole round
	}
	available -= int(rounds) * len(d.seqs)
	for i := rounds * size; i < n; i++ {
		if available -= d.growing[(step+i)%size]; available < 0 {
			return i
		}
	}
	return n
}

// phase is the step number, modulo block size, at which s needs a new block:
// when the tokens known before its newest one fill their blocks.
func (d *decoders) phase(s *sequence) int {
	n := int64(len(d.growing))
	return int(((1-s.base)%n + n) % n)
}

// lastHeap orders sequences by the step of their last token, then by arrival.
type lastHeap []*sequence

func (h lastHeap) Len() int { return len(h) }

func (h lastHeap) Less(i, j int) bool {
	if h[i].last != h[j].last {
		return h[i].last < h[j].last
	}
	return h[i].order < h[j].order
}

func (h lastHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].rank, h[j].rank = i, j
}

// Push implements heap.Interface.
func (h *lastHeap) Push(x any) {
	s := x.(*sequence)
	s.rank = len(*h)
	*h = append(*h, s)
}

// Pop implements heap.Interface.
func (h *lastHeap) Pop() any {
	end := len(*h) - 1
	s := (*h)[end]
	(*h)[end] = nil
	*h = (*h)[:end]
	return s
}
