//go:build full

package observe

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// What a server can do wrong, each with words and a hint, and no secret in them.
func TestServersThatDoNotAnswer(t *testing.T) {
	down := httptest.NewServer(http.NotFoundHandler())
	down.Close()
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or a broken connection is not seen
		<-r.Context().Done()
	}))
	t.Cleanup(slow.Close)
	// The caller may have less time than the server.
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := dial(t, Options{URL: slow.URL, Timeout: time.Minute}).Find(ctx, wanted("m")); err == nil || !strings.Contains(err.Error(), slow.URL+": no answer within 2") {
		t.Errorf("the caller's time is over: %v", err)
	}
	for name, c := range map[string]struct {
		url, want, hint string
	}{
		"down":         {down.URL, "connection refused", "is Prometheus running there"},
		"slow":         {slow.URL, "no answer within 200ms", "a shorter range"},
		"unauthorized": {answers(t, 401, "no "+secret), "it does not let us in (client error: 401: no [redacted])", "a bearer token"},
		"forbidden":    {answers(t, 403, ""), "it does not let us in", "a bearer token"},
		"broken":       {answers(t, 500, "oh\x1b[31m no"), "server error: 500: oh [31m no", "the server's log"},
		"overloaded":   {answers(t, 503, strings.Repeat("x", 1000)), "server error: 503", "the server's log"},
		"too many":     {answers(t, 422, `{"status":"error","errorType":"execution","error":"query processing would load too many samples into memory in query execution"}`), "too many samples", "--query.max-samples"},
		"gave up":      {answers(t, 422, `{"status":"error","errorType":"timeout","error":"query timed out"}`), "it gave up: query timed out", "a shorter range"},
		"bad":          {answers(t, 400, `{"status":"error","errorType":"bad_data","error":"parse error"}`), "parse error", ""},
		"a web page":   {answers(t, 200, "<html>"), "answers, but is no Prometheus: invalid character", "is it a Prometheus server?"},
		"empty":        {answers(t, 200, ""), "answers, but is no Prometheus: unexpected end", "is it a Prometheus server?"},
	} {
		s := dial(t, Options{URL: c.url, BearerToken: secret, Timeout: 200 * time.Millisecond})
		_, err := s.Find(t.Context(), wanted("m"))
		var failed *Error
		if !errors.As(err, &failed) || !strings.Contains(err.Error(), c.want) || !strings.Contains(failed.Hint, c.hint) {
			t.Errorf("%s: error %v with hint %+v, want %q with %q", name, err, failed, c.want, c.hint)
		}
		if err != nil && (strings.Contains(err.Error(), secret) || len(err.Error()) > 400 || strings.Contains(err.Error(), "\x1b")) {
			t.Errorf("%s: the error tells too much: %q", name, err)
		}
	}
}
