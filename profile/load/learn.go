package load

import (
	"context"
	"errors"
	"fmt"
	"time"

	"plimsoll/profile"
)

// server is what a Client has found out.
type server struct {
	model    string
	alphabet alphabet
}

// Token ids that are tried where the vocabulary's size is unknown: below the
// 32000 of Llama 2, the smallest in wide use, and past the single bytes and
// control tokens that every vocabulary begins with; then a range for small
// test models.
const (
	usualLow, usualHigh = 1000, 20000
	smallLow, smallHigh = 300, 1000
	minVocab            = 64
	maxVocab            = 1 << 24
)

// idRanges are the alphabets of ids to try, best first. The top of a known
// vocabulary is left out: control tokens are there.
func idRanges(vocab int) []alphabet {
	ids := func(lo, hi int) alphabet { return alphabet{lo: lo, ids: hi - lo, cost: 1} }
	if vocab > 0 {
		return []alphabet{ids(min(usualLow, vocab/4), vocab-vocab/10)}
	}
	return []alphabet{ids(usualLow, usualHigh), ids(smallLow, smallHigh)}
}

// fit finds of how many symbols a prompt of w is made. Where the server cannot
// be asked it falls back to token ids, so that the measurement records why.
func (c *Client) fit(ctx context.Context, w profile.Workload) (server, int, error) {
	if err := ctx.Err(); err != nil {
		return server{}, 0, fmt.Errorf("measuring: %w", err)
	}
	srv, err := c.learn(ctx, w.Timeout)
	if ctx.Err() != nil {
		return server{}, 0, fmt.Errorf("asking what the server takes: %w", ctx.Err())
	}
	if err != nil {
		srv = c.guess()
	}
	n := c.length(ctx, srv, w)
	if ctx.Err() != nil {
		return server{}, 0, fmt.Errorf("fitting a prompt of %d tokens: %w", w.ISL, ctx.Err())
	}
	if n < 1 {
		return server{}, 0, fmt.Errorf("workload: isl %d: %w: the server adds %d of its own",
			w.ISL, ErrPromptTooSmall, srv.alphabet.extra)
	}
	return srv, n, nil
}

// guess is what is taken for granted where nothing could be learned.
func (c *Client) guess() server {
	s := server{model: c.opt.Model, alphabet: alphabet{words: letters, cost: 1, approx: true}}
	if c.opt.Endpoint == Completions {
		s.alphabet = idRanges(c.opt.Vocab)[0]
	}
	return s
}

// learn asks the server once what Measure needs to know. With a model and
// TokenIDs given that is nothing.
func (c *Client) learn(ctx context.Context, timeout time.Duration) (server, error) {
	if err := c.lock(ctx); err != nil {
		return server{}, err
	}
	defer c.unlock()
	if c.learned != nil {
		return *c.learned, nil
	}
	srv := c.guess()
	l := c.open(0, false)
	defer l.close()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if srv.model == "" {
		models, err := c.models(ctx, l)
		if err == nil {
			srv.model, err = c.chooseModel(models)
		}
		if err != nil {
			return server{}, err
		}
	}
	if !c.opt.TokenIDs || c.opt.Endpoint == Chat {
		a, err := c.findAlphabet(ctx, l, srv.model)
		if err != nil {
			return server{}, err
		}
		srv.alphabet = a
	}
	c.learned = &srv
	return srv, nil
}

// findAlphabet tries token ids, then words, and gives the first whose cost in
// tokens is exact, else the nearest.
func (c *Client) findAlphabet(ctx context.Context, l *link, model string) (alphabet, error) {
	t := tally{client: c, link: l, model: model}
	if c.opt.Endpoint == Completions {
		for _, a := range idRanges(c.opt.Vocab) {
			err := t.calibrate(ctx, &a)
			if err == nil && !a.approx {
				return a, nil
			}
			if errors.Is(err, ErrUnreachable) || errors.Is(err, ErrNeedsKey) || errors.Is(err, ErrBusy) {
				return alphabet{}, err
			}
		}
	}
	var last alphabet
	for _, words := range [][]string{common, letters} {
		last = alphabet{words: words, cost: 1}
		if err := t.calibrate(ctx, &last); err != nil {
			return alphabet{}, err
		}
		if !last.approx {
			return last, nil
		}
	}
	if even := t.even(ctx, alphabet{words: common}); len(even) >= evenLeast {
		a := alphabet{words: even, cost: 1}
		if err := t.calibrate(ctx, &a); err == nil && !a.approx {
			return a, nil
		}
	}
	return last, nil
}

// length is how many symbols make w's prompt. Ids follow the formula; words
// are tried once at full length, and their number corrected by what the server
// counts.
func (c *Client) length(ctx context.Context, srv server, w profile.Workload) int {
	n := srv.alphabet.symbols(w.ISL)
	if srv.alphabet.tokens() || n < 1 {
		return n
	}
	if c.lock(ctx) != nil {
		return n
	}
	defer c.unlock()
	if known, ok := c.words[w.ISL]; ok {
		return known
	}
	l := c.open(0, false)
	defer l.close()
	ctx, cancel := context.WithTimeout(ctx, w.Timeout)
	defer cancel()
	t := tally{client: c, link: l, model: srv.model}
	best, off := n, 0
	for range 3 {
		got, err := t.tokens(ctx, srv.alphabet, sequence(srv.alphabet.size(), n, t.serial()))
		if err != nil || got == 0 { // it will show in the records
			return best
		}
		if d := abs(got - w.ISL); best == n || d < off {
			best, off = n, d
		}
		step := (w.ISL - got) / srv.alphabet.cost
		if step == 0 || n+step < 1 {
			break
		}
		n += step
	}
	c.words[w.ISL] = best
	return best
}
