package observe

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// answers is a server that says one thing.
func answers(t *testing.T, status int, body string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

const secret = "s3cr3t-t0ken"

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
		"elsewhere":    {answers(t, 404, "404 page not found\nmore"), "client error: 404: 404 page not found", "another path"},
		"broken":       {answers(t, 500, "oh\x1b[31m no"), "server error: 500: oh [31m no", "the server's log"},
		"overloaded":   {answers(t, 503, strings.Repeat("x", 1000)), "server error: 503", "the server's log"},
		"too many":     {answers(t, 422, `{"status":"error","errorType":"execution","error":"query processing would load too many samples into memory in query execution"}`), "too many samples", "--query.max-samples"},
		"gave up":      {answers(t, 422, `{"status":"error","errorType":"timeout","error":"query timed out"}`), "it gave up: query timed out", "a shorter range"},
		"bad":          {answers(t, 400, `{"status":"error","errorType":"bad_data","error":"parse error"}`), "parse error", ""},
		"a web page":   {answers(t, 200, "<html>"), "its answer is not Prometheus'", "is it a Prometheus server?"},
		"empty":        {answers(t, 200, ""), "its answer is not Prometheus'", "is it a Prometheus server?"},
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

// A query that is answered by what is none of its kind.
func TestAnswersOfAnotherShape(t *testing.T) {
	s := dial(t, Options{URL: answers(t, 200, `{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}`)})
	if _, err := s.at(t.Context(), "x", begin); err == nil || !strings.Contains(err.Error(), "is a scalar: want a vector") {
		t.Errorf("a scalar gives %v", err)
	}
	if _, err := s.along(t.Context(), "x", begin, begin, time.Second); err == nil || !strings.Contains(err.Error(), "want a matrix") {
		t.Errorf("a scalar gives %v", err)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	b := &bounded{io.NopCloser(strings.NewReader("0123456789")), 4}
	if got, err := io.ReadAll(b); string(got) != "0123" || !errors.Is(err, errTooLong) {
		t.Errorf("read %q, %v", got, err)
	}
}

// The token goes to the server and nowhere else.
func TestTokenStaysWithItsHost(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	t.Cleanup(other.Close)
	var got atomic.Value
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got.Store(r.Header.Get("Authorization"))
		http.Redirect(w, r, other.URL+"/login?token=x", http.StatusTemporaryRedirect)
	}))
	t.Cleanup(s.Close)
	_, err := dial(t, Options{URL: s.URL, BearerToken: secret}).Find(t.Context(), wanted("m"))
	if err == nil || !strings.Contains(err.Error(), "it redirects to "+other.URL) || strings.Contains(err.Error(), secret) {
		t.Errorf("a redirect gives %v", err)
	}
	if got.Load() != "Bearer "+secret || elsewhere.Load() != 0 {
		t.Errorf("sent %v, and %d requests elsewhere", got.Load(), elsewhere.Load())
	}
}

func TestBasicAuthenticationInTheURL(t *testing.T) {
	var user, password string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ = r.BasicAuth()
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(s.Close)
	_, err := dial(t, Options{URL: strings.Replace(s.URL, "//", "//me:"+secret+"@", 1)}).Find(t.Context(), wanted("m"))
	if user != "me" || password != secret {
		t.Errorf("sent %q and %q", user, password)
	}
	if err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("error %v", err)
	}
	s.Close()
	_, err = dial(t, Options{URL: strings.Replace(s.URL, "//", "//me:"+secret+"@", 1)}).Find(t.Context(), wanted("m"))
	if err == nil || strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "api/v1") {
		t.Errorf("error %v", err)
	}
}

func TestDialRefuses(t *testing.T) {
	for _, o := range []Options{
		{URL: "prometheus:9090"},
		{URL: ""},
		{URL: "ftp://x"},
		{URL: "http://"},
		{URL: "http://x/?a=b"},
		{URL: "http://x:" + secret + ":y"},
		{URL: "http://u:" + secret + "@x", BearerToken: "t"},
		{URL: "http://x", BearerToken: secret + "\nX: y"},
		{URL: "ftp://u:" + secret + "@x"},
	} {
		if _, err := Dial(o); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%q is taken, or shown: %v", o.URL, err)
		}
	}
}

func FuzzDial(f *testing.F) {
	f.Add("http://u:p@host:9090/prom", "token")
	f.Add("http://[::1", "")
	f.Fuzz(func(t *testing.T, url, token string) {
		s, err := Dial(Options{URL: url, BearerToken: token})
		if (s == nil) == (err == nil) {
			t.Errorf("%q: %v, %v", url, s, err)
		}
	})
}
