package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// cannedPrometheus answers every question about two engines as if they had gone on
// alike for ever: so much in each window.
type cannedPrometheus struct {
	models  []string
	names   []string
	token   string // wanted, if any
	values  []cannedValue
	buckets map[string]map[string]string // by histogram: in each window, by bound
}

// cannedValue is what queries have that contain all of the words.
type cannedValue struct {
	words []string
	value string
}

// steadyPrometheus has 20 requests/s, of 200 and 20 tokens.
func steadyPrometheus() cannedPrometheus {
	return cannedPrometheus{
		models: []string{"llama", "qwen"},
		names: []string{
			"vllm:request_success_total", "vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:request_prompt_tokens_count",
			"vllm:request_generation_tokens_count",
		},
		values: []cannedValue{
			{[]string{"increase", "success"}, "1200"},
			{[]string{"max(count_over_time", "[1h]"}, "720"},
			{[]string{"max(count_over_time", "[10m]"}, "120"},
			{[]string{"max(count_over_time", "[1m]"}, "12"},
			{[]string{"count(count_over_time"}, "2"},
			{[]string{"prompt_tokens_sum"}, "240000"},
			{[]string{"generation_tokens_sum"}, "24000"},
			{[]string{"last_over_time", "waiting"}, "0"},
		},
		buckets: map[string]map[string]string{
			"prompt_tokens":     {"100": "0", "200": "900", "500": "1200", "+Inf": "1200"},
			"generation_tokens": {"10": "0", "20": "1180", "50": "1200", "+Inf": "1200"},
		},
	}
}

// servePrometheus is `prometheus steady|nan|empty|guarded` in a script: URL is where
// it answers.
func servePrometheus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: prometheus kind")
	}
	p := steadyPrometheus()
	switch args[0] {
	case "steady":
	case "nan":
		p.values[0].value = "NaN"
	case "empty":
		p.names, p.models = nil, nil
	case "guarded":
		p.token = "hush"
	case "unmeasured":
		p.names = slices.DeleteFunc(p.names, func(n string) bool { return strings.HasSuffix(n, "_count") })
	default:
		ts.Fatalf("no such server: %s", args[0])
	}
	s := httptest.NewServer(p)
	ts.Defer(s.Close)
	ts.Setenv("URL", s.URL)
}

func (p cannedPrometheus) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if p.token != "" && r.Header.Get("Authorization") != "Bearer "+p.token {
		http.Error(w, "who is there? not "+r.Header.Get("Authorization"), http.StatusUnauthorized)
		return
	}
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	switch query := r.Form.Get("query"); r.URL.Path {
	case "/api/v1/label/__name__/values":
		answerPrometheus(w, p.names)
	case "/api/v1/label/model_name/values":
		if strings.Contains(r.Form.Get("match[]"), "vllm") {
			answerPrometheus(w, p.models)
			return
		}
		answerPrometheus(w, []string{})
	case "/api/v1/query":
		answerPrometheus(w, map[string]any{"resultType": "vector", "result": p.at(query, r.Form.Get("time"), r.Form.Get("time"), "1", "value")})
	case "/api/v1/query_range":
		answerPrometheus(w, map[string]any{"resultType": "matrix", "result": p.at(query, r.Form.Get("start"), r.Form.Get("end"), r.Form.Get("step"), "values")})
	default:
		answerPrometheus(w, []string{})
	}
}

func answerPrometheus(w http.ResponseWriter, data any) {
	if err := json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": data}); err != nil {
		panic(err)
	}
}

// at gives the series of a query, with the same value at all its instants.
func (p cannedPrometheus) at(query, start, end, step, field string) []any {
	number := func(s string) float64 {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			panic(err)
		}
		return v
	}
	all := []any{}
	series := func(metric map[string]string, value string) {
		var points []any
		for at := number(start); at <= number(end); at += number(step) {
			points = append(points, []any{at, value})
		}
		var v any = points
		if field == "value" {
			v = points[0]
		}
		all = append(all, map[string]any{"metric": metric, field: v})
	}
	if strings.HasPrefix(query, "sum by (le)") {
		for histogram, buckets := range p.buckets {
			for le, n := range buckets {
				if strings.Contains(query, histogram) {
					series(map[string]string{"le": le}, n)
				}
			}
		}
		return all
	}
	for _, v := range p.values {
		if !slices.ContainsFunc(v.words, func(word string) bool { return !strings.Contains(query, word) }) {
			series(map[string]string{}, v.value)
			break
		}
	}
	return all
}
