package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"plimsoll/profile"
)

// What can become of Stairs' streams. An error wraps one of these or
// profile.ErrGrown.
var (
	ErrNotAll = errors.New("not all streams began")
	ErrBroken = errors.New("a stream ended")
)

// StreamError is ErrBroken with the stream.
type StreamError struct{ Request profile.Request }

func (e *StreamError) Error() string {
	return fmt.Sprintf("%v: stream %d: %s: %s", ErrBroken, e.Request.Index, e.Request.Failure, e.Request.Error)
}

// Unwrap gives ErrBroken.
func (e *StreamError) Unwrap() error { return ErrBroken }

const (
	// spareTokens is how many tokens a stream must have left beyond those asked
	// for: streams are not all at the same token of theirs.
	spareTokens = 8
	// stairsPatience is the least wait for the next of several prompts to be
	// answered, or for the next token. It is longer where the first ones took
	// longer: patienceTimes as long.
	stairsPatience = 5 * time.Second
	patienceTimes  = 5
	// streamLife bounds a stream: it ends when it is canceled.
	streamLife = 24 * time.Hour
)

// Stairs are streams that decode for as long as they are looked at: more are
// sent, or the latest canceled, and windows of all are cut from what they get
// meanwhile. A stream is canceled by closing its connection. One goroutine may
// use them at a time.
type Stairs struct {
	client   *Client
	w        profile.Workload
	server   server
	symbols  int // of a prompt
	link     *link
	base     time.Duration // on the client's clock
	start    func() (context.Context, context.CancelFunc)
	patience time.Duration

	sent    int // ever
	streams []*stream
	longest time.Duration // that a prompt of several was waited for
	changed chan struct{} // holds one; full = something was decided in a stream
}

// Climb begins Stairs of streams of w.ISL prompt tokens and at most w.OSL output
// tokens; w.InFlight is the most at once. Prompts are new to the server; where w
// shares them, the stream in place i has that of request i of any such Workload.
// w.Timeout bounds the wait for the first of them to be answered, but no stream.
// Tokens are counted as the server tells them with each chunk (vLLM's
// continuous_usage_stats), where Probe found that it does; otherwise a chunk is
// a token: Probe tells whether that is so. Streams end with ctx at the latest; nothing is sent yet.
func (c *Client) Climb(ctx context.Context, w profile.Workload) (*Stairs, error) {
	w.Requests, w.Warmup = w.InFlight, false
	if err := Validate(w); err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	w.Timeout = cmp.Or(w.Timeout, c.opt.Timeout)
	srv, n, err := c.fit(ctx, w)
	if err != nil {
		return nil, err
	}
	return &Stairs{
		client: c, w: w, server: srv, symbols: n, patience: stairsPatience,
		link: c.open(w.ISL*bytesPerToken, false), base: c.clock.now() - lead,
		start:   func() (context.Context, context.CancelFunc) { return context.WithCancel(ctx) },
		changed: make(chan struct{}, 1),
	}, nil
}

// Base is the instant that all records count from.
func (s *Stairs) Base() time.Time {
	return time.Now().Add(s.base - s.client.clock.now())
}

// Bring brings the streams to n and waits until all have begun to stream. The
// level of so many tokens that is to follow must fit: otherwise the error is
// profile.ErrGrown, and no more are sent. It is ErrNotAll where the server
// answers no further prompt for long, ErrBroken where a stream failed; the next
// Bring sends those again.
func (s *Stairs) Bring(ctx context.Context, n, tokens int) error {
	if n < 1 || n > s.w.InFlight {
		return fmt.Errorf("a level of %d streams: want 1 to %d, as the stairs were begun for", n, s.w.InFlight)
	}
	if err := s.drop(n); err != nil {
		return err
	}
	if err := s.lasts(tokens); err != nil {
		return err
	}
	if err := s.send(ctx, n-len(s.streams)); err != nil {
		return err
	}
	return s.await(ctx)
}

// Streaming is how many streams have got a token and go on.
func (s *Stairs) Streaming() int {
	n := 0
	for _, st := range s.streams {
		if v := st.look(); v.given > 0 && !v.ended {
			n++
		}
	}
	return n
}

// Close cancels all streams and returns when their connections are closed.
func (s *Stairs) Close() {
	cancel(s.streams)
	s.streams = nil
	s.link.close()
}

