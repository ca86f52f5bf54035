package load

import (
	"slices"
	"time"

	"plimsoll/profile"
)

// Quality is how well the client kept to the workload and how finely the
// stream came: what to look at before believing the latencies. All of it can
// be recomputed from the records.
type Quality struct {
	StartSkew time.Duration // between the first and the last send of those due first
	LateP99   time.Duration // Sent − Due, over all requests that went out

	// Coalesced is the fraction of gaps between content chunks that are 0
	// because one read brought both; it is over successful requests.
	Coalesced float64
}

// Assess judges the records of one Measure.
func Assess(rs []profile.Request) Quality {
	var q Quality
	var late, first []time.Duration
	start := time.Duration(-1)
	var gaps, zero int
	for _, r := range rs {
		if r.Sent > 0 {
			late = append(late, r.Sent-r.Due)
			switch {
			case start < 0 || r.Due < start:
				start, first = r.Due, append(first[:0], r.Sent)
			case r.Due == start:
				first = append(first, r.Sent)
			}
		}
		if !r.OK() || len(r.Chunks) == 0 {
			continue
		}
		for i := range r.Chunks[1:] {
			gaps++
			if r.Chunks[i+1].At == r.Chunks[i].At {
				zero++
			}
		}
	}
	if len(late) > 0 {
		q.LateP99 = profile.Describe(late).P99
		q.StartSkew = slices.Max(first) - slices.Min(first)
	}
	q.Coalesced = ratio(zero, gaps)
	return q
}

// Freed moves Due of requests that waited for the limit of requests in flight to when they
// could be sent, so that this wait does not count as lateness. Requests are sent in order.
func Freed(rs []profile.Request, most int) []profile.Request {
	if most == 0 {
		return rs
	}
	var ends []time.Duration // of those in flight, rising
	rs = slices.Clone(rs)
	for i, r := range rs {
		if r.Sent == 0 {
			continue
		}
		if len(ends) >= most {
			rs[i].Due, ends = max(r.Due, ends[0]), ends[1:]
		}
		at, _ := slices.BinarySearch(ends, r.End)
		ends = slices.Insert(ends, at, r.End)
	}
	return rs
}

func ratio(a, b int) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// Bounds beyond which Quality warns. They are measures of the client's part in
// the numbers: a lateness of 5 ms is beyond what a healthy machine shows.
const (
	maxCoalesced = 0.05
	maxLate      = 5 * time.Millisecond
)

// Warnings says what of q puts the latencies in doubt.
func (q Quality) Warnings() []profile.Warning {
	var ws []profile.Warning
	if q.Coalesced > maxCoalesced {
		ws = append(ws, profile.Warnf("coalesced",
			"%.0f %% of chunks came together with the one before. A proxy buffers the stream, or this machine is overloaded", 100*q.Coalesced).By(q.Coalesced))
	}
	if q.LateP99 > maxLate {
		ws = append(ws, profile.Warnf("client_late",
			"1 %% of requests were sent at least %v late. This machine is overloaded, or connecting is slow", q.LateP99.Round(10*time.Microsecond)).By(q.LateP99.Seconds()))
	}
	return ws
}
