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
	sending, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-m.ended:
			cancel()
		case <-sending.Done():
		}
	}()
	guarded, end := m.stop.guard(sending, profile.Workload{Requests: len(s.Asks)})
	defer end()
	rs, self, err := m.client.PlayWatched(guarded, s, stop)
	m.base() // nobody asks what these records count from
	if brokeOff(rs) && m.ended != nil {
		waitEnd(ctx, m.ended)
	}
	return sweep.Measurement{Requests: rs, Warnings: load.Assess(rs).Warnings(), Client: &self}, err
}

// brokeOff reports whether connections broke, as those of an engine that ends do.
func brokeOff(rs []profile.Request) bool {
	for _, r := range rs {
		if r.Failure == profile.FailConnect || r.Failure == profile.FailMalformed {
			return true
		}
	}
	return false
}

// play is the same in virtual time.
func (m virtualMeasurer) play(ctx context.Context, s profile.Script, stop func(profile.Request) bool) (sweep.Measurement, error) {
	got, err := m.engine.Play(ctx, s, stop)
	if err != nil {
		return sweep.Measurement{}, fmt.Errorf("playing a load: %w", err)
	}
	return sweep.Measurement{Requests: got.Requests}, nil
}
