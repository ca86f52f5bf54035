package simserver

import (
	"maps"
	"math"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// family is a metric as read from /metrics.
type family struct {
	kind    string // GAUGE, COUNTER, HISTOGRAM
	samples []metricSample
}

type metricSample struct {
	labels     map[string]string
	value      float64 // of a gauge or counter
	sum        float64 // of a histogram
	count, fit uint64  // its samples, and those below its highest bound
}

// families reads /metrics with Prometheus's own parser.
func (s *site) families() map[string]family {
	s.t.Helper()
	p := expfmt.NewTextParser(model.UTF8Validation)
	read, err := p.TextToMetricFamilies(strings.NewReader(s.get("/metrics")))
	if err != nil {
		s.t.Fatal(err)
	}
	all := map[string]family{}
	for name, f := range read {
		fam := family{kind: f.GetType().String()}
		for _, m := range f.GetMetric() {
			sample := metricSample{labels: map[string]string{}, value: m.GetGauge().GetValue() + m.GetCounter().GetValue()}
			for _, l := range m.GetLabel() {
				sample.labels[l.GetName()] = l.GetValue()
			}
			if h := m.GetHistogram(); h != nil {
				sample.sum, sample.count = h.GetSampleSum(), h.GetSampleCount()
				for _, b := range h.GetBucket() {
					if !math.IsInf(b.GetUpperBound(), 1) {
						sample.fit = b.GetCumulativeCount()
					}
				}
			}
			fam.samples = append(fam.samples, sample)
		}
		all[name] = fam
	}
	return all
}

// metric is the value of a gauge or counter: name, or name{label="value"}.
func (s *site) metric(name string) float64 {
	s.t.Helper()
	name, label, _ := strings.Cut(strings.TrimSuffix(name, `"}`), "{")
	key, value, _ := strings.Cut(label, `="`)
	for _, m := range s.families()[name].samples {
		if label == "" || m.labels[key] == value {
			return m.value
		}
	}
	s.t.Fatalf("no metric %s with %s=%q", name, key, value)
	return 0
}

func TestMetricsHaveVLLMsNamesAndTypes(t *testing.T) {
	s := serve(t, testOptions())
	s.post("/v1/completions", `{"prompt":"a b c","max_tokens":5,"ignore_eos":true}`)
	const gauge, counter, histogram = "GAUGE", "COUNTER", "HISTOGRAM"
	want := map[string]string{
		"vllm:num_requests_running":                  gauge,
		"vllm:num_requests_waiting":                  gauge,
		"vllm:kv_cache_usage_perc":                   gauge,
		"vllm:gpu_cache_usage_perc":                  gauge,
		"vllm:cache_config_info":                     gauge,
		"vllm:prompt_tokens_total":                   counter,
		"vllm:generation_tokens_total":               counter,
		"vllm:request_success_total":                 counter,
		"vllm:num_preemptions_total":                 counter,
		"vllm:prefix_cache_queries_total":            counter,
		"vllm:prefix_cache_hits_total":               counter,
		"vllm:time_to_first_token_seconds":           histogram,
		"vllm:inter_token_latency_seconds":           histogram,
		"vllm:time_per_output_token_seconds":         histogram,
		"vllm:request_time_per_output_token_seconds": histogram,
		"vllm:e2e_request_latency_seconds":           histogram,
		"vllm:request_prompt_tokens":                 histogram,
		"vllm:request_generation_tokens":             histogram,
		"plimsoll_sim_lateness_seconds":              histogram,
		"plimsoll_sim_late_steps_total":              counter,
		"plimsoll_sim_steps_total":                   counter,
	}
	got := map[string]string{}
	for name, f := range s.families() {
		got[name] = f.kind
		for _, m := range f.samples {
			if m.labels["model_name"] != "test/model" {
				t.Errorf("%s lacks model_name: %v", name, m.labels)
			}
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("metrics %v\nwant %v", got, want)
	}
}

func TestMetricsCount(t *testing.T) {
	s := serve(t, testOptions())
	words := strings.Repeat("w ", 40)
	for range 2 {
		s.post("/v1/completions", `{"prompt":"`+words+`","max_tokens":5,"ignore_eos":true}`)
	}
	for name, want := range map[string]float64{
		"vllm:prompt_tokens_total":                             80,
		"vllm:generation_tokens_total":                         10,
		"vllm:prefix_cache_queries_total":                      80,
		"vllm:prefix_cache_hits_total":                         32,
		"vllm:num_requests_running":                            0,
		"vllm:kv_cache_usage_perc":                             0,
		`vllm:request_success_total{finished_reason="length"}`: 2,
		`vllm:request_success_total{finished_reason="stop"}`:   0,
		`vllm:cache_config_info{block_size="16"}`:              1,
		`vllm:cache_config_info{num_gpu_blocks="25600"}`:       1,
		`vllm:cache_config_info{enable_prefix_caching="True"}`: 1,
	} {
		if got := s.metric(name); got != want {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
	f := s.families()
	for name, want := range map[string]uint64{
		"vllm:time_to_first_token_seconds":           2,
		"vllm:inter_token_latency_seconds":           8,
		"vllm:time_per_output_token_seconds":         8,
		"vllm:request_time_per_output_token_seconds": 2,
		"vllm:e2e_request_latency_seconds":           2,
		"vllm:request_prompt_tokens":                 2,
		"vllm:request_generation_tokens":             2,
		"plimsoll_sim_lateness_seconds":              10,
	} {
		if h := f[name].samples[0]; h.count != want || h.fit != want {
			t.Errorf("%s has %d samples, %d of them within its bounds, want %d", name, h.count, h.fit, want)
		}
	}
	// The steps take 1 ms each; a first token that is late leaves less.
	late := f["plimsoll_sim_lateness_seconds"].samples[0].sum
	if sum := f["vllm:inter_token_latency_seconds"].samples[0].sum; sum < 0.0079-late {
		t.Errorf("8 ITLs are %v s, want 1 ms each or, on a busy machine, more; late by %v s in all", sum, late)
	}
}
