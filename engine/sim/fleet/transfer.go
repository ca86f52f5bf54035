package fleet

import "plimsoll/engine"

// span is how long the KV of a prompt is on a link, without the latency.
func (t Transfer) span(isl int) engine.Picoseconds {
	if t.BytesPerSecond == 0 {
		return 0
	}
	return engine.FromSeconds(t.BytesPerToken * float64(isl) / t.BytesPerSecond)
}

// move sends a computed prompt from its prefill engine to the decode pool.
func (f *Fleet) move(r *replica, i int32) {
	x := &f.flights.slots[i]
	x.Prefilled = f.now
	span, begin := f.transfer.span(x.ISL), f.now
	if f.transfer.Serial {
		begin = max(begin, r.link)
		r.link = after(begin, span)
	}
	x.pool = 1
	arrival := after(after(begin, span), f.transfer.Latency)
	f.handOff(i, after(arrival, f.pools[1].Overhead))
}

// handOff brings a flight to its pool's router at an instant.
func (f *Fleet) handOff(i int32, at engine.Picoseconds) {
	f.order++
	f.handoffs.push(handoff{at: at, order: f.order, flight: i})
}
