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
	Sent     int // requests that went out
	Failures int // records with a failure, unsent ones included

	StartSkew time.Duration // between the first and the last send of those due first
	LateP50   time.Duration // Sent − Due, over all requests that went out
	LateP99   time.Duration
	LateMax   time.Duration

	// Coalesced is the fraction of gaps between content chunks that are 0
	// because one read brought both; it is over successful requests, as is
	// TokensPerChunk, the output tokens for each content chunk.
	Coalesced      float64
	TokensPerChunk float64
}

// Assess judges the records of one Measure.
func Assess(rs []profile.Request) Quality {
	var q Quality
	var late, first []time.Duration
	start := time.Duration(-1)
	var gaps, zero, chunks, tokens int
	for _, r := range rs {
		if !r.OK() {
			q.Failures++
		}
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
		chunks += len(r.Chunks)
		tokens += r.OutputTokens - r.Before
		for i := range r.Chunks[1:] {
			gaps++
			if r.Chunks[i+1].At == r.Chunks[i].At {
				zero++
			}
		}
	}
	q.Sent = len(late)
	if q.Sent > 0 {
		d := profile.Describe(late)
		q.LateP50, q.LateP99, q.LateMax = d.P50, d.P99, d.Max
		q.StartSkew = slices.Max(first) - slices.Min(first)
	}
	q.Coalesced, q.TokensPerChunk = ratio(zero, gaps), ratio(tokens, chunks)
	return q
}

func ratio(a, b int) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

// Bounds beyond which Quality warns. They are measures of the client's part in
// the numbers: 1.05 tokens per chunk is where chunk gaps and token gaps part
// by 5 %; a lateness of 5 ms is beyond what a healthy machine shows.
const (
	maxTokensPerChunk = 1.05
	maxCoalesced      = 0.05
	maxLate           = 5 * time.Millisecond
)

// Warnings says what of q puts the latencies in doubt. (Chunks of several tokens
// are profile.Summarize's to warn of.)
func (q Quality) Warnings() []profile.Warning {
	var ws []profile.Warning
	if q.Coalesced > maxCoalesced {
		ws = append(ws, profile.Warnf("coalesced",
			"%.0f %% of chunks came together with the one before: the stream is buffered on its way, or the client is overloaded", 100*q.Coalesced).By(q.Coalesced))
	}
	if q.LateP99 > maxLate {
		ws = append(ws, profile.Warnf("client_late",
			"1 %% of requests were sent %v or more after they were due: the client is overloaded, or connecting is slow", q.LateP99.Round(10*time.Microsecond)).By(q.LateP99.Seconds()))
	}
	return ws
}
