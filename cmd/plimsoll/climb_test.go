package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"plimsoll/engine"
	"plimsoll/profile"
)

// layout is a configuration of dp attention replicas.
func layout(dp int) engine.Config {
	return engine.Config{Parallelism: engine.Parallelism{TP: 1, PP: 1, DP: dp}}
}

// Engines in virtual time offer stairs, and count their own time; with several
// attention replicas nobody chooses the one whose stream is canceled.
func TestClimbEstimate(t *testing.T) {
	s := contests()[0].seeker(t)
	for dp, want := range map[int]bool{1: true, 2: false} {
		in, err := estimator(s).Launch(t.Context(), layout(dp))
		if err != nil {
			t.Fatal(err)
		}
		if got := in.Climb != nil; got != want {
			t.Errorf("%d attention replicas: stairs are offered: %v, want %v", dp, got, want)
		}
		if !want {
			continue
		}
		stairs, err := in.Climb(t.Context(), profile.Workload{ISL: 1000, OSL: 500, InFlight: 8})
		if err != nil {
			t.Fatal(err)
		}
		m := levelOf(t, stairs, 8, 50)
		if m.Void != "" || len(m.Requests) != 8 || len(m.Running) != 50 || m.Running[0].N != 8 || in.Busy() < m.Window.Length() {
			t.Errorf("void %q, %d records, %d counts, busy for %v", m.Void, len(m.Requests), len(m.Running), in.Busy())
		}
		if err := stairs.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// bundling is an endpoint that streams so many tokens in each chunk.
func bundling(t *testing.T, tokens int) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/completions" {
			http.NotFound(w, r)
			return
		}
		var q struct {
			Prompt []int
			Stream bool
		}
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || !q.Stream { // how many tokens a prompt has
			_, _ = fmt.Fprintf(w, `{"choices":[{"text":"x"}],"usage":{"prompt_tokens":%d,"completion_tokens":1}}`, len(q.Prompt))
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for range 16 / tokens {
			_, _ = fmt.Fprint(w, "data: {\"choices\":[{\"text\":\"x\"}]}\n\n") // to a client that may be gone
			_ = http.NewResponseController(w).Flush()
		}
		_, _ = fmt.Fprint(w, "data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"length\"}],\"usage\":{\"prompt_tokens\":64,\"completion_tokens\":16}}\n\ndata: [DONE]\n\n")
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// A server offers stairs where a stream that is canceled half-way tells how many
// tokens it gave.
func TestClimbEndpoint(t *testing.T) {
	stepped, _ := steppedEngine(t, steppedConfig())
	for _, tt := range []struct {
		name, url string
		dp        int
		want      bool
	}{
		{"counts with each chunk", stepped, 1, true},
		{"two attention replicas", stepped, 2, true},
		{"a token in each chunk", bundling(t, 1), 1, true},
		{"four tokens in each chunk", bundling(t, 4), 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := profileOptions{endpoint: tt.url, kvTokens: 1000}
			l := newLauncher(o, deployment{kind: engine.KindEndpoint, modelName: "m"}, t.Logf)
			in, err := l.Launch(t.Context(), layout(tt.dp))
			if err != nil {
				t.Fatal(err)
			}
			if got := in.Climb != nil; got != tt.want {
				t.Errorf("stairs are offered: %v, want %v", got, tt.want)
			}
		})
	}
}
