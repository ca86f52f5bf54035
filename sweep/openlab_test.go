package sweep

import (
	"cmp"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"plimsoll/profile"
)

// play is an engine that takes prompts one after the other, and decodes with the
// ITL of as many as are under way.
func (v *virtual) play(_ context.Context, s profile.Script, stop func(profile.Request) bool) (Measurement, error) {
	var m Measurement
	if v.law.doubt != "" {
		m.Warnings = []profile.Warning{{Code: "doubt", Message: v.law.doubt}}
	}
	var free time.Duration
	var ends, under []time.Duration // of all, and of those under way
	stopped := false
	v.lab.plays++
	if v.law.diesAtPlay > 0 && v.lab.plays >= v.law.diesAtPlay {
		v.died = errors.New("exit code 137")
	}
	if v.law.places > 0 {
		return v.playPlaces(s, stop), nil
	}
	for i, a := range s.Asks {
		due := time.Millisecond + a.Due
		r := profile.Request{Index: i, ISL: a.ISL, OSL: a.OSL, Due: due, CachedTokens: -1}
		if stopped {
			r.Failure = profile.FailCanceled
			m.Requests = append(m.Requests, r)
			continue
		}
		start, gate := max(due, free), due
		if s.MaxInFlight == 1 && i > 0 {
			start = max(start, ends[i-1])
		}
		if most := s.MaxInFlight; v.law.caps && most > 1 && len(ends) >= most {
			last := slices.Clone(ends)
			slices.Sort(last)
			gate = max(due, last[len(last)-most])
			start = max(start, gate)
		}
		first := v.law.ttft(a.ISL)
		known := a.Shared > 0 && !v.law.forgets || v.law.keeps && v.kept[s.Seed]
		if r.CachedTokens = 0; known {
			first, r.CachedTokens = ms, a.ISL
		}
		r.Sent, r.First = max(due, min(start, due+ms)), start+first
		if s.MaxInFlight == 1 {
			r.Sent = start
		} else if v.law.caps {
			r.Sent = gate
		}
		free = r.First
		under = slices.DeleteFunc(under, func(e time.Duration) bool { return e <= r.First }) // first tokens come in order
		n := 1 + len(under)
		gap := time.Duration(float64(v.law.itl(n, float64(a.ISL)+float64(a.OSL)/2)) * v.law.loaded())
		for k := range a.OSL {
			r.Chunks = append(r.Chunks, profile.Chunk{At: r.First + time.Duration(k)*gap})
		}
		r.Last = r.Chunks[a.OSL-1].At
		r.End, r.PromptTokens, r.OutputTokens, r.UsageSeen = r.Last, a.ISL, a.OSL, true
		if v.law.context > 0 && a.ISL+a.OSL > v.law.context {
			r.Failure = profile.FailStatus
		}
		ends, under = append(ends, r.End), append(under, r.End)
		m.Requests = append(m.Requests, r)
		v.lab.now = v.lab.now.Add(max(0, r.End-v.lab.played))
		v.lab.played = max(v.lab.played, r.End)
		stopped = stop != nil && stop(r)
	}
	if from, to := v.law.busyPlays[0], v.law.busyPlays[1]; from <= v.lab.plays && v.lab.plays < to {
		m.Client = &profile.Client{Why: "no processor time"}
	}
	if n := len(s.Asks) - 1; v.law.busyAbove > 0 && float64(n) > v.law.busyAbove*s.Asks[n].Due.Seconds() && s.MaxInFlight != 1 {
		m.Client = &profile.Client{Why: "no processor time"}
	}
	if v.kept == nil {
		v.kept = map[uint64]bool{}
	}
	v.kept[s.Seed] = true
	v.lab.played = 0
	if v.lab.plays <= v.law.voids {
		m.Void = "the way broke"
	}
	return m, nil
}

// loaded is by how much slower the engine decodes under load than it was
// measured to.
func (l law) loaded() float64 { return 1 + l.slower }

// poisson is Traffic of one length.
func poisson(isl, osl int) func(float64, int, uint64) ([]profile.Ask, error) {
	return func(rate float64, n int, seed uint64) ([]profile.Ask, error) {
		rng := rand.New(rand.NewPCG(seed, 1))
		t, asks := 0.0, make([]profile.Ask, n)
		for i := range asks {
			asks[i] = profile.Ask{Due: time.Duration(t / rate * 1e9), ISL: isl, OSL: osl}
			t += rng.ExpFloat64()
		}
		return asks, nil
	}
}

// playPlaces is a server with so many places, in each of which a request takes as long as
// alone. Clients have at most MaxInFlight under way.
func (v *virtual) playPlaces(s profile.Script, stop func(profile.Request) bool) Measurement {
	gap := v.law.itl(1, 0)
	free := make([]time.Duration, v.law.places) // when each place is
	var sent []time.Duration                    // ends of those under way, as the client sees them
	rs := make([]profile.Request, len(s.Asks))
	for i, a := range s.Asks {
		due := time.Millisecond + a.Due
		at := due
		if most := s.MaxInFlight; most > 0 && len(sent) >= most {
			slices.Sort(sent)
			at, sent = max(at, sent[0]), sent[1:]
		}
		k := 0
		for j := range free {
			if free[j] < free[k] {
				k = j
			}
		}
		if v.law.refuses && free[k] > at || v.law.fails > 0 && v.lab.random.Float64() < v.law.fails {
			sent, rs[i] = append(sent, at), profile.Request{Index: i, ISL: a.ISL, OSL: a.OSL, Due: due, Sent: at, End: at, Failure: profile.FailStatus}
			continue
		}
		first := max(at, free[k]) + v.law.ttft(a.ISL)
		r := profile.Request{Index: i, ISL: a.ISL, OSL: a.OSL, Due: due, Sent: at, First: first, PromptTokens: a.ISL, OutputTokens: a.OSL, UsageSeen: true}
		for n := range a.OSL {
			r.Chunks = append(r.Chunks, profile.Chunk{At: first + time.Duration(n)*gap})
		}
		r.Last = r.Chunks[a.OSL-1].At
		r.End, free[k] = r.Last, r.Last
		sent, rs[i] = append(sent, r.End), r
	}
	order := make([]int, len(rs))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(rs[a].End, rs[b].End) })
	end := time.Duration(math.MaxInt64)
	for _, i := range order {
		if stop != nil && stop(rs[i]) {
			end = rs[i].End
			break
		}
	}
	last := time.Duration(0)
	for i := range rs {
		r := &rs[i]
		switch {
		case r.End <= end:
		case r.Sent > end:
			*r = profile.Request{Index: i, ISL: r.ISL, OSL: r.OSL, Due: r.Due, Failure: profile.FailCanceled}
		default:
			if r.Failure, r.End = profile.FailCanceled, end; r.First > end {
				r.First, r.Last, r.Chunks = 0, 0, nil
			}
		}
		last = max(last, r.End)
	}
	v.lab.now = v.lab.now.Add(last)
	return Measurement{Requests: rs}
}
