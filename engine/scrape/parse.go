package scrape

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// families is a scrape by metric name.
type families map[string]*dto.MetricFamily

// Parse reads an engine's /metrics: Prometheus' text format as the engines write
// it, or the list of steps that is TensorRT-LLM's.
func Parse(text io.Reader) (Reading, error) {
	head := bufio.NewReader(text)
	if b, err := head.Peek(1); err == nil && b[0] == '[' {
		return parseIterations(head)
	}
	all, err := parseFamilies(head)
	if err != nil {
		return Reading{}, err
	}
	switch {
	case all.any("vllm:"):
		return all.vllm(), nil
	case all.any("sglang:"):
		return all.sglang(), nil
	case all.any("llamacpp:"):
		return all.llamacpp(), nil
	case all.any("trtllm_"):
		return all.trtllm("trtllm_"), nil
	case all["e2e_request_latency_seconds"] != nil && all["request_queue_time_seconds"] != nil:
		return all.trtllm(""), nil
	case all["dynamo_component_inflight_requests"] != nil && !all.any("dynamo_frontend_"):
		return all.dynamo(), nil
	default:
		return Reading{}, fmt.Errorf("none of its %d metrics is vLLM's, SGLang's, TensorRT-LLM's, llama.cpp's or a Dynamo worker's", len(all))
	}
}

// parseFamilies reads Prometheus' text format.
func parseFamilies(text io.Reader) (families, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	// The parser wants the last line ended, which not every engine does.
	fs, err := parser.TextToMetricFamilies(io.MultiReader(bound(text), strings.NewReader("\n")))
	if errors.Is(err, errTooLong) {
		return nil, errTooLong
	}
	if err != nil {
		return nil, fmt.Errorf("not Prometheus' text format: %w", err)
	}
	return fs, nil
}

