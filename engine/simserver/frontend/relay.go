package frontend

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// pass gives the client a worker's answer.
func (c *call) pass(a answer) error {
	if isStream(a.resp) {
		return c.relay(a)
	}
	data, err := readAll(a)
	if err != nil {
		return err
	}
	if a.resp.StatusCode == http.StatusOK {
		var e event
		if json.Unmarshal(data, &e) == nil {
			c.count(e)
		}
	}
	c.t.unqueue()
	c.w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	c.commit(a.resp)
	if err := c.write(data); err != nil {
		return err
	}
	if kind := kindOf(a.resp.StatusCode); kind != noError {
		return &failure{kind: kind, message: "the worker refused it", told: true}
	}
	return nil
}

// readAll reads an answer that is not streamed.
func readAll(a answer) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(a.resp.Body, maxAnswer+1))
	if err == nil && len(data) > maxAnswer {
		err = fmt.Errorf("it is larger than %d bytes", maxAnswer)
	}
	if err != nil {
		return nil, broken(a.place, err)
	}
	return data, nil
}

// kindOf is the kind of failure that a worker's status tells of.
func kindOf(status int) string {
	switch {
	case status < http.StatusBadRequest:
		return noError
	case status == http.StatusNotFound:
		return errNotFound
	case status == http.StatusTooManyRequests:
		return errOverload
	case status < http.StatusInternalServerError:
		return errValidation
	}
	return errInternal
}

// event is what the frontend reads of a stream's event, or of a whole answer.
type event struct {
	Choices []struct {
		Text  string
		Delta struct {
			Content          string
			Reasoning        string
			ReasoningContent string          `json:"reasoning_content"`
			ToolCalls        json.RawMessage `json:"tool_calls"`
		}
		FinishReason *string `json:"finish_reason"`
	}
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
	}
	Error json.RawMessage
}

// hasContent reports whether the event brings a token at least.
func (e event) hasContent() bool {
	for _, c := range e.Choices {
		if c.Text != "" || c.Delta.Content != "" || c.Delta.Reasoning != "" || c.Delta.ReasoningContent != "" || len(c.Delta.ToolCalls) > len("null") {
			return true
		}
	}
	return false
}

// count takes down the tokens that the worker counted.
func (c *call) count(e event) {
	if e.Usage != nil {
		c.t.isl, c.t.osl = e.Usage.Prompt, e.Usage.Completion
	}
}

// relay passes the events of a stream on as they come, those that came together
// in one write, the header with the first, and fails where it ends before its end.
func (c *call) relay(a answer) error {
	s := relayed{call: c}
	buf := make([]byte, 0, 4096)
	var out []byte
	for {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := a.resp.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		out = out[:0]
		rest := buf
		for ev := range events(&rest) {
			out = s.event(out, ev)
		}
		if errors.Is(err, io.EOF) { // the last event need not have its empty line
			out, rest = append(out, rest...), nil
			s.ended = s.ended || bytes.Contains(out, []byte("data: [DONE]"))
		}
		buf = append(buf[:0], rest...)
		if len(out) > 0 {
			if err := s.send(a, out); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return s.end(a)
		case err != nil:
			return broken(a.place, err)
		case len(buf) > maxAnswer:
			return broken(a.place, fmt.Errorf("an event is larger than %d bytes", maxAnswer))
		}
	}
}

// events are the whole events at the head of text, with their empty lines, which
// are taken off it.
func events(text *[]byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for {
			end := bytes.Index(*text, []byte("\n\n")) + 2
			if crlf := bytes.Index(*text, []byte("\r\n\r\n")) + 4; crlf >= 4 && (end < 2 || crlf < end) {
				end = crlf
			}
			if end < 2 {
				return
			}
			ev := (*text)[:end]
			*text = (*text)[end:]
			if !yield(ev) {
				return
			}
		}
	}
}

// relayed is a stream on its way through.
type relayed struct {
	call   *call
	tokens int   // events with content in this write
	ended  bool  // [DONE] or a finish reason came
	failed error // the worker sent an error event
}

// event appends what the client gets of an event: all, but for a usage that it did not ask for.
func (s *relayed) event(out, ev []byte) []byte {
	data, ok := bytes.CutPrefix(ev, []byte("data:"))
	data = bytes.TrimSpace(data)
	if !ok || string(data) == "[DONE]" {
		s.ended = s.ended || ok
		return append(out, ev...)
	}
	var e event
	if err := json.Unmarshal(data, &e); err != nil { // not ours to judge
		return append(out, ev...)
	}
	for _, choice := range e.Choices {
		s.ended = s.ended || choice.FinishReason != nil
	}
	if len(e.Error) > 0 && string(e.Error) != "null" {
		s.failed = &failure{kind: errInternal, message: "the worker ended the stream with an error", told: true}
	}
	if e.hasContent() {
		s.tokens++
	}
	s.call.count(e)
	if e.Usage != nil && len(e.Choices) == 0 && !s.call.q.StreamOptions.IncludeUsage {
		return out
	}
	return append(out, ev...)
}

// send writes what came together, and counts its tokens at the instant after it.
func (s *relayed) send(a answer, out []byte) error {
	if s.tokens > 0 {
		s.call.f.pool.begin(a.place)
	}
	s.call.commit(a.resp)
	if err := s.call.write(out); err != nil {
		return err
	}
	now := time.Now()
	for ; s.tokens > 0; s.tokens-- {
		s.call.t.token(now)
	}
	return nil
}

// end judges a stream whose worker has closed it.
func (s *relayed) end(a answer) error {
	switch {
	case s.failed != nil:
		return s.failed
	case !s.ended:
		return broken(a.place, errors.New("it has neither a last event nor a finish reason"))
	}
	return nil
}

// splitList is a header's list of words.
func splitList(list string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for word := range strings.SplitSeq(list, ",") {
			if !yield(strings.TrimSpace(word)) {
				return
			}
		}
	}
}
