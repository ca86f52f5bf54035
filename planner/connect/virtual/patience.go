package virtual

import "time"

// patience bounds the wait for an acknowledgement. It counts from when the
// decision was made, or first seen after a restart.
//
// (Dynamo's counts from the first later decision that it had to skip, by the
// wall clock, and so may start long after the decision and never end.)
type patience struct {
	id    int64
	since time.Time
}

// left is how much longer to wait for the acknowledgement of s; 0 where none is
// awaited, or the limit has passed. now comes from a monotonic clock.
func (p *patience) left(s Status, now time.Time, limit time.Duration) time.Duration {
	if !s.Pending() {
		*p = patience{}
		return 0
	}
	if p.since.IsZero() || p.id != s.ID {
		*p = patience{id: s.ID, since: now}
	}
	return max(0, limit-now.Sub(p.since))
}
