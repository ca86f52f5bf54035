package frontend

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"plimsoll/engine/simserver"
)

// The defaults of Options.
const (
	prefillConcurrency = 1
	maxQueue           = 4096
	queueTimeout       = 30 * time.Second
	probeInterval      = 5 * time.Second
	lostAfter          = 30 * time.Second
)

// DefaultWorkerTimeout is a WorkerTimeout that hurts no client with the defaults of
// OpenAI's: they give up then themselves (DEFAULT_TIMEOUT of openai-python's
// _constants.py, November 2026).
const DefaultWorkerTimeout = 10 * time.Minute

// connectTimeout bounds how long a worker may take to accept a connection.
const connectTimeout = 2 * time.Second

// Options is a frontend to make; zero values are the defaults.
type Options struct {
	Namespace          string        // the label dynamo_namespace; required
	PrefillConcurrency int           // requests that each prefill worker takes at a time
	MaxQueue           int           // requests that may wait for their first worker
	QueueTimeout       time.Duration // how long a request may wait for a worker
	WorkerTimeout      time.Duration // ends a request whose worker sends nothing for so long; 0 = none
	ProbeInterval      time.Duration // how often each ready worker is asked for its /health
	LostAfter          time.Duration // a worker that has not answered that for so long gets no more requests
	APIKey             string        // bearer token that /v1 asks for; empty = none
	Log                io.Writer     // one line per event; nil = none
	simserver.Serving
}

// Frontend routes requests to workers.
type Frontend struct {
	opts    Options
	pool    *pool
	metrics *metrics
	handler http.Handler
	client  *http.Client
	log     *log.Logger
	active  sync.WaitGroup // handlers that run
}

// New makes a frontend without workers. Nothing runs before Serve.
func New(o Options) (*Frontend, error) {
	switch {
	case o.Namespace == "":
		return nil, errors.New("frontend: no namespace given")
	case o.PrefillConcurrency < 0:
		return nil, fmt.Errorf("frontend: prefill concurrency %d: want at least 1", o.PrefillConcurrency)
	case o.MaxQueue < 0:
		return nil, fmt.Errorf("frontend: queue of at most %d: want at least 1", o.MaxQueue)
	case min(o.QueueTimeout, o.DrainTimeout, o.WorkerTimeout, o.ProbeInterval, o.LostAfter) < 0:
		return nil, fmt.Errorf("frontend: queue timeout %v, drain timeout %v, worker timeout %v, probe interval %v, lost after %v: want none below 0", o.QueueTimeout, o.DrainTimeout, o.WorkerTimeout, o.ProbeInterval, o.LostAfter)
	}
	o.PrefillConcurrency = cmp.Or(o.PrefillConcurrency, prefillConcurrency)
	o.MaxQueue = cmp.Or(o.MaxQueue, maxQueue)
	o.QueueTimeout = cmp.Or(o.QueueTimeout, queueTimeout)
	o.ProbeInterval, o.LostAfter = cmp.Or(o.ProbeInterval, probeInterval), cmp.Or(o.LostAfter, lostAfter)
	o.Log = cmp.Or(o.Log, io.Discard)
	f := &Frontend{
		opts: o,
		pool: &pool{prefillConcurrency: o.PrefillConcurrency, maxQueue: o.MaxQueue},
		log:  log.New(o.Log, "frontend: ", log.LstdFlags|log.Lmsgprefix),
		// Around any proxy of the environment, and without asking for compression:
		// answers pass through byte by byte.
		client: &http.Client{
			Transport: &http.Transport{
				DialContext:         (&net.Dialer{Timeout: connectTimeout}).DialContext,
				MaxIdleConnsPerHost: 1024, IdleConnTimeout: 30 * time.Second, DisableCompression: true,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	f.metrics = newMetrics(o.Namespace, f.pool)
	f.handler = f.routes()
	return f, nil
}

// SetWorkers replaces the list of workers; it takes effect at once. Workers that
// are not valid are left out and logged.
func (f *Frontend) SetWorkers(list []Worker) {
	var valid []Worker
	names := map[string]bool{}
	for _, w := range list {
		err := w.Check()
		if names[w.Name] {
			err = fmt.Errorf("worker %s is listed twice", w.Name)
		}
		if err != nil {
			f.log.Printf("warning: %v: it gets no requests", err)
			continue
		}
		names[w.Name] = true
		valid = append(valid, w)
	}
	f.pool.set(valid)
	f.log.Print(describe(valid))
}

// describe is a list of workers in a line.
func describe(list []Worker) string {
	if len(list) == 0 {
		return "no workers: requests wait"
	}
	words := make([]string, len(list))
	for i, w := range list {
		words[i] = fmt.Sprintf("%s %s (%s, %s)", w.Name, w.URL, w.Role, w.State)
	}
	return "workers: " + strings.Join(words, ", ")
}

// Serve answers requests on ln until ctx is done, then stops accepting, lets the
// requests in flight finish, and returns nil; an error where they had to be cut
// off at the drain timeout, or where ln fails. It closes ln.
func (f *Frontend) Serve(ctx context.Context, ln net.Listener) error {
	f.log.Printf("serving namespace %s on http://%s", f.opts.Namespace, ln.Addr())
	watching, stop := context.WithCancel(context.WithoutCancel(ctx)) // also while requests are drained
	var watch sync.WaitGroup
	watch.Go(func() { f.watch(watching) })
	err := simserver.ServeHTTP(ctx, ln, f.handler, f.opts.Serving, f.log)
	f.active.Wait()
	stop()
	watch.Wait()
	f.client.CloseIdleConnections()
	return err
}

func (f *Frontend) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/completions", f.keyed(f.generate("completions")))
	mux.HandleFunc("POST /v1/chat/completions", f.keyed(f.generate("chat_completions")))
	mux.HandleFunc("GET /v1/models", f.keyed(f.models))
	mux.HandleFunc("GET /health", f.health)
	mux.HandleFunc("GET /live", func(http.ResponseWriter, *http.Request) {})
	mux.Handle("GET /metrics", promhttp.HandlerFor(f.metrics.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		simserver.WriteError(w, http.StatusNotFound, "no such path: "+r.Method+" "+r.URL.Path)
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.active.Add(1)
		defer f.active.Done()
		mux.ServeHTTP(w, r)
	})
}

// keyed lets only requests with the API key through.
func (f *Frontend) keyed(h http.HandlerFunc) http.HandlerFunc {
	if f.opts.APIKey == "" {
		return h
	}
	want := sha256.Sum256([]byte("Bearer " + f.opts.APIKey)) // of equal length, whatever is sent
	return func(w http.ResponseWriter, r *http.Request) {
		got := sha256.Sum256([]byte(r.Header.Get("Authorization")))
		if subtle.ConstantTimeCompare(want[:], got[:]) != 1 {
			w.Header().Set("WWW-Authenticate", "Bearer")
			simserver.WriteError(w, http.StatusUnauthorized, "no valid API key: want Authorization: Bearer KEY")
			return
		}
		h(w, r)
	}
}
