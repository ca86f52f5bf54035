package forecast

// selected is the model of least AICc that a stepwise search finds (Hyndman and
// Khandakar, Journal of Statistical Software 27(3), 2008, section 3.2), on
// values of about 1. The differencing is by KPSS. Unlike there, a series that is
// not differenced always has a mean: none of ours is about 0.
func selected(values []float64) fit {
	s := search{values: values, most: min(maxOrder, len(values)/3), seen: map[order]bool{}}
	d := differences(values)
	constant := d < 2
	s.best = fitted(order{D: d, Constant: constant}, nil, values)
	s.seen[s.best.order] = true
	for _, pq := range [][2]int{{2, 2}, {1, 0}, {0, 1}} {
		s.try(order{P: min(pq[0], s.most), D: d, Q: min(pq[1], s.most), Constant: constant})
	}
	if d == 1 {
		s.try(order{D: d})
	}
	for s.improve() {
	}
	return s.best
}

// search is where a stepwise search has come to.
type search struct {
	values []float64
	most   int // largest p and q
	seen   map[order]bool
	best   fit
}

// improve tries the neighbours of the best order until one is better.
func (s *search) improve() bool {
	o := s.best.order
	for _, step := range [][2]int{{-1, 0}, {0, -1}, {1, 0}, {0, 1}, {-1, -1}, {-1, 1}, {1, -1}, {1, 1}} {
		if s.try(order{P: o.P + step[0], D: o.D, Q: o.Q + step[1], Constant: o.Constant}) {
			return true
		}
	}
	return o.D == 1 && s.try(order{P: o.P, D: o.D, Q: o.Q, Constant: !o.Constant})
}

// try fits an order that was not, and says whether it is the best.
func (s *search) try(o order) bool {
	if o.P < 0 || o.Q < 0 || o.P > s.most || o.Q > s.most || s.seen[o] {
		return false
	}
	s.seen[o] = true
	f := fitted(o, s.start(o), s.values)
	if !(f.aicc < s.best.aicc) {
		return false
	}
	s.best = f
	return true
}

// start is the best model's parameters, shortened, or lengthened a little off 0
// so that an AR and an MA part that would cancel do not begin as such.
func (s *search) start(o order) []float64 {
	params := make([]float64, o.P+o.Q)
	was := s.best.order
	for i := range o.P {
		params[i] = 0.1
		if i < was.P {
			params[i] = s.best.params[i]
		}
	}
	for j := range o.Q {
		params[o.P+j] = -0.1
		if j < was.Q {
			params[o.P+j] = s.best.params[was.P+j]
		}
	}
	for i, v := range params {
		params[i] = min(max(-3, v), 3) // beyond, tanh is flat
	}
	return params
}
