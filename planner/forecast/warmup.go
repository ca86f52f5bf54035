package forecast

import (
	"fmt"
	"time"

	"plimsoll/profile/trace"
)

// maxIntervals bounds what a trace is cut into.
const maxIntervals = 1_000_000

// Interval is what arrived during one interval of a trace.
type Interval struct {
	Requests float64 // 0 where none did
	ISL, OSL float64 // means in tokens; NaN where none did
}

// Intervals cuts a trace of requests, from its beginning, into intervals to warm
// predictors up with. An interval without requests has none: a trace lists all
// that arrived. The last interval is left out, since the trace may end within it.
// It fails where the trace does, for an interval of 0 or less, and beyond
// 1,000,000 intervals.
func Intervals(t trace.Trace, length time.Duration) ([]Interval, error) {
	if length <= 0 {
		return nil, fmt.Errorf("interval is %v: want more than 0", length)
	}
	var all []Interval
	for a, err := range t {
		if err != nil {
			return nil, err
		}
		i := int(a.At / length)
		if i >= maxIntervals {
			return nil, fmt.Errorf("arrival at %v: more than %d intervals of %v (hint: a longer interval, or a part of the trace)", a.At, maxIntervals, length)
		}
		for len(all) <= i {
			all = append(all, Interval{})
		}
		all[i].Requests++
		all[i].ISL += float64(a.ISL)
		all[i].OSL += float64(a.OSL)
	}
	for i := range all {
		all[i].ISL /= all[i].Requests // NaN where none arrived
		all[i].OSL /= all[i].Requests
	}
	return all[:max(0, len(all)-1)], nil
}
