// Package fleet is a fleet of simulated engines in virtual time. It takes
// pools of sim.Config and sim.StepTimer, a rule that routes requests to
// replicas, and requests in order of arrival; it gives latencies, attainment
// of an SLA, goodput, utilisation and GPU time, as values at any moment. It
// refuses requests out of order, counts those that are too long for an engine,
// and says in warnings what its figures leave out. It reads no clock, starts no
// goroutine and draws randomness only from the engines' seeds: the same calls
// give the same answers, whatever is asked in between.
//
// # Pools
//
// Either one pool does everything, or a prefill pool computes prompts, their KV
// moves (Transfer), and a decode pool delivers all tokens, the first of them by
// its first step, as in vLLM's disaggregated serving: the token that a prefill
// engine gives is not delivered. TTFT counts everything from the arrival: the
// pools' Overhead, queues, prefill, transfer, first decode step.
//
// Scale starts and drains replicas. A replica that starts takes requests after
// the pool's StartUp; requests wait at the router where nobody takes them. A
// draining one finishes what it holds, its queue too. Fail ends one at once.
// GPU time counts from the decision to start a replica until it is gone.
//
// Decode engines pull, as over vLLM's NIXL connector: a prefill engine keeps the
// KV of a prompt until it starts in a decode engine, and drains no sooner, so that
// a full decode pool holds back prefill. The transfer itself is taken to come before
// the decode queue, not after it, and the KV of a failed prefill engine as read.
//
// # Order
//
// At one instant, what the caller does comes first, in the order of its calls;
// then steps end and replicas become ready, by number; then held and moved
// requests are routed; then steps begin. A request that arrives while a step is
// in progress joins the queue that the engine looks at when that step ends.
//
// # Cost
//
// A request costs a constant number of events, however many tokens it gets,
// where the timer is a sim.DecodeTimer and there is no noise: runs of decode
// steps are taken at once. RoundRobin and LeastLoaded find a request's replica
// in the logarithm of their number, KVAware looks at all. Memory is that of the requests in flight.
package fleet

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/profile"
)

// Forever is an instant that no simulation reaches.
const Forever = engine.Picoseconds(math.MaxInt64)

// Latest is the last instant at which a request may arrive: 100 days, so that
// some time is left to serve it.
const Latest = 100 * engine.Day

// Fleet is a fleet at work. It is not safe for concurrent use.
type Fleet struct {
	pools      []*pool
	transfer   Transfer
	retry      bool
	sla        profile.SLA
	provenance profile.Provenance
	done       func(Outcome)
	overload   overload

	now      engine.Picoseconds
	over     bool
	agenda   agenda
	handoffs handoffs
	order    uint64     // of hand-offs
	ordinals int32      // of replicas
	due      []*replica // at this instant
	flights  flights

	tally                tally
	ttft, e2e, tpot, itl Sketch // picoseconds
	isl, asked, osl      Sketch // tokens: of arrivals, both; output of finished requests
	links                links
	inFlight             gauge
	lastArrival          engine.Picoseconds
	longest              *sim.TooLongError // the rejected request that was the longest
	scales               []ScaleEvent
	series               series
	seen                 snapshot // at the last Interval
}

// tally counts requests.
type tally struct {
	offered, finished, rejected, lost, unfinished, retries int64

	metTTFT, metITL, metBoth int64 // of the finished ones
	tokens, goodTokens       int64 // output of the finished ones, and of those that met both
}

// New makes a fleet at instant 0, with its replicas ready.
func New(c Config) (*Fleet, error) {
	c, err := c.normal()
	if err != nil {
		return nil, err
	}
	f := &Fleet{
		transfer: c.Transfer, retry: c.Retry, sla: c.SLA, provenance: c.Provenance, done: c.Done,
		overload: overload{most: c.MaxInFlight},
		flights:  flights{free: none}, series: newSeries(c.Bins),
	}
	for _, p := range c.Pools {
		f.pools = append(f.pools, &pool{Pool: p, held: emptyLine()})
	}
	for _, p := range f.pools {
		for range p.Replicas {
			f.open(f.spawn(p))
		}
	}
	f.seen = f.snapshot()
	return f, nil
}

// Now is the instant up to which the fleet was simulated.
func (f *Fleet) Now() engine.Picoseconds { return f.now }

