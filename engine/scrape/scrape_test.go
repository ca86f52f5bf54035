package scrape_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"plimsoll/engine/scrape"
)

func is(v float64) scrape.Value { return scrape.Value{V: v, Known: true} }

func open(t testing.TB, name string) io.Reader {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(text)
}

func TestParseEngines(t *testing.T) {
	for name, want := range map[string]scrape.Reading{
		"vllm.txt": {
			Engine: "vllm", Ranks: 1, Running: is(12), Waiting: is(0), KVUsage: is(0.0875), KVTokens: is(27259 * 16), BlockSize: is(16),
			PrefixQueries: is(36864), PrefixHits: is(17904), Preemptions: is(0), TTFT: scrape.Total{Sum: 2.5, Count: 12},
		},
		"vllm-0.32.txt": {
			Engine: "vllm", Ranks: 1, Running: is(0), Waiting: is(0), KVUsage: is(0), KVTokens: is(131072), BlockSize: is(128),
			PrefixQueries: is(120130), PrefixHits: is(512), Preemptions: is(0),
			TTFT: scrape.Total{Sum: 146.57471179962158, Count: 259}, ITL: scrape.Total{Sum: 340.8709385629736, Count: 6483},
		},
		"vllm-dp2.txt": {
			Engine: "vllm", Ranks: 2, Running: is(22), Waiting: is(3), KVUsage: is(0.375), KVTokens: is(32000), BlockSize: is(16),
		},
		"sglang.txt": {
			Engine: "sglang", Ranks: 1, Running: is(5), Waiting: is(3), KVUsage: is(0.28), KVTokens: is(442331), BlockSize: is(1),
			PrefixQueries: is(8128), PrefixHits: is(2048), Work: is(8128),
		},
		"llamacpp.txt": {Engine: "llamacpp", Running: is(3), Waiting: is(0), PrefixQueries: is(39), PrefixHits: is(0), Work: is(39 + 71)},
	} {
		got, err := scrape.Parse(open(t, name))
		if err != nil || got != want {
			t.Errorf("%s:\ngot  %+v, %v\nwant %+v", name, got, err, want)
		}
	}
}

func TestParseVLLM(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       scrape.Reading
	}{
		{"nothing but running", "vllm:num_requests_running 3\n", scrape.Reading{Ranks: 1, Running: is(3)}},
		{"no end of line", "vllm:num_requests_running 3", scrape.Reading{Ranks: 1, Running: is(3)}},
		{"zero is known", "vllm:num_requests_running 0\n", scrape.Reading{Ranks: 1, Running: is(0)}},
		{"NaN is not", "vllm:num_requests_running NaN\n", scrape.Reading{}},
		{"nor is infinity", "vllm:kv_cache_usage_perc +Inf\n", scrape.Reading{}},
		{"nor a negative count", "vllm:num_requests_running -1\n", scrape.Reading{}},
		{
			"one rank of which nothing is known makes the sum unknown",
			"vllm:num_requests_running{engine=\"0\"} 3\nvllm:num_requests_running{engine=\"1\"} NaN\n",
			scrape.Reading{},
		},
		{"older name", "vllm:gpu_cache_usage_perc 0.5\n", scrape.Reading{KVUsage: is(0.5)}},
		{"newer name first", "vllm:gpu_cache_usage_perc 0.5\nvllm:kv_cache_usage_perc 0.25\n", scrape.Reading{KVUsage: is(0.25)}},
		{"blocks that are not known yet", "vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"None\"} 1\n", scrape.Reading{BlockSize: is(16)}},
		{"no blocks", "vllm:cache_config_info{block_size=\"16\"} 1\n", scrape.Reading{BlockSize: is(16)}},
		{"zero blocks", "vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"0\"} 1\n", scrape.Reading{BlockSize: is(16)}},
		{"block size is garbage", "vllm:cache_config_info{block_size=\"16x\",num_gpu_blocks=\"10\"} 1\n", scrape.Reading{}},
		{
			"tokens stated, of a hybrid model", "vllm:cache_config_info{block_size=\"8\",num_gpu_blocks=\"320\",kv_cache_size_tokens=\"463459\"} 1\n",
			scrape.Reading{BlockSize: is(8), KVTokens: is(463459)},
		},
		{
			"cores with blocks of their own",
			"vllm:cache_config_info{engine=\"0\",block_size=\"16\",num_gpu_blocks=\"10\"} 1\nvllm:cache_config_info{engine=\"1\",block_size=\"16\",num_gpu_blocks=\"11\"} 1\n",
			scrape.Reading{BlockSize: is(16), KVTokens: is(336)},
		},
		{
			"one core that does not know",
			"vllm:cache_config_info{engine=\"0\",block_size=\"16\",num_gpu_blocks=\"10\"} 1\nvllm:cache_config_info{engine=\"1\",block_size=\"16\",num_gpu_blocks=\"None\"} 1\n",
			scrape.Reading{BlockSize: is(16)},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.want.Engine = "vllm"
			if got, err := scrape.Parse(strings.NewReader(c.text)); err != nil || got != c.want {
				t.Errorf("got  %+v, %v\nwant %+v", got, err, c.want)
			}
		})
	}
}

