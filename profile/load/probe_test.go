package load

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"plimsoll/profile"
)

func TestProbe(t *testing.T) {
	f := &fake{pace: 5 * time.Millisecond, handle: func(w http.ResponseWriter, _ *http.Request, _ query) bool {
		w.Header().Set("Server", "fake/1")
		w.Header().Set(ProvenanceHeader, "simulated")
		return false
	}}
	p, err := client(t, Options{BaseURL: f.start(t).URL}).Probe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if p.Model != "m" || p.MaxModelLen != 4096 || len(p.Models) != 1 || p.Server != "fake/1" || p.Version != "1.2.3" ||
		p.Provenance != "simulated" || !p.ExactPrompts || !p.ExactOutput ||
		p.Chunks != probeTokens || p.Tokens != probeTokens || p.TTFT <= 0 || p.Warnings != nil {
		t.Errorf("got %+v", p)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.queries); n > 8+2*ackTries {
		t.Errorf("%d requests for a probe", n)
	}
}

func TestProbeOfLesserServers(t *testing.T) {
	f := &fake{noIDs: true, extra: 5, pace: time.Millisecond}
	p, err := client(t, Options{BaseURL: f.start(t).URL, Endpoint: Chat}).Probe(t.Context())
	if err != nil || !p.ExactPrompts || p.Provenance != "" {
		t.Errorf("chat: %+v, %v", p, err)
	}
	f = &fake{noModels: true, noUsage: true, pace: time.Millisecond}
	p, err = client(t, Options{BaseURL: f.start(t).URL, Model: "m"}).Probe(t.Context())
	if err != nil || p.Models != nil || p.Model != "m" || !hasWarning(p.Warnings, "no_usage") {
		t.Errorf("bare: %+v, %v", p, err)
	}
	f = answer(func(w http.ResponseWriter, _ *http.Request, _ query) {
		begin(w)
		send(w, token)
		time.Sleep(5 * time.Millisecond)
		send(w, token)
		end(w)
	})
	p, err = client(t, Options{BaseURL: f.start(t).URL}).Probe(t.Context())
	if err != nil || p.ExactOutput || p.Tokens != 8 || !hasWarning(p.Warnings, "wrong_lengths") {
		t.Errorf("ignores lengths: %+v, %v", p, err)
	}
	f = answer(func(w http.ResponseWriter, _ *http.Request, _ query) {
		w.Header().Set("Content-Type", "text/event-stream")
		say(w, strings.Repeat("data: "+token+"\n\n", probeTokens))
		end(w)
	})
	if p, err = client(t, Options{BaseURL: f.start(t).URL}).Probe(t.Context()); err != nil || !hasWarning(p.Warnings, "buffered") {
		t.Errorf("buffered: %+v, %v", p, err)
	}
}

// A token is what the server counts: text or not, wherever the server counts with each
// event; a client that was not told so asks for text.
func TestTokensWithoutText(t *testing.T) {
	for name, c := range map[string]struct {
		quiet        int
		counts       bool
		chunks, good int // of 8 requests of 4 tokens each
	}{
		"counted":           {2, true, 4, 8},
		"none has text":     {1, true, 4, 8},
		"not counted":       {2, false, 2, 8},
		"neither":           {1, false, 0, 0},
		"all text, counted": {0, true, 4, 8},
	} {
		for _, api := range []Endpoint{Completions, Chat} {
			f := &fake{quiet: c.quiet, counts: c.counts, pace: time.Millisecond}
			cl := client(t, Options{BaseURL: f.start(t).URL, Endpoint: api})
			if _, err := cl.Probe(t.Context()); (err == nil) != (c.good > 0) || err != nil && !errors.Is(err, ErrStreamsNothing) {
				t.Errorf("%s, %s: %v", name, api, err)
			}
			rs, _, err := cl.Measure(t.Context(), profile.Workload{ISL: 16, OSL: 4, Requests: 8, InFlight: 2})
			if err != nil {
				t.Fatal(err)
			}
			good := 0
			for _, r := range rs {
				if r.OK() {
					good++
				}
				if len(r.Chunks) != c.chunks || r.OutputTokens != 4 {
					t.Errorf("%s, %s: %d chunks, %d tokens: %s", name, api, len(r.Chunks), r.OutputTokens, r.Error)
				}
			}
			if good != c.good {
				t.Errorf("%s, %s: %d are whole", name, api, good)
			}
		}
	}
}

