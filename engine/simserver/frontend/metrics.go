package frontend

import (
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The kinds of failure, as Dynamo's frontend names them in the label error_type
// (lib/runtime/src/metrics/prometheus_names.rs of its main branch, November 2026).
const (
	noError       = ""
	errValidation = "validation"
	errNotFound   = "not_found"
	errOverload   = "overload"
	errNoBackend  = "unavailable"
	errCancelled  = "cancelled"
	errInternal   = "internal"
)

// mostModels bounds the values of the label model, which clients choose.
const mostModels = 64

// otherModel is the label of models beyond that, and of requests without one.
const otherModel = "unknown"

// metrics is what the frontend counts: Dynamo's names and labels (lib/llm/src/http/
// service/metrics.rs of its main branch, November 2026) and our own. Dynamo's
// buckets end where p99 of long requests begins, so ours are wider and finer.
type metrics struct {
	registry *prometheus.Registry

	started, ended                    *prometheus.CounterVec
	inFlight, active, queued          *prometheus.GaugeVec
	ttft, itl, duration, isl, osl     *prometheus.HistogramVec
	outputTokens, simulated, rejected *prometheus.CounterVec
	disconnected                      prometheus.Gauge
	retries                           prometheus.Counter

	mu     sync.Mutex
	models map[string]bool
}

func newMetrics(namespace string, p *pool) *metrics {
	const dynamo, own = "dynamo_frontend_", "plimsoll_frontend_"
	labels := prometheus.Labels{"dynamo_namespace": namespace}
	counter := func(name, help string, names ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: labels}, names)
	}
	gauge := func(name, help string, names ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels}, names)
	}
	histogram := func(name, help string, bounds []float64) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: dynamo + name, Help: help, ConstLabels: labels, Buckets: bounds}, []string{"model"})
	}
	m := &metrics{
		registry:     prometheus.NewRegistry(),
		started:      counter(dynamo+"requests_started_total", "Requests as they arrive.", "model", "endpoint", "request_type"),
		ended:        counter(dynamo+"requests_total", "Requests as they end.", "model", "endpoint", "request_type", "status", "error_type"),
		inFlight:     gauge(dynamo+"inflight_requests", "Requests now, from their arrival to the end of their answer.", "model"),
		active:       gauge(dynamo+"active_requests", "The same as dynamo_frontend_inflight_requests.", "model"),
		queued:       gauge(dynamo+"queued_requests", "Requests now that have no token yet: those that wait, those in prefill, and those that decode has not begun.", "model"),
		ttft:         histogram("time_to_first_token_seconds", "From a streamed request's arrival to the passing on of its first token.", rising(0.001, 1000, 5)),
		itl:          histogram("inter_token_latency_seconds", "Between a stream's chunks with content.", rising(0.0005, 10, 10)),
		duration:     histogram("request_duration_seconds", "From arrival to the end of the answer.", rising(0.01, 10_000, 5)),
		isl:          histogram("input_sequence_tokens", "Prompt tokens, by the worker's usage.", tokenBounds()),
		osl:          histogram("output_sequence_tokens", "Output tokens, by the worker's usage.", tokenBounds()),
		outputTokens: counter(dynamo+"output_tokens_total", "Output tokens, counted by chunks and at the end by the worker's usage.", "model"),
		rejected:     counter(dynamo+"model_rejection_total", "Requests refused because too many wait.", "model", "endpoint"),
		disconnected: prometheus.NewGauge(prometheus.GaugeOpts{Name: dynamo + "disconnected_clients", Help: "Clients that went away before their answer's end, so far.", ConstLabels: labels}),
		simulated:    counter(own+"simulated_requests_total", "Answers that say that they are simulated.", "model"),
		retries:      prometheus.NewCounter(prometheus.CounterOpts{Name: own + "retries_total", Help: "Tries at a worker that refused, after which another was tried.", ConstLabels: labels}),
		models:       map[string]bool{},
	}
	m.registry.MustRegister(m.started, m.ended, m.inFlight, m.active, m.queued, m.ttft, m.itl, m.duration, m.isl, m.osl,
		m.outputTokens, m.rejected, m.disconnected, m.simulated, m.retries, newLoadCollector(p, labels))
	return m
}

// rising are bounds from lo up to hi, so many in each power of ten, of three digits.
func rising(lo, hi float64, perTen int) []float64 {
	var out []float64
	for i := 0; ; i++ {
		x := lo * math.Pow(10, float64(i)/float64(perTen))
		if x > hi*1.001 {
			return out
		}
		unit := math.Pow(10, math.Floor(math.Log10(x))-2)
		out = append(out, math.Round(x/unit)*unit)
	}
}

