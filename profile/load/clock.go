package load

import "time"

// clock gives monotonic instants since its epoch. No step of the wall clock
// moves them.
type clock struct {
	epoch time.Time
	wall  func(time.Time) int64 // Unix time in nanoseconds; nil: the machine's
}

func (k clock) now() time.Duration { return time.Since(k.epoch) }

// both gives an instant, and the wall clock's time at it in nanoseconds since
// 1970: what time.Now reads together.
func (k clock) both() (now time.Duration, wall int64) {
	t := time.Now()
	if k.wall != nil {
		return t.Sub(k.epoch), k.wall(t)
	}
	return t.Sub(k.epoch), t.UnixNano()
}

// stamp is when bytes came, and when they were read, on one clock. They are
// equal where only the reading is known.
type stamp struct{ at, read time.Duration }

// stampSlack is how far a kernel's stamp may seem to be outside its bounds
// before it is not believed: two readings of a clock are not one instant.
const stampSlack = 100 * time.Microsecond

// arrival is when bytes came that were read at the instant now and are of the
// given age by the wall clock. The age is off by as much as the wall clock was
// stepped since they came: they cannot have come after now, nor before low, at
// which the same connection was last read from or written to. Where the age says
// so it is not believed, and now is the best that is known.
//
// Each read compares the two clocks anew, so that a step spoils at most the ages
// of what was under way, and those within its bounds.
func arrival(now, low, age time.Duration) time.Duration {
	at := now - age
	if at > now+stampSlack || at < low-stampSlack {
		return max(now, low)
	}
	return max(min(at, now), low)
}
