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
		prompt := len(strings.Fields(ask.Prompt))
		w.Header().Set("Content-Type", "text/event-stream")
		for n := range ask.Tokens {
			select {
			case <-time.After(time.Until(got.Add(first + time.Duration(n)*gap))):
			case <-r.Context().Done():
				return
			}
			finish := "null"
			if n+1 == ask.Tokens {
				finish = `"length"`
			}
			fmt.Fprintf(w, "data: {\"id\": \"x\", \"object\": \"text_completion\", \"model\": \"words\", \"choices\": [{\"index\": 0, \"text\": \" w%d\", \"finish_reason\": %s}], \"usage\": {\"prompt_tokens\": %d, \"completion_tokens\": %d, \"total_tokens\": %d}}\n\n", n%97, finish, prompt, n+1, prompt+n+1)
			_ = http.NewResponseController(w).Flush() // the client is gone where it fails
		}
		fmt.Fprint(w, "data: [DONE]\n\n")
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return server{url: s.URL}
}
