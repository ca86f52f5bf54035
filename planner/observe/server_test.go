package observe

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/common/model"

	"plimsoll/planner"
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

// A server that repeats what it was asked with shows neither a password of the URL.
func TestPasswordsOfURLsAreHidden(t *testing.T) {
	url := strings.Replace(answers(t, 401, "no "+secret), "//", "//me:"+secret+"@", 1)
	s := dial(t, Options{URL: url, Timeout: time.Minute})
	if _, err := s.Find(t.Context(), wanted("m")); err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "401: no [redacted]") {
		t.Error(err)
	}
	if e := (Endpoint{URL: url}).String(); strings.Contains(e, secret) || !strings.Contains(e, "me:[redacted]@") {
		t.Error(e)
	}
}

// A query that is answered by what is none of its kind.
func TestAnswersOfAnotherShape(t *testing.T) {
	s := dial(t, Options{URL: answers(t, 200, `{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}`)})
	if _, err := ask[model.Vector](t.Context(), s, "x", begin); err == nil || !strings.Contains(err.Error(), "is a scalar: want a vector") {
		t.Errorf("a scalar gives %v", err)
	}
	if _, err := s.along(t.Context(), "x", begin, begin, time.Second); err == nil || !strings.Contains(err.Error(), "want a matrix") {
		t.Errorf("a scalar gives %v", err)
	}
}

// An address of something else is said to be no Prometheus, whoever asks; one that is no
// more than slow to start is asked again, until it has answered once.
func TestServerThatIsNoPrometheus(t *testing.T) {
	for name, c := range map[string]struct {
		code map[string]int // of a method's answers
		path string         // of the URL
		want string
	}{
		"a file server (Python's http.server)": {code: map[string]int{"POST": 501, "GET": 404}, want: "404 on /api/v1/query"},
		"one that takes no POST":               {code: map[string]int{"POST": 405, "GET": 404}, want: "404 on /api/v1/query"},
		"a path where it is not mounted":       {code: map[string]int{"POST": 404, "GET": 404}, path: "/prom/", want: "404 on /prom/api/v1/query"},
	} {
		var there atomic.Bool
		var asked atomic.Int32
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			if there.Load() {
				_, _ = io.WriteString(w, `{"status":"success","data":{"resultType":"vector","result":[]}}`)
				return
			}
			w.WriteHeader(c.code[r.Method])
		}))
		t.Cleanup(s.Close)
		l, err := NewLive(dial(t, Options{URL: s.URL + c.path}), LiveOptions{Presets: Presets("vllm")})
		if err != nil {
			t.Fatal(err)
		}
		var failed *Error
		if err := l.Sample(t.Context(), planner.State{}); !errors.As(err, &failed) || !strings.HasSuffix(err.Error(), ": answers, but is no Prometheus: "+c.want) || !strings.Contains(failed.Hint, "another path") {
			t.Errorf("%s: %v", name, err)
		}
		there.Store(true)
		for range 2 {
			if err := l.Sample(t.Context(), planner.State{}); err != nil {
				t.Errorf("%s, when Prometheus is there: %v", name, err)
			}
		}
		if n := asked.Load(); int(n) > len(c.code)+1 {
			t.Errorf("%s: asked %d times", name, n)
		}
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
