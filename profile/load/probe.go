package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"plimsoll/profile"
)

// Probe is what a server turned out to be.
type Probe struct {
	Models      []Model // all that it has; nil: it does not list them
	Model       string  // the one that is measured
	MaxModelLen int     // ISL + OSL, tokens; 0: it does not say
	Server      string  // its Server header
	Version     string  // from /version, as vLLM has it; empty: it does not say
	Provenance  string  // its ProvenanceHeader, as it stands; empty: none

	ExactPrompts bool // prompts have exactly the length asked for
	LiveUsage    bool // it sends token counts with each chunk, where that is asked for
	ExactOutput  bool // it gives exactly as many tokens as asked, past any end
	Chunks       int  // events that brought probeTokens tokens
	Tokens       int  // output tokens that it counted for them
	TTFT         time.Duration
	Warnings     []profile.Warning
}

// probeTokens is the output length of Probe's completion: enough to tell a
// stream from a single piece. probePrompt is its prompt's.
const (
	probeTokens  = 16
	probePrompt  = 64
	probeTimeout = 60 * time.Second
)

// Probe finds out whether an LLM server is there and what it can do, with a
// handful of small requests, one at a time. Its error wraps one of the
// package's Err values and says what to do; what was found until then is
// returned with it.
func (c *Client) Probe(ctx context.Context) (Probe, error) {
	began := c.clock.now()
	ctx, cancel := context.WithTimeout(ctx, min(probeTimeout, c.opt.Timeout))
	defer cancel()
	p, err := c.probe(ctx)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("%w: %s had none to a small request within %v", ErrNoAnswer, c.base, (c.clock.now() - began).Round(100*time.Millisecond))
	}
	return p, err
}

func (c *Client) probe(ctx context.Context) (p Probe, err error) {
	l := c.open(0, false)
	defer l.close()
	if err := c.probeModels(ctx, l, &p); err != nil {
		return p, err
	}
	p.Version = c.version(ctx, l)
	srv, err := c.learn(ctx, c.opt.Timeout)
	if err != nil {
		return p, p.unlisted(err)
	}
	p.Model = srv.model
	for _, m := range p.Models {
		if m.ID == srv.model {
			p.MaxModelLen = m.MaxLen
		}
	}
	p.ExactPrompts = !srv.alphabet.approx
	p.LiveUsage = c.probeLive(ctx, l, srv)
	c.live.Store(p.LiveUsage)
	l.live = p.LiveUsage
	if err := c.probeStream(ctx, l, srv, &p); err != nil {
		return p, err
	}
	c.probeAcks(ctx, srv, &p)
	return p, nil
}

// probeLive sends a small completion and reports whether the server counts tokens in each
// event: its count has to rise at least as often as text comes.
func (c *Client) probeLive(ctx context.Context, l *link, srv server) bool {
	var seen liveness
	r, _ := c.small(ctx, l, srv, probeTokens, true, seen.event)
	return r.OK() && seen.live()
}

// small sends one small completion of osl tokens as Measure would, and asks for token
// counts with each event where live is set. It asks again if the server fails.
func (c *Client) small(ctx context.Context, l *link, srv server, osl int, live bool, event func(chunk)) (profile.Request, http.Header) {
	a := ask{endpoint: c.opt.Endpoint, model: srv.model, alphabet: srv.alphabet, osl: osl, stream: true, live: live}
	n := max(1, srv.alphabet.symbols(probePrompt+srv.alphabet.extra))
	body := a.body(sequence(srv.alphabet.size(), n, tally{client: c}.serial()))
	for last := false; ; last = true {
		r := profile.Request{ISL: srv.alphabet.length(n), OSL: osl, CachedTokens: -1}
		header := l.follow(ctx, body, c.opt.Timeout, c.clock.now()-lead, &r, nil, event)
		if last || r.Status < http.StatusInternalServerError {
			return r, header
		}
	}
}

// liveness is how token counts come in a stream.
type liveness struct{ texts, rises, last int }

