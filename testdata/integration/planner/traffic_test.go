package planner

import (
	"fmt"
	"math"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"plimsoll/testdata/integration/free"
)

// traffic is the metrics of a Dynamo frontend, whose counters grow as the test
// says.
type traffic struct {
	namespace string // in its labels
	address   string

	mu       sync.Mutex
	now      load
	moved    time.Time // the counters are of this instant
	requests float64
	series   [5]histogram // of now's figures
	answers  answers
	server   *http.Server
}

// load is what a frontend sees: requests/s, tokens, seconds.
type load struct{ rate, isl, osl, ttft, itl float64 }

// answers is how a scrape ends.
type answers int

const (
	figures answers = iota
	notNumbers
	nothing
)

// histogram counts values, and those at or below a bound.
type histogram struct{ sum, count, below float64 }

// steady has latencies within every SLA here.
func steady(rate float64) load { return load{rate: rate, isl: 3000, osl: 150, ttft: 0.07, itl: 0.006} }

// newTraffic serves metrics until the test ends.
func newTraffic(t *testing.T, namespace string) *traffic {
	t.Helper()
	f := &traffic{namespace: namespace, address: free.Address(t), now: steady(2)}
	f.start(t)
	t.Cleanup(f.stop)
	return f
}

// start begins with counters at 0, as a process does.
func (f *traffic) start(t *testing.T) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", f.address)
	if err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.moved, f.requests, f.series = time.Now(), 0, [5]histogram{}
	f.server = &http.Server{Handler: http.HandlerFunc(f.scrape)}
	go func(s *http.Server) { _ = s.Serve(l) }(f.server) // until stop
}

func (f *traffic) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	_ = f.server.Close()
}

// set changes the load, or how scrapes end.
func (f *traffic) set(now load, a answers) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.move()
	f.now, f.answers = now, a
}

// bound is one bucket of each histogram: below it all of steady's values are.
func bound() [5]float64 { return [5]float64{4096, 256, 0.1, 0.01, 1} }

// move brings the counters to this instant.
func (f *traffic) move() {
	at := time.Now()
	n := f.now.rate * at.Sub(f.moved).Seconds()
	f.moved, f.requests = at, f.requests+n
	for i, v := range [5]float64{f.now.isl, f.now.osl, f.now.ttft, f.now.itl, f.now.ttft + f.now.itl*f.now.osl} {
		h := &f.series[i]
		h.sum, h.count = h.sum+n*v, h.count+n
		if v <= bound()[i] {
			h.below += n
		}
	}
}

func (f *traffic) scrape(w http.ResponseWriter, _ *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.move()
	if f.answers == nothing {
		return
	}
	labels := fmt.Sprintf("dynamo_namespace=%q,model=%q", f.namespace, "test")
	var text strings.Builder
	line := func(name, more string, v float64) {
		value := fmt.Sprint(v)
		if f.answers == notNumbers {
			value = "NaN"
		}
		fmt.Fprintf(&text, "dynamo_frontend_%s{%s%s} %s\n", name, labels, more, value)
	}
	line("requests_started_total", "", f.requests)
	line("requests_total", "", f.requests)
	line("queued_requests", "", math.Round(f.now.rate*f.now.ttft)) // those without a first token
	line("active_requests", "", math.Round(f.now.rate*(f.now.ttft+f.now.itl*f.now.osl)))
	for i, name := range [5]string{"input_sequence_tokens", "output_sequence_tokens", "time_to_first_token_seconds", "inter_token_latency_seconds", "request_duration_seconds"} {
		h := f.series[i]
		line(name+"_bucket", fmt.Sprintf(",le=%q", fmt.Sprint(bound()[i])), h.below)
		line(name+"_bucket", `,le="+Inf"`, h.count)
		line(name+"_sum", "", h.sum)
		line(name+"_count", "", h.count)
	}
	fmt.Fprint(w, text.String()) //nolint:errcheck // Prometheus says so
}

// frontends are several of them behind one Prometheus.
func frontends(t *testing.T, namespaces ...string) (map[string]*traffic, string) {
	t.Helper()
	all, addresses := map[string]*traffic{}, []string{}
	for _, n := range namespaces {
		all[n] = newTraffic(t, n)
		addresses = append(addresses, all[n].address)
	}
	return all, prometheus(t, addresses...)
}
