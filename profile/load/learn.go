package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"plimsoll/profile"
)

// The kinds of trouble that Probe tells apart; its errors wrap one of them.
var (
	ErrUnreachable    = errors.New("no server answers")
	ErrNotLLM         = errors.New("not an LLM server")
	ErrNeedsKey       = errors.New("the server wants credentials")
	ErrUnknownModel   = errors.New("the server does not have this model")
	ErrRefused        = errors.New("the server refuses a small completion")
	ErrStreamsNothing = errors.New("the server streams nothing")
	ErrOneChunk       = errors.New("the server does not stream token by token")
	ErrPromptTooSmall = errors.New("a prompt of so few tokens cannot be made")
)

// Model is one that the server has.
type Model struct {
	ID     string `json:"id"`
	MaxLen int    `json:"max_model_len"` // ISL + OSL, tokens; 0: the server does not say
}

// listing is an answer of /v1/models: vLLM and SGLang give max_model_len,
// llama.cpp gives n_ctx.
type listing struct {
	Data []struct {
		ID     string `json:"id"`
		MaxLen int    `json:"max_model_len"`
		Meta   struct {
			Context int `json:"n_ctx"` // of one slot, tokens
		} `json:"meta"`
	} `json:"data"`
}

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
	if c.opt.Endpoint == Completions && c.opt.Prompts != PromptText {
		s.alphabet = idRanges(c.opt.Vocab)[0]
	}
	return s
}

