//go:build real

package real

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// paced is a server whose times are known: a request waits for one of so many places in
// order of arrival, has its first token after first and then one each gap.
func paced(t testing.TB, places int, first, gap time.Duration) server {
	t.Helper()
	free := make(chan struct{}, places)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"object": "list", "data": [{"id": "words", "object": "model", "max_model_len": 4096}]}`)
	})
	mux.HandleFunc("POST /v1/completions", func(w http.ResponseWriter, r *http.Request) {
		var ask struct {
			Prompt string `json:"prompt"`
			Tokens int    `json:"max_tokens"`
			Stream bool   `json:"stream"`
		}
		if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		select {
		case free <- struct{}{}:
		case <-r.Context().Done():
			return
		}
		defer func() { <-free }()
		got := time.Now()
		if ask.Stream {
			w.Header().Set("Content-Type", "text/event-stream")
		}
		prompt, text := len(strings.Fields(ask.Prompt)), ""
		for n := range ask.Tokens {
			select {
			case <-time.After(time.Until(got.Add(first + time.Duration(n)*gap))):
			case <-r.Context().Done():
				return
			}
			word, finish := fmt.Sprintf(" w%d", n%97), "null"
			if n+1 == ask.Tokens {
				finish = `"length"`
			}
			if text += word; ask.Stream {
				fmt.Fprintf(w, "data: %s\n\n", completion(word, finish, prompt, n+1))
				_ = http.NewResponseController(w).Flush() // the client is gone where it fails
			}
		}
		if ask.Stream {
			fmt.Fprint(w, "data: [DONE]\n\n")
		} else {
			fmt.Fprint(w, completion(text, `"length"`, prompt, ask.Tokens))
		}
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return server{url: s.URL}
}

// completion is an answer, or a part of one.
func completion(text, finish string, prompt, tokens int) string {
	return fmt.Sprintf(`{"id": "x", "object": "text_completion", "model": "words", "choices": [{"index": 0, "text": %q, "finish_reason": %s}], "usage": {"prompt_tokens": %d, "completion_tokens": %d, "total_tokens": %d}}`,
		text, finish, prompt, tokens, prompt+tokens)
}
