package virtual

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/profile"
)

// Play runs a script to its end, or until stop, asked after each request that
// ended, says that it may end: what is not finished then is marked canceled, as
// when ctx ends. A text is as many tokens as the script says; equal texts are
// one prompt to the prefix cache.
func (e *Engine) Play(ctx context.Context, s profile.Script, stop func(profile.Request) bool) (Measurement, error) {
	if len(s.Asks) == 0 {
		return Measurement{}, errors.New("script: no requests: want at least 1")
	}
	last := time.Duration(0)
	for i, a := range s.Asks {
		switch {
		case a.ISL < 1 || a.OSL < 1:
			return Measurement{}, fmt.Errorf("script: request %d: ISL %d and OSL %d: want at least 1 token each", i, a.ISL, a.OSL)
		case a.Due < last:
			return Measurement{}, fmt.Errorf("script: request %d is due at %v, before the one that precedes it", i, a.Due)
		}
		last = a.Due
	}
	l := e.begin(profile.Workload{Requests: len(s.Asks), Seed: s.Seed, Warmup: s.Warmup, Timeout: s.Timeout})
	fresh := l.prompt
	l.prompt = func(i int) uint64 { return scriptPrompt(s, i, fresh) }
	l.stop, l.transferred = stop, s.Transferred
	for i, a := range s.Asks {
		r := &l.records[i]
		r.ISL, r.OSL, r.Due = a.ISL, a.OSL, (lead + engine.FromDuration(a.Due)).Duration()
	}
	first := len(s.Asks)
	if s.MaxInFlight > 0 {
		first = min(first, s.MaxInFlight)
	}
	for _, r := range l.records[:first] {
		l.send(engine.FromDuration(r.Due))
	}
	l.run(ctx)
	e.elapsed += max(l.now-lead, 0)
	return Measurement{Requests: l.records, Running: l.running}, nil
}

// scriptPrompt decides the prompt of request i.
func scriptPrompt(s profile.Script, i int, fresh func(int) uint64) uint64 {
	a := s.Asks[i]
	switch {
	case a.Prompt != "":
		h := fnv.New64a()
		_, _ = h.Write([]byte(a.Prompt)) // a hash takes everything
		return h.Sum64()
	case a.Shared > 0:
		w := profile.Workload{ISL: a.ISL, Seed: s.Seed, SharedPrompts: true}
		return promptSeed(w) + uint64(a.Shared-1) //nolint:gosec // above 0
	}
	return sim.Mix(sim.Mix(fresh(i), 0), uint64(a.ISL)) //nolint:gosec // not negative
}
