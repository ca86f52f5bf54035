// Package simserver is the simulated engine of engine/sim in real time, behind
// the HTTP interface of an inference server: OpenAI's completions and chat
// completions, streamed or not, and vLLM's metrics. It takes a step timer and
// an engine's configuration; it gives a server whose tokens come out when a
// real engine's would, and which says with every answer that it is simulated.
// It refuses requests that the engine could not hold, several choices per
// request, and the options that would need a real model.
//
// The text is deterministic: a prompt has one token per word, and an answer is
// a row of made-up words that follow from the seed and the prompt. Without
// ignore_eos an answer ends at max_tokens or at an end that follows from the
// seed and the prompt too, 256 tokens from the start on average.
package simserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/profile"
)

const (
	// ProvenanceHeader is in every answer; its value is profile.Simulated.
	ProvenanceHeader = "X-Plimsoll-Provenance"
	// WarmUpHeader with the value true marks a request that only fills the
	// prefix cache: its prompt takes no time.
	WarmUpHeader = "X-Plimsoll-Warm-Up"
)

// Options is a server to make.
type Options struct {
	Model string        // name that requests give and answers show; required
	Timer sim.StepTimer // how long a step takes; required
	Sim   sim.Config    // the engine
	// Overhead is the time of each request between its arrival and the engine's
	// queue, what a real server's HTTP takes, and PerToken that per token of its prompt,
	// what tokenizing takes. Not negative.
	Overhead, PerToken engine.Picoseconds
	// Transfer is how long the KV of a prompt of so many tokens takes from the engine that
	// computed it (kv_transfer_params.do_remote_prefill) into this one's queue; nil = no
	// time. Transfers do not slow each other.
	Transfer func(tokens int) engine.Picoseconds
	Log      io.Writer // one line per event; nil = none
	// Timing says in words where Timer is from and how far off it may be, for the
	// log; empty = nothing to say.
	Timing  string
	Version string // shown by /version; empty = "unknown"
	// Record takes the record of each request that ended, in order. It is called
	// between steps and must return at once: the engine waits for it. nil = none.
	Record func(Record)
	Serving
}

// Server is a simulated engine behind HTTP.
type Server struct {
	opts     Options
	cfg      sim.Config
	driver   *driver
	handler  http.Handler
	log      *log.Logger
	started  atomic.Bool
	requests atomic.Uint64 // ids given out
	created  int64         // Unix time of the server's start, for /v1/models
}

// New makes a server. Nothing runs before Serve.
func New(o Options) (*Server, error) {
	if o.Model == "" {
		return nil, errors.New("simulated engine: no model name given")
	}
	if o.DrainTimeout < 0 {
		return nil, fmt.Errorf("simulated engine: drain timeout %v: want a positive duration", o.DrainTimeout)
	}
	if o.Overhead < 0 || o.PerToken < 0 {
		return nil, fmt.Errorf("simulated engine: overhead of %v per request, %v per token: want none below 0", o.Overhead.Duration(), o.PerToken.Duration())
	}
	core, err := sim.New(o.Sim, o.Timer)
	if err != nil {
		return nil, fmt.Errorf("simulated engine: %w", err)
	}
	o.Log = cmp.Or(o.Log, io.Discard)
	o.Version = cmp.Or(o.Version, "unknown")
	s := &Server{
		opts:    o,
		cfg:     core.Config(),
		log:     log.New(o.Log, "simulated engine: ", log.LstdFlags|log.Lmsgprefix),
		created: time.Now().Unix(),
	}
	m := newMetrics(o.Model, s.cfg)
	s.driver = newDriver(core, m, s.log, o)
	s.handler = s.routes(m)
	return s, nil
}

// Serve answers requests on ln until ctx is done, then stops accepting, lets
// the requests in flight finish, and returns nil; an error where they had to
// be cut off at the drain timeout, or where ln fails. It closes ln. A Server
// serves once.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	if s.started.Swap(true) {
		return errors.New("simulated engine: a server serves only once: make another")
	}
	s.logStart(ln.Addr())
	stop := s.driver.start()
	defer stop()

	return ServeHTTP(ctx, ln, s.handler, s.opts.Serving, s.log)
}

// logStart says what is served, the KV capacity in vLLM's words.
func (s *Server) logStart(addr net.Addr) {
	l := s.cfg.Limits
	tokens := s.cfg.KVTokens()
	s.log.Printf("serving %s on http://%s, role %s, max-num-seqs %d, max-num-batched-tokens %d, prefix caching %v, asynchronous scheduling %v: every latency is simulated",
		s.opts.Model, addr, s.cfg.Role, l.MaxNumSeqs, l.MaxNumBatchedTokens, s.cfg.PrefixCaching, s.cfg.AsyncScheduling)
	if s.opts.Timing != "" {
		s.log.Print(s.opts.Timing)
	}
	s.log.Printf("GPU KV cache size: %s tokens", engine.Number(float64(tokens)))
	s.log.Printf("Maximum concurrency for %s tokens per request: %.2fx", engine.Number(float64(l.MaxModelLen)), float64(tokens)/float64(l.MaxModelLen))
}

// routes is the server's interface. Every answer says that it is simulated.
func (s *Server) routes(m *metrics) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/v1/completions", method(http.MethodPost, func(w http.ResponseWriter, r *http.Request) { s.generate(w, r, completionDialect, parseCompletion) }))
	mux.HandleFunc("/v1/chat/completions", method(http.MethodPost, func(w http.ResponseWriter, r *http.Request) { s.generate(w, r, chatDialect, parseChat) }))
	mux.HandleFunc("/v1/models", method(http.MethodGet, s.models))
	mux.HandleFunc("/health", method(http.MethodGet, func(http.ResponseWriter, *http.Request) {}))
	mux.HandleFunc("/version", method(http.MethodGet, func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"version": s.opts.Version})
	}))
	mux.HandleFunc("/metrics", method(http.MethodGet, m.handler().ServeHTTP))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		WriteError(w, http.StatusNotFound, "no such path: "+r.URL.Path)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(ProvenanceHeader, profile.Simulated.String())
		mux.ServeHTTP(w, r)
	})
}

// method lets only one method through (and HEAD with GET).
func method(want string, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != want && (want != http.MethodGet || r.Method != http.MethodHead) {
			w.Header().Set("Allow", want)
			WriteError(w, http.StatusMethodNotAllowed, fmt.Sprintf("%s %s: want %s", r.Method, r.URL.Path, want))
			return
		}
		h(w, r)
	}
}

// models lists the one model.
func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	type model struct {
		ID          string `json:"id"`
		Object      string `json:"object"`
		Created     int64  `json:"created"`
		OwnedBy     string `json:"owned_by"`
		Root        string `json:"root"`
		MaxModelLen int    `json:"max_model_len"`
	}
	writeJSON(w, http.StatusOK, struct {
		Object string  `json:"object"`
		Data   []model `json:"data"`
	}{"list", []model{{s.opts.Model, "model", s.created, "plimsoll", s.opts.Model, s.cfg.MaxTokens()}}})
}
