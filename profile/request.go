package profile

import "time"

// Failure names what went wrong with a request; empty = nothing did.
type Failure string

// The ways in which a request fails.
const (
	FailConnect   Failure = "connect"   // no connection, or it broke before the first byte
	FailTimeout   Failure = "timeout"   // the request's own deadline passed
	FailStatus    Failure = "status"    // an HTTP status other than 200
	FailMalformed Failure = "malformed" // the stream was not what the protocol says, or broke off
	FailEmpty     Failure = "empty"     // it ended well but held no content
	FailShort     Failure = "short"     // fewer or more output tokens than asked for, or another prompt length
	FailCanceled  Failure = "canceled"  // the measurement was stopped
)

// Chunk is one piece of streamed content with text or tokens in it.
type Chunk struct {
	// At is since the measurement's base, monotonic: when the machine received
	// it, where the kernel tells, otherwise when the client had read it.
	At time.Duration `json:"at_ns"`
	// Read is when the client had read it, where At is the kernel's; 0
	// otherwise. Read − At is the client's lag.
	Read time.Duration `json:"read_ns,omitempty"`
}

// Request is the record of one request. Instants are monotonic durations since
// the measurement's base; 0 means that it did not happen (bases are chosen so
// that nothing happens at 0).
type Request struct {
	Index        int           `json:"index"`
	ISL          int           `json:"isl"`                     // prompt tokens asked for
	OSL          int           `json:"osl"`                     // output tokens asked for
	Due          time.Duration `json:"due_ns"`                  // when the schedule wanted it sent
	Sent         time.Duration `json:"sent_ns"`                 // when its last byte was handed to the kernel
	Header       time.Duration `json:"header_ns"`               // response header read
	First        time.Duration `json:"first_ns"`                // first non-empty content
	Last         time.Duration `json:"last_ns"`                 // last non-empty content
	End          time.Duration `json:"end_ns"`                  // stream finished, or the failure
	Chunks       []Chunk       `json:"chunks"`                  // content chunks, in order, First and Last included
	Before       int           `json:"tokens_before,omitempty"` // output tokens before Chunks[0], where this is a part of a longer record
	PromptTokens int           `json:"prompt_tokens"`           // from usage; 0 = server did not say
	CachedTokens int           `json:"cached_tokens"`           // of them, served from the prefix cache; -1 = server did not say
	OutputTokens int           `json:"output_tokens"`           // from usage; where the server does not say, content chunks
	UsageSeen    bool          `json:"usage_seen"`              // the server sent usage
	Status       int           `json:"status"`                  // HTTP status; 0 = no answer
	Finish       string        `json:"finish"`                  // finish_reason
	Failure      Failure       `json:"failure,omitempty"`
	Error        string        `json:"error,omitempty"` // detail of Failure, never with credentials in it
}

// OK reports whether the request did all that was asked.
func (r Request) OK() bool { return r.Failure == "" }

// TTFT is the time from sending to first content; 0 where either is missing.
func (r Request) TTFT() time.Duration { return span(r.Sent, r.First) }

// TTFTFromDue is the time from the due instant to first content (open loop:
// includes the time the client itself was late, so nothing is omitted).
func (r Request) TTFTFromDue() time.Duration { return span(r.Due, r.First) }

// E2E is the time from sending to last content; 0 where either is missing.
func (r Request) E2E() time.Duration { return span(r.Sent, r.Last) }

// TPOT is (last − first token) / (output tokens − 1); 0 for fewer than two tokens.
func (r Request) TPOT() time.Duration {
	if r.OutputTokens < 2 {
		return 0
	}
	return span(r.First, r.Last) / time.Duration(r.OutputTokens-1)
}

func span(from, to time.Duration) time.Duration {
	if from == 0 || to == 0 {
		return 0
	}
	return to - from
}
