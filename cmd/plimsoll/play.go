package main

import (
	"context"
	"fmt"

	"plimsoll/profile"
	"plimsoll/profile/load"
	"plimsoll/sweep"
)

// play implements sweep.Instance's Play over HTTP. The load ends with the engine.
func (m measurer) play(ctx context.Context, s profile.Script, stop func(profile.Request) bool) (sweep.Measurement, error) {
	sending, cancel := m.untilEnd(ctx)
	defer cancel()
	guarded, end := m.guard(sending, len(s.Asks))
	defer end()
	before := m.now(ctx)
	taken := m.meter.Begin()
	rs, self, err := m.client.Play(guarded, s, stop)
	held := machine(taken())
	m.base() // nobody asks what these records count from
	m.waitIfBroken(ctx, rs)
	later := m.now(ctx)
	return sweep.Measurement{
		Requests: rs, Warnings: load.Assess(load.Freed(rs, s.MaxInFlight)).Warnings(), Client: &self, Machine: held,
		Cached: cachedShare(before, later, rs), Server: counted(before, later, rs),
	}, err
}

// play is the same in virtual time.
func (m virtualMeasurer) play(ctx context.Context, s profile.Script, stop func(profile.Request) bool) (sweep.Measurement, error) {
	got, err := m.engine.Play(ctx, s, stop)
	if err != nil {
		return sweep.Measurement{}, fmt.Errorf("playing a load: %w", err)
	}
	return sweep.Measurement{Requests: got.Requests}, nil
}
