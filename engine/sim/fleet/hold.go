package fleet

// hold notes that a prefill engine keeps the KV of a computed prompt.
func (f *Fleet) hold(r *replica, i int32) {
	f.flights.slots[i].holder = r
	r.pool.holding.change(f.now, 1)
}

// letGo frees the KV of a prompt at the prefill engine that holds it, if one
// does: a prompt there may have waited for the room, or the engine for its end.
func (f *Fleet) letGo(i int32) {
	x := &f.flights.slots[i]
	r := x.holder
	if r == nil {
		return
	}
	x.holder = nil
	r.engine.Release(uint64(i))
	r.pool.holding.change(f.now, -1)
	f.useKV(r)
	switch {
	case r.stalled:
		f.wake(r)
	case r.state == draining && r.empty():
		f.leave(r)
	}
}

// loseHeld forgets what a failed prefill engine held: it is taken for read.
func (f *Fleet) loseHeld(r *replica) {
	for i := range f.flights.slots {
		if x := &f.flights.slots[i]; x.live && x.holder == r {
			x.holder = nil
		}
	}
	r.pool.holding.change(f.now, -r.engine.Held())
}

// stall makes a replica wait for the KV that it holds to be read: it has a
// request, but no room for it.
func (f *Fleet) stall(r *replica) {
	r.stalled = true
	r.pool.stalled.change(f.now, 1)
	f.rest(r)
}

// unstall ends that, where it is so.
func (f *Fleet) unstall(r *replica) {
	if r.stalled {
		r.stalled = false
		r.pool.stalled.change(f.now, -1)
	}
}

// wake makes an idle or stalled replica look for something to do now.
func (f *Fleet) wake(r *replica) {
	f.unstall(r)
	r.busy = true
	r.pool.busy.change(f.now, 1)
	f.agenda.set(r, f.now)
}

// useKV counts the KV of a prefill engine from now on. It changes in steps, and
// while the engine does nothing.
func (f *Fleet) useKV(r *replica) {
	used, _ := r.engine.KVBlocks()
	p := r.pool
	p.kv.change(f.now, used-r.used)
	p.kvPeak = max(p.kvPeak, used)
	r.used = used
}
