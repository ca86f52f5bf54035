package fleet

import "plimsoll/engine"

// agenda is a heap of replicas by the next instant at which something happens
// to them, then by number.
type agenda []appointment

// appointment is a replica and its instant: a copy, since instants are compared
// far more often than set.
type appointment struct {
	next engine.Picoseconds
	r    *replica
}

func (x appointment) before(y appointment) bool {
	return x.next < y.next || x.next == y.next && x.r.ordinal < y.r.ordinal
}

// set puts r at an instant, whether the agenda holds it or not.
func (a *agenda) set(r *replica, next engine.Picoseconds) {
	r.next = next
	if r.slot < 0 {
		r.slot = len(*a)
		*a = append(*a, appointment{})
	}
	a.place(r.slot, appointment{next, r})
}

// drop takes r out, if it is in.
func (a *agenda) drop(r *replica) {
	i, end := r.slot, len(*a)-1
	if i < 0 {
		return
	}
	moved := (*a)[end]
	(*a)[end] = appointment{}
	*a = (*a)[:end]
	r.slot = -1
	if i < end {
		a.place(i, moved)
	}
}

// place puts x where it belongs, from the slot i on, which is free.
func (a agenda) place(i int, x appointment) {
	if i > 0 && x.before(a[(i-1)/2]) {
		a.up(i, x)
	} else {
		a.down(i, x)
	}
}

// put is x at the slot i.
func (a agenda) put(i int, x appointment) {
	a[i] = x
	x.r.slot = i
}

func (a agenda) up(i int, x appointment) {
	for i > 0 {
		parent := (i - 1) / 2
		if !x.before(a[parent]) {
			break
		}
		a.put(i, a[parent])
		i = parent
	}
	a.put(i, x)
}

func (a agenda) down(i int, x appointment) {
	for {
		child := 2*i + 1
		if child >= len(a) {
			break
		}
		if child+1 < len(a) && a[child+1].before(a[child]) {
			child++
		}
		if !a[child].before(x) {
			break
		}
		a.put(i, a[child])
		i = child
	}
	a.put(i, x)
}

// handoff is a flight on its way to a pool's router.
type handoff struct {
	at     engine.Picoseconds
	order  uint64 // of leaving, for those that arrive at once
	flight int32
}

// handoffs is a heap of them.
type handoffs []handoff

func (h handoffs) less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].order < h[j].order
}

func (h *handoffs) push(x handoff) {
	*h = append(*h, x)
	a := *h
	for i := len(a) - 1; i > 0 && a.less(i, (i-1)/2); i = (i - 1) / 2 {
		a[i], a[(i-1)/2] = a[(i-1)/2], a[i]
	}
}

// pop takes the first of a heap that is not empty.
func (h *handoffs) pop() handoff {
	a := *h
	top, end := a[0], len(a)-1
	a[0] = a[end]
	a = a[:end]
	*h = a
	for i := 0; ; {
		child := 2*i + 1
		if child >= end {
			return top
		}
		if child+1 < end && a.less(child+1, child) {
			child++
		}
		if !a.less(child, i) {
			return top
		}
		a[i], a[child] = a[child], a[i]
		i = child
	}
}