// learn asks the server once what Measure needs to know. With a model and
// PromptTokens given that is nothing.
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
	if c.opt.Prompts != PromptTokens {
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
	if c.opt.Endpoint == Completions && c.opt.Prompts == PromptAuto {
		for _, a := range idRanges(c.opt.Vocab) {
			err := t.calibrate(ctx, &a)
			if err == nil && !a.approx {
				return a, nil
			}
			if errors.Is(err, ErrUnreachable) || errors.Is(err, ErrNeedsKey) || ctx.Err() != nil {
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
			break
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

func abs(n int) int { return max(n, -n) }

// tally counts the tokens of prompts by asking the server.
type tally struct {
	client *Client
	link   *link
	model  string
}

func (t tally) serial() uint64 {
	return mix(uniqueDomain, t.client.opt.Nonce) + t.client.fresh(1)
}

// calibrate finds a's cost and extra from prompts of three lengths that
// between them hold every word twice, and sets approx where they do not lie on
// one line. It fails when the server refuses a.
func (t tally) calibrate(ctx context.Context, a *alphabet) error {
	all := a.spread()
	few := len(all) / 4
	shuffled := append(slices.Clone(all), all...)
	slices.Reverse(shuffled)
	var n [3]int
	for i, symbols := range [][]int{all[:few], all, shuffled} {
		var err error
		if n[i], err = t.tokens(ctx, *a, symbols); err != nil {
			return err
		}
	}
	if n == [3]int{} { // the server counts nothing
		a.approx = !a.tokens()
		return nil
	}
	a.cost = max(1, (n[2]-n[1]+len(all)/2)/len(all))
	a.extra = max(0, n[1]-a.cost*len(all))
	a.approx = n[0] != a.extra+a.cost*few || n[1] != a.extra+a.cost*len(all) || n[2] != a.extra+a.cost*2*len(all) ||
		a.tokens() && a.cost != 1
	return nil
}

// spread is every word once, or ids over the whole range, both ends included.
func (a alphabet) spread() []int {
	n := min(a.size(), 64)
	out := make([]int, n)
	for i := range out {
		out[i] = i * (a.size() - 1) / (n - 1)
	}
	return out
}

// tokens asks for one token after the prompt and gives the server's count of
// the prompt; 0 where it does not say.
func (t tally) tokens(ctx context.Context, a alphabet, symbols []int) (int, error) {
	q := ask{endpoint: t.client.opt.Endpoint, model: t.model, alphabet: a, osl: 1}
	resp, _, err := t.link.send(ctx, q.body(symbols))
	got, err := t.client.read(resp, err)
	if err != nil {
		return 0, err
	}
	if err := t.client.accepted(got); err != nil {
		return 0, err
	}
	var v struct {
		Choices json.RawMessage `json:"choices"`
		Usage   struct {
			PromptTokens int `json:"prompt_tokens"`
		} `json:"usage"`
	}
	if err := json.Unmarshal(got.body, &v); err != nil || v.Choices == nil {
		return 0, fmt.Errorf("%w: it answers a completion with %s", ErrNotLLM, got.excerpt)
	}
	return v.Usage.PromptTokens, nil
}

// reply is a whole answer.
type reply struct {
	status  int
	header  http.Header
	body    []byte
	excerpt string
}

// maxReply bounds an answer that is not a stream, in bytes.
const maxReply = 4 << 20

// read takes in an answer; no answer is ErrUnreachable.
func (c *Client) read(resp *http.Response, err error) (reply, error) {
	if err != nil {
		return reply{}, c.unreachable(err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read, or its error is told
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		return reply{}, c.unreachable(err)
	}
	text := c.secrets.excerpt(body[:min(len(body), excerptRead)], len(body) > excerptRead)
	if text == "" {
		text = "nothing"
	}
	return reply{status: resp.StatusCode, header: resp.Header, body: body, excerpt: text}, nil
}

func (c *Client) unreachable(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w at %s: %w", ErrUnreachable, c.base, err)
	}
	return fmt.Errorf("%w at %s: %s", ErrUnreachable, c.base, c.secrets.clean(err.Error()))
}

// accepted is nil for status 200.
func (c *Client) accepted(got reply) error {
	switch {
	case got.status == http.StatusOK:
		return nil
	case got.status == http.StatusUnauthorized || got.status == http.StatusForbidden:
		how := "give an API key"
		if c.header.Get("Authorization") != "" {
			how = "it does not accept those given"
		}
		return fmt.Errorf("%w: %s (status %d from %s: %s)", ErrNeedsKey, how, got.status, c.base, got.excerpt)
	case got.status >= 300 && got.status < 400:
		return fmt.Errorf("%w: %s redirects (status %d): give the address that it leads to", ErrNotLLM, c.base, got.status)
	default:
		return fmt.Errorf("%w: status %d from %s: %s", ErrRefused, got.status, c.completionsURL(), got.excerpt)
	}
}

// get fetches one path under the base.
func (c *Client) get(ctx context.Context, l *link, address string) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return reply{}, fmt.Errorf("making a request: %w", err)
	}
	req.Header = c.header
	resp, err := l.reuse.RoundTrip(req)
	return c.read(resp, err)
}

// models asks which models there are.
func (c *Client) models(ctx context.Context, l *link) ([]Model, error) {
	got, err := c.get(ctx, l, c.url("/models"))
	if err != nil {
		return nil, err
	}
	if err := c.accepted(got); errors.Is(err, ErrNeedsKey) {
		return nil, err
	} else if err != nil {
		return nil, fmt.Errorf("%w: %s answers status %d: %s", ErrNotLLM, c.url("/models"), got.status, got.excerpt)
	}
	var v listing
	if err := json.Unmarshal(got.body, &v); err != nil || v.Data == nil {
		return nil, fmt.Errorf("%w: %s answers with no list of models: %s", ErrNotLLM, c.url("/models"), got.excerpt)
	}
	models := make([]Model, len(v.Data))
	for i, d := range v.Data {
		models[i] = Model{ID: d.ID, MaxLen: max(d.MaxLen, d.Meta.Context)}
	}
	return models, nil
}

// chooseModel finds the wanted model among the server's; where none is wanted
// it takes the only one.
func (c *Client) chooseModel(models []Model) (string, error) {
	names := make([]string, len(models))
	for i, m := range models {
		names[i] = m.ID
	}
	has := "it has none"
	if len(names) > 0 {
		has = "it has " + c.secrets.clean(strings.Join(names, ", "))
	}
	want := c.opt.Model
	switch {
	case want != "" && slices.Contains(names, want):
		return want, nil
	case want != "":
		return "", fmt.Errorf("%w: %q: %s", ErrUnknownModel, want, has)
	case len(names) == 1:
		return names[0], nil
	default:
		return "", fmt.Errorf("%w: none was named: %s", ErrUnknownModel, has)
	}
}

// address is what to dial.
func (c *Client) address() (hostPort string, secure bool) {
	secure = c.base.Scheme == "https"
	port := c.base.Port()
	switch {
	case port != "":
	case secure:
		port = "443"
	default:
		port = "80"
	}
	return net.JoinHostPort(c.base.Hostname(), port), secure
}
