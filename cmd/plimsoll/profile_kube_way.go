package main

import (
	"context"
	"errors"
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
			go f.cut(sending, before, stop)
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
func (f forwarded) cut(ctx context.Context, before int, stop context.CancelFunc) {
	tick := time.NewTicker(wayLook)
	defer tick.Stop()
	for f.way.Breaks() == before {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
	stop()
}
