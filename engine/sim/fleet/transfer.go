package fleet

import (
	"plimsoll/engine"
	"plimsoll/engine/sim"
)

// links are the ways of KV out of the prefill engines, all together.
type links struct {
	wait, move Sketch // of prompts: until the link is free; from then to the decode pool's router
	busy       wide   // Σ time on a link, of transfers to come too
}

// LinkReport is what the links out of the prefill engines did; zero without them.
type LinkReport struct {
	// Utilisation is the share of the time of replicas in service that their
	// links were busy, from 0 to 1; 0 where transfers do not wait for each other
	// (Transfer.Serial).
	Utilisation float64
	// Wait is from a computed prompt until its engine's link was free, Move from
	// then until the decode pool's router had it; picoseconds. A transfer counts
	// as its prompt is computed.
	Wait, Move Sketch
}

// busyLink is the utilisation from which a report warns: waits for a server that
// is busy nine tenths of the time are many times its service.
const busyLink = 0.9

// Span is how long the KV of a prompt is on a link, without the latency.
func (t Transfer) Span(isl int) engine.Picoseconds {
	if t.BytesPerSecond == 0 {
		return 0
	}
	return engine.FromSeconds(t.KV.Of(isl) / t.BytesPerSecond)
}

// move sends a computed prompt from its prefill engine to the decode pool.
func (f *Fleet) move(r *replica, i int32) {
	x := &f.flights.slots[i]
	x.prefilled = f.now
	span, begin := f.transfer.Span(x.ISL), f.now
	if f.transfer.Serial {
		begin = max(begin, r.link)
		r.link = sim.Plus(begin, span)
		f.links.busy = f.links.busy.plus(product(1, int64(span)))
	}
	x.pool = 1
	arrival := sim.Plus(sim.Plus(begin, span), f.transfer.Latency)
	f.links.wait.Add(int64(begin-f.now), 1)
	f.links.move.Add(int64(arrival-begin), 1)
	f.handOff(i, sim.Plus(arrival, f.pools[1].Overhead))
}

// linkReport is what the links did up to now. Transfers that are to come fill
// each link from now on without a gap; those of engines that left are over when
// the last of them is.
func (f *Fleet) linkReport() LinkReport {
	busy := f.links.busy
	for _, r := range f.pools[0].live {
		busy = busy.minus(product(1, max(int64(r.link-f.now), 0)))
	}
	return LinkReport{
		Utilisation: min(share(busy, f.pools[0].serving.area(f.now)), 1),
		Wait:        f.links.wait.Clone(), Move: f.links.move.Clone(),
	}
}

// handOff brings a flight to its pool's router at an instant.
func (f *Fleet) handOff(i int32, at engine.Picoseconds) {
	f.order++
	f.handoffs.push(handoff{at: at, order: f.order, flight: i})
}
