package observe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"plimsoll/engine/redact"
	"plimsoll/planner"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// Error is a question that a server did not answer.
type Error struct {
	Server string // its URL, without a password
	Asked  string // in PromQL
	Err    error
	Hint   string // what to do; "" = nothing is known
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("%s: %v", e.Server, e.Err) }

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// NotFoundError is a server without the series that were looked for.
type NotFoundError struct {
	Server string
	What   string   // "requests of the model \"x\""
	There  []string // what there is instead, as the server has it
	Kind   string   // of those: "models"
}

// Error implements error.
func (e *NotFoundError) Error() string {
	s := fmt.Sprintf("%s has no series of %s in this range", e.Server, e.What)
	if len(e.There) == 0 {
		return s
	}
	const most = 20
	there, more := e.There, ""
	if n := len(there) - most; n > 0 {
		there, more = there[:most], fmt.Sprintf(" and %d more", n)
	}
	quoted := make([]string, len(there))
	for i, t := range there {
		quoted[i] = fmt.Sprintf("%q", t)
	}
	return fmt.Sprintf("%s; %s there: %s%s", s, e.Kind, strings.Join(quoted, ", "), more)
}

// Unwrap says that the server answered.
func (e *NotFoundError) Unwrap() error { return planner.ErrNothingSeen }

// AmbiguousError is several models where one has to be named.
type AmbiguousError struct {
	Server string
	Models []string
}

// Error implements error.
func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("%s has requests of %d models: %q", e.Server, len(e.Models), e.Models)
}

// strayError is an answer that there is nothing at a path of the API.
type strayError struct{ path string }

func (e *strayError) Error() string { return "answers, but is no Prometheus: 404 on " + e.path }

// redirectError is an answer that leads elsewhere.
type redirectError struct{ to string }

func (e *redirectError) Error() string { return "it redirects to " + e.to }

// shapeError is an answer of another type than the query has.
type shapeError struct {
	want model.ValueType
	got  model.Value
}

func (e *shapeError) Error() string {
	if e.got == nil {
		return "its answer is empty: want a " + e.want.String()
	}
	return fmt.Sprintf("its answer is a %s: want a %s", e.got.Type(), e.want)
}

// explain is an error of the API in words, with advice. The time that was waited
// is the caller's where that is shorter than the server's own.
func (s *Server) explain(asked string, waited time.Duration, err error) error {
	e := &Error{Server: s.name, Asked: asked, Err: err}
	var api *v1.Error
	var redirect *redirectError
	var stray *strayError
	var shape *shapeError
	switch {
	case errors.As(err, &redirect):
		e.Err, e.Hint = redirect, "give the URL that answers itself; a login page in front takes a bearer token or another address"
	case errors.As(err, &stray):
		e.Err, e.Hint = stray, "is Prometheus mounted at another path? the URL is the one in front of /api/v1"
	case errors.As(err, &shape):
		e.Hint = "is it a Prometheus server?"
	case errors.Is(err, errTooLong):
		e.Err, e.Hint = errTooLong, "a shorter range"
	case errors.As(err, &api):
		e.Hint, e.Err = s.said(api)
	case errors.Is(err, context.DeadlineExceeded):
		e.Err, e.Hint = fmt.Errorf("no answer within %v", min(waited, s.timeout).Round(time.Millisecond)), "a shorter range"
	default:
		e.Err, e.Hint = cause(err), "is Prometheus running there? try it: curl URL/-/ready"
	}
	return e
}

// cause is a network error without the address that was asked, which has the
// whole query in it and may have a password.
func cause(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil || !strings.Contains(err.Error(), "://") {
			return err
		}
		err = inner
	}
}

// said is what helps, and what the server answered.
func (s *Server) said(e *v1.Error) (hint string, err error) {
	words := e.Msg
	if detail := s.shown(e.Detail); detail != "" {
		words += ": " + detail
	}
	code := 0
	if n, err := fmt.Sscanf(e.Msg, "client error: %d", &code); n != 1 || err != nil {
		code = 0
	}
	switch {
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return "a bearer token, or a user and password in the URL: http://USER:PASSWORD@HOST:9090", fmt.Errorf("it does not let us in (%s)", words)
	case e.Type == v1.ErrTimeout || e.Type == v1.ErrCanceled:
		return "a shorter range", fmt.Errorf("it gave up: %s", words)
	case e.Type == v1.ErrExec && strings.Contains(words, "too many samples"):
		return "a shorter range, or a higher --query.max-samples of the server", errors.New(words)
	case e.Type == v1.ErrServer:
		return "the server's log has more", errors.New(words)
	case e.Type == v1.ErrBadResponse:
		return "is it a Prometheus server?", fmt.Errorf("answers, but is no Prometheus: %s", words)
	}
	return "", errors.New(words)
}

// shown is the first line of an answer, as far as it can be shown.
func (s *Server) shown(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	line = redact.Of(s.secrets...).Clean(line)
	line = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, line)
	const most = 200
	if len(line) > most {
		line = strings.ToValidUTF8(line[:most], "") + " …"
	}
	return line
}
