package frontend

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"slices"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/simserver"
	"plimsoll/profile"
)

const (
	// maxTries bounds how many workers may fail one request after they took it: it
	// may be the request that ends them.
	maxTries = 3
	// maxAnswer bounds an answer that is not streamed, and one event of a stream.
	maxAnswer = 64 << 20
	// retryAfter is what a client that is sent away is told to wait, in seconds.
	retryAfter = "1"
)

// call is one request on its way.
type call struct {
	f         *Frontend
	w         http.ResponseWriter
	r         *http.Request
	q         query
	t         *meter
	id        string // the same at all workers, as vLLM's own router has it
	committed bool   // the client has a status
}

// failure is how a call ended otherwise than well.
type failure struct {
	status  int
	kind    string // label error_type
	message string
	told    bool // the client has it from the worker
}

func (e *failure) Error() string { return e.message }

// generate answers one request for text.
func (f *Frontend) generate(endpoint string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		arrived := time.Now()
		body, err := simserver.ReadBody(w, r)
		var q query
		if err == nil {
			q, err = parseQuery(body)
		}
		c := &call{f: f, w: w, r: r, q: q, id: cmp.Or(r.Header.Get("X-Request-Id"), rand.Text())}
		c.t = f.metrics.begin(q.Model, endpoint, q.Stream, arrived)
		if err == nil {
			err = c.run()
		} else {
			err = badRequest(err)
		}
		c.finish(err)
	}
}

func badRequest(err error) *failure {
	e := &failure{status: http.StatusBadRequest, kind: errValidation, message: err.Error()}
	if told, ok := errors.AsType[*simserver.RequestError](err); ok {
		e.status = told.Status
	}
	return e
}

// finish counts the call's end and tells the client of a failure that it does
// not know yet. A stream that broke off ends its connection too: a client that
// reads no error events sees that it is not whole.
func (c *call) finish(err error) {
	if err == nil {
		c.t.end(noError)
		return
	}
	e, ok := errors.AsType[*failure](err)
	if !ok {
		e = &failure{status: http.StatusInternalServerError, kind: errInternal, message: err.Error()}
	}
	if c.r.Context().Err() != nil {
		e.kind = errCancelled
	}
	c.t.end(e.kind)
	switch {
	case e.told || e.kind == errCancelled && !c.committed:
	case c.committed:
		event := fmt.Appendf(nil, "data: %s\n\n", bytes.TrimSpace(simserver.ErrorBody(e.status, e.message)))
		_ = c.write(event) // it may be the client that is gone
		panic(http.ErrAbortHandler)
	default:
		if e.status == http.StatusServiceUnavailable {
			c.w.Header().Set("Retry-After", retryAfter)
		}
		simserver.WriteError(c.w, e.status, e.message)
	}
}

// run takes the request to where it is answered.
func (c *call) run() error {
	a, err := c.send(first, func(role engine.Role) ([]byte, error) {
		if role == engine.RolePrefill {
			return c.q.prefill()
		}
		return c.q.counted(nil)
	})
	if err != nil {
		return err
	}
	defer a.done()
	if a.place.Role == engine.RolePrefill && a.resp.StatusCode == http.StatusOK {
		return c.handOver(a)
	}
	return c.pass(a)
}

// answer is a worker's, being read; done ends it and gives its place back.
type answer struct {
	resp  *http.Response
	place *place
	done  func()
}

// send asks one worker after another until one takes the request.
func (c *call) send(n need, body func(engine.Role) ([]byte, error)) (answer, error) {
	deadline := time.Now().Add(c.f.opts.QueueTimeout)
	again := false
	for tries := 0; ; again = true {
		x, err := c.f.pool.acquire(c.r.Context(), n, deadline, again)
		if err != nil {
			return answer{}, c.noPlace(err)
		}
		text, err := body(x.Role)
		if err != nil {
			c.f.pool.release(x, false)
			return answer{}, badRequest(err)
		}
		asked := time.Now()
		resp, err := c.post(x, text) //nolint:bodyclose // the answer closes it
		if err == nil {
			c.f.pool.works(x.member)
			return answer{resp, x, c.ending(resp, x)}, nil
		}
		gone := c.r.Context().Err() != nil
		c.f.pool.release(x, !gone)
		if gone {
			return answer{}, &failure{kind: errCancelled}
		}
		if tries++; notReached(err) {
			tries--
		}
		deadline = deadline.Add(time.Since(asked))
		c.f.log.Printf("warning: worker %s fails a request: %v", x.Name, err)
		if errors.Is(err, errSilent) { // elsewhere it would take as long
			return answer{}, broken(x, err)
		}
		if tries == maxTries {
			return answer{}, &failure{status: http.StatusBadGateway, kind: errInternal, message: fmt.Sprintf("%d workers failed this request; the last one: %v", tries, err)}
		}
		c.f.metrics.retries.Inc()
	}
}

