package simserver

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"plimsoll/engine/sim"
)

// vLLM's names, labels and buckets (vllm/v1/metrics/loggers.py, v0.10, August 2025), in seconds.
var (
	ttftBounds = []float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560}
	itlBounds  = []float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80}
	e2eBounds  = []float64{0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680}
	lateBounds = []float64{50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3, 20e-3, 50e-3, 100e-3, 1}
)

// tokenBounds are vLLM's bounds of lengths in tokens, 1, 2 and 5 times the powers
// of ten up to the longest context (the same file, build_1_2_5_buckets).
func tokenBounds(longest int) []float64 {
	var bounds []float64
	for ten := 1; ; ten *= 10 {
		for _, times := range []int{1, 2, 5} {
			if times*ten > longest {
				return bounds
			}
			bounds = append(bounds, float64(times*ten))
		}
	}
}

// finish is why a request ended, in OpenAI's and vLLM's words.
type finish string

const (
	finishStop   finish = "stop"   // the model ended its answer
	finishLength finish = "length" // max_tokens reached
	finishAbort  finish = "abort"  // the client went away; never seen in an answer
)

// metrics is what the server counts, under vLLM's names. The driver is its only
// writer.
type metrics struct {
	registry *prometheus.Registry

	mu        sync.Mutex // guards what a scrape reads: all of it is of one instant
	stats     sim.Stats
	finished  *prometheus.CounterVec // by reason
	lateSteps prometheus.Counter

	ttft prometheus.Histogram    // seconds from arrival to first token
	itl  [2]prometheus.Histogram // between tokens of a request, under both names
	tpot prometheus.Histogram    // mean of these, of each request
	e2e  prometheus.Histogram    // from arrival to last token
	isl  prometheus.Histogram    // tokens of requests that got their last token
	osl  prometheus.Histogram
	late prometheus.Histogram // by which steps ended after their instant
}

func newMetrics(model string, c sim.Config) *metrics {
	m := &metrics{registry: prometheus.NewRegistry()}
	to := promauto.With(prometheus.WrapRegistererWith(prometheus.Labels{"model_name": model, "engine": "0"}, m.registry))
	gauge := func(name, help string, of func(sim.Stats) float64) {
		to.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return of(m.stats) })
	}
	counter := func(name, help string, of func(sim.Stats) int64) {
		to.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(of(m.stats)) })
	}
	histogram := func(name, help string, bounds []float64) prometheus.Histogram {
		return to.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: bounds})
	}
	to.NewGauge(prometheus.GaugeOpts{
		Name: "vllm:cache_config_info", Help: "Configuration of the KV cache.",
		ConstLabels: prometheus.Labels{
			"block_size": strconv.Itoa(c.Limits.BlockSize), "num_gpu_blocks": strconv.Itoa(c.KVTokens() / c.Limits.BlockSize),
			"enable_prefix_caching": map[bool]string{true: "True", false: "False"}[c.PrefixCaching], "cache_dtype": "auto",
		},
	}).Set(1)
	m.finished = to.NewCounterVec(prometheus.CounterOpts{Name: "vllm:request_success_total", Help: "Requests that ended, by reason."}, []string{"finished_reason"})
	for _, f := range []finish{finishStop, finishLength, finishAbort} {
		m.finished.WithLabelValues(string(f))
	}
	kvUse := func(s sim.Stats) float64 { return float64(s.KVUsed) / float64(c.KVBlocks) }
	gauge("vllm:num_requests_running", "Requests in the running batch.", func(s sim.Stats) float64 { return float64(s.Running) })
	gauge("vllm:num_requests_waiting", "Requests waiting to run.", func(s sim.Stats) float64 { return float64(s.Waiting) })
	gauge("vllm:kv_cache_usage_perc", "Fraction of KV blocks held by running requests, 1 = all.", kvUse)
	gauge("vllm:gpu_cache_usage_perc", "Former name of vllm:kv_cache_usage_perc.", kvUse)
	counter("vllm:prompt_tokens_total", "Prompt tokens of requests that got their first token.", func(s sim.Stats) int64 { return s.PromptTokens })
	counter("vllm:generation_tokens_total", "Output tokens.", func(s sim.Stats) int64 { return s.OutputTokens })
	counter("vllm:num_preemptions_total", "Preemptions.", func(s sim.Stats) int64 { return s.Preemptions })
	counter("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.", func(s sim.Stats) int64 { return s.PrefixQueries })
	counter("vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache.", func(s sim.Stats) int64 { return s.PrefixHits })
	counter("plimsoll_sim_steps_total", "Forward steps.", func(s sim.Stats) int64 { return s.Steps })
	m.lateSteps = to.NewCounter(prometheus.CounterOpts{Name: "plimsoll_sim_late_steps_total", Help: "Steps that ended more than 5 ms late: the machine is too busy."})

	tokens := tokenBounds(c.MaxTokens())
	m.ttft = histogram("vllm:time_to_first_token_seconds", "Time from arrival to first token.", ttftBounds)
	m.itl = [2]prometheus.Histogram{
		histogram("vllm:inter_token_latency_seconds", "Time between tokens of a request.", itlBounds),
		histogram("vllm:time_per_output_token_seconds", "Former name of vllm:inter_token_latency_seconds.", itlBounds),
	}
	m.tpot = histogram("vllm:request_time_per_output_token_seconds", "Mean time between tokens of a request that ended.", itlBounds)
	m.e2e = histogram("vllm:e2e_request_latency_seconds", "Time from arrival to last token.", e2eBounds)
	m.isl = histogram("vllm:request_prompt_tokens", "Prompt tokens of a request.", tokens)
	m.osl = histogram("vllm:request_generation_tokens", "Output tokens of a request.", tokens)
	m.late = histogram("plimsoll_sim_lateness_seconds", "How late a step of the simulated engine ended in real time.", lateBounds)
	return m
}

// handler answers /metrics.
func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(prometheus.GathererFunc(locked(&m.mu, m.registry.Gather)), promhttp.HandlerOpts{})
}

// locked is a function that holds a lock while it runs.
func locked[T any](mu *sync.Mutex, f func() (T, error)) func() (T, error) {
	return func() (T, error) {
		mu.Lock()
		defer mu.Unlock()
		return f()
	}
}

// publish replaces the engine's state.
func (m *metrics) publish(s sim.Stats) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stats = s
}

// ended counts a request that got its last token. The caller holds the lock.
func (m *metrics) ended(f finish, e2e time.Duration, isl, osl int) {
	m.finished.WithLabelValues(string(f)).Inc()
	m.e2e.Observe(e2e.Seconds())
	m.isl.Observe(float64(isl))
	m.osl.Observe(float64(osl))
}
