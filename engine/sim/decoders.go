package sim

// decoders are the decoding sequences. All of them advance by one token in
// every step, so that sums over them follow from the step number alone.
type decoders struct {
	// heap orders the sequences by the step of their last token, then by
	// arrival: no entry comes before its parent, that of index i is (i−1)/2.
	heap    []finish
	bases   int64 // Σ base
	growing []int // by step number modulo block size: sequences that need a new block then
}

// finish is when a sequence is done. The keys are copies: they are compared
// far more often than set.
type finish struct {
	last  uint64 // step of the last token
	order uint64 // of arrival
	s     *sequence
}

func (a finish) before(b finish) bool {
	if a.last != b.last {
		return a.last < b.last
	}
	return a.order < b.order
}

// context is the number of tokens that all sequences attend to in a step.
func (d *decoders) context(step uint64) int64 {
	return d.bases + int64(len(d.heap))*int64(step)
}

// nextLast is the number of the step that gives the next last token. There
// must be a sequence.
func (d *decoders) nextLast() uint64 { return d.heap[0].last }

// join makes s, with target tokens known, decode from the given step on.
func (d *decoders) join(s *sequence, step uint64) {
	left := s.OutputTokens - s.produced()
	s.decoding = true
	s.base = int64(s.target) - int64(step)
	d.bases += s.base
	d.growing[d.phase(s)]++
	d.heap = append(d.heap, finish{})
	d.up(len(d.heap)-1, finish{last: step + uint64(left) - 1, order: s.order, s: s})
}

// leave ends s's decoding before the given step; its target says what it knows.
func (d *decoders) leave(s *sequence, step uint64) {
	end := len(d.heap) - 1
	moved := d.heap[end]
	d.heap[end] = finish{}
	d.heap = d.heap[:end]
	if s.rank < end {
		if s.rank > 0 && moved.before(d.heap[(s.rank-1)/2]) {
			d.up(s.rank, moved)
		} else {
			d.down(s.rank, moved)
		}
	}
	d.bases -= s.base
	d.growing[d.phase(s)]--
	s.decoding = false
	s.target = int(s.base + int64(step))
}

// up puts f at index i or, as long as it comes before the parent, above.
func (d *decoders) up(i int, f finish) {
	for i > 0 {
		parent := (i - 1) / 2
		if !f.before(d.heap[parent]) {
			break
		}
		d.set(i, d.heap[parent])
		i = parent
	}
	d.set(i, f)
}

// down puts f at index i or, as long as a child comes before it, below.
func (d *decoders) down(i int, f finish) {
	for {
		child := 2*i + 1
		if child >= len(d.heap) {
			break
		}
		if child+1 < len(d.heap) && d.heap[child+1].before(d.heap[child]) {
			child++
		}
		if !d.heap[child].before(f) {
			break
		}
		d.set(i, d.heap[child])
		i = child
	}
	d.set(i, f)
}

func (d *decoders) set(i int, f finish) {
	d.heap[i] = f
	f.s.rank = i
}

// grown is how many new blocks the n steps from the given one need.
func (d *decoders) grown(step, n uint64) int {
	size := uint64(len(d.growing))
	blocks := int(n/size) * len(d.heap)
	for i := range n % size {
		blocks += d.growing[(step+i)%size]
	}
	return blocks
}

// affordable is how many of the n steps from the given one need no more than
// the available blocks. There must be a sequence.
func (d *decoders) affordable(step, n uint64, available int) uint64 {
	size := uint64(len(d.growing))
	rounds := uint64(available / len(d.heap))
	if n/size < rounds {
		return n // even if the last steps were a whole round
	}
	available -= int(rounds) * len(d.heap)
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
