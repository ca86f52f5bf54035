package fleet

import "slices"

// begin starts a step where there is one, and lets go the KV of those that it
// decodes.
func (d *dumb) begin(r *dumbReplica) {
	step, ok := r.engine.Begin()
	if !ok {
		r.stalled = true
		return
	}
	r.stepping, r.begin, r.end = true, d.now, d.now+step.Duration
	r.used, _ = r.engine.KVBlocks()
	decoding := slices.Collect(r.engine.Decoding())
	for _, x := range r.requests { // in order: it decides what is evicted first
		if slices.Contains(decoding, uint64(x.out.Number)) {
			d.letGo(x)
		}
	}
}

func (d *dumb) letGo(x *dumbRequest) {
	r := x.holder
	if r == nil {
		return
	}
	x.holder = nil
	r.engine.Release(uint64(x.out.Number))
	r.wake = r.stalled
	d.leaveEmpty(r)
}

func (d *dumb) leaveEmpty(r *dumbReplica) {
	if r.state == draining && !r.stepping && len(r.requests) == 0 && r.engine.Held() == 0 {
		r.gone = true
	}
}
