package load

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// fake is a small LLM server. Its zero value behaves as vLLM does; each field
// makes it behave differently.
type fake struct {
	model    string // empty: "m"
	noModels bool   // no /v1/models
	noIDs    bool   // refuses prompts of token ids
	vocab    int    // refuses ids from here up; 0: takes all
	extra    int    // tokens added to each prompt
	cost     func(word string) int
	noUsage  bool
	quiet    int    // each n-th token has no text of its own; 0: all have some
	counts   bool   // tells token counts with each event, where it is asked to
	key      string // bearer token that it wants
	pace     time.Duration
	stall    time.Duration // before the header
	handle   func(w http.ResponseWriter, r *http.Request, q query) bool

	mu      sync.Mutex
	queries []query
	headers []http.Header
	written map[int][]time.Time // by number of the stream: when each chunk was
}

// query is what a client asked for.
type query struct {
	Model    string
	Prompt   json.RawMessage
	Messages []struct{ Content string }
	MaxTok   int  `json:"max_tokens"`
	MinTok   int  `json:"min_tokens"`
	Ignore   bool `json:"ignore_eos"`
	Stream   bool
	Options  struct {
		IncludeUsage bool `json:"include_usage"`
		Continuous   bool `json:"continuous_usage_stats"`
	} `json:"stream_options"`

	ids  []int
	text string
	n    int // number of this query
}

func (f *fake) start(t testing.TB) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return s
}

func (f *fake) name() string {
	if f.model == "" {
		return "m"
	}
	return f.model
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if f.key != "" && r.Header.Get("Authorization") != "Bearer "+f.key {
		fail(w, http.StatusUnauthorized, "bad credentials "+r.Header.Get("Authorization"))
		return
	}
	switch r.URL.Path {
	case "/v1/models":
		if f.noModels {
			http.NotFound(w, r)
			return
		}
		sayf(w, `{"object":"list","data":[{"id":%q,"max_model_len":4096}]}`, f.name())
	case "/version":
		say(w, `{"version":"1.2.3"}`)
	case "/v1/completions", "/v1/chat/completions":
		f.complete(w, r)
	default:
		http.NotFound(w, r)
	}
}

func fail(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	sayf(w, `{"error":{"message":%q}}`, message)
}

func (f *fake) complete(w http.ResponseWriter, r *http.Request) {
	var q query
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	if json.Unmarshal(q.Prompt, &q.ids) != nil {
		_ = json.Unmarshal(q.Prompt, &q.text)
	}
	if len(q.Messages) > 0 {
		q.text = q.Messages[0].Content
	}
	f.mu.Lock()
	q.n = len(f.queries)
	f.queries = append(f.queries, q)
	f.headers = append(f.headers, r.Header.Clone())
	f.mu.Unlock()
	if f.handle != nil && f.handle(w, r, q) {
		return
	}
	for _, id := range q.ids {
		if f.vocab > 0 && id >= f.vocab {
			fail(w, http.StatusBadRequest, "token id out of vocabulary")
			return
		}
	}
	if f.noIDs && q.ids != nil {
		fail(w, http.StatusBadRequest, "prompt must be a string")
		return
	}
	if !q.Stream {
		usage := ""
		if !f.noUsage {
			usage = fmt.Sprintf(`,"usage":{"prompt_tokens":%d,"completion_tokens":1}`, f.count(q))
		}
		sayf(w, `{"choices":[{"text":"x"}]%s}`, usage)
		return
	}
	time.Sleep(f.stall)
	f.stream(w, r, q)
}

// count is the prompt's length in the server's own tokens.
func (f *fake) count(q query) int {
	n := f.extra + len(q.ids)
	for w := range strings.FieldsSeq(q.text) {
		if f.cost == nil {
			n++
			continue
		}
		n += f.cost(w)
	}
	return n
}

func (f *fake) stream(w http.ResponseWriter, r *http.Request, q query) {
	chat := strings.Contains(r.URL.Path, "chat")
	begin(w)
	if chat {
		send(w, `{"choices":[{"delta":{"role":"assistant","content":""}}]}`)
	}
	for i := range q.MaxTok {
		if f.pace > 0 {
			time.Sleep(f.pace)
		}
		f.note(q.n)
		text, count := fmt.Sprintf("x%d", i), ""
		if f.quiet > 0 && i%f.quiet == 0 {
			text = ""
		}
		if f.counts && q.Options.Continuous {
			count = fmt.Sprintf(`,"usage":{"prompt_tokens":%d,"completion_tokens":%d}`, f.count(q), i+1)
		}
		if chat {
			send(w, `{"choices":[{"delta":{"content":%q}}]%s}`, text, count)
		} else {
			send(w, `{"choices":[{"text":%q,"finish_reason":null}]%s}`, text, count)
		}
		if r.Context().Err() != nil {
			return
		}
	}
	send(w, `{"choices":[{"text":"","delta":{},"finish_reason":"length"}]}`)
	if !f.noUsage && q.Options.IncludeUsage {
		send(w, `{"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":3}}}`, f.count(q), q.MaxTok)
	}
	say(w, "data: [DONE]\n\n")
}

func (f *fake) note(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.written == nil {
		f.written = map[int][]time.Time{}
	}
	f.written[n] = append(f.written[n], time.Now())
}

// streams are the streamed queries so far.
func (f *fake) streams() []query {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []query
	for _, q := range f.queries {
		if q.Stream {
			out = append(out, q)
		}
	}
	return out
}

func begin(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream")
	flush(w)
}

func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }

// send writes one event and flushes it.
func send(w http.ResponseWriter, format string, args ...any) {
	sayf(w, "data: "+format+"\n\n", args...)
	flush(w)
}

// say and sayf write to a client that may be gone.
func say(w io.Writer, args ...any) { _, _ = fmt.Fprint(w, args...) }

func sayf(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }
