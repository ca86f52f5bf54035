package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"plimsoll/profile"
	"plimsoll/sweep"
)

// way leads to an engine, and may break.
type way interface {
	// Breaks is how often it broke so far.
	Breaks() int
	// Back returns once requests pass again, or with why they never will.
	Back(ctx context.Context) error
}

// forwarded is a Measurer over a port-forward.
type forwarded struct {
	sweep.Measurer
	way way
}

// wayTries is how often a load is sent over a way that breaks.
const wayTries = 3

// Measure implements sweep.Measurer. Requests on a way that breaks fail by the way,
// not by the engine: their load is sent again once the way is back.
func (f forwarded) Measure(ctx context.Context, w profile.Workload) (sweep.Measurement, error) {
	for try := 1; ; try++ {
		before := f.way.Breaks()
		sending, stop := context.WithCancel(ctx)
		if try < wayTries {
			go cut(sending, f.way, before, stop)
		}
		m, err := f.Measurer.Measure(sending, w)
		stop()
		broke := f.way.Breaks() > before
		switch {
		case broke && try == wayTries:
			m.Warnings = append(m.Warnings, profile.Warnf("port_forward_broken",
				"the port-forward broke in each of %d measurements: requests that were on it failed by the way, not by the engine", try))
		case !broke && try > 1:
			m.Warnings = append(m.Warnings, profile.Warnf("port_forward_broken", "measured %d times: the port-forward broke in the ones before", try))
		}
		if !broke || try == wayTries {
			return m, err
		}
		if back := f.way.Back(ctx); back != nil {
			return m, errors.Join(err, back)
		}
	}
}

// wayLook is how often a load looks whether its way broke.
const wayLook = 100 * time.Millisecond

// cut stops a load whose way broke: client-go holds what was under way for 30 s.
func cut(ctx context.Context, w way, before int, stop context.CancelFunc) {
	tick := time.NewTicker(wayLook)
	defer tick.Stop()
	for w.Breaks() == before {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
	stop()
}

// plays sends requests at instants of their own, as sweep.Instance's Play.
type plays func(context.Context, profile.Script, func(profile.Request) bool) (sweep.Measurement, error)

// forwardedPlay is play over a port-forward: a load under which it breaks is void,
// and another may be sent once it is back.
func forwardedPlay(play plays, w way) plays {
	return func(ctx context.Context, s profile.Script, stop func(profile.Request) bool) (sweep.Measurement, error) {
		before := w.Breaks()
		sending, end := context.WithCancel(ctx)
		go cut(sending, w, before, end)
		m, err := play(sending, s, stop)
		end()
		if w.Breaks() == before || ctx.Err() != nil {
			return m, err
		}
		if back := w.Back(ctx); back != nil {
			return m, errors.Join(err, back)
		}
		m.Void = "the port-forward broke" // which err, if any, is of
		return m, nil
	}
}

// climbs begins stairs.
type climbs func(context.Context, profile.Workload) (sweep.Stairs, error)

// forwardedStairs are stairs over a port-forward. Streams on one that breaks are
// gone; others are begun once it is back.
type forwardedStairs struct {
	sweep.Stairs
	way   way
	broke int // times since the last level that was had
}

// over is climb for stairs over f's way.
func (f *forwardedStairs) over(climb climbs) climbs {
	return func(ctx context.Context, w profile.Workload) (sweep.Stairs, error) {
		for try := 1; ; try++ {
			before := f.way.Breaks()
			s, err := climb(ctx, w)
			if err == nil {
				f.Stairs = s
				return f, nil
			}
			if f.way.Breaks() == before || try == wayTries {
				return nil, err
			}
			if back := f.way.Back(ctx); back != nil {
				return nil, errors.Join(err, back)
			}
		}
	}
}

// Level implements sweep.Stairs.
func (f *forwardedStairs) Level(ctx context.Context, n, tokens int) (sweep.Measurement, error) {
	before := f.way.Breaks()
	watched, stop := context.WithCancel(ctx)
	go cut(watched, f.way, before, stop)
	m, err := f.Stairs.Level(watched, n, tokens)
	stop()
	if f.way.Breaks() == before {
		if err == nil && m.Void == "" && f.broke > 0 {
			m.Warnings = append(m.Warnings, profile.Warnf("port_forward_broken", "measured %d times: the port-forward broke in the ones before", f.broke+1))
			f.broke = 0
		}
		return m, err
	}
	f.broke++
	if back := f.way.Back(ctx); back != nil {
		return m, errors.Join(err, back)
	}
	return m, fmt.Errorf("%w: the port-forward broke under them", profile.ErrGrown)
}
