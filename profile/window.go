package profile

import (
	"math"
	"time"
)

// Window is the part of a measurement that is summed up.
type Window struct {
	From, To time.Duration
}

// Length is To − From.
func (w Window) Length() time.Duration { return w.To - w.From }

func (w Window) holds(t time.Duration) bool { return t >= w.From && t <= w.To }

// Steady is the window in which every successful request streams and nothing is
// left of the start: from the latest first token to the earliest last one, out
// to the ends of the engine steps that these are in, without a transient at its
// beginning (settled). It is false where there is no such instant, so that
// ramp-up and ramp-down never count as load. Of a record that is a part (Before)
// its chunks are the part.
func Steady(rs []Request) (Window, bool) {
	w := Window{To: math.MaxInt64}
	n := 0
	for _, r := range rs {
		if !r.OK() {
			continue
		}
		n++
		from, to := streamed(r)
		w.From, w.To = max(w.From, from), min(w.To, to)
	}
	if n == 0 || w.From <= 0 || w.From >= w.To {
		return w, false
	}
	w = wholeSteps(rs, w)
	w.From = settled(rs, w)
	return w, true
}

// streamed is from the first to the last chunk of what a record holds.
func streamed(r Request) (from, to time.Duration) {
	from, to = r.First, r.Last
	if n := len(r.Chunks); n > 0 && (r.Before > 0 || from == 0) {
		from = r.Chunks[0].At
	}
	if n := len(r.Chunks); n > 0 && to == 0 {
		to = r.Chunks[n-1].At
	}
	return from, to
}

// wholeSteps extends w to all arrivals of the steps that it begins and ends in:
// cut through a step, it would hold those that came early or those that came
// late.
func wholeSteps(rs []Request, w Window) Window {
	var sum, count time.Duration
	for _, r := range rs {
		for i := 1; i < len(r.Chunks); i++ {
			if w.holds(r.Chunks[i].At) {
				sum, count = sum+r.Chunks[i].At-r.Chunks[i-1].At, count+1
			}
		}
	}
	reach := 2*sum/max(count, 1) + 1 // far enough to see the steps at the edges
	around := Window{From: w.From - reach, To: w.To + reach}
	streams := gather(rs, around)
	out, end := w, time.Duration(math.MaxInt64)
	for _, at := range stepStarts(streams) {
		if at <= w.From {
			out.From = at
		} else if at > w.To {
			end = min(end, at)
		}
	}
	for _, s := range streams {
		for _, at := range s {
			if at > out.To && at < end {
				out.To = at
			}
		}
	}
	return out
}

// gather is what each successful request brought inside w.
func gather(rs []Request, w Window) [][]time.Duration {
	var streams [][]time.Duration
	for _, r := range rs {
		if at, _ := inside(r, w); r.OK() && len(at) > 0 {
			streams = append(streams, at)
		}
	}
	return streams
}
