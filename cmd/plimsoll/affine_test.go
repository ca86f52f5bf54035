package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"
)

// affineEngine is the program `affineengine`: an inference server that has
// nothing of the embedded engine. It batches continuously, caches whole prompts,
// and its steps take an affine time. It prints its address.
func affineEngine() {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("http://" + ln.Addr().String())
	e := &affine{arrivals: make(chan *affineRequest, 1000)}
	go e.run()
	s := http.Server{Handler: e, ReadHeaderTimeout: time.Minute}
	fmt.Fprintln(os.Stderr, s.Serve(ln))
	os.Exit(1)
}

// How long a step of it takes: some 40 % more than the shipped fits say of
// Llama 3.1 8B on an H100, in no term by the same factor.
const (
	affineStep    = 9 * time.Millisecond
	affinePrompt  = 45 * time.Microsecond  // per prompt token
	affineSeq     = 120 * time.Microsecond // per sequence
	affineContext = 60 * time.Nanosecond   // per token of context
)

// affine is the engine. Its fields but arrivals belong to run.
type affine struct {
	arrivals chan *affineRequest
	running  []*affineRequest
	seen     map[string]bool // prompts
}

type affineRequest struct {
	prompt  string // as it was sent
	tokens  int    // of it that are not computed yet
	context int    // tokens
	left    int    // tokens to produce
	cached  int    // prompt tokens; set before the first token
	out     chan struct{}
}

// run takes steps for ever, one behind the other: by when they should have
// ended, so that lateness does not add up.
func (e *affine) run() {
	e.seen = map[string]bool{}
	for end := time.Now(); ; {
		if len(e.running) == 0 {
			e.admit(<-e.arrivals)
			end = time.Now()
		}
		for len(e.arrivals) > 0 {
			e.admit(<-e.arrivals)
		}
		took := affineStep
		for _, r := range e.running {
			took += affineSeq + affinePrompt*time.Duration(r.tokens) + affineContext*time.Duration(r.context)
			r.tokens = 0
		}
		end = end.Add(took)
		time.Sleep(time.Until(end))
		still := e.running[:0]
		for _, r := range e.running {
			r.left--
			r.context++
			r.out <- struct{}{}
			if r.left > 0 {
				still = append(still, r)
			}
		}
		e.running = still
	}
}

func (e *affine) admit(r *affineRequest) {
	if e.seen[r.prompt] {
		r.cached, r.tokens = r.tokens-1, 1
	}
	e.seen[r.prompt] = true
	e.running = append(e.running, r)
}

func (e *affine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/v1/models":
		w.Header().Set("Content-Type", "application/json")
		reply(w, `{"object":"list","data":[{"id":"house-llama","max_model_len":100000}]}`)
	case "/v1/completions":
		e.complete(w, r)
	default:
		http.NotFound(w, r)
	}
}

func (e *affine) complete(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Prompt    json.RawMessage `json:"prompt"`
		MaxTokens int             `json:"max_tokens"`
		Stream    bool            `json:"stream"`
	}
	var ids []int
	var text string
	err := json.NewDecoder(r.Body).Decode(&q)
	if err != nil || q.MaxTokens < 1 || json.Unmarshal(q.Prompt, &ids) != nil && json.Unmarshal(q.Prompt, &text) != nil {
		http.Error(w, `{"error":{"message":"want a prompt as token ids or text, and max_tokens"}}`, http.StatusBadRequest)
		return
	}
	n := len(ids) + len(strings.Fields(text))
	a := &affineRequest{prompt: string(q.Prompt), tokens: n, context: n, left: q.MaxTokens, out: make(chan struct{}, q.MaxTokens)}
	e.arrivals <- a
	if q.Stream {
		w.Header().Set("Content-Type", "text/event-stream")
	}
	for range q.MaxTokens {
		<-a.out
		if q.Stream {
			reply(w, `data: {"choices":[{"text":" a","finish_reason":null}]}`+"\n\n")
			_ = http.NewResponseController(w).Flush() // the client may be gone
		}
	}
	usage := fmt.Sprintf(`{"prompt_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}`, n, q.MaxTokens, a.cached)
	if !q.Stream {
		w.Header().Set("Content-Type", "application/json")
		reply(w, `{"choices":[{"text":"`+strings.Repeat(" a", q.MaxTokens)+`"}],"usage":`+usage+`}`)
		return
	}
	reply(w, `data: {"choices":[{"text":"","finish_reason":"length"}]}`+"\n\n"+`data: {"choices":[],"usage":`+usage+"}\n\ndata: [DONE]\n\n")
}
