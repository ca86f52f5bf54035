package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// fakeServer is a server that is reached and is still no good to measure. Its
// zero value streams as an LLM server should.
type fakeServer struct {
	html   bool // whatever is asked, the answer is a web page
	silent bool // the stream holds no content
	lump   bool // one chunk holds the whole answer
	cut    int  // prompts are cut to so many tokens; 0 = they are not
	short  int  // tokens that are missing at the end, but for the first
	sleepy bool // no answer at all
	loads  bool // it is not ready
	chat   bool // it completes chats alone
	breaks bool // the stream ends with an error
	stalls int  // after so many requests it gives no answer; 0 = never
	errs   int  // the request that it answers with an error; 0 = none

	mu      sync.Mutex
	headers []http.Header // of every request
	done    chan struct{}
}

// pace is the time between two chunks.
const pace = time.Millisecond

// fakeServers are those that scripts can name.
func fakeServers() map[string]*fakeServer {
	return map[string]*fakeServer{
		"html": {html: true}, "silent": {silent: true}, "lump": {lump: true},
		"good": {}, "cutting": {cut: 200}, "short": {short: 3}, "sleepy": {sleepy: true},
		"loading": {loads: true}, "chat": {chat: true}, "broken": {breaks: true}, "stalling": {stalls: 20}, "erring": {errs: 8},
	}
}

// serveFake starts a fake server, as in `serve html`. $URL is its address, $ADDR the
// host and port of it. With `serve none`, nobody answers there.
func serveFake(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: serve kind")
	}
	if args[0] == "none" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		ts.Check(err)
		ts.Setenv("ADDR", l.Addr().String())
		ts.Setenv("URL", "http://"+l.Addr().String())
		ts.Check(l.Close())
		return
	}
	f, ok := fakeServers()[args[0]]
	if !ok {
		ts.Fatalf("no such server: %s", args[0])
	}
	f.done = make(chan struct{})
	s := httptest.NewServer(f)
	ts.Defer(s.Close)
	ts.Defer(func() { close(f.done) })
	ts.Setenv("ADDR", s.Listener.Addr().String())
	ts.Setenv("URL", s.URL)
}

func (f *fakeServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.headers = append(f.headers, r.Header.Clone())
	asleep, errs := f.sleepy || f.stalls > 0 && len(f.headers) > f.stalls, f.errs == len(f.headers)
	f.mu.Unlock()
	switch {
	case asleep:
		select {
		case <-f.done:
		case <-r.Context().Done():
		}
	case errs:
		http.Error(w, `{"error":"out of luck"}`, http.StatusInternalServerError)
	case f.loads:
		http.Error(w, `{"error":"loading"}`, http.StatusServiceUnavailable)
	case f.html:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		reply(w, "<!doctype html><title>Welcome</title><h1>It works!</h1>\n")
	case r.URL.Path == "/v1/models":
		w.Header().Set("Content-Type", "application/json")
		reply(w, `{"object":"list","data":[{"id":"fake","max_model_len":100000}]}`)
	case r.URL.Path == "/v1/completions" && !f.chat:
		f.complete(w, r)
	default:
		http.NotFound(w, r)
	}
}

func reply(w io.Writer, s string) { _, _ = io.WriteString(w, s) } // the client may be gone

func (f *fakeServer) complete(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Prompt    json.RawMessage `json:"prompt"`
		MaxTokens int             `json:"max_tokens"`
		Stream    bool            `json:"stream"`
	}
	var ids []int
	var text string
	err := json.NewDecoder(r.Body).Decode(&q)
	if err != nil || json.Unmarshal(q.Prompt, &ids) != nil && json.Unmarshal(q.Prompt, &text) != nil {
		http.Error(w, `{"error":{"message":"prompt must be token ids or text"}}`, http.StatusBadRequest)
		return
	}
	prompt := len(ids) + len(strings.Fields(text))
	if f.cut > 0 {
		prompt = min(prompt, f.cut)
	}
	n := max(1, q.MaxTokens-f.short)
	usage := fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d}`, prompt, n)
	if !q.Stream {
		w.Header().Set("Content-Type", "application/json")
		reply(w, `{"choices":[{"text":"`+strings.Repeat(" a", n)+`"}],"usage":`+usage+`}`)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	texts := []string{}
	switch {
	case f.silent:
	case f.lump:
		texts = append(texts, strings.Repeat(" a", n))
	default:
		for range n {
			texts = append(texts, " a")
		}
	}
	for _, text := range texts {
		time.Sleep(pace)
		reply(w, fmt.Sprintf("data: {\"choices\":[{\"text\":%q,\"finish_reason\":null}]}\n\n", text))
		_ = http.NewResponseController(w).Flush()
	}
	if f.breaks {
		reply(w, "data: {\"error\":{\"message\":\"CUDA out of memory\",\"code\":500}}\n\n")
		return
	}
	reply(w, "data: {\"choices\":[{\"text\":\"\",\"finish_reason\":\"length\"}]}\n\ndata: {\"choices\":[],\"usage\":"+usage+"}\n\ndata: [DONE]\n\n")
}
