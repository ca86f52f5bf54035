package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"plimsoll/profile"
)

// unjudged is a slack that no prompt misses its length by.
const unjudged = math.MaxInt / 2

// Play sends a script and gives what Measure does, one record per Ask in its
// order. Stop, where it is not nil, is asked with each record as its request ends,
// one call at a time; once it says true the load ends, and what is not finished is
// marked canceled, as when ctx ends. A text is sent as it is, and no length that the
// server counts for it is wrong. An error means that nothing was sent.
func (c *Client) Play(ctx context.Context, s profile.Script, stop func(profile.Request) bool) ([]profile.Request, profile.Client, error) {
	if err := checkScript(s); err != nil {
		return nil, profile.Client{}, fmt.Errorf("script: %w", err)
	}
	if err := allowFiles(min(s.MaxInFlight, len(s.Asks))); err != nil {
		return nil, profile.Client{}, err
	}
	s.Timeout = cmp.Or(s.Timeout, c.opt.Timeout)
	m, err := c.prepareScript(ctx, s)
	if err != nil {
		return nil, profile.Client{}, err
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	rs, self := m.conduct(ctx, m.openLoop, func(r profile.Request) {
		if c.opt.OnDone != nil {
			c.opt.OnDone(r)
		}
		if stop != nil && ctx.Err() == nil && stop(r) {
			end()
		}
	})
	return rs, self, nil
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
	m := c.newMeasurement(w, len(s.Asks))
	m.most = s.MaxInFlight
	a := ask{endpoint: c.opt.Endpoint, model: srv.model, alphabet: srv.alphabet, stream: true, live: c.live.Load()}
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