// notReached reports whether a worker never saw the request.
func notReached(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial" || errors.Is(err, errUnavailable)
}

// errUnavailable is when a worker answers that it takes no requests now.
var errUnavailable = errors.New("it is unavailable")

// post asks one worker; an error where no byte of an answer came, or the one that it
// takes none.
func (c *call) post(x *place, text []byte) (*http.Response, error) {
	ctx, end := context.WithCancelCause(c.r.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, x.URL+c.r.URL.Path, bytes.NewReader(text))
	if x.end = end; err != nil {
		return nil, err
	}
	req.Header = passedOn(c.r.Header)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Request-Id", c.id)
	x.waits()
	resp, err := c.f.client.Do(req)
	x.heard()
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusServiceUnavailable {
		_, _ = io.CopyN(io.Discard, resp.Body, maxInfo) // so that the connection is used again
		_ = resp.Body.Close()                           // only read
		return nil, errUnavailable
	}
	answer := watched{resp.Body, x}
	resp.Body = answer
	if isStream(resp) {
		begins := bufio.NewReaderSize(answer, 16)
		if _, err := begins.Peek(1); err != nil && !errors.Is(err, io.EOF) {
			_ = answer.Close() // only read
			return nil, err
		}
		resp.Body = struct {
			io.Reader
			io.Closer
		}{begins, answer}
	}
	return resp, nil
}

// ending closes an answer and gives its place back, once.
func (c *call) ending(resp *http.Response, x *place) func() {
	ended := false
	return func() {
		if !ended {
			ended = true
			_ = resp.Body.Close() // only read
			c.f.pool.release(x, false)
		}
	}
}

// noPlace says why no worker could be had.
func (c *call) noPlace(err error) *failure {
	e := &failure{status: http.StatusServiceUnavailable, kind: errNoBackend, message: fmt.Sprintf("%v: waited %v", err, c.f.opts.QueueTimeout)}
	switch {
	case errors.Is(err, errQueueFull):
		e.kind, e.message = errOverload, fmt.Sprintf("%v: the most is %d", err, c.f.opts.MaxQueue)
	case errors.Is(err, context.Canceled):
		e.kind = errCancelled
	}
	return e
}

// hopByHop are the headers that are of one connection (RFC 9110, section 7.6.1).
var hopByHop = []string{"Connection", "Proxy-Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Proxy-Authenticate", "Proxy-Authorization"}

// passedOn are the headers that go on to the other side.
func passedOn(h http.Header) http.Header {
	out := h.Clone()
	for _, list := range h.Values("Connection") {
		for name := range splitList(list) {
			out.Del(name)
		}
	}
	for name := range out {
		if slices.Contains(hopByHop, name) || slices.Contains([]string{"Content-Length", "Accept-Encoding", "Host"}, name) {
			delete(out, name)
		}
	}
	return out
}

// commit gives the client a worker's header, once.
func (c *call) commit(from *http.Response) {
	if c.committed {
		return
	}
	c.committed = true
	for name, values := range passedOn(from.Header) {
		c.w.Header()[name] = values
	}
	if from.Header.Get(simserver.ProvenanceHeader) == profile.Simulated.String() {
		c.f.metrics.simulated.WithLabelValues(c.t.model).Inc()
	}
	c.w.WriteHeader(from.StatusCode)
}

// write passes bytes on at once. A client that does not read is waited for, and
// the worker with it.
func (c *call) write(b []byte) error {
	if _, err := c.w.Write(b); err != nil {
		return &failure{kind: errCancelled, message: err.Error()}
	}
	if err := http.NewResponseController(c.w).Flush(); err != nil {
		return &failure{kind: errCancelled, message: err.Error()}
	}
	return nil
}

// isStream reports whether an answer is one of server-sent events.
func isStream(resp *http.Response) bool {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return err == nil && kind == "text/event-stream" && resp.StatusCode == http.StatusOK
}

// broken is a worker's answer that ended before its time.
func broken(x *place, err error) *failure {
	e := &failure{status: http.StatusBadGateway, kind: errInternal, message: fmt.Sprintf("the answer of worker %s broke off: %v", x.Name, err)}
	if errors.Is(err, errSilent) || errors.Is(err, errLost) {
		e.status = http.StatusGatewayTimeout
	}
	return e
}