// drop cancels the latest streams beyond n, and forgets those that failed.
func (s *Stairs) drop(n int) error {
	var on []*stream
	for _, st := range s.streams {
		switch v := st.look(); {
		case !v.ended:
			on = append(on, st)
		case v.failure == "":
			return fmt.Errorf("%w: stream %d gave all of its %d", profile.ErrGrown, st.record.Index, s.w.OSL)
		}
	}
	n = min(n, len(on))
	cancel(on[n:])
	s.streams = on[:n]
	return nil
}

func cancel(streams []*stream) {
	for _, st := range streams {
		st.cancel()
	}
	for _, st := range streams {
		<-st.done
	}
}

// lasts refuses where streams would end before they gave so many tokens more.
func (s *Stairs) lasts(tokens int) error {
	switch {
	case tokens < 1:
		return fmt.Errorf("a level of %d tokens of each stream: want at least 1", tokens)
	case tokens+spareTokens >= s.w.OSL:
		return fmt.Errorf("a level of %d tokens of each stream: want fewer than %d, for streams have %d", tokens, s.w.OSL-spareTokens, s.w.OSL)
	}
	most := 0
	for _, st := range s.streams {
		most = max(most, st.look().given)
	}
	if most+tokens+spareTokens >= s.w.OSL {
		return fmt.Errorf("%w: %d of %d are given, and the level takes another %d", profile.ErrGrown, most, s.w.OSL, tokens)
	}
	return nil
}

// send sends n more streams at once.
func (s *Stairs) send(ctx context.Context, n int) error {
	if n < 1 {
		return nil
	}
	a := ask{endpoint: s.client.opt.Endpoint, model: s.server.model, alphabet: s.server.alphabet, osl: s.w.OSL, stream: true, live: s.link.live}
	w := s.w
	w.Requests = n
	serial, first := s.client.serials(w), 0
	if w.SharedPrompts {
		first = len(s.streams)
	}
	bodies := make([][]byte, n)
	for i := range bodies {
		if i%64 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		bodies[i] = a.body(sequence(a.alphabet.size(), s.symbols, serial(first+i)))
	}
	s.link.dialer.close() // what an earlier call left
	address, secure := s.client.address()
	s.link.dialer.prepare(ctx, address, secure, n)
	due := s.now()
	for _, body := range bodies {
		st := &stream{done: make(chan struct{}), ring: s.ring}
		st.record = profile.Request{Index: s.sent, ISL: s.w.ISL, OSL: s.w.OSL, CachedTokens: -1, Due: due}
		s.sent++
		s.streams = append(s.streams, st)
		var on context.Context
		on, st.cancel = s.start()
		go st.run(on, s.link, body, s.base, s.server.alphabet.slack(s.w.ISL))
	}
	return nil
}

func (s *Stairs) now() time.Duration { return s.client.clock.now() - s.base }

// ring says that something was decided.
func (s *Stairs) ring() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// await waits until all streams have begun.
func (s *Stairs) await(ctx context.Context) error {
	begun, since := s.Streaming(), time.Now()
	for {
		if err := s.broken(); err != nil {
			return err
		}
		n := s.Streaming()
		if n > begun {
			begun, s.longest, since = n, max(s.longest, time.Since(since)), time.Now()
		}
		if n == len(s.streams) {
			return nil
		}
		limit := s.w.Timeout
		if s.longest > 0 {
			limit = min(limit, max(s.patience, patienceTimes*s.longest))
		}
		if waited := time.Since(since); waited >= limit {
			return fmt.Errorf("%w: %d of %d, and no other one for %v", ErrNotAll, n, len(s.streams), waited.Round(100*time.Millisecond))
		}
		if err := s.wait(ctx, limit-time.Since(since)); err != nil {
			return err
		}
	}
}

// wait returns when something was decided, after d at the latest.
func (s *Stairs) wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-s.changed:
	case <-t.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// broken is why a stream ended, nil where all go on.
func (s *Stairs) broken() error {
	for _, st := range s.streams {
		v := st.look()
		switch {
		case !v.ended:
		case v.failure == "":
			return fmt.Errorf("%w: stream %d gave all of its %d", profile.ErrGrown, st.record.Index, s.w.OSL)
		case v.failure == profile.FailConnect && v.given == 0:
			return fmt.Errorf("%w: %w: stream %d: %s", ErrBroken, ErrUnreachable, st.record.Index, v.why)
		default:
			return &StreamError{profile.Request{Index: st.record.Index, Failure: v.failure, Status: v.status, Error: v.why}}
		}
	}
	return nil
}
