package observe

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"plimsoll/planner"
)

// request is what an engine counted of one that ended.
type request struct {
	isl, osl  int
	ttft, e2e time.Duration
	itl       []time.Duration
}

// worker is an engine or a frontend that says what a test wants, over HTTP.
type worker struct {
	mu       sync.Mutex
	text     string
	at       map[string]string // what it says at other paths
	status   int
	asked    int // /metrics
	hang     bool
	endpoint Endpoint
}

func startWorker(t testing.TB, role planner.Role) *worker {
	t.Helper()
	w := &worker{status: http.StatusOK}
	s := httptest.NewServer(w)
	t.Cleanup(s.Close)
	w.endpoint = Endpoint{role, s.URL + "/metrics"}
	return w
}

// ServeHTTP implements http.Handler.
func (w *worker) ServeHTTP(out http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	text, status, hang := w.text, w.status, w.hang
	if other, ok := w.at[r.URL.Path]; ok {
		text = other
	} else if r.URL.Path != "/metrics" {
		status = http.StatusNotFound
	} else {
		w.asked++
	}
	w.mu.Unlock()
	if hang {
		<-r.Context().Done()
		return
	}
	out.WriteHeader(status)
	_, _ = io.WriteString(out, text)
}

func (w *worker) says(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text, w.status = text, http.StatusOK
}

func (w *worker) times() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.asked
}

func (w *worker) saysAt(path, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = map[string]string{path: text}
}

func (w *worker) fails(status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status = status
}

// listing gives a list that a test changes.
type listing struct {
	endpoints []Endpoint
	err       error
}

func (l *listing) list(context.Context) ([]Endpoint, error) { return l.endpoints, l.err }

// state is what an engine has besides the requests that ended.
type state struct {
	model            string
	running, waiting int
	kv               float64
	began            float64 // 0 = it does not say
}

// vllmText is what vLLM writes of requests that ended.
func vllmText(s state, requests []request) string {
	var b strings.Builder
	l := fmt.Sprintf(`model_name=%q,engine="0"`, s.model)
	one := func(kind, name, labels string, v float64) {
		fmt.Fprintf(&b, "# TYPE %s %s\n%s{%s} %v\n", name, kind, name, labels, v)
	}
	one("counter", "vllm:request_success_total", l+`,finished_reason="stop"`, float64(len(requests)))
	one("gauge", "vllm:num_requests_running", l, float64(s.running))
	one("gauge", "vllm:num_requests_waiting", l, float64(s.waiting))
	one("gauge", "vllm:kv_cache_usage_perc", l, s.kv)
	if s.began > 0 {
		fmt.Fprintf(&b, "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds %v\n", s.began)
	}
	histogram := func(name string, bounds []float64, values func(request) []float64) {
		sum, n, counts := 0.0, 0, make([]int, len(bounds))
		for _, r := range requests {
			for _, v := range values(r) {
				sum, n = sum+v, n+1
				for i, bound := range bounds {
					if v <= bound {
						counts[i]++
					}
				}
			}
		}
		fmt.Fprintf(&b, "# TYPE %s histogram\n", name)
		for i, bound := range bounds {
			fmt.Fprintf(&b, "%s_bucket{%s,le=\"%v\"} %d\n", name, l, bound, counts[i])
		}
		fmt.Fprintf(&b, "%s_bucket{%s,le=\"+Inf\"} %d\n%s_sum{%s} %v\n%s_count{%s} %d\n", name, l, n, name, l, sum, name, l, n)
	}
	tokens, seconds := []float64{10, 100, 1000, 10000}, []float64{0.01, 0.1, 1, 10, 100}
	histogram("vllm:request_prompt_tokens", tokens, func(r request) []float64 { return []float64{float64(r.isl)} })
	histogram("vllm:request_generation_tokens", tokens, func(r request) []float64 { return []float64{float64(r.osl)} })
	histogram("vllm:time_to_first_token_seconds", seconds, func(r request) []float64 { return []float64{r.ttft.Seconds()} })
	histogram("vllm:e2e_request_latency_seconds", seconds, func(r request) []float64 { return []float64{r.e2e.Seconds()} })
	histogram("vllm:inter_token_latency_seconds", seconds, func(r request) []float64 {
		out := make([]float64, len(r.itl))
		for i, d := range r.itl {
			out[i] = d.Seconds()
		}
		return out
	})
	return b.String()
}

