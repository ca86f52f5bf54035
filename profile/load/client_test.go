package load

import (
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"plimsoll/profile"
)

func TestNewRefuses(t *testing.T) {
	good := "http://127.0.0.1:8000"
	header := func(name, value string) []Header { return []Header{{Name: name, Value: Secret(value)}} }
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{}, "base URL is empty"},
		{Options{BaseURL: "127.0.0.1:8000"}, "base URL"},
		{Options{BaseURL: "localhost:8000"}, "scheme"},
		{Options{BaseURL: "ftp://h"}, "scheme"},
		{Options{BaseURL: "http://"}, "no host"},
		{Options{BaseURL: "http://:8000"}, "no host"},
		{Options{BaseURL: "http://[::1"}, "cannot be parsed"},
		{Options{BaseURL: "http://user:hunter2@h"}, "user or password"},
		{Options{BaseURL: "http://user:hunter2@h:port"}, "cannot be parsed"},
		{Options{BaseURL: "http://h?key=hunter2"}, "query"},
		{Options{BaseURL: good, Endpoint: "embeddings"}, `endpoint "embeddings"`},
		{Options{BaseURL: good, Timeout: -time.Second}, "timeout -1s"},
		{Options{BaseURL: good, Vocab: -1}, "vocab -1"},
		{Options{BaseURL: good, Headers: header("", "hunter2")}, "header name"},
		{Options{BaseURL: good, Headers: header("X Y", "hunter2")}, "header name"},
		{Options{BaseURL: good, Headers: header("X-Y", "hunter2\r\nX: y")}, "control character"},
		{Options{BaseURL: good, Headers: header("content-length", "3")}, "set by the client"},
		{Options{BaseURL: good, APIKey: "hunter2\n"}, "API key"},
		{Options{BaseURL: good, APIKey: "hunter2", Headers: header("authorization", "hunter2")}, "both"},
	} {
		_, err := New(c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v, want a complaint about %q", err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("credentials in %q", err)
		}
	}
}

func TestBaseURLWithAndWithoutV1(t *testing.T) {
	for in, want := range map[string]string{
		"http://h":           "http://h/v1/models",
		"http://h/":          "http://h/v1/models",
		"http://h:1/v1":      "http://h:1/v1/models",
		"http://h:1/v1/":     "http://h:1/v1/models",
		"https://h/a/b":      "https://h/a/b/v1/models",
		"https://[::1]:8/v1": "https://[::1]:8/v1/models",
	} {
		if got := client(t, Options{BaseURL: in}).url("/models"); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
	for in, want := range map[string]string{"http://h": "h:80", "https://h": "h:443", "http://[::1]": "[::1]:80", "http://[::1]:9": "[::1]:9"} {
		if got, _ := client(t, Options{BaseURL: in}).address(); got != want {
			t.Errorf("%s: dials %s, want %s", in, got, want)
		}
	}
}

func TestParseHeader(t *testing.T) {
	h, err := ParseHeader(" X-Key :  a:b ")
	if err != nil || h.Name != "X-Key" || string(h.Value) != "a:b" {
		t.Errorf("got %s, %v", h.Name, err)
	}
	for _, in := range []string{"hunter2", ": hunter2", "X Y: hunter2"} {
		if _, err := ParseHeader(in); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: got %v", in, err)
		}
	}
}

func TestSecretsDoNotPrint(t *testing.T) {
	o := Options{BaseURL: "http://h", APIKey: "hunter2hunter2", Headers: []Header{{Name: "X-Key", Value: "swordfish"}}, Secrets: []Secret{"swordfish2"}}
	c := client(t, o)
	asJSON, _ := json.Marshal(o.Headers)
	for _, text := range []string{
		fmt.Sprintf("%v %+v %#v %s", o, o, o, o.APIKey), fmt.Sprintf("%v %+v %#v", c, c, c), string(asJSON),
	} {
		if strings.Contains(text, "hunter2") || strings.Contains(text, "swordfish") {
			t.Errorf("credentials in %s", text)
		}
	}
}

// echo answers with all that it was sent, in several spellings, and with what it
// knows from elsewhere.
func echo(w http.ResponseWriter, r *http.Request) {
	sayf(w, "told-in-confidence ")
	for _, values := range r.Header {
		for _, v := range values {
			quoted, _ := json.Marshal(v)
			sayf(w, "%s %q %s ", v, v, quoted)
		}
	}
}

