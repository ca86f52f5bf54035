package fleet

import "plimsoll/engine"

// agenda is a heap of replicas by the next instant at which something happens
// to them, then by number.
type agenda []*replica

func (a agenda) less(i, j int) bool {
	return a[i].next < a[j].next || a[i].next == a[j].next && a[i].ordinal < a[j].ordinal
}

func (a agenda) swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].slot, a[j].slot = i, j
}

// set puts r at an instant, whether the agenda holds it or not.
func (a *agenda) set(r *replica, next engine.Picoseconds) {
	r.next = next
	if r.slot < 0 {
		r.slot = len(*a)
		*a = append(*a, r)
	}
	if !a.down(r.slot) {
		a.up(r.slot)
	}
}

// drop takes r out, if it is in.
func (a *agenda) drop(r *replica) {
	i, end := r.slot, len(*a)-1
	if i < 0 {
		return
	}
	a.swap(i, end)
	(*a)[end] = nil
	*a = (*a)[:end]
	r.slot = -1
	if i < end && !a.down(i) {
		a.up(i)
	}
}

func (a agenda) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !a.less(i, parent) {
			return
		}
		a.swap(i, parent)
		i = parent
	}
}

// down reports whether it moved anything.
func (a agenda) down(i int) bool {
	from := i
	for {
		child := 2*i + 1
		if child >= len(a) {
			break
		}
		if child+1 < len(a) && a.less(child+1, child) {
			child++
		}
		if !a.less(child, i) {
			break
		}
		a.swap(i, child)
		i = child
	}
	return i > from
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