// Offer brings a request to the fleet, which advances to its arrival. A request
// that is too long for an engine is counted as rejected, which is no error. One
// that would be more than MaxInFlight is refused: an *OverloadError, after which
// the fleet is as if it had only advanced.
func (f *Fleet) Offer(r Request) error {
	number := f.tally.offered + 1
	if f.over {
		return fmt.Errorf("request %d: the simulation is finished", number)
	}
	if err := r.check(number, f.now); err != nil {
		return err
	}
	tooLong, err := f.check(r, number)
	if err != nil {
		return err
	}
	f.until(r.At)
	if f.overload.most > 0 && tooLong == nil {
		if err := f.overload.admit(f); err != nil {
			return err
		}
	}
	f.tally.offered = number
	f.lastArrival = r.At
	f.isl.Add(int64(r.ISL), 1)
	f.asked.Add(int64(r.OSL), 1)
	o := Outcome{Number: number, ID: r.ID, ISL: r.ISL, OSL: r.OSL, At: r.At}
	if tooLong != nil {
		f.reject(o, tooLong)
		return nil
	}
	i := f.flights.take()
	f.flights.slots[i] = flight{Outcome: o, prefix: r.Prefix, replica: none, live: true}
	f.inFlight.change(f.now, 1)
	if wait := f.pools[0].Overhead + f.pools[0].PerToken*engine.Picoseconds(r.ISL); wait > 0 {
		f.handOff(i, sim.Plus(f.now, wait))
	} else {
		f.enter(i)
	}
	return nil
}

// check holds a request against the engines of all pools.
func (f *Fleet) check(r Request, number int64) (tooLong *sim.TooLongError, err error) {
	for _, p := range f.pools {
		if err := p.Engine.Check(p.request(uint64(number), r.ISL, r.OSL, r.Prefix)); err != nil {
			return asTooLong(err)
		}
	}
	return nil, nil
}

// asTooLong tells a request that is too long from one that makes no sense.
func asTooLong(err error) (*sim.TooLongError, error) {
	var long *sim.TooLongError
	if errors.As(err, &long) {
		return long, nil
	}
	return nil, err
}

// reject counts a request that no engine could hold.
func (f *Fleet) reject(o Outcome, why *sim.TooLongError) {
	f.tally.rejected++
	if f.longest == nil || why.PromptTokens+why.OutputTokens > f.longest.PromptTokens+f.longest.OutputTokens {
		f.longest = why
	}
	if f.done != nil {
		o.Status = Rejected
		f.done(o)
	}
}

// Advance simulates all that happens before an instant. What happens at it is
// still to come, so that an arrival at the same instant changes nothing of it.
func (f *Fleet) Advance(to engine.Picoseconds) error {
	if err := f.may("advance", to); err != nil {
		return err
	}
	f.until(to)
	return nil
}

// may refuses what comes too late.
func (f *Fleet) may(do string, at engine.Picoseconds) error {
	switch {
	case f.over:
		return fmt.Errorf("cannot %s: the simulation is finished", do)
	case at < f.now:
		return fmt.Errorf("cannot %s at %v: the fleet is at %v already", do, at.Duration(), f.now.Duration())
	case at == Forever:
		return fmt.Errorf("cannot %s at the end of time: virtual time reaches 106 days", do)
	}
	return nil
}

// Finish simulates until no request is left, or none can go on, or all that
// happens before a horizon (Forever = none): requests that are in the fleet
// then are counted as unfinished. Nothing can be offered any more.
func (f *Fleet) Finish(horizon engine.Picoseconds) error {
	if horizon != Forever || f.over {
		if err := f.may("finish", horizon); err != nil {
			return err
		}
	}
	for f.flights.n > 0 && f.nextInstant() < horizon {
		f.instant(f.nextInstant())
	}
	if f.flights.n > 0 && horizon != Forever {
		f.pass(horizon)
	}
	f.over = true
	for _, i := range f.where(func(*flight) bool { return true }) {
		f.tally.unfinished++
		f.give(i, Unfinished)
	}
	return nil
}

// where is the flights that a condition holds for, in order of their offers.
func (f *Fleet) where(holds func(*flight) bool) []int32 {
	var found []int32
	for i := range f.flights.slots {
		if x := &f.flights.slots[i]; x.live && holds(x) {
			found = append(found, int32(i))
		}
	}
	slices.SortFunc(found, func(a, b int32) int {
		return int(f.flights.slots[a].Number - f.flights.slots[b].Number)
	})
	return found
}

// finish counts a request that has all its tokens.
func (f *Fleet) finish(i int32) {
	x := &f.flights.slots[i]
	x.Last = f.now
	f.e2e.Add(int64(x.E2E()), 1)
	f.osl.Add(int64(x.OSL), 1)
	tpot := x.TPOT()
	if x.OSL > 1 {
		f.tpot.Add(int64(tpot), 1)
	}
	f.tally.finished++
	f.tally.tokens += int64(x.OSL)
	ttftMet := f.sla.TTFT == 0 || x.TTFT() <= engine.FromDuration(f.sla.TTFT)
	itlMet := f.sla.ITL == 0 || tpot <= engine.FromDuration(f.sla.ITL)
	if ttftMet {
		f.tally.metTTFT++
	}
	if itlMet {
		f.tally.metITL++
	}
	if ttftMet && itlMet {
		f.tally.metBoth++
		f.tally.goodTokens += int64(x.OSL)
	}
	f.give(i, Finished)
}

// give lets a flight out of the fleet.
func (f *Fleet) give(i int32, s Status) {
	x := &f.flights.slots[i]
	x.Status = s
	f.inFlight.change(f.now, -1)
	if f.done != nil {
		f.done(x.Outcome)
	}
	f.flights.release(i)
}
