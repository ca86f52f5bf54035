package load

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"time"

	"plimsoll/profile"
)

// link is the connections of one measurement.
type link struct {
	clock   clock
	secrets secrets
	url     string
	header  http.Header
	live    bool // requests ask for token counts with each event, and the server gives them

	dialer      dialer
	reuse       *http.Transport
	once        *http.Transport // a new connection for each request
	readBuffers sync.Pool       // of *events
}

// open makes a link for request bodies of up to size bytes. It dials nothing.
func (c *Client) open(size int, warmup bool) *link {
	l := &link{
		clock: c.clock, secrets: c.secrets, url: c.completionsURL(), header: c.header, live: c.live.Load(),
		dialer:      dialer{clock: c.clock, roots: c.opt.RootCAs},
		readBuffers: sync.Pool{New: func() any { return new(events) }},
	}
	if warmup {
		l.header = c.header.Clone()
		l.header.Set(WarmupHeader, "true")
	}
	l.reuse = transport(l.dialer.take, size+1024, true)
	l.once = transport(l.dialer.fresh, size+1024, false)
	return l
}

func (l *link) close() {
	l.dialer.close()
	l.reuse.CloseIdleConnections()
	l.once.CloseIdleConnections()
}

// attempt is what happened on the connection that a request was given.
type attempt struct {
	conn            *stampedConn
	reused          bool
	readAt, writeAt int64 // the connection's stamps when it was given
}

func (a *attempt) got(info httptrace.GotConnInfo) {
	a.conn = stamps(info.Conn)
	a.reused = info.Reused || a.conn.early
	a.readAt, a.writeAt = a.conn.readAt.Load(), a.conn.writeAt.Load()
}

// answered reports whether any byte has come back.
func (a *attempt) answered() bool { return a.conn != nil && a.conn.readAt.Load() != a.readAt }

// sent is when the last part of the request was handed over, in the clock's
// time; 0 if nothing was.
func (a *attempt) sent() time.Duration {
	if a.conn == nil {
		return 0
	}
	at := a.conn.writeAt.Load()
	if at == a.writeAt {
		return 0
	}
	return time.Duration(at)
}

// send posts body and gives the answer once its header is read. llama-server
// closes connections that it promised to keep: a request that broke on a kept
// connection before any byte came back is sent once more on a new one.
func (l *link) send(ctx context.Context, body []byte) (*http.Response, *attempt, error) {
	resp, a, err := l.try(ctx, l.reuse, body)
	if err != nil && a.reused && !a.answered() && ctx.Err() == nil {
		return l.try(ctx, l.once, body)
	}
	return resp, a, err
}

func (l *link) try(ctx context.Context, t *http.Transport, body []byte) (*http.Response, *attempt, error) {
	a := new(attempt)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: a.got})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url, bytes.NewReader(body))
	if err != nil {
		return nil, a, fmt.Errorf("making a request: %w", err)
	}
	req.Header = l.header // a RoundTripper only reads it
	resp, err := t.RoundTrip(req)
	return resp, a, err
}

// exchange sends one request and reads its whole answer into r, instants
// relative to base. It judges the protocol; the counts are judged by judge.
func (l *link) exchange(parent context.Context, body []byte, timeout, base time.Duration, r *profile.Request) {
	l.follow(parent, body, timeout, base, r, nil, nil)
}

// follow is exchange, gives the answer's header, and tells of each chunk as it comes. Where it tells it keeps
// none: r then counts them in OutputTokens. Event, where it is not nil, is called with
// every event, whatever it brings.
func (l *link) follow(parent context.Context, body []byte, timeout, base time.Duration, r *profile.Request, tell func(profile.Chunk, usage), event func(chunk)) http.Header {
	ctx, cancel := context.WithTimeout(parent, timeout)
	defer cancel()
	x := exchange{link: l, parent: parent, ctx: ctx, base: base, r: r, timeout: timeout, live: l.live, tell: tell, event: event}
	resp, a, err := l.send(ctx, body)
	if sent := a.sent(); sent > 0 {
		r.Sent = sent - base
	}
	if err != nil {
		kind := profile.FailConnect
		if a.answered() {
			kind = profile.FailMalformed
		}
		x.broke(kind, err)
		return nil
	}
	defer func() { _ = resp.Body.Close() }() // the answer was read or given up
	r.Header = a.conn.last().at - base
	r.Status = resp.StatusCode
	if resp.StatusCode != http.StatusOK {
		x.refused(profile.FailStatus, resp, fmt.Sprintf("HTTP status %d", resp.StatusCode))
		return resp.Header
	}
	if kind := mediaType(resp); kind == "application/json" || kind == "text/html" {
		x.refused(profile.FailMalformed, resp, fmt.Sprintf("the answer is %s, not an event stream", kind))
		return resp.Header
	}
	ev, _ := l.readBuffers.Get().(*events)
	defer l.readBuffers.Put(ev)
	ev.reset(resp.Body, a.conn.last)
	if x.stream(ev) {
		drain(ev, cancel)
	}
	return resp.Header
}

func mediaType(resp *http.Response) string {
	t, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return t
}

// exchange is one request under way.
type exchange struct {
	link    *link
	parent  context.Context // lives as long as one call
	ctx     context.Context // parent with the request's deadline
	timeout time.Duration
	base    time.Duration
	r       *profile.Request
	live    bool // the server counts tokens with each event
	usage   usage
	tell    func(profile.Chunk, usage) // nil: chunks are kept in r
	event   func(chunk)                // nil: nobody looks at events
	chunks  int
}

func (x *exchange) now() time.Duration { return x.link.clock.now() - x.base }