// tokenBounds reach from one token to ten million, beyond every model's context.
func tokenBounds() []float64 {
	var out []float64
	for ten := 1.0; ten < 10e6; ten *= 10 {
		for _, times := range []float64{1, 1.5, 2, 3, 4, 5, 6, 8} {
			if ten > 1 || times == math.Trunc(times) {
				out = append(out, ten*times)
			}
		}
	}
	return append(out, 10e6)
}

// label is the label of a model's name, of which there are at most so many.
func (m *metrics) label(model string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if model == "" || !m.models[model] && len(m.models) >= mostModels || len(model) > 256 {
		return otherModel
	}
	m.models[model] = true
	return model
}

// loadCollector shows what the pool holds, as of one instant.
type loadCollector struct {
	pool                               *pool
	queue, waiting, perWorker, workers *prometheus.Desc
}

func newLoadCollector(p *pool, labels prometheus.Labels) loadCollector {
	desc := func(name, help string, names ...string) *prometheus.Desc {
		return prometheus.NewDesc("plimsoll_frontend_"+name, help, names, labels)
	}
	return loadCollector{
		pool:      p,
		queue:     desc("prefill_queue", "Requests that wait for a prefill worker now."),
		waiting:   desc("waiting_requests", "Requests that wait for a worker of any kind now."),
		perWorker: desc("worker_inflight_requests", "Requests at a worker now.", "worker", "role"),
		workers:   desc("workers", "Workers, by role and state.", "role", "state"),
	}
}

// Describe implements prometheus.Collector.
func (c loadCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.queue, c.waiting, c.perWorker, c.workers} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c loadCollector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	l := c.pool.load()
	gauge(c.queue, l.prefillQueue)
	gauge(c.waiting, l.waiting)
	type key struct{ name, role string }
	inFlight, count := map[key]int{}, map[key]int{}
	for _, m := range l.members {
		// A worker may be there twice, on its way out and come back elsewhere.
		inFlight[key{m.Name, string(m.Role)}] += m.inFlight
		count[key{string(m.state()), string(m.Role)}]++
	}
	for k, n := range inFlight {
		gauge(c.perWorker, n, k.name, k.role)
	}
	for k, n := range count {
		gauge(c.workers, n, k.role, k.name)
	}
}

// meter counts one request.
type meter struct {
	m                     *metrics
	model, endpoint, kind string
	arrived, last         time.Time
	ttft, itl             prometheus.Observer
	tokens                int // chunks with content so far
	isQueued              bool
	isl, osl              int // by the worker's usage; 0 = not said
}

// begin counts a request's arrival.
func (m *metrics) begin(model, endpoint string, stream bool, arrived time.Time) *meter {
	t := &meter{m: m, model: m.label(model), endpoint: endpoint, kind: "unary", arrived: arrived, isQueued: true}
	if stream {
		t.kind = "stream"
	}
	t.ttft, t.itl = m.ttft.WithLabelValues(t.model), m.itl.WithLabelValues(t.model)
	m.started.WithLabelValues(t.model, endpoint, t.kind).Inc()
	m.inFlight.WithLabelValues(t.model).Inc()
	m.active.WithLabelValues(t.model).Inc()
	m.queued.WithLabelValues(t.model).Inc()
	return t
}

// token counts a chunk with content that was passed on at an instant.
func (t *meter) token(now time.Time) {
	if t.tokens == 0 {
		t.unqueue()
		t.ttft.Observe(now.Sub(t.arrived).Seconds())
	} else {
		t.itl.Observe(now.Sub(t.last).Seconds())
	}
	t.tokens++
	t.last = now
	t.m.outputTokens.WithLabelValues(t.model).Inc()
}

func (t *meter) unqueue() {
	if t.isQueued {
		t.isQueued = false
		t.m.queued.WithLabelValues(t.model).Dec()
	}
}

// end counts how the request ended.
func (t *meter) end(failure string) {
	t.unqueue()
	t.m.inFlight.WithLabelValues(t.model).Dec()
	t.m.active.WithLabelValues(t.model).Dec()
	status := "error"
	switch failure {
	case noError:
		status = "success"
		t.lengths()
	case errCancelled:
		t.m.disconnected.Inc()
	case errOverload:
		t.m.rejected.WithLabelValues(t.model, t.endpoint).Inc()
	}
	t.m.ended.WithLabelValues(t.model, t.endpoint, t.kind, status, failure).Inc()
	t.m.duration.WithLabelValues(t.model).Observe(time.Since(t.arrived).Seconds())
}

// lengths counts the tokens that the worker's usage tells of.
func (t *meter) lengths() {
	if t.isl == 0 && t.osl == 0 {
		return
	}
	t.m.isl.WithLabelValues(t.model).Observe(float64(t.isl))
	t.m.osl.WithLabelValues(t.model).Observe(float64(t.osl))
	t.m.outputTokens.WithLabelValues(t.model).Add(float64(max(0, t.osl-t.tokens)))
}