func TestCredentialsAreNeverInRecordsOrErrors(t *testing.T) {
	const key, other = `sk-qzx"wvk\2<x>`, "swordfish swordfish2"
	o := Options{APIKey: key, Headers: []Header{{Name: "X-Other", Value: other}}, Secrets: []Secret{"told-in-confidence"}}
	headers := func(r *http.Request) string { return r.Header.Get("Authorization") + r.Header.Get("X-Other") }
	for name, do := range map[string]http.HandlerFunc{
		"status": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(403); echo(w, r) },
		"long": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(500)
			say(w, strings.Repeat(headers(r), 2000))
		},
		"cut": func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(500) // so that the last key is cut where reading stops
			say(w, strings.Repeat(" ", excerptRead-8), headers(r), headers(r))
		},
		"not a stream": func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Content-Type", "text/html"); echo(w, r) },
		"event":        func(w http.ResponseWriter, r *http.Request) { begin(w); say(w, "data: "); echo(w, r) },
		"error event": func(w http.ResponseWriter, r *http.Request) {
			begin(w)
			quoted, _ := json.Marshal(headers(r))
			sayf(w, "data: {\"error\":{\"message\":%s}}\n\n", quoted)
		},
		"finish": func(w http.ResponseWriter, r *http.Request) {
			begin(w)
			quoted, _ := json.Marshal(headers(r))
			sayf(w, "data: {\"choices\":[{\"finish_reason\":%s}]}\n\n", quoted)
		},
	} {
		s := httptest.NewServer(do)
		o.BaseURL = s.URL
		c := client(t, o)
		rs := measure(t, c, closed(2, 1))
		_, err := c.Probe(t.Context())
		s.Close()
		text, _ := json.Marshal(rs)
		for _, said := range []string{string(text), fmt.Sprint(rs), fmt.Sprint(err)} {
			for _, secret := range []string{"qzx", "wvk", "swordfish", "told-in-confidence"} {
				if strings.Contains(said, secret) {
					t.Errorf("%s: %q in %s", name, secret, said)
				}
			}
		}
		if rs[0].OK() || err == nil {
			t.Errorf("%s: record %+v, probe %v", name, rs[0], err)
		}
	}
}

func TestHeadersAreSent(t *testing.T) {
	f := &fake{key: "k-123"}
	o := Options{BaseURL: f.start(t).URL, APIKey: "k-123", Headers: []Header{{"X-A", "1"}, {"x-a", "2"}}}
	if r := measure(t, client(t, o), closed(1, 1))[0]; !r.OK() {
		t.Fatalf("record %+v", r)
	}
	for _, h := range f.headers {
		if got := strings.Join(h["X-A"], ","); got != "1,2" || h.Get("User-Agent") != "plimsoll" || h.Get("Accept-Encoding") != "" {
			t.Errorf("headers %v", h)
		}
	}
}

func TestEnvironmentProxiesAreNotUsed(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	l := client(t, Options{BaseURL: "http://h"}).open(0, false)
	if l.reuse.Proxy != nil || l.once.Proxy != nil {
		t.Error("a transport has a proxy")
	}
}

func TestUntrustedCertificateIsAConnectFailure(t *testing.T) {
	s := httptest.NewUnstartedServer(&fake{})
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	defer s.Close()
	r := measure(t, client(t, Options{BaseURL: s.URL, Model: "m", TokenIDs: true}), closed(1, 1))[0]
	if r.Failure != profile.FailConnect || !strings.Contains(r.Error, "certificate") {
		t.Errorf("record %+v", r)
	}
}

func TestTLSIsMeasuredAlike(t *testing.T) {
	f := &fake{pace: time.Millisecond}
	s := httptest.NewTLSServer(f)
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	for _, r := range measure(t, client(t, Options{BaseURL: s.URL, RootCAs: roots}), closed(12, 3)) {
		ordered(t, r)
		if !r.OK() || r.Sent <= r.Due || r.Header <= r.Sent || r.First < r.Header || len(r.Chunks) != 8 {
			t.Errorf("record %+v", r)
		}
		if runtime.GOOS == "linux" && r.OK() && r.Chunks[0].Read == 0 {
			t.Error("no stamp of the kernel below TLS")
		}
	}
}
