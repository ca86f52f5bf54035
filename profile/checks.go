package profile

import (
	"fmt"
	"math"
	"time"

	"plimsoll/engine"
)

// The codes of what Summarize finds in records.
const (
	CodeFailures   = "failures"          // requests failed; they are in no figure
	CodeChunk      = "chunk_not_token"   // chunks of several tokens: gaps are not ITL
	CodeNoUsage    = "no_usage"          // token counts are the client's
	CodeUsage      = "usage_mismatch"    // fewer tokens by usage than chunks with content
	CodeTokenizer  = "prompt_mismatch"   // prompts of another length than asked for
	CodeLittle     = "littles_law"       // in flight is not rate times residence
	CodeOutOfOrder = "instants_disorder" // a record's instants do not follow each other
)

// Bounds of the checks. The lower ones warn; from the upper ones on a figure is
// wrong by a factor that no reader would forgive, and the point is invalid.
const (
	chunkShare    = 1.05 // tokens per chunk where chunk gaps and token gaps part by 5 %
	usageShare    = 0.98 // tokens per chunk below which usage and stream contradict each other
	usageWrong    = 0.80
	promptShare   = 0.02 // relative, of the mean prompt by usage to the one asked for
	promptWrong   = 0.10
	littleShare   = 0.05 // relative
	littleCount   = 20   // requests from which rate times residence means something
	PrefixShare   = 0.01 // of prompts that should be new, served from the prefix cache: TTFT is understated
	PrefixWrong   = 0.10
	PrefillUnskip = 0.90 // of what the cache can hold of prompts that should be in it, the least that is
)

// warnings holds the records against themselves.
func (s *Summary) warnings(rs, good []Request, w Window) {
	warn := func(degree float64, code, format string, args ...any) {
		s.Warnings = append(s.Warnings, Warnf(code, format, args...).By(degree))
	}
	if s.Failures > 0 {
		kinds, first := failureKinds(rs)
		warn(float64(s.Failures)/float64(s.Requests), CodeFailures, "%d of %s failed in %s; the first: %s", s.Failures, engine.Count(s.Requests, "request"), engine.Count(kinds, "way"), first)
	}
	if severalPerChunk(s.TokensPerChunk) {
		warn(s.TokensPerChunk, CodeChunk, "each streamed chunk holds %.2f tokens, so ITL is the gap between chunks. Use TPOT for the time per token", s.TokensPerChunk)
	}
	if n := withoutUsage(good); n > 0 {
		warn(0, CodeNoUsage, "the server sends no token counts. Each chunk counts as one output token, and the prompt length is unverified")
	}
	if per := usagePerChunk(good); per > 0 && per < usageShare {
		warn(1/per, CodeUsage, "the server counts %.2f tokens per chunk, but a chunk holds at least one. It counts with a tokenizer other than the engine's", per)
		if per < usageWrong {
			s.Invalid = fmt.Sprintf("the server counts %.2f tokens per chunk, so its token counts are wrong", per)
		}
	}
	if got, asked := promptLengths(good); asked > 0 && math.Abs(got/asked-1) > promptShare {
		warn(math.Abs(got/asked-1), CodeTokenizer, "the server counts %.0f tokens per prompt (requested: %.0f). Its tokenizer differs from the one used for the prompts", got, asked)
		if math.Abs(got/asked-1) > promptWrong {
			s.Invalid = fmt.Sprintf("prompts had %.0f tokens, not the requested %.0f", got, asked)
		}
	}
	if n := disordered(good); n > 0 {
		warn(float64(n), CodeOutOfOrder, "timestamps of %d records go backwards. The clock was changed, or chunks came out of order; measure again", n)
		s.Invalid = fmt.Sprintf("timestamps of %d records go backwards", n)
	}
	if expect := s.littlesLaw(good, w); expect > 0 && math.Abs(s.InFlight/expect-1) > littleShare {
		warn(math.Abs(s.InFlight/expect-1), CodeLittle, "%.1f requests were in flight, but rate × time in the system gives %.1f (Little's law). The load, or the engine's speed, was not steady", s.InFlight, expect)
	}
}

func failureKinds(rs []Request) (n int, first string) {
	kinds := map[Failure]bool{}
	for _, r := range rs {
		if r.OK() {
			continue
		}
		if kinds[r.Failure] = true; first == "" {
			first = string(r.Failure)
			if r.Error != "" {
				first += ": " + r.Error
			}
		}
	}
	return len(kinds), first
}

// isPart reports whether a record was cut out of a longer one, whose usage is
// still to come.
func isPart(r Request) bool { return r.Before > 0 || r.End == 0 }

func withoutUsage(rs []Request) (n int) {
	for _, r := range rs {
		if !r.UsageSeen && !isPart(r) {
			n++
		}
	}
	return n
}

// usagePerChunk is over the records whose usage is known; 0 where there are none.
func usagePerChunk(rs []Request) float64 {
	var tokens, chunks int
	for _, r := range rs {
		if r.UsageSeen {
			tokens, chunks = tokens+r.OutputTokens-r.Before, chunks+len(r.Chunks)
		}
	}
	return float64(tokens) / float64(max(chunks, 1))
}

// promptLengths are means over the records that say how long the prompt was.
func promptLengths(rs []Request) (got, asked float64) {
	n := 0.0
	for _, r := range rs {
		if r.PromptTokens > 0 && r.ISL > 0 {
			got, asked, n = got+float64(r.PromptTokens), asked+float64(r.ISL), n+1
		}
	}
	return got / max(n, 1), asked / max(n, 1)
}

// disordered counts records whose instants go backwards.
func disordered(rs []Request) (n int) {
	for _, r := range rs {
		last, back := r.Sent, false
		for _, c := range r.Chunks {
			back, last = back || c.At < last, c.At
		}
		if back {
			n++
		}
	}
	return n
}

// littlesLaw is L = λ·W (Little, Operations Research 9, 1961) inside w, to be held
// against the count in flight there. Of requests: the rate at which they end, times
// how long they were under way; fewer than are in flight where a queue grows. Of tokens, where all requests
// stream from the window's one end to the other: the rate at which they come,
// times TPOT. It is 0 where neither is to be had, and the in-flight count where
// the load neither grows nor drains and streams are alike.
func (s *Summary) littlesLaw(rs []Request, w Window) float64 {
	var sent, ended int
	var stay time.Duration
	for _, r := range rs {
		l := life(r)
		if w.holds(l.From) {
			sent++
		}
		if w.holds(l.To) && l.From > 0 {
			ended++
			stay += l.Length()
		}
	}
	switch {
	case w.Length() <= 0:
		return 0
	case sent == 0 && s.Streaming == len(rs):
		return s.TokensPerSec * s.TPOT.Mean.Seconds()
	case ended >= littleCount:
		return stay.Seconds() / w.Length().Seconds() // (ended / length) · (stay / ended)
	}
	return 0
}

// severalPerChunk reports whether chunks hold several tokens, by their mean.
func severalPerChunk(tokens float64) bool { return tokens > chunkShare }
