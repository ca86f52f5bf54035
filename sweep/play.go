package sweep

import (
	"context"
	"fmt"
	"slices"

	"plimsoll/profile"
)

// play loads the trial's engine, whole again where something came between that was
// neither its doing nor the load's, at most attempts times. Each time judge gives
// who may end it; nil = nobody may.
func (r *runner) play(ctx context.Context, s *trial, script profile.Script, judge func() func(profile.Request) bool) (Measurement, error) {
	for i := 1; ; i++ {
		var stop func(profile.Request) bool
		if judge != nil {
			stop = judge()
		}
		began := r.opts.Now()
		m, err := s.inst.Play(ctx, s.unseen(script), stop)
		r.book.count(s, m.Requests)
		switch {
		case err != nil || ctx.Err() != nil:
			return m, err
		case m.Void == "":
			return m, nil
		}
		p := profile.Point{Requests: len(m.Requests), Invalid: m.Void, Warnings: m.Warnings, Client: m.Client, Started: began, Elapsed: r.opts.Now().Sub(began)}
		if err := r.discard(s, p, m.Requests, m.Void); err != nil {
			return m, err
		}
		if i == attempts {
			return m, fmt.Errorf("%s in each of %d loads", m.Void, i)
		}
	}
}

// unseen makes the prompts of a script new to the engine's prefix cache, which may
// hold them from another load, or from the same where fewer are given than there are
// requests: a script that is sent again has others, and where TTFT counts a few tokens
// before each that was given differ from all others. Those that requests share are to be there.
func (s *trial) unseen(script profile.Script) profile.Script {
	if slices.ContainsFunc(script.Asks, func(a profile.Ask) bool { return a.Shared > 0 }) {
		return script
	}
	if s.sent == nil {
		s.sent = map[uint64]uint64{}
	}
	before := s.sent[script.Seed]
	s.sent[script.Seed]++
	script.Seed += before
	if s.phase == profile.Decode {
		return script
	}
	script.Asks = slices.Clone(script.Asks)
	for i, a := range script.Asks {
		if a.Prompt != "" {
			script.Asks[i].Prompt = fmt.Sprintf("%016x-%d ", script.Seed, i) + a.Prompt
		}
	}
	return script
}
