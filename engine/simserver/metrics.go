package simserver

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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

// metrics is what the server counts, collected by Prometheus under vLLM's
// names. The driver is its only writer.
type metrics struct {
	cacheInfo  prometheus.Metric
	success    *prometheus.Desc
	samples    []sample
	histograms []histogramOf

	mu        sync.Mutex // guards all below and what the lists above read
	stats     sim.Stats
	finished  map[finish]int
	lateSteps int
	ttft      *histogram // seconds from arrival to first token
	itl       *histogram // between tokens of a request
	tpot      *histogram // mean of these, of each request
	e2e       *histogram // from arrival to last token
	isl, osl  *histogram // tokens of requests that got their last token
	late      *histogram // by which steps ended after their instant
}

// sample is a metric with one value, read under the lock.
type sample struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func() float64
}

// histogramOf is a histogram under one of its names.
type histogramOf struct {
	desc *prometheus.Desc
	data *histogram
}

func newMetrics(model string, c sim.Config) *metrics {
	labels := prometheus.Labels{"model_name": model, "engine": "0"}
	desc := func(name, help string, variable ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, variable, labels)
	}
	m := &metrics{
		finished: map[finish]int{finishStop: 0, finishLength: 0, finishAbort: 0},
		ttft:     newHistogram(ttftBounds),
		itl:      newHistogram(itlBounds),
		tpot:     newHistogram(itlBounds),
		e2e:      newHistogram(e2eBounds),
		isl:      newHistogram(tokenBounds(c.MaxTokens())),
		osl:      newHistogram(tokenBounds(c.MaxTokens())),
		late:     newHistogram(lateBounds),
		success:  desc("vllm:request_success_total", "Requests that ended, by reason.", "finished_reason"),
		cacheInfo: prometheus.MustNewConstMetric(
			desc("vllm:cache_config_info", "Configuration of the KV cache.", "block_size", "num_gpu_blocks", "enable_prefix_caching", "cache_dtype"),
			prometheus.GaugeValue, 1,
			strconv.Itoa(c.Limits.BlockSize), strconv.Itoa(c.KVTokens()/c.Limits.BlockSize), pythonBool(c.PrefixCaching), "auto"),
	}
	const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue
	kvUse := func() float64 { return float64(m.stats.KVUsed) / float64(c.KVBlocks) }
	m.samples = []sample{
		{desc("vllm:num_requests_running", "Requests in the running batch."), gauge, func() float64 { return float64(m.stats.Running) }},
		{desc("vllm:num_requests_waiting", "Requests waiting to run."), gauge, func() float64 { return float64(m.stats.Waiting) }},
		{desc("vllm:kv_cache_usage_perc", "Fraction of KV blocks held by running requests, 1 = all."), gauge, kvUse},
		{desc("vllm:gpu_cache_usage_perc", "Former name of vllm:kv_cache_usage_perc."), gauge, kvUse},
		{desc("vllm:prompt_tokens_total", "Prompt tokens of requests that got their first token."), counter, func() float64 { return float64(m.stats.PromptTokens) }},
		{desc("vllm:generation_tokens_total", "Output tokens."), counter, func() float64 { return float64(m.stats.OutputTokens) }},
		{desc("vllm:num_preemptions_total", "Preemptions."), counter, func() float64 { return float64(m.stats.Preemptions) }},
		{desc("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache."), counter, func() float64 { return float64(m.stats.PrefixQueries) }},
		{desc("vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache."), counter, func() float64 { return float64(m.stats.PrefixHits) }},
		{desc("plimsoll_sim_steps_total", "Forward steps."), counter, func() float64 { return float64(m.stats.Steps) }},
		{desc("plimsoll_sim_late_steps_total", "Steps that ended more than 5 ms late: the machine is too busy."), counter, func() float64 { return float64(m.lateSteps) }},
	}
	m.histograms = []histogramOf{
		{desc("vllm:time_to_first_token_seconds", "Time from arrival to first token."), m.ttft},
		{desc("vllm:inter_token_latency_seconds", "Time between tokens of a request."), m.itl},
		{desc("vllm:time_per_output_token_seconds", "Former name of vllm:inter_token_latency_seconds."), m.itl},
		{desc("vllm:request_time_per_output_token_seconds", "Mean time between tokens of a request that ended."), m.tpot},
		{desc("vllm:e2e_request_latency_seconds", "Time from arrival to last token."), m.e2e},
		{desc("vllm:request_prompt_tokens", "Prompt tokens of a request."), m.isl},
		{desc("vllm:request_generation_tokens", "Output tokens of a request."), m.osl},
		{desc("plimsoll_sim_lateness_seconds", "How late a step of the simulated engine ended in real time."), m.late},
	}
	return m
}

// pythonBool is b as vLLM prints it.
func pythonBool(b bool) string {
	if b {
		return "True"
	}
	return "False"
}

// handler answers /metrics from a registry of its own.
func (m *metrics) handler() http.Handler {
	reg := prometheus.NewRegistry()
	reg.MustRegister(m)
	return promhttp.HandlerFor(reg, promhttp.HandlerOpts{})
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.cacheInfo.Desc()
	ch <- m.success
	for _, s := range m.samples {
		ch <- s.desc
	}
	for _, h := range m.histograms {
		ch <- h.desc
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(ch chan<- prometheus.Metric) {
	for _, v := range m.snapshot() {
		ch <- v
	}
}

// snapshot is every metric as of one instant.
func (m *metrics) snapshot() []prometheus.Metric {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := []prometheus.Metric{m.cacheInfo}
	for f, n := range m.finished {
		all = append(all, prometheus.MustNewConstMetric(m.success, prometheus.CounterValue, float64(n), string(f)))
	}
	for _, s := range m.samples {
		all = append(all, prometheus.MustNewConstMetric(s.desc, s.kind, s.value()))
	}
	for _, h := range m.histograms {
		all = append(all, h.data.metric(h.desc))
	}
	return all
}

// publish replaces the engine's state.
func (m *metrics) publish(s sim.Stats) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stats = s
}

// aborted counts a request whose client went away.
func (m *metrics) aborted() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.finished[finishAbort]++
}

// ended counts a request that got its last token. The caller holds the lock.
func (m *metrics) ended(f finish, e2e time.Duration, isl, osl int) {
	m.finished[f]++
	m.e2e.observe(e2e)
	m.isl.observeTokens(isl)
	m.osl.observeTokens(osl)
}

// stepEnded counts how late a step ended.
func (m *metrics) stepEnded(late time.Duration, tooLate bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.late.observe(max(late, 0))
	if tooLate {
		m.lateSteps++
	}
}