func (v *liveness) event(c chunk) {
	if c.content {
		v.texts++
	}
	if c.usage.completion > v.last {
		v.rises, v.last = v.rises+1, c.usage.completion
	}
}

// live is false if the server counts only once, at the end.
func (v *liveness) live() bool { return v.rises > 1 && v.rises >= v.texts }

// unlisted words the trouble of a server that could not even list its models.
func (p Probe) unlisted(err error) error {
	if p.Models == nil && errors.Is(err, ErrRefused) {
		return fmt.Errorf("%w: it neither lists models nor completes: %s", ErrNotLLM, err.Error()) // not ErrRefused as well
	}
	return err
}

// probeModels fills in what /v1/models says. A server without that path may
// still complete, if the model is named.
func (c *Client) probeModels(ctx context.Context, l *link, p *Probe) error {
	models, err := c.models(ctx, l)
	if errors.Is(err, ErrNotLLM) && c.opt.Model != "" {
		return nil
	}
	if err != nil {
		return err
	}
	p.Models = models
	_, err = c.chooseModel(models)
	return err
}

// version asks for /version beside /v1; empty where there is none.
func (c *Client) version(ctx context.Context, l *link) string {
	got, err := c.get(ctx, l, strings.TrimSuffix(c.base.String(), "/v1")+"/version")
	if err != nil || got.status != 200 {
		return ""
	}
	var v struct {
		Version string `json:"version"`
	}
	if json.Unmarshal(got.body, &v) != nil {
		return ""
	}
	return c.secrets.excerpt([]byte(v.Version), false)
}

// probeStream tries one small completion, and says what came of it.
func (c *Client) probeStream(ctx context.Context, l *link, srv server, p *Probe) error {
	r, header := c.small(ctx, l, srv, probeTokens, l.live, nil)
	judge(&r, srv.alphabet.slack(r.ISL))
	p.Server = c.secrets.excerpt([]byte(header.Get("Server")), false)
	p.Provenance = c.secrets.excerpt([]byte(header.Get(ProvenanceHeader)), false)
	p.Chunks, p.Tokens = len(r.Chunks), r.OutputTokens
	p.ExactOutput = r.OutputTokens == probeTokens
	p.TTFT = r.TTFT()
	return c.streamVerdict(r, p)
}

// streamVerdict words what is wrong with the probe's completion, or puts what
// is only unfortunate among the warnings.
func (c *Client) streamVerdict(r profile.Request, p *Probe) error {
	switch r.Failure {
	case profile.FailConnect, profile.FailCanceled:
		return fmt.Errorf("%w at %s: %s", ErrUnreachable, c.base, r.Error)
	case profile.FailStatus:
		return refusal(r.Status, r.Error)
	case profile.FailTimeout, profile.FailMalformed, profile.FailEmpty:
		return fmt.Errorf("%w: %s", ErrStreamsNothing, r.Error)
	case profile.FailShort:
		p.Warnings = append(p.Warnings, profile.Warnf("wrong_lengths", "%s", r.Error))
	}
	if len(r.Chunks) == 1 && r.OutputTokens != 1 {
		return fmt.Errorf("%w: one chunk held all %d tokens, so ITL cannot be measured. Look for a buffering proxy or a server option", ErrOneChunk, r.OutputTokens)
	}
	if r.First == r.Last && len(r.Chunks) > 1 {
		p.Warnings = append(p.Warnings, profile.Warnf("buffered",
			"all %d chunks came at once. A proxy or server option buffers the stream; turn the buffering off", len(r.Chunks)))
	}
	if !r.UsageSeen {
		p.Warnings = append(p.Warnings, profile.Warnf("no_usage",
			"the server sends no token counts. Each content chunk counts as one token"))
	}
	if !p.ExactPrompts {
		p.Warnings = append(p.Warnings, profile.Warnf("inexact_prompts",
			"prompts have only about the requested length"))
	}
	return nil
}
