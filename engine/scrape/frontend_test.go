package scrape_test

import (
	"strings"
	"testing"

	"plimsoll/engine/scrape"
)

func TestParseFrontend(t *testing.T) {
	got, err := scrape.ParseFrontend(open(t, "dynamo-frontend.txt"), "m")
	want := scrape.Frontend{KVTokens: 4096 * 64, BlockSize: 64, MaxNumSeqs: 8, Workers: 2} // its context length is 0, which is unknown
	if err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if got, err := scrape.ParseFrontend(open(t, "dynamo-frontend.txt"), "m2"); err != nil || got.KVTokens != 2048*64 || got.MaxNumSeqs != 16 {
		t.Errorf("got %+v, %v", got, err)
	}
	const blocks, size = "dynamo_frontend_model_total_kv_blocks", "dynamo_frontend_model_kv_cache_block_size"
	for _, c := range []struct {
		name, text string
		want       scrape.Frontend
	}{
		{"each model has its own", blocks + "{model=\"a\"} 10\n" + blocks + "{model=\"b\"} 20\n" + size + "{model=\"a\"} 16\n" + size + "{model=\"b\"} 32\n", scrape.Frontend{KVTokens: 640, BlockSize: 32}},
		{"a name in lower case", blocks + "{model=\"B\"} 20\n" + size + "{model=\"B\"} 32\n", scrape.Frontend{KVTokens: 640, BlockSize: 32}},
		{"blocks of unknown size", "dynamo_frontend_model_context_length{model=\"b\"} 4096\n" + blocks + "{model=\"b\"} 20\n", scrape.Frontend{Context: 4096}},
		{"prefill workers hold no stream", size + "{model=\"b\"} 32\ndynamo_frontend_worker_last_time_to_first_token_seconds{worker_id=\"1\",worker_type=\"prefill\"} 1\n", scrape.Frontend{BlockSize: 32}},
	} {
		if got, err := scrape.ParseFrontend(strings.NewReader(c.text), "b"); err != nil || got != c.want {
			t.Errorf("%s: got %+v, %v, want %+v", c.name, got, err, c.want)
		}
	}
	for _, text := range []string{"", "<html>", "vllm:num_requests_running 3\n", blocks + "{model=\"a\"} 10\n", size + "{model=\"b\"} 0\n", size + "{model=\"b\"} 1e300\n"} {
		if got, err := scrape.ParseFrontend(strings.NewReader(text), "b"); err == nil {
			t.Errorf("%q: got %+v", text, got)
		}
	}
}
