package fleet

import "plimsoll/engine"

// until simulates all that happens before an instant, and goes there.
func (f *Fleet) until(to engine.Picoseconds) {
	for {
		next := f.nextInstant()
		if next >= to {
			break
		}
		f.instant(next)
	}
	f.pass(to)
}

// nextInstant is when the fleet has something to do by itself; Forever = never.
func (f *Fleet) nextInstant() engine.Picoseconds {
	next := Forever
	if len(f.agenda) > 0 {
		next = f.agenda[0].next
	}
	if len(f.handoffs) > 0 {
		next = min(next, f.handoffs[0].at)
	}
	return next
}

// pass goes to an instant before which nothing is left to happen.
func (f *Fleet) pass(to engine.Picoseconds) {
	for to >= f.series.edge {
		f.catchUpAll(f.series.edge)
		f.series.close(f.mark(f.series.edge))
	}
	f.now = to
}

// instant does all that the fleet does by itself at an instant: first what
// ends, then what is routed, then what begins.
func (f *Fleet) instant(t engine.Picoseconds) {
	f.pass(t)
	f.due = f.due[:0]
	opened := false
	for len(f.agenda) > 0 && f.agenda[0].next == t {
		r := f.agenda[0].r
		if r.state == starting {
			f.agenda.drop(r)
			f.open(r)
			opened = true
			continue
		}
		f.end(r)
		if len(f.due) == 0 && !opened && f.alone(r) {
			f.proceed(r) // as mostly: it need not leave the agenda and come back
			return
		}
		f.agenda.drop(r)
		f.due = append(f.due, r)
	}
	if opened {
		f.release()
	}
	for len(f.handoffs) > 0 && f.handoffs[0].at == t {
		f.enter(f.handoffs.pop().flight)
	}
	for _, r := range f.due {
		f.proceed(r)
	}
}

// alone reports whether nothing else happens at the instant of the replica at
// the agenda's head.
func (f *Fleet) alone(r *replica) bool {
	for _, other := range f.agenda[1:min(3, len(f.agenda))] { // the head's children in the heap
		if other.next == r.next {
			return false
		}
	}
	return len(f.handoffs) == 0 || f.handoffs[0].at > r.next
}

// release routes the requests that waited for a replica to be ready.
func (f *Fleet) release() {
	for _, p := range f.pools {
		for p.held.n > 0 && len(p.ready) > 0 {
			f.route(p, p.held.pop(&f.flights))
		}
	}
}

// catchUpAll counts every step that began before an instant.
func (f *Fleet) catchUpAll(at engine.Picoseconds) {
	for _, p := range f.pools {
		for _, r := range p.live {
			f.catchUp(r, at)
		}
	}
}
