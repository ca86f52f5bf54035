package virtual

import (
	"testing"
	"time"
)

// Dynamo's wait began with the first later decision, however late, and a
// decision skipped long ago could end the wait for another at once.
func TestDynamoUnboundedFirstSkip(t *testing.T) {
	start := time.Date(2026, 8, 21, 12, 0, 0, 0, time.UTC)
	at := func(m int) time.Time { return start.Add(time.Duration(m) * time.Minute) }
	waiting := func(id int64) Status { return Status{Decision{1, 1, id}, id - 1} }
	done := func(id int64) Status { return Status{Decision{1, 1, id}, id} }
	const limit = 30 * time.Minute
	var p patience
	for _, step := range []struct {
		name   string
		status Status
		minute int
		want   time.Duration
	}{
		{"nothing decided", Status{Decision{None, None, None}, None}, 0, 0},
		{"decided", waiting(4), 1, limit},
		{"29 minutes later, the first that asks", waiting(4), 30, time.Minute},
		{"its time is over", waiting(4), 31, 0},
		{"and stays so", waiting(4), 500, 0},
		{"the next has its own", waiting(5), 501, limit},
		{"acknowledged", done(5), 510, 0},
		{"the next is not counted from the last", waiting(6), 540, limit},
		{"a clock that goes back adds, and does not overflow", waiting(6), 539, 31 * time.Minute},
	} {
		if got := p.left(step.status, at(step.minute), limit); got != step.want {
			t.Errorf("%s: %v left, want %v", step.name, got, step.want)
		}
	}
}
