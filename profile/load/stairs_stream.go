package load

import (
	"context"
	"fmt"
	"sync"
	"time"

	"plimsoll/profile"
)

// stream is one request that decodes until it is canceled. Its goroutine reads;
// whoever looks on holds the lock.
type stream struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when its goroutine has ended
	ring   func()        // something was decided

	mu      sync.Mutex
	record  profile.Request // Chunks: the window's
	tokens  []int           // given with each of record.Chunks and all before it
	given   int             // tokens
	ended   bool
	opened  time.Duration // beginning of the window
	before  int           // tokens given before it
	goal    int           // tokens given when it is over, and one more; 0 = there is no window
	reached time.Duration // when all but that last one were given
}

// view is what is known of a stream at one instant.
type view struct {
	given   int
	last    time.Duration // when the last of them came
	ended   bool
	failure profile.Failure
	status  int
	why     string
	reached time.Duration
}

func (st *stream) look() view {
	st.mu.Lock()
	defer st.mu.Unlock()
	return view{
		given: st.given, last: st.record.Last, ended: st.ended,
		failure: st.record.Failure, status: st.record.Status, why: st.record.Error, reached: st.reached,
	}
}

// run sends the request and reads its answer until it ends or is canceled.
func (st *stream) run(ctx context.Context, l *link, body []byte, base time.Duration, slack int) {
	defer close(st.done)
	st.mu.Lock()
	r := st.record // the exchange's own
	st.mu.Unlock()
	l.follow(ctx, body, streamLife, base, &r, func(c profile.Chunk, u usage) { st.take(r, c, u, slack) }, nil)
	st.mu.Lock()
	st.ended = true
	if st.record.Failure == "" {
		st.record.Failure, st.record.Status, st.record.Error = r.Failure, r.Status, r.Error
	}
	st.mu.Unlock()
	st.ring()
}

// take books a chunk, with the server's count of tokens so far if it tells.
func (st *stream) take(r profile.Request, c profile.Chunk, u usage, slack int) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.given == 0 {
		st.begin(r, u, slack)
	}
	st.record.Last = c.At
	was := st.given
	if st.given++; u.seen {
		st.given = max(st.given, u.completion)
	}
	if st.goal == 0 {
		return
	}
	if c.At < st.opened { // received before, and read only now
		st.before = st.given
		st.goal += st.given - was
		return
	}
	st.record.Chunks = append(st.record.Chunks, c)
	st.tokens = append(st.tokens, st.given)
	if st.reached == 0 && st.given >= st.goal-1 {
		st.reached = c.At
	}
	if was < st.goal && st.given >= st.goal {
		st.ring()
	}
}

// begin books that a stream has begun. One with another prompt than was asked
// for ends.
func (st *stream) begin(r profile.Request, u usage, slack int) {
	q := &st.record
	q.Sent, q.Header, q.Status, q.First = r.Sent, r.Header, r.Status, r.First
	if u.seen {
		q.UsageSeen, q.PromptTokens, q.CachedTokens = true, u.prompt, u.cached
		if u.prompt > 0 && abs(u.prompt-q.ISL) > slack {
			q.Failure, q.Error = profile.FailShort, fmt.Sprintf("prompt of %d tokens asked, the server counts %d", q.ISL, u.prompt)
			st.cancel()
		}
	}
	st.ring()
}

// open begins a window at from, in which so many tokens are wanted.
func (st *stream) open(from time.Duration, tokens int) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.opened, st.before, st.reached = from, st.given, 0
	st.goal = st.given + tokens + 1
	st.record.Chunks, st.tokens = make([]profile.Chunk, 0, tokens+2), make([]int, 0, tokens+2)
}

// shut ends the window and gives its record.
func (st *stream) shut(to time.Duration) profile.Request {
	st.mu.Lock()
	defer st.mu.Unlock()
	r, tokens := st.record, st.tokens
	st.record.Chunks, st.tokens, st.goal = nil, nil, 0
	n := len(r.Chunks)
	for n > 0 && r.Chunks[n-1].At > to {
		n--
	}
	r.Chunks, r.Before, r.OutputTokens = r.Chunks[:n], st.before, st.before
	if n > 0 {
		r.Last, r.OutputTokens = r.Chunks[n-1].At, tokens[n-1]
	}
	return r
}