func TestProbeTellsTroublesApart(t *testing.T) {
	handler := func(h http.HandlerFunc) func(*testing.T) string {
		return func(t *testing.T) string {
			s := httptest.NewServer(h)
			t.Cleanup(s.Close)
			return s.URL
		}
	}
	server := func(f *fake) func(*testing.T) string { return func(t *testing.T) string { return f.start(t).URL } }
	body := func(kind, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			say(w, text)
		}
	}
	for name, c := range map[string]struct {
		url  func(*testing.T) string
		o    Options
		want error
		says string
	}{
		"nobody": {func(t *testing.T) string {
			s := (&fake{}).start(t)
			s.Close()
			return s.URL
		}, Options{}, ErrUnreachable, "refused"},
		"web site":          {handler(body("text/html", "<html>Welcome</html>")), Options{}, ErrNotLLM, "Welcome"},
		"other JSON":        {handler(body("application/json", `{"hello":1}`)), Options{}, ErrNotLLM, "hello"},
		"other JSON, named": {handler(body("application/json", `{"hello":1}`)), Options{Model: "m"}, ErrNotLLM, "hello"},
		"404":               {handler(http.NotFound), Options{}, ErrNotLLM, "404"},
		"404, named":        {handler(http.NotFound), Options{Model: "m"}, ErrNotLLM, "404"},
		"moved": {handler(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://elsewhere", http.StatusMovedPermanently)
		}), Options{}, ErrNotLLM, "301"},
		"no key":        {server(&fake{key: "k-123"}), Options{}, ErrNeedsKey, "give an API key"},
		"wrong key":     {server(&fake{key: "k-123"}), Options{APIKey: "wrong-key"}, ErrNeedsKey, "does not accept"},
		"unknown model": {server(&fake{model: "llama"}), Options{Model: "lama"}, ErrUnknownModel, "it has llama"},
		"two models":    {handler(body("application/json", `{"data":[{"id":"a"},{"id":"b"}]}`)), Options{}, ErrUnknownModel, "it has a, b"},
		"no model":      {handler(body("application/json", `{"data":[]}`)), Options{}, ErrUnknownModel, "has none"},
		"refuses all": {server(&fake{handle: func(w http.ResponseWriter, _ *http.Request, _ query) bool {
			fail(w, 500, "CUDA error")
			return true
		}}), Options{}, ErrRefused, "it failed: status 500"},
		"refuses streams": {
			server(answer(func(w http.ResponseWriter, _ *http.Request, _ query) { fail(w, 400, "no streaming") })),
			Options{},
			ErrRefused, "no streaming",
		},
		"does not stream": {server(answer(func(w http.ResponseWriter, _ *http.Request, _ query) {
			w.Header().Set("Content-Type", "application/json")
			say(w, `{"choices":[{"text":"x"}]}`)
		})), Options{}, ErrStreamsNothing, "not an event stream"},
		"streams no text": {
			server(answer(func(w http.ResponseWriter, _ *http.Request, _ query) { begin(w); end(w) })),
			Options{},
			ErrStreamsNothing, "TTFT is unknown",
		},
		"breaks off": {server(answer(func(w http.ResponseWriter, _ *http.Request, _ query) {
			begin(w)
			send(w, token)
			panic(http.ErrAbortHandler)
		})), Options{}, ErrStreamsNothing, "after 1 events with tokens"},
		"one chunk": {server(answer(func(w http.ResponseWriter, _ *http.Request, _ query) {
			begin(w)
			send(w, token)
			send(w, `{"choices":[{"text":"","finish_reason":"length"}],"usage":{"prompt_tokens":64,"completion_tokens":16}}`)
		})), Options{}, ErrOneChunk, "all 16 tokens"},
	} {
		t.Run(name, func(t *testing.T) {
			o := c.o
			o.BaseURL = c.url(t)
			_, err := client(t, o).Probe(t.Context())
			if !errors.Is(err, c.want) || !strings.Contains(fmt.Sprint(err), c.says) {
				t.Errorf("got %v; want %q with %q", err, c.want, c.says)
			}
			for _, e := range []error{ErrUnreachable, ErrNoAnswer, ErrNotLLM, ErrNeedsKey, ErrUnknownModel, ErrRefused, ErrStreamsNothing, ErrOneChunk} {
				if !errors.Is(e, c.want) && errors.Is(err, e) {
					t.Errorf("%v is also %q", err, e)
				}
			}
		})
	}
}

func TestProbeHeedsItsContextAndTimeout(t *testing.T) {
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	s := httptest.NewServer(http.HandlerFunc(hang))
	defer s.Close()
	if _, err := client(t, Options{BaseURL: s.URL, Timeout: 100 * time.Millisecond}).Probe(t.Context()); !errors.Is(err, ErrNoAnswer) {
		t.Errorf("timeout: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := client(t, Options{BaseURL: s.URL}).Probe(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancel: %v", err)
	}
}
