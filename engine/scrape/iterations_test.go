package scrape_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"plimsoll/engine/scrape"
)

func TestParseIterations(t *testing.T) {
	trt := func(r scrape.Reading) scrape.Reading { r.Engine = "trtllm"; return r }
	kv := scrape.Reading{Running: is(1), Work: is(154), KVTokens: is(101256 * 32), BlockSize: is(32), KVUsage: is(3.0 / 101256)}
	for _, c := range []struct {
		name, text string
		want       scrape.Reading
	}{
		{"nothing was done since", "[]", trt(scrape.Reading{})},
		{"the last step holds", `[{"numActiveRequests":9},{"numActiveRequests":5,"numQueuedRequests":3}]`, trt(scrape.Reading{Running: is(5), Waiting: is(3)})},
		{"zero is known", `[{"numActiveRequests":0}]`, trt(scrape.Reading{Running: is(0)})},
		{"a negative count is not", `[{"numActiveRequests":-1}]`, trt(scrape.Reading{})},
		{"no cache", `[{"kvCacheStats":{"maxNumBlocks":0,"tokensPerBlock":64}}]`, trt(scrape.Reading{BlockSize: is(64)})},
		{"more used than there is", `[{"kvCacheStats":{"maxNumBlocks":2,"tokensPerBlock":64,"usedNumBlocks":3}}]`, trt(scrape.Reading{BlockSize: is(64), KVTokens: is(128)})},
	} {
		if got, err := scrape.Parse(strings.NewReader(c.text)); err != nil || got != c.want {
			t.Errorf("%s:\ngot  %+v, %v\nwant %+v", c.name, got, err, c.want)
		}
	}
	if got, err := scrape.Parse(open(t, "trtllm.json")); err != nil || got != trt(kv) {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, trt(kv))
	}
	for _, text := range []string{"[1]", "[{]", `["a"]`, `[{"numActiveRequests":"many"}]`} {
		if r, err := scrape.Parse(strings.NewReader(text)); err == nil {
			t.Errorf("%s: got %+v", text, r)
		}
	}
}

func TestServerInfo(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       scrape.ServerInfo
	}{
		{"of its first versions", `{"model_path":"m","tp_size":1,"dp_size":1,"max_total_num_tokens":442331,"version":"0.4.6"}`, scrape.ServerInfo{Version: "0.4.6", KVTokens: 442331, Ranks: 1}},
		{"one rank speaks for all", `{"dp_size":4,"max_total_num_tokens":1000,"version":"0.5.3","internal_states":[{"load":1}]}`, scrape.ServerInfo{Version: "0.5.3", KVTokens: 4000, Ranks: 4}},
		{"each rank speaks", `{"dp_size":2,"max_total_num_tokens":1000,"version":"0.5.3","internal_states":[{"memory_usage":{"token_capacity":1000}},{"memory_usage":{"token_capacity":1064}}]}`, scrape.ServerInfo{Version: "0.5.3", KVTokens: 2064, Ranks: 2}},
		{"a rank that does not speak", `{"dp_size":2,"max_total_num_tokens":1000,"version":"0.5.3","internal_states":[{"memory_usage":{"token_capacity":1064}},{"memory_usage":{}}]}`, scrape.ServerInfo{Version: "0.5.3", KVTokens: 2000, Ranks: 2}},
		{"no capacity", `{"version":"0.5.9"}`, scrape.ServerInfo{Version: "0.5.9", Ranks: 1}},
		{"nonsense", `{"version":"0.5.9","dp_size":"two","max_total_num_tokens":-5,"internal_states":[{"memory_usage":{"token_capacity":-1}}]}`, scrape.ServerInfo{Version: "0.5.9", Ranks: 1}},
	} {
		if got, err := scrape.ParseServerInfo(strings.NewReader(c.text)); err != nil || got != c.want {
			t.Errorf("%s: got %+v, %v, want %+v", c.name, got, err, c.want)
		}
	}
	for _, text := range []string{"", "[]", "{}", "<html>", `{"version":7}`} {
		if got, err := scrape.ParseServerInfo(strings.NewReader(text)); err == nil {
			t.Errorf("%s: got %+v", text, got)
		}
	}
	// Both of its names are tried.
	for _, path := range []string{"/server_info", "/get_server_info"} {
		mux := http.NewServeMux()
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"version":"0.5.3","max_total_num_tokens":7}`))
		})
		s := httptest.NewServer(mux)
		if got, err := scrape.ReadServerInfo(t.Context(), s.Client(), s.URL); err != nil || got.KVTokens != 7 {
			t.Errorf("%s: got %+v, %v", path, got, err)
		}
		s.Close()
	}
}

func FuzzServerInfo(f *testing.F) {
	f.Add(`{"dp_size":2,"max_total_num_tokens":1000,"version":"0.5.3","internal_states":[{"memory_usage":{"token_capacity":1000}}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := scrape.ParseServerInfo(strings.NewReader(text))
		if got.KVTokens < 0 || err == nil && got == (scrape.ServerInfo{}) {
			t.Fatalf("%+v, %v", got, err)
		}
	})
}
