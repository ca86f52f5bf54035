package sim

// sequence is a request inside the engine: waiting, or running and there
// either the partly computed prompt, done computing in this step, or decoding;
// or finished, and its KV held.
type sequence struct {
	Request
	queue      *queue // that holds it
	prev, next *sequence

	from      uint64  // the first step that it can be part of
	order     uint64  // of arrival
	target    int     // tokens to compute before the next one comes out: prompt and output so far
	computed  int     // of them
	held      int     // blocks that are its own or shared, while not decoding
	window    int     // blocks for layers with a sliding window, while it runs
	shared    []int32 // of held, indices of those that the cache knows
	named     int     // full prompt blocks offered to the cache
	cached    int     // prompt tokens found in the cache at the first start
	started   bool    // was running before: counted in the prefix statistics
	recompute bool    // was preempted: nothing of it is transferred
	lost      int     // the most tokens in KV that a preemption cost it

	decoding bool
	base     int64 // while decoding: tokens known in step s are base + s
	rank     int   // while decoding: index in decoders.heap
	joined   int64 // while decoding: the step after which it did, counted
}

// produced is how many output tokens a sequence that is not decoding has.
func (s *sequence) produced() int { return s.target - s.PromptTokens }

// makeSequence is a sequence for r, in the memory of a forgotten one if there
// is any.
func (e *Engine) makeSequence(r Request) *sequence {
	s := e.spare
	if s == nil {
		s = &sequence{}
	} else {
		e.spare = s.next
	}
	e.arrivals++
	*s = sequence{Request: r, order: e.arrivals, target: r.PromptTokens, shared: s.shared[:0]}
	return s
}

// recycle keeps the memory of a sequence that is in no queue. Its numbers stay
// readable until the next makeSequence.
func (e *Engine) recycle(s *sequence) {
	s.Prefix = nil // the caller's memory
	s.next, e.spare = e.spare, s
}

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
