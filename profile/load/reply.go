package load

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// The kinds of trouble that Probe tells apart; its errors wrap one of them.
var (
	ErrUnreachable    = errors.New("no server answers")
	ErrNoAnswer       = errors.New("the server gives no answer")
	ErrNotLLM         = errors.New("not an LLM server")
	ErrNeedsKey       = errors.New("the server wants credentials")
	ErrUnknownModel   = errors.New("the server does not have this model")
	ErrRefused        = errors.New("the server refuses a small completion")
	ErrStreamsNothing = errors.New("the server's answer is no usable stream")
	ErrOneChunk       = errors.New("the server does not stream token by token")
	ErrPromptTooSmall = errors.New("a prompt of so few tokens cannot be made")
)

// ErrBusy means that the refusal says nothing about the request: a server that
// loads its model or has too much to do.
var ErrBusy = errors.New("it is busy or not ready")

// ErrOwn means that the server failed, which another try may not meet.
var ErrOwn = errors.New("it failed")

// ErrNoPath means that the server does not have the API that was called.
var ErrNoPath = errors.New("it does not have this path")

// busy are the statuses of such refusals.
var busy = []int{
	http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
}

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

// reply is a whole answer.
type reply struct {
	status  int
	header  http.Header
	body    []byte
	excerpt string
}

// maxReply bounds an answer that is not a stream, in bytes.
const maxReply = 4 << 20

// read takes in an answer; one that breaks off is ErrUnreachable.
func (c *Client) read(resp *http.Response) (reply, error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		return reply{}, c.unreachable(err)
	}
	text := cmp.Or(c.secrets.excerpt(body[:min(len(body), excerptRead)], len(body) > excerptRead), "nothing")
	return reply{status: resp.StatusCode, header: resp.Header, body: body, excerpt: text}, nil
}

func (c *Client) unreachable(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w at %s: %w", ErrUnreachable, c.base, err)
	}
	return fmt.Errorf("%w at %s: %s", ErrUnreachable, c.base, c.secrets.Text(err.Error()))
}

// accepted is nil for status 200.
func (c *Client) accepted(got reply) error {
	said := fmt.Sprintf("status %d from %s: %s", got.status, c.completionsURL(), got.excerpt)
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
		return refusal(got.status, said)
	}
}

// refusal is the error of a completion that was answered with a status.
func refusal(status int, said string) error {
	switch {
	case slices.Contains(busy, status):
		return fmt.Errorf("%w: %w: %s", ErrRefused, ErrBusy, said)
	case status == http.StatusNotFound, status == http.StatusMethodNotAllowed:
		return fmt.Errorf("%w: %w: %s", ErrRefused, ErrNoPath, said)
	case status >= http.StatusInternalServerError:
		return fmt.Errorf("%w: %w: %s", ErrRefused, ErrOwn, said)
	}
	return fmt.Errorf("%w: %s", ErrRefused, said)
}

// get fetches one path under the base.
func (c *Client) get(ctx context.Context, l *link, address string) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return reply{}, fmt.Errorf("making a request: %w", err)
	}
	req.Header = c.header
	resp, err := l.reuse.RoundTrip(req)
	if err != nil {
		return reply{}, c.unreachable(err)
	}
	defer func() { _ = resp.Body.Close() }() // it was read, or its error is told
	return c.read(resp)
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
		kind := ErrNotLLM
		if errors.Is(err, ErrBusy) {
			kind = ErrBusy
		}
		return nil, fmt.Errorf("%w: %s answers status %d: %s", kind, c.url("/models"), got.status, got.excerpt)
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
		has = "it has " + c.secrets.Text(strings.Join(names, ", "))
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
