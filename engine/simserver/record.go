package simserver

import (
	"cmp"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/sim"
)

// Record is what a request went through on the server's own timeline, in
// picoseconds since the server was made (within 106 days): the instants at
// which steps should have started and ended, not those at which this machine
// got round to them. A sim.Engine of the same configuration, to which the
// requests are given at Queued, in order of ID where that is equal, and from
// which canceled ones are taken back at Last, before its next step, gives
// exactly the same First and Last as long as Resyncs is 0.
type Record struct {
	Request      sim.Request
	CachedTokens int                // prompt tokens that the prefix cache held
	Arrived      engine.Picoseconds // at the server
	Queued       engine.Picoseconds // in the engine: Options.Overhead and Transfer after Arrived, or later where it was not read before the step that began then
	First        engine.Picoseconds // end of the step that gave the first token; 0 = there was none
	Last         engine.Picoseconds // of the one that gave the last token, or before the next of which it was canceled
	Canceled     bool               // the client went away; with tokens out, CachedTokens holds, otherwise it is 0
	// Resyncs is how often the server had ended a step more than a second late
	// and let its timeline begin anew at the clock's time.
	Resyncs int
}

// note takes down the first and last tokens that came out at an instant; an
// event that is neither is a cancelation.
func (d *driver) note(events []sim.Event, at instant) {
	if d.record == nil {
		return
	}
	for _, ev := range events {
		st := d.streams[ev.ID]
		if ev.First {
			st.first = at.since(d.epoch)
		}
		if ev.First && !ev.Last {
			continue
		}
		d.record(Record{
			Request: st.req, CachedTokens: ev.CachedTokens,
			Arrived: instant{at: st.arrived}.since(d.epoch),
			Queued:  st.queued.since(d.epoch),
			First:   st.first, Last: at.since(d.epoch),
			Canceled: !ev.Last,
			Resyncs:  d.resyncs,
		})
	}
}

// instant is a point of the timeline. It is as exact as virtual time, which a
// time.Time is not, and has its reach.
type instant struct {
	at time.Time
	ps engine.Picoseconds // after at; less than a nanosecond
}

func (i instant) add(d engine.Picoseconds) instant {
	i.ps += d % engine.Nanosecond
	whole := d/engine.Nanosecond + i.ps/engine.Nanosecond
	return instant{i.at.Add(time.Duration(whole)), i.ps % engine.Nanosecond}
}

// compare is negative where i is before j, positive where it is after.
func (i instant) compare(j instant) int {
	return cmp.Or(i.at.Compare(j.at), cmp.Compare(i.ps, j.ps))
}

func (i instant) after(j instant) bool { return i.compare(j) > 0 }

// since is the span from an instant that is not later.
func (i instant) since(t time.Time) engine.Picoseconds {
	const most = engine.Picoseconds(1<<63 - 1)
	d := engine.FromDuration(i.at.Sub(t))
	return d + min(i.ps, most-d)
}
