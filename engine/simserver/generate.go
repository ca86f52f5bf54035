package simserver

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/sim"
)

// maxBody bounds a request's body: a prompt of a million token ids.
const maxBody = 16 << 20

// stream is a request between the driver, which produces its tokens, and its
// handler, which writes them.
type stream struct {
	req     sim.Request
	arrived time.Time
	finish  finish
	moves   engine.Picoseconds // how long its KV takes from the engine that computed the prompt

	wake     chan struct{} // holds one; full = there are new tokens
	produced atomic.Int64  // tokens so far
	cached   int           // prompt tokens found in the prefix cache; set before the first token

	queued instant            // when it reaches the engine: the overhead after arrived, or later
	first  engine.Picoseconds // when the first token came out, for the record; the driver's
	began  time.Time          // when the first token was handed out; the driver's
	last   time.Time          // likewise the last one
}

// generate answers one request for text.
func (s *Server) generate(w http.ResponseWriter, r *http.Request, d dialect, parse func([]byte) (query, error)) {
	arrived := time.Now()
	q, st, err := s.accept(w, r, parse)
	if err != nil {
		told, ok := errors.AsType[*RequestError](err)
		if !ok {
			told = &RequestError{http.StatusInternalServerError, err.Error()}
		}
		WriteError(w, told.Status, told.Message)
		return
	}
	st.arrived = arrived
	e := envelope{
		ID:      d.idPrefix + cmp.Or(requestID(r), fmt.Sprintf("%016x", st.req.ID)),
		Created: arrived.Unix(),
		Model:   s.opts.Model,
	}
	a := newAnswer(s.cfg.Seed, q.prompt)
	s.driver.in.add(st)
	if q.stream {
		s.stream(w, r, st, newChunks(d, e, a, st.req.OutputTokens, st.finish), q)
		return
	}
	n, ok := s.await(r, st, st.req.OutputTokens)
	if !ok {
		return
	}
	var text []byte
	for i := range n {
		text = a.appendWord(text, i)
	}
	var next *transfer
	if q.handover.DoRemoteDecode {
		next = &transfer{DoRemotePrefill: true}
	}
	writeJSON(w, http.StatusOK, whole(d, e, string(text), st.finish, newUsage(st.req.PromptTokens, n, st.cached), next))
}

// requestID is the one that the client gave, as vLLM takes it over; empty = none.
func requestID(r *http.Request) string {
	id := r.Header.Get("X-Request-Id")
	if len(id) > 128 {
		return ""
	}
	return id
}

// accept reads a request and refuses what the engine cannot do.
func (s *Server) accept(w http.ResponseWriter, r *http.Request, parse func([]byte) (query, error)) (query, *stream, error) {
	warmUp := false
	if v := r.Header.Get(WarmUpHeader); v != "" {
		var err error
		if warmUp, err = strconv.ParseBool(v); err != nil {
			return query{}, nil, badRequest("%s is %q: want true or false", WarmUpHeader, v)
		}
	}
	data, err := ReadBody(w, r)
	if err != nil {
		return query{}, nil, err
	}
	q, err := parse(data)
	if err != nil {
		return query{}, nil, err
	}
	if q.model != "" && q.model != s.opts.Model {
		return query{}, nil, &RequestError{http.StatusNotFound, fmt.Sprintf("no model %q here: this server has %q", q.model, s.opts.Model)}
	}
	st, err := s.plan(q, warmUp)
	return q, st, err
}

// ReadBody reads a bounded body, for which ServeHTTP bounds the time. Its errors are
// *RequestError.
func ReadBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, &RequestError{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes", tooLarge.Limit)}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, &RequestError{http.StatusRequestTimeout, "the body did not arrive in time"}
	}
	if err != nil {
		return nil, badRequest("reading the body: %v", err)
	}
	return data, nil
}

// plan decides how many tokens a query gets, and why no more.
func (s *Server) plan(q query, warmUp bool) (*stream, error) {
	r := sim.Request{
		ID:           s.requests.Add(1),
		PromptTokens: len(q.prompt),
		Prefix:       s.prefix(q.prompt),
		OutputTokens: q.maxTokens,
		WarmUp:       warmUp,
	}
	if q.maxTokens == 0 {
		r.OutputTokens = max(1, s.cfg.MaxTokens()-r.PromptTokens)
	}
	// Before the answer's own end is known, as a real engine has to.
	var tooLong *sim.TooLongError
	if err := s.cfg.Check(r); errors.As(err, &tooLong) {
		return nil, badRequest("%v", tooLong)
	} else if err != nil {
		return nil, err
	}
	f := finishLength
	if end := max(newAnswer(s.cfg.Seed, q.prompt).end(), q.minTokens); !q.ignoreEOS && end < r.OutputTokens {
		r.OutputTokens, f = end, finishStop
	}
	if n := s.cfg.Output(r.OutputTokens); n < r.OutputTokens {
		r.OutputTokens, f = n, finishLength
	}
	st := &stream{req: r, finish: f, wake: make(chan struct{}, 1)}
	if q.handover.DoRemotePrefill && s.cfg.Role == engine.RoleDecode && s.opts.Transfer != nil { // any other computes it again
		st.moves = s.opts.Transfer(r.PromptTokens)
	}
	return st, nil
}

// prefix is what the prefix cache knows a prompt by.
func (s *Server) prefix(prompt []uint32) []uint64 {
	if !s.cfg.PrefixCaching {
		return nil
	}
	return sim.BlockHashes(prompt, s.cfg.Limits.BlockSize)
}

// await waits until st has at least n tokens and returns how many; false where
// the client went away, whose request is then canceled.
func (s *Server) await(r *http.Request, st *stream, n int) (int, bool) {
	for {
		select {
		case <-st.wake:
			if have := int(st.produced.Load()); have >= n {
				return have, true
			}
		case <-r.Context().Done():
			s.driver.in.cancel(st.req.ID)
			return 0, false
		}
	}
}

// stream writes one event per token as they come.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, st *stream, c chunks, q query) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	w.Header().Set("Cache-Control", "no-cache")
	rc := http.NewResponseController(w)
	write := func(b []byte) bool {
		if _, err := w.Write(b); err == nil && rc.Flush() == nil {
			return true
		}
		s.driver.in.cancel(st.req.ID)
		return false
	}
	if !write(nil) { // the headers, at once
		return
	}
	var buf []byte
	for sent, total := 0, st.req.OutputTokens; sent < total; {
		have, ok := s.await(r, st, sent+1)
		if !ok {
			return
		}
		buf = buf[:0]
		for ; sent < have; sent++ {
			buf = c.appendToken(buf, sent, usageIf(q.liveUsage, st, sent+1))
		}
		if sent == total {
			buf = c.appendEnd(buf, usageIf(q.usage, st, total))
		}
		if !write(buf) {
			return
		}
	}
}

// usageIf is the usage once so many tokens are out, if it is wanted.
func usageIf(wanted bool, st *stream, tokens int) *usage {
	if !wanted {
		return nil
	}
	return new(newUsage(st.req.PromptTokens, tokens, st.cached))
}
