package sweep

import (
	"context"
	"time"

	"plimsoll/profile"
)

// prefillSlices measures a prefill point in slices until its interval is tight
// enough, the first of n requests at most. An engine that was warmed up
// by prompts of this length needs no more of it, by those of another one.
func (r *runner) prefillSlices(ctx context.Context, s *trial, id string, stage profile.Stage, isl, n int) (profile.Point, []profile.Request, error) {
	w := r.prompts(id, s.cfg, isl)
	warm := w
	if warm.Requests = r.opts.PrefillWarmups; s.warm == isl {
		warm.Requests = 0
	} else if s.warm > 0 {
		warm.Requests = min(1, warm.Requests)
	}
	if err := r.warmUp(ctx, s, warm); err != nil {
		return profile.Point{}, nil, err
	}
	s.warm = isl
	first := n
	switch {
	case stage == profile.StageSweep && r.opts.SLA.Stat == profile.Mean:
		first = min(n, fewestPrompts)
	case stage == profile.StageSweep:
		first = max(fewestPrompts, r.opts.percentileSlice())
	}
	return r.inSlices(ctx, s, w, stage, first*w.InFlight)
}

// fewestPrompts are the requests of the first slice of a prefill point whose mean
// counts: 3 to 36 in all.
const fewestPrompts = 3

func (r *runner) inSlices(ctx context.Context, s *trial, w profile.Workload, stage profile.Stage, first int) (p profile.Point, _ []profile.Request, err error) {
	var all Measurement
	began := r.opts.Now()
	taken, tries := 0, attempts
	for _, k := range looks {
		w.Requests = k * first
		var m Measurement
		p, m, err = r.undisturbed(ctx, s, w, all, tries, func(m Measurement) profile.Point { return summarizePrefill(m, s.cfg, w.InFlight) })
		all = after(all, m)
		p.Machine, p.Server = all.Machine, all.Server
		p.ISL, p.OSL, p.Stage, p.Phase = w.ISL, 1, stage, profile.Prefill
		p.Warnings = profile.JoinWarnings(p.Warnings, all.Warnings)
		taken += k
		if err != nil || cutShort(ctx, s) || r.enough(p) || stalled(p) || tooNoisy(p, taken) || stage == profile.StageSurface && r.hogs(began) {
			break
		}
		if stage == profile.StageSurface { // larger slices of an engine that stalls take too long to repeat
			tries = 1
		}
	}
	return p, all.Requests, err
}

// hogShare is the part of the time left that one point of a surface may take for precision:
// a surface of few precise points is worth less than one of many.
const hogShare = 10

// hogs reports whether a point that began then has taken its part of the time until the
// deadline.
func (r *runner) hogs(began time.Time) bool {
	return !r.opts.Deadline.IsZero() && r.opts.Now().Sub(began) > r.opts.Deadline.Sub(began)/hogShare
}
