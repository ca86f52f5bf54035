package sweep

import (
	"slices"
	"time"

	"plimsoll/profile"
)

// after is two measurements of requests of their own, the second as if it had
// begun when the first ended.
func after(a, b Measurement) Measurement {
	if len(a.Requests) == 0 {
		return b
	}
	end := profile.Whole(a.Requests).To
	a.Cached = together(a, b)
	for _, r := range b.Requests {
		r.Index += len(a.Requests)
		a.Requests = append(a.Requests, shifted(r, end))
	}
	for _, c := range b.Running {
		c.At += end
		a.Running = append(a.Running, c)
	}
	a.Warnings = profile.JoinWarnings(a.Warnings, b.Warnings)
	a.Client, a.Machine, a.Server = worse(a.Client, b.Client), a.Machine.With(b.Machine), a.Server.With(b.Server)
	return a
}

// together is the share of the prompts of both that came from the prefix cache; nil where
// it is not known of one.
func together(a, b Measurement) *float64 {
	if a.Cached == nil || b.Cached == nil {
		return nil
	}
	n, m := float64(len(a.Requests)), float64(len(b.Requests)) // of one length
	share := (n**a.Cached + m**b.Cached) / (n + m)
	return &share
}

// shifted is a record whose instants are all later by d; what did not happen
// still did not.
func shifted(r profile.Request, d time.Duration) profile.Request {
	for _, t := range []*time.Duration{&r.Due, &r.Sent, &r.Header, &r.First, &r.Last, &r.End} {
		if *t != 0 {
			*t += d
		}
	}
	r.Chunks = slices.Clone(r.Chunks)
	for i := range r.Chunks {
		c := &r.Chunks[i]
		if c.At += d; c.Read != 0 {
			c.Read += d
		}
	}
	return r
}

// onward is two windows of the same number of streams, as if the second had
// begun with the chunk that ended the first: what passed between them is cut out
// for each stream, so that no gap spans it. The streams may be others.
func onward(a, b Measurement) Measurement {
	if len(a.Requests) == 0 {
		return b
	}
	moved := a.Window.To - b.Window.From
	rs := slices.Clone(a.Requests)
	for i := range min(len(rs), len(b.Requests)) {
		rs[i] = continued(rs[i], b.Requests[i])
	}
	a.Requests, a.Running = rs, slices.Clone(a.Running)
	for _, c := range b.Running {
		c.At += moved
		a.Running = append(a.Running, c)
	}
	a.Window.To += b.Window.Length()
	a.Warnings = profile.JoinWarnings(a.Warnings, b.Warnings)
	a.Client, a.Machine, a.Server = worse(a.Client, b.Client), a.Machine.With(b.Machine), a.Server.With(b.Server)
	return a
}

// continued is the record of a stream's window with that of a later one.
func continued(a, b profile.Request) profile.Request {
	if !b.OK() || len(a.Chunks) == 0 || len(b.Chunks) == 0 {
		if a.OK() {
			a.Failure, a.Error = b.Failure, b.Error
		}
		return a
	}
	b = shifted(b, a.Chunks[len(a.Chunks)-1].At-b.Chunks[0].At)
	a.Chunks = append(slices.Clone(a.Chunks), b.Chunks[1:]...)
	a.OutputTokens += laterTokens(b)
	a.Last = a.Chunks[len(a.Chunks)-1].At
	return a
}

// laterTokens is how many tokens the chunks of a part hold but for its first one,
// where all hold about as many.
func laterTokens(r profile.Request) int {
	n := len(r.Chunks)
	fresh := max(0, r.OutputTokens-r.Before)
	return (fresh*(n-1) + n/2) / n
}

// worse is what the client says of two measurements together: of the one that it
// spoilt, otherwise of the longer part.
func worse(a, b *profile.Client) *profile.Client {
	if a == nil || b != nil && (!b.OK() || a.OK() && b.Lag.N > a.Lag.N) {
		return b
	}
	return a
}
