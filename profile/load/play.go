package load

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"plimsoll/profile"
)

// unjudged is a slack that no prompt misses its length by.
const unjudged = math.MaxInt / 2

// Play sends a script, one record per Ask in its order. Stop, where it is not
// nil, is asked with each record as its request ends, one call at a time; once
// it says true the load ends, and what is not finished is marked canceled, as
// when ctx ends. A text is sent as it is, and no length that the server counts
// for it is wrong. An error means that nothing was sent.
func (c *Client) Play(ctx context.Context, s profile.Script, stop func(profile.Request) bool) ([]profile.Request, error) {
	rs, _, err := c.PlayWatched(ctx, s, stop)
	return rs, err
}

// PlayWatched is Play with what the client says of its own part, as MeasureWatched.
func (c *Client) PlayWatched(ctx context.Context, s profile.Script, stop func(profile.Request) bool) ([]profile.Request, profile.Client, error) {
	var self profile.Client
	if err := checkScript(s); err != nil {
		return nil, self, fmt.Errorf("script: %w", err)
	}
	if s.Timeout == 0 {
		s.Timeout = c.opt.Timeout
	}
	m, err := c.prepareScript(ctx, s)
	if err != nil {
		return nil, self, err
	}
	defer m.link.close()
	m.onStart = c.opt.OnStart
	ctx, end := context.WithCancel(ctx)
	defer end()
	reported := m.report(func(r profile.Request) {
		if c.opt.OnDone != nil {
			c.opt.OnDone(r)
		}
		if stop != nil && ctx.Err() == nil && stop(r) {
			end()
		}
	})
	m.playOut(ctx, s)
	m.spent = m.watch.effort()
	close(m.ended)
	<-reported
	return m.records, m.spent.client(m.records), nil
}

// checkScript says what a script asks for that is impossible.
func checkScript(s profile.Script) error {
	if n := len(s.Asks); n < 1 || n > MaxRequests {
		return fmt.Errorf("%d requests are out of range: want 1 to %d", n, MaxRequests)
	}
	if s.Timeout < 0 || s.MaxInFlight < 0 {
		return fmt.Errorf("timeout %v and at most %d in flight: want none below 0", s.Timeout, s.MaxInFlight)
	}
	last := time.Duration(0)
	total := 0.0
	for i, a := range s.Asks {
		switch {
		case a.ISL < 1 || a.ISL > MaxTokens || a.OSL < 1 || a.OSL > MaxTokens:
			return fmt.Errorf("request %d: isl %d and osl %d are out of range: want 1 to %d each", i, a.ISL, a.OSL, MaxTokens)
		case a.Due < last:
			return fmt.Errorf("request %d is due at %v, before the one that precedes it", i, a.Due)
		case a.Shared < 0:
			return fmt.Errorf("request %d: shared %d: want 0 or more", i, a.Shared)
		}
		last = a.Due
		if total += float64(max(len(a.Prompt), a.ISL*bytesPerToken)); total > maxPrepared {
			return fmt.Errorf("%d requests need more than %d GiB of prompts: split it", len(s.Asks), maxPrepared>>30)
		}
	}
	return nil
}

// prepareScript writes prompts and bodies.
func (c *Client) prepareScript(ctx context.Context, s profile.Script) (*measurement, error) {
	w := profile.Workload{ISL: s.Asks[0].ISL, Requests: len(s.Asks), Seed: s.Seed, Timeout: s.Timeout, Warmup: s.Warmup}
	srv, n, err := c.fit(ctx, w)
	if errors.Is(err, ErrPromptTooSmall) {
		n, err = 1, nil // of the first request; each is judged for itself
	}
	if err != nil {
		return nil, err
	}
	m := &measurement{
		w: w, bodies: make([][]byte, len(s.Asks)), records: make([]profile.Request, len(s.Asks)),
		ended: make(chan int, len(s.Asks)),
	}
	a := ask{endpoint: c.opt.Endpoint, model: srv.model, alphabet: srv.alphabet, stream: true}
	serial := c.scriptSerials(s)
	longest := 0
	for i, q := range s.Asks {
		a.osl = q.OSL
		switch symbols := max(srv.alphabet.symbols(q.ISL), 1); {
		case q.Prompt != "":
			m.slack = unjudged
			m.bodies[i] = a.textBody(q.Prompt)
		case q.ISL == w.ISL:
			m.bodies[i] = a.body(sequence(srv.alphabet.size(), n, serial(i)))
		default:
			m.bodies[i] = a.body(sequence(srv.alphabet.size(), symbols, serial(i)))
		}
		m.slack = max(m.slack, srv.alphabet.slack(q.ISL))
		longest = max(longest, len(m.bodies[i]))
		if q.Prompt != "" {
			q.ISL = 0 // nobody asked for a length
		}
		m.records[i] = profile.Request{Index: i, ISL: q.ISL, OSL: q.OSL, CachedTokens: -1, Due: lead + q.Due}
		if i%64 == 0 && ctx.Err() != nil {
			return nil, fmt.Errorf("preparing %d requests: %w", len(s.Asks), ctx.Err())
		}
	}
	if !srv.alphabet.tokens() {
		m.slack = unjudged // words were counted at one length only
	}
	m.link = c.open(longest, s.Warmup)
	m.address, m.secure = c.address()
	return m, nil
}

// scriptSerials gives the number that decides the prompt of request i.
func (c *Client) scriptSerials(s profile.Script) func(i int) uint64 {
	first := mix(uniqueDomain, c.opt.Nonce, s.Seed) + c.fresh(len(s.Asks))
	return func(i int) uint64 {
		if a := s.Asks[i]; a.Shared > 0 {
			return mix(sharedDomain, s.Seed) + uint64(a.Shared-1)
		}
		return first + uint64(i)
	}
}

// playOut sends each request at its instant, or when another has ended where
// no more may be in flight.
func (m *measurement) playOut(ctx context.Context, s profile.Script) {
	places := make(chan struct{}, max(s.MaxInFlight, 1))
	m.base = m.link.clock.now()
	m.started()
	var done sync.WaitGroup
	for i := range s.Asks {
		at := m.records[i].Due
		err := m.link.clock.waitUntil(ctx, m.base+at)
		if err == nil && s.MaxInFlight > 0 {
			select {
			case places <- struct{}{}:
			case <-ctx.Done():
				err = ctx.Err()
			}
		}
		if err != nil {
			m.unsent(i)
			continue
		}
		done.Go(func() {
			m.run(ctx, i, at)
			if s.MaxInFlight > 0 {
				<-places
			}
		})
		yield()
	}
	done.Wait()
}