// some are n requests alike.
func some(n int) []request {
	out := make([]request, n)
	for i := range out {
		out[i] = request{isl: 50, osl: 3, ttft: 20 * time.Millisecond, e2e: 60 * time.Millisecond, itl: []time.Duration{20 * time.Millisecond, 20 * time.Millisecond}}
	}
	return out
}

// told are a server's series at an instant, by their name and the labels besides the
// server's own: "name label value".
type told map[string]func(at time.Duration) float64

// labelled are a series' name and its labels, as name, value, ….
func labelled(key string, role planner.Role) (name string, labels []string) {
	words := strings.Fields(key)
	labels = append([]string{"role", string(role)}, words[1:]...)
	if role == "" {
		return words[0], append(labels, "model", "m")
	}
	return words[0], append(labels, "model_name", "m")
}

// text is what a server says at an instant.
func (s told) text(role planner.Role, at time.Duration) string {
	var b strings.Builder
	histogram := ""
	for _, key := range slices.Sorted(maps.Keys(s)) {
		name, labels := labelled(key, role)
		if base, ok := strings.CutSuffix(name, "_bucket"); ok && base != histogram {
			fmt.Fprintf(&b, "# TYPE %s histogram\n", base)
			histogram = base
		}
		fmt.Fprintf(&b, "%s{", name)
		for i := 0; i < len(labels); i += 2 {
			fmt.Fprintf(&b, "%s=%q,", labels[i], labels[i+1])
		}
		fmt.Fprintf(&b, "} %v\n", s[key](at))
	}
	return b.String()
}

// bothSources looks at servers, by role, "" a frontend, for some intervals of 30 s that
// end at half: through Prometheus, and by themselves. One engine of each role is ready.
func bothSources(t *testing.T, sides map[planner.Role]told, intervals int, check func(by string, k int, o planner.Observation)) {
	t.Helper()
	f, have := &fake{t: t}, planner.State{}
	o := LiveOptions{Presets: Presets("auto"), Selectors: map[planner.Role]map[string]string{}}
	var workers []*worker
	for _, role := range slices.Sorted(maps.Keys(sides)) {
		for key, value := range sides[role] {
			name, labels := labelled(key, role)
			f.add(name, scrape, half, value, labels...)
		}
		workers = append(workers, startWorker(t, role))
		if role != "" {
			have.Pools = append(have.Pools, planner.PoolState{Role: role, Ready: 1})
			o.Selectors[role] = map[string]string{"role": string(role)}
		}
	}
	l, w := live(t, f, o), watch(t, EnginesOptions{Presets: Presets("auto")}, workers...)
	for k := range intervals + 1 {
		at := half - time.Duration(intervals-k)*thirty
		for _, worker := range workers {
			worker.says(sides[worker.endpoint.Role].text(worker.endpoint.Role, at))
		}
		sampled(t, l, have)
		if k == 0 {
			w.look()
			continue
		}
		check("Prometheus", k, observed(t, l, at, thirty))
		sampled(t, w.source, have)
		check("scraping", k, observed(t, w.source, at, thirty))
	}
}

// same reports whether two figures are, but for rounding.
func same[T float64 | time.Duration](a, b planner.Figure[T]) bool {
	return a.Known == b.Known && math.Abs(float64(a.Value-b.Value)) <= 1e-6*math.Abs(float64(a.Value))+1e-9
}

func sameSpread[T float64 | time.Duration](a, b planner.Spread[T]) bool {
	return math.Abs(a.Count-b.Count) < 1e-6*a.Count+1e-9 && same(a.Mean, b.Mean) && same(a.P50.Figure, b.P50.Figure) && same(a.P90.Figure, b.P90.Figure) && same(a.P95.Figure, b.P95.Figure) && same(a.P99.Figure, b.P99.Figure)
}

// sameRequests reports whether two observations are of the same requests.
func sameRequests(a, b planner.Observation) bool {
	return same(a.Arrivals, b.Arrivals) && same(a.Finished, b.Finished) && same(a.Running, b.Running) && same(a.Waiting, b.Waiting) &&
		sameSpread(a.ISL, b.ISL) && sameSpread(a.OSL, b.OSL) && sameSpread(a.TTFT, b.TTFT) && sameSpread(a.ITL, b.ITL) && sameSpread(a.Duration, b.Duration)
}