// fail ends the record with a failure, unless it has one.
func (x *exchange) fail(kind profile.Failure, text string) {
	if x.r.End == 0 {
		x.r.End = x.now()
	}
	x.r.Failure, x.r.Error = kind, x.link.secrets.excerpt([]byte(text), false)
}

// broke ends the record with an error of the connection, which may only be
// the effect of a deadline or of the measurement's end.
func (x *exchange) broke(kind profile.Failure, err error) {
	switch {
	case x.parent.Err() != nil:
		x.fail(profile.FailCanceled, "the measurement was stopped")
	case errors.Is(x.ctx.Err(), context.DeadlineExceeded):
		x.fail(profile.FailTimeout, fmt.Sprintf("not finished after %v", x.timeout))
	default:
		x.fail(kind, err.Error())
	}
}

// refused ends the record with an answer that is not a stream.
func (x *exchange) refused(kind profile.Failure, resp *http.Response, text string) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, excerptRead))
	if err != nil && x.ctx.Err() != nil {
		x.broke(kind, err)
		return
	}
	if said := x.link.secrets.excerpt(body, len(body) == excerptRead); said != "" {
		text += ": " + said
	}
	x.r.End = x.now()
	x.r.Failure, x.r.Error = kind, text
}

// stream reads the events to the end and reports whether that was [DONE].
func (x *exchange) stream(ev *events) (done bool) {
	defer x.count()
	for {
		data, at, err := ev.next()
		if err != nil {
			x.ended(err)
			return false
		}
		data = bytes.TrimSpace(data)
		if len(data) == 0 {
			continue
		}
		if string(data) == "[DONE]" {
			x.r.End = at.at - x.base
			return true
		}
		c, err := parseChunk(data)
		if err != nil {
			x.fail(profile.FailMalformed, fmt.Sprintf("an event of the stream: %v: %s", err, x.link.secrets.excerpt(data, false)))
			return false
		}
		if c.failure != "" {
			x.fail(profile.FailMalformed, "the server reported an error in the stream: "+c.failure)
			return false
		}
		x.take(c, at)
	}
}

// brings reports whether an event holds output tokens. If the server counts tokens in each
// event, its count decides, because a special token or a part of a character has no text.
// Otherwise text does. If an answer of one token has no text, its end stands for the token.
func (x *exchange) brings(c chunk) bool {
	switch {
	case x.live && c.usage.seen:
		return c.usage.completion > x.usage.completion
	case c.content:
		return true
	}
	return x.chunks == 0 && c.usage.completion == 1
}

// take adds one chunk to the record.
func (x *exchange) take(c chunk, came stamp) {
	if x.event != nil {
		x.event(c)
	}
	if x.brings(c) {
		at := came.at - x.base
		piece := profile.Chunk{At: at}
		if came.read != came.at {
			piece.Read = came.read - x.base
		}
		if x.r.First == 0 {
			x.r.First = at
		}
		x.r.Last = at
		x.chunks++
		if x.tell == nil {
			x.r.Chunks = append(x.r.Chunks, piece)
		} else {
			x.tell(piece, c.usage)
		}
	}
	if c.finish != "" {
		x.r.Finish = x.link.secrets.excerpt([]byte(c.finish), false)
	}
	if c.usage.seen {
		x.usage = c.usage
	}
}

// ended judges a stream that stopped without [DONE]: some servers leave it
// out, but none leaves out the finish reason.
func (x *exchange) ended(err error) {
	if errors.Is(err, io.EOF) && x.r.Finish != "" {
		x.r.End = x.now()
		return
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("the stream ended without [DONE] or a finish reason")
	}
	x.broke(profile.FailMalformed, fmt.Errorf("after %d events with tokens: %w", x.chunks, err))
}

// count puts the token counts in the record.
func (x *exchange) count() {
	x.r.CachedTokens = -1
	x.r.OutputTokens = x.chunks
	if x.usage.seen {
		x.r.UsageSeen = true
		x.r.PromptTokens = x.usage.prompt
		x.r.OutputTokens = x.usage.completion
		x.r.CachedTokens = x.usage.cached
	}
}

// drainTimeout bounds the wait for the end of an answer after [DONE], without
// which its connection cannot be used again. The end is in the same read as
// [DONE] or right behind it; a server that keeps it back costs a connection.
const drainTimeout = 10 * time.Millisecond

func drain(ev *events, cancel context.CancelFunc) {
	t := time.AfterFunc(drainTimeout, cancel)
	defer t.Stop()
	for {
		if _, _, err := ev.next(); err != nil {
			return
		}
	}
}

// judge fails a request that ended well but did not do what was asked. slack
// is by how many tokens the prompt may differ.
func judge(r *profile.Request, slack int) {
	if r.Failure != "" {
		return
	}
	var wrong []string
	if r.OutputTokens != r.OSL {
		counted := "tokens"
		if !r.UsageSeen {
			counted = "events with text, for the server sends no usage"
		}
		wrong = append(wrong, fmt.Sprintf("%d output tokens asked, got %d %s (finish reason %q)", r.OSL, r.OutputTokens, counted, r.Finish))
	}
	if d := r.PromptTokens - r.ISL; r.PromptTokens > 0 && (d > slack || -d > slack) {
		wrong = append(wrong, fmt.Sprintf("prompt of %d tokens asked, the server counts %d", r.ISL, r.PromptTokens))
	}
	switch {
	case len(r.Chunks) == 0:
		r.Failure = profile.FailEmpty
		r.Error = fmt.Sprintf("no event of the stream held text or counted tokens, so TTFT is unknown (the server counts %d output tokens in all)", r.OutputTokens)
	case len(wrong) > 0:
		r.Failure = profile.FailShort
		r.Error = strings.Join(wrong, "; ")
	}
}