func (fs families) any(prefix string) bool {
	for name := range fs {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// vllm reads the metrics of vLLM's v1 engine and, where v1 renamed them, v0's
// (vllm/v1/metrics/loggers.py). Each data-parallel engine core has
// its own "engine" label.
func (fs families) vllm() Reading {
	r := Reading{
		Engine:        "vllm",
		Ranks:         len(fs.ranks([]string{"vllm:num_requests_running"})),
		Running:       fs.sum("vllm:num_requests_running"),
		Waiting:       fs.sum("vllm:num_requests_waiting"),
		KVUsage:       fs.mean("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
		PrefixQueries: fs.sum("vllm:prefix_cache_queries_total", "vllm:prefix_cache_queries", "vllm:gpu_prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries"),
		PrefixHits:    fs.sum("vllm:prefix_cache_hits_total", "vllm:prefix_cache_hits", "vllm:gpu_prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits"),
		Preemptions:   fs.sum("vllm:num_preemptions_total", "vllm:num_preemptions"),
		Work:          fs.work("vllm:prompt_tokens_total", "vllm:generation_tokens_total", "vllm:request_success_total"),
		TTFT:          fs.total("vllm:time_to_first_token_seconds"),
		ITL:           fs.total("vllm:inter_token_latency_seconds", "vllm:time_per_output_token_seconds"),
	}
	r.BlockSize, r.KVTokens = cacheConfig(fs["vllm:cache_config_info"])
	return r
}

// cacheConfig reads vLLM's one metric whose labels are the values. vLLM adds the
// blocks of all data-parallel cores up before it publishes the sum once for each
// of them (vllm/v1/engine/utils.py), so equal values are one sum. Values that
// differ are each core's own.
func cacheConfig(f *dto.MetricFamily) (block, tokens Value) {
	metrics := f.GetMetric()
	if len(metrics) == 0 {
		return Value{}, Value{}
	}
	block = number(metrics[0], "block_size")
	first := number(metrics[0], "num_gpu_blocks")
	blocks, same := first, true
	for _, m := range metrics[1:] {
		n := number(m, "num_gpu_blocks")
		same = same && n == first
		blocks = Value{V: blocks.V + n.V, Known: blocks.Known && n.Known}
		if number(m, "block_size") != block {
			block = Value{}
		}
	}
	if same {
		blocks = first
	}
	// Newer versions state the tokens themselves, which blocks do not give where
	// layers differ (hybrid models); whether over all cores is not documented.
	if stated := number(metrics[0], "kv_cache_size_tokens"); stated.Known && len(metrics) == 1 {
		return block, stated
	}
	if block.Known && blocks.Known {
		tokens = known(block.V * blocks.V)
	}
	return block, tokens
}

// number is a positive number in a label; vLLM writes None where it has none yet.
func number(m *dto.Metric, label string) Value {
	n, err := strconv.ParseUint(labelOf(m, label), 10, 50)
	if err != nil || n == 0 {
		return Value{}
	}
	return known(float64(n))
}

// sglang reads SGLang's metrics (srt/metrics/collector.py).
func (fs families) sglang() Reading {
	return Reading{
		Engine:        "sglang",
		Ranks:         len(fs.ranks([]string{"sglang:num_running_reqs"})),
		Running:       fs.sum("sglang:num_running_reqs"),
		Waiting:       fs.sum("sglang:num_queue_reqs"),
		KVUsage:       fs.mean("sglang:token_usage"),
		KVTokens:      positive(fs.sum("sglang:max_total_num_tokens")),
		BlockSize:     positive(fs.mean("sglang:page_size")),
		PrefixQueries: fs.sum("sglang:prompt_tokens_total"),
		PrefixHits:    fs.sum("sglang:cached_tokens_total"),
		Preemptions:   fs.sum("sglang:num_retracted_requests_total"),
		Work:          fs.work("sglang:prompt_tokens_total", "sglang:generation_tokens_total", "sglang:num_requests_total"),
		TTFT:          fs.total("sglang:time_to_first_token_seconds"),
		ITL:           fs.total("sglang:inter_token_latency_seconds"),
	}
}

// llamacpp reads the metrics of llama.cpp's server (tools/server; b11669). It
// does not state its KV capacity here, see ParseProps; older versions state its use.
func (fs families) llamacpp() Reading {
	r := Reading{
		Engine:  "llamacpp",
		Running: fs.sum("llamacpp:requests_processing"),
		Waiting: fs.sum("llamacpp:requests_deferred"),
		KVUsage: fs.mean("llamacpp:kv_cache_usage_ratio"),
		Work:    fs.work("llamacpp:prompt_tokens_total", "llamacpp:tokens_predicted_total", "llamacpp:n_decode_total"),
	}
	r.PrefixHits = fs.sum("llamacpp:prompt_tokens_cached_total")
	// Prompt tokens exclude cached ones in versions that count those apart.
	if computed := fs.sum("llamacpp:prompt_tokens_total"); r.PrefixHits.Known && computed.Known {
		r.PrefixQueries = known(computed.V + r.PrefixHits.V)
	}
	return r
}

// trtllm reads what trtllm-serve counts as requests end and, from 1.3 on, steps; 1.1 has no
// prefix and nothing but histograms and ends (tensorrt_llm/metrics/collector.py).
func (fs families) trtllm(prefix string) Reading {
	return Reading{
		Engine:  "trtllm",
		Running: fs.sum(prefix + "num_requests_running"),
		Waiting: fs.sum(prefix + "num_requests_waiting"),
		KVUsage: fs.mean(prefix + "kv_cache_utilization"),
		Work:    fs.work(prefix+"request_success_total", prefix+"prompt_tokens_total", prefix+"generation_tokens_total", prefix+"num_requests_completed_total"),
	}
}

// dynamo reads what a worker of Dynamo counts itself, for those whose engine says nothing, as
// in prefill. What waits in the engine is among it (prometheus_names, work_handler; 1.6.1).
func (fs families) dynamo() Reading {
	return Reading{
		Engine: "dynamo", Running: fs.sum("dynamo_component_inflight_requests"), Waiting: known(0),
		Work: fs.work("dynamo_component_requests_total", "dynamo_component_request_bytes_total", "dynamo_component_response_bytes_total"),
	}
}

// work adds up all series of counters.
func (fs families) work(names ...string) (sum Value) {
	for _, name := range names {
		for _, m := range fs[name].GetMetric() {
			v, ok := value(m)
			if !ok {
				return Value{}
			}
			sum = known(sum.V + v)
		}
	}
	if sum.V >= 1<<53 { // beyond which one more is not seen
		return Value{}
	}
	return sum
}

// sum adds up a metric over the data-parallel ranks; the first of the names that
// the scrape has counts.
func (fs families) sum(names ...string) Value {
	var total float64
	ranks := fs.ranks(names)
	for _, v := range ranks {
		total += v
	}
	if len(ranks) == 0 || math.IsInf(total, 0) {
		return Value{}
	}
	return known(total)
}

// total adds up a histogram over all its series; the first of the names that the scrape has
// counts.
func (fs families) total(names ...string) (t Total) {
	for _, name := range names {
		for _, m := range fs[name].GetMetric() {
			t.Sum, t.Count = t.Sum+m.GetHistogram().GetSampleSum(), t.Count+m.GetHistogram().GetSampleCount()
		}
		if t.Count > 0 {
			break
		}
	}
	return t
}

// mean is a metric's average over the ranks, whose caches are of one size.
func (fs families) mean(names ...string) Value {
	total := fs.sum(names...)
	if !total.Known {
		return Value{}
	}
	return known(total.V / float64(len(fs.ranks(names))))
}

// ranks is a metric by data-parallel rank. Series that differ in other ways, as
// SGLang's by tensor-parallel rank, state the same thing again: the largest
// counts. One series that is no number makes the whole unknown, not smaller.
func (fs families) ranks(names []string) map[string]float64 {
	for _, name := range names {
		metrics := fs[name].GetMetric()
		if len(metrics) == 0 {
			continue
		}
		ranks := map[string]float64{}
		for _, m := range metrics {
			v, ok := value(m)
			if !ok {
				return nil
			}
			if labelOf(m, "priority") != "" { // SGLang's share of one priority; the whole has ""
				continue
			}
			// cache_source splits SGLang's cached tokens; the parts are added.
			rank := labelOf(m, "cache_source") + "\x00" + labelOf(m, "engine") + "\x00" + labelOf(m, "dp_rank") + "\x00" + labelOf(m, "model_name")
			if old, seen := ranks[rank]; !seen || v > old {
				ranks[rank] = v
			}
		}
		return ranks
	}
	return nil
}

// value is a sample that can be one of the counts and fractions read here.
func value(m *dto.Metric) (float64, bool) {
	var v float64
	switch {
	case m.Gauge != nil:
		v = m.GetGauge().GetValue()
	case m.Counter != nil:
		v = m.GetCounter().GetValue()
	case m.Untyped != nil:
		v = m.GetUntyped().GetValue()
	default:
		return 0, false
	}
	return v, v >= 0 && !math.IsInf(v, 0) // not NaN either
}

func labelOf(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// positive drops a capacity of zero, or beyond every machine, which no engine that runs has.
func positive(v Value) Value {
	if v.V < 1 || v.V > 1<<50 {
		return Value{}
	}
	return v
}