func TestParseOthers(t *testing.T) {
	for _, c := range []struct {
		text string
		want scrape.Reading
	}{
		{"llamacpp:kv_cache_usage_ratio 0.5\nllamacpp:prompt_tokens_total 7\n", scrape.Reading{Engine: "llamacpp", KVUsage: is(0.5), Work: is(7)}},
		{"vllm:prompt_tokens_total 5\nvllm:generation_tokens_total 7\nvllm:request_success_total{finished_reason=\"stop\"} 2\nvllm:request_success_total{finished_reason=\"length\"} 1\n", scrape.Reading{Engine: "vllm", Work: is(15)}},
		{"vllm:prompt_tokens_total 5\nvllm:generation_tokens_total NaN\n", scrape.Reading{Engine: "vllm"}},
		{"vllm:prompt_tokens_total 1e16\n", scrape.Reading{Engine: "vllm"}},
		{"request_success_total{finished_reason=\"stop\"} 4\n# TYPE e2e_request_latency_seconds histogram\ne2e_request_latency_seconds_count 4\n# TYPE request_queue_time_seconds histogram\nrequest_queue_time_seconds_count 4\n", scrape.Reading{Engine: "trtllm", Work: is(4)}},
		{"trtllm_num_requests_running 1\ntrtllm_num_requests_waiting 2\ntrtllm_prompt_tokens_total 30\ntrtllm_generation_tokens_total 5\n", scrape.Reading{Engine: "trtllm", Running: is(1), Waiting: is(2), Work: is(35)}},
		{"dynamo_component_inflight_requests{dynamo_endpoint=\"generate\"} 3\ndynamo_component_inflight_requests{dynamo_endpoint=\"other\"} 0\ndynamo_component_requests_total 9\n", scrape.Reading{Engine: "dynamo", Ranks: 0, Running: is(3), Waiting: is(0), Work: is(9)}},
		{"sglang:num_running_reqs{dp_rank=\"0\"} 1\nsglang:num_running_reqs{dp_rank=\"1\"} 2\n", scrape.Reading{Engine: "sglang", Ranks: 2, Running: is(3)}},
		{"sglang:max_total_num_tokens 0\n", scrape.Reading{Engine: "sglang"}},
		{"sglang:max_total_num_tokens 1e300\n", scrape.Reading{Engine: "sglang"}},
		{"sglang:num_running_reqs{dp_rank=\"0\"} 1e308\nsglang:num_running_reqs{dp_rank=\"1\"} 1e308\n", scrape.Reading{Engine: "sglang", Ranks: 2}},
	} {
		if got, err := scrape.Parse(strings.NewReader(c.text)); err != nil || got != c.want {
			t.Errorf("%s: got %+v, %v\nwant %+v", c.text, got, err, c.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	long := "# " + strings.Repeat("x", 9<<20) + "\n"
	for text, want := range map[string]string{
		"": "none of its 0 metrics",
		"dynamo_component_inflight_requests 1\ndynamo_frontend_requests_total 5\n": "none of its 2 metrics",
		"go_goroutines 5\n":                 "none of its 1 metrics",
		"<html>\n":                          "not Prometheus' text format",
		"{\"error\":1}\n":                   "not Prometheus' text format",
		"vllm:num_requests_running three":   "not Prometheus' text format",
		"vllm:num_requests_running{a=\"b 3": "not Prometheus' text format",
		long:                                "longer than 8 MiB",
	} {
		if r, err := scrape.Parse(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: got %+v, %v, want %q", text, r, err, want)
		}
	}
	broken := errors.New("broken")
	if _, err := scrape.Parse(iotest.ErrReader(broken)); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

func TestProps(t *testing.T) {
	p, err := scrape.ParseProps(open(t, "llamacpp-props.json"))
	if want := (scrape.Props{Slots: 8, Context: 4096, Build: "b11669-Debian"}); err != nil || p != want || p.KVTokens() != 32768 {
		t.Errorf("got %+v (%d tokens), %v, want %+v", p, p.KVTokens(), err, want)
	}
	for _, text := range []string{
		"", "[]", "{}", "<html>", `{"total_slots":8}`, `{"total_slots":-1,"default_generation_settings":{"n_ctx":5}}`,
		`{"total_slots":1,"default_generation_settings":{"n_ctx":99999999999}}`, `{"total_slots":1.5,"default_generation_settings":{"n_ctx":5}}`,
	} {
		if p, err := scrape.ParseProps(strings.NewReader(text)); err == nil {
			t.Errorf("%s: got %+v", text, p)
		}
	}
}

func TestRead(t *testing.T) {
	mux := http.NewServeMux()
	file := func(name string) http.HandlerFunc {
		text, err := io.ReadAll(open(t, name))
		if err != nil {
			t.Fatal(err)
		}
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(text) }
	}
	mux.HandleFunc("/metrics", file("vllm.txt"))
	mux.HandleFunc("/props", file("llamacpp-props.json"))
	mux.HandleFunc("/dynamo/metrics", file("dynamo-frontend.txt"))
	mux.HandleFunc("/v1/models", file("llamacpp-models.json"))
	mux.HandleFunc("/page", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html></html>") })
	mux.HandleFunc("/endless", func(w http.ResponseWriter, _ *http.Request) {
		for _, err := w.Write([]byte("vllm:num_requests_running 1\n")); err == nil; {
			_, err = w.Write([]byte("# a comment\n"))
		}
	})
	mux.HandleFunc("/hang", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	mux.HandleFunc("/off/metrics", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotImplemented) })
	s := httptest.NewServer(mux)
	defer s.Close()

	if r, err := scrape.Read(t.Context(), s.Client(), s.URL+"/metrics"); err != nil || r.Running != is(12) {
		t.Errorf("got %+v, %v", r, err)
	}
	if p, err := scrape.ReadProps(t.Context(), s.Client(), s.URL+"/props"); err != nil || p.Slots != 8 {
		t.Errorf("got %+v, %v", p, err)
	}
	if f, err := scrape.ReadFrontend(t.Context(), s.Client(), s.URL+"/dynamo/metrics", "m"); err != nil || f.KVTokens != 4096*64 {
		t.Errorf("got %+v, %v", f, err)
	}
	for path, want := range map[string]string{
		"/page": "not Prometheus' text format", "/endless": "longer than 8 MiB", "/nowhere": "404 Not Found",
		"/off/metrics": "may need a flag", "/hang": "context deadline exceeded",
	} {
		ctx, cancel := context.WithCancel(t.Context())
		if path == "/hang" {
			ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
		}
		r, err := scrape.Read(ctx, s.Client(), s.URL+path)
		cancel()
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got %+v, %v, want %q", path, r, err, want)
		}
	}
	if _, err := scrape.Read(t.Context(), s.Client(), "http://127.0.0.1:1/metrics"); err == nil {
		t.Error("an engine that is not there was read")
	}
	if _, err := scrape.Read(t.Context(), s.Client(), "::"); err == nil {
		t.Error("a URL that is none was read")
	}
}

// trtllm-serve's text is elsewhere than its list of steps, and says what the list does not.
func TestReadTRTLLM(t *testing.T) {
	const text, other = "trtllm_num_requests_running 4\ntrtllm_generation_tokens_total 30\n", "vllm:num_requests_running 3\n"
	steps := `[{"iter":7,"numActiveRequests":5,"kvCacheStats":{"maxNumBlocks":10,"tokensPerBlock":32,"usedNumBlocks":5}}]`
	for name, c := range map[string]struct {
		metrics, text string
		want          scrape.Reading
	}{
		"both":             {steps, text, scrape.Reading{Engine: "trtllm", Running: is(5), KVTokens: is(320), BlockSize: is(32), KVUsage: is(0.5), Work: is(37)}},
		"no step since":    {"[]", text, scrape.Reading{Engine: "trtllm", Running: is(4), Work: is(30)}},
		"no text":          {`[{"iter":7,"numActiveRequests":5}]`, "", scrape.Reading{Engine: "trtllm", Running: is(5), Work: is(7)}},
		"not metrics":      {"<html>", text, scrape.Reading{Engine: "trtllm", Running: is(4), Work: is(30)}},
		"neither":          {"<html>", "", scrape.Reading{}},
		"another's is all": {other, text, scrape.Reading{Engine: "vllm", Ranks: 1, Running: is(3)}},
	} {
		t.Run(name, func(t *testing.T) {
			mux := http.NewServeMux()
			mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, c.metrics) })
			if c.text != "" {
				mux.HandleFunc("/prometheus/metrics", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, c.text) })
			}
			s := httptest.NewServer(mux)
			defer s.Close()
			got, err := scrape.Read(t.Context(), s.Client(), s.URL+"/metrics")
			if failed := c.want == (scrape.Reading{}); got != c.want || failed != (err != nil) || failed && !strings.Contains(err.Error(), "not Prometheus' text format") {
				t.Errorf("got %+v, %v\nwant %+v", got, err, c.want)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"vllm.txt", "vllm-dp2.txt", "sglang.txt", "llamacpp.txt", "trtllm.json"} {
		text, err := io.ReadAll(open(f, name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := scrape.Parse(strings.NewReader(text))
		if err != nil && r != (scrape.Reading{}) {
			t.Fatalf("a reading with an error: %+v", r)
		}
		for _, v := range []scrape.Value{
			r.Running, r.Waiting, r.KVUsage, r.KVTokens, r.BlockSize, r.PrefixQueries, r.PrefixHits, r.Preemptions, r.Work,
		} {
			if !v.Known && v.V != 0 || !(v.V >= 0) || math.IsInf(v.V, 0) {
				t.Fatalf("value %+v in %+v", v, r)
			}
		}
		for _, v := range []scrape.Value{r.KVTokens, r.BlockSize} {
			if v.Known && v.V < 1 {
				t.Fatalf("a capacity of %g", v.V)
			}
		}
	})
}

func TestSince(t *testing.T) {
	before := scrape.Total{Sum: 2, Count: 10}
	for name, c := range map[string]struct {
		now  scrape.Total
		mean time.Duration
		n    int
	}{
		"five came":      {scrape.Total{Sum: 3, Count: 15}, 200 * time.Millisecond, 5},
		"nothing came":   {before, 0, 0},
		"it began anew":  {scrape.Total{Sum: 1, Count: 3}, 0, 0},
		"no number":      {scrape.Total{Sum: math.NaN(), Count: 15}, 0, 0},
		"an endless sum": {scrape.Total{Sum: math.Inf(1), Count: 15}, 0, 0},
	} {
		if mean, n := c.now.Since(before); mean != c.mean || n != c.n {
			t.Errorf("%s: %v of %d", name, mean, n)
		}
	}
}

func FuzzInfo(f *testing.F) {
	f.Add(`{"total_slots":8,"default_generation_settings":{"n_ctx":4096}}`)
	f.Fuzz(func(t *testing.T, text string) {
		if p, err := scrape.ParseProps(strings.NewReader(text)); err == nil && (p.Slots < 1 || p.KVTokens() < 1) {
			t.Fatalf("%+v", p)
		}
	})
}
