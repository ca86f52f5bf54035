package sweep

import (
	"context"

	"plimsoll/profile"
)

// hopeless is after how many repeats in a row that were disturbed too no load is repeated
// any more, until one was not disturbed: the machine is simply shared.
const hopeless = 3

// undividedly plays a load, and once more where others held the machine.
func (r *runner) undividedly(ctx context.Context, s *trial, play func() (profile.Point, []profile.Request, error)) (profile.Point, []profile.Request, error) {
	for repeated := false; ; {
		began := r.opts.Now()
		p, rs, err := play()
		p.Started, p.Elapsed = began, r.opts.Now().Sub(began)
		if err != nil || cutShort(ctx, s) || r.late(p.Elapsed) || !r.repeats(p.Machine, &repeated) {
			return p, rs, err
		}
		if err := r.discard(s, p, rs, p.Machine.Taken()); err != nil {
			return p, rs, err
		}
	}
}

// repeats reports whether a load is to be sent once more because others held the machine,
// and notes in repeated that it was.
func (r *runner) repeats(m *profile.Machine, repeated *bool) bool {
	switch {
	case !m.Contended():
		if m != nil {
			r.disturbed = 0
		}
		return false
	case *repeated:
		r.disturbed++
		return false
	}
	*repeated = r.disturbed < hopeless
	return *repeated
}
