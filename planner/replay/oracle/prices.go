package oracle

import "math"

// prices are what pieces of work cost at least, in ps of an engine's time. For
// every step that the engine can do, with n prompt tokens, P query-key pairs, and
// sequences of contexts c₁ … cₛ,
//
//	token·n + pair·(P − n) + Σ decode(cᵢ) ≤ (1 + wait·s) · time of the step
//
// wait is the multiplier λ of the promise that a request's steps are no longer
// than its TPOT on average.
type prices struct {
	offer
	pair   float64
	decode curve
}

// offer is what of prices there is to choose: the price of a prompt token and the
// multiplier of the wait.
type offer struct{ token, wait float64 }

// tolerance is by how much a minimum over batches may be below the true one, and
// roughly where prices are only tried: they are too low by as much, never too high.
const (
	tolerance = 0.002
	roughly   = 0.05
)

// prices of an offer, at contexts from one to another: decode tokens cost what is
// left.
func (m *machine) prices(o offer, contexts []int, tolerance float64) prices {
	p := prices{offer: o, pair: m.pair}
	if o.token == 0 {
		p.pair = 0
	}
	if m.role == roleWithoutDecode {
		return p
	}
	values := make([]float64, len(contexts))
	for i, c := range contexts {
		// So many sequences as fit at the node before: the curve is used between.
		most := min(m.sequences, m.kv/max(1, contexts[max(i-1, 0)]))
		s := search{machine: m, offer: o, context: float64(c), tolerance: tolerance}
		values[i] = max(0, s.least(max(1, most)))
	}
	p.decode = concave(contexts, values)
	return p
}

// dearest is the most that a prompt token may cost: the least time per token of a
// step that does nothing else.
func (m *machine) dearest() float64 {
	best, sure := math.Inf(1), math.Inf(1)
	var look func(from, to int)
	look = func(from, to int) {
		t := m.step(from, 0, 0)
		best = min(best, t/float64(from))
		if low := t / float64(to); from == to || low >= best*(1-tolerance) {
			sure = min(sure, low)
			return
		}
		middle := (from + to) / 2
		look(middle+1, to) // full batches are the cheapest
		look(from, middle)
	}
	look(1, max(1, min(m.tokens, m.kv)))
	return sure
}

// search is for the least of
//
//	((1 + wait·s) · step(n, s, s·context) − token·n) / s
//
// over n prompt tokens and s sequences, by branch and bound: steps take no less
// for more, so that a box of batches costs no less than its corner's time with
// all of the box's tokens, shared by all of its sequences.
type search struct {
	*machine
	offer
	context    float64
	tolerance  float64
	best, sure float64
}

// least is over at most so many sequences.
func (s *search) least(most int) float64 {
	s.best, s.sure = math.Inf(1), math.Inf(1)
	for n := most; n > 0; n /= 2 { // a good one first leaves less to look at
		s.best = min(s.best, (1+s.wait*float64(n))*s.step(0, n, s.context*float64(n))/float64(n))
	}
	s.look(box{0, 0, 1, most})
	if n := min(s.tokens-1, s.kv); s.token > 0 && n > 0 && s.sequences > 1 {
		s.look(box{1, n, 1, min(most, s.sequences-1)})
	}
	return s.sure
}

// box is batches of n1 to n2 prompt tokens and s1 to s2 sequences.
type box struct{ n1, n2, s1, s2 int }

func (s *search) look(b box) {
	if b.n1+b.s1 > s.tokens {
		return // no step holds so many
	}
	time := (1 + s.wait*float64(b.s1)) * s.step(b.n1, b.s1, s.context*float64(b.s1))
	s.best = min(s.best, (time-s.token*float64(b.n1))/float64(b.s1))
	rest := time - s.token*float64(b.n2)
	low := rest / float64(b.s2)
	if rest < 0 {
		low = rest / float64(b.s1)
	}
	if b.n1 == b.n2 && b.s1 == b.s2 || low >= s.best-s.tolerance*math.Abs(s.best) {
		s.sure = min(s.sure, low)
		return
	}
	// What tokens blur against what sequences do.
	if s.token*float64(b.n2-b.n1) > time*float64(b.s2-b.s1)/float64(b.s2) {
		middle := (b.n1 + b.n2) / 2
		s.look(box{b.n1, middle, b.s1, b.s2})
		s.look(box{middle + 1, b.n2, b.s1, b.s2})
		return
	}
	middle := (b.s1 + b.s2) / 2
	s.look(box{b.n1, b.n2, middle + 1, b.s2})
	s.look(box{b.n1, b.n2, b.s1, middle})
}
