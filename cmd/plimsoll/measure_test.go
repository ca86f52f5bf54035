package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"plimsoll/engine/scrape"
	"plimsoll/profile"
	"plimsoll/profile/load"
)

func TestCachedShare(t *testing.T) {
	at := func(queries, hits float64) scrape.Reading {
		return scrape.Reading{PrefixQueries: scrape.Value{V: queries, Known: true}, PrefixHits: scrape.Value{V: hits, Known: true}}
	}
	two := []profile.Request{{ISL: 100, Sent: 1, PromptTokens: 110}, {ISL: 90, Sent: 1}, {ISL: 1000}} // the last was not sent
	for _, c := range []struct {
		name          string
		before, after scrape.Reading
		rs            []profile.Request
		want          float64 // negative: unknown
	}{
		{"none", at(50, 20), at(250, 20), two, 0},
		{"half", at(50, 20), at(250, 120), two, 0.5},
		{"all", at(0, 0), at(200, 200), two, 1},
		{"a little more than was sent", at(0, 0), at(202, 101), two, 0.5},
		{"others' prompts too", at(0, 0), at(205, 100), two, -1},
		{"some are missing", at(0, 0), at(190, 100), two, -1},
		{"more hits than queries", at(0, 0), at(200, 201), two, -1},
		{"the engine started again", at(500, 100), at(200, 0), two, -1},
		{"hits fell", at(0, 100), at(200, 50), two, -1},
		{"nothing was sent", at(0, 0), at(0, 0), nil, -1},
		{"not told before", scrape.Reading{}, at(200, 0), two, -1},
		{"not told after", at(0, 0), scrape.Reading{}, two, -1},
	} {
		got := cachedShare(c.before, c.after, c.rs)
		if (got != nil) != (c.want >= 0) || got != nil && *got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// An engine that counts what its prefix cache serves, and tells of no request how much.
func TestMeasureTellsCachedShareByCounters(t *testing.T) {
	var queries, hits atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			_, _ = fmt.Fprintf(w, "vllm:num_requests_running 1\nvllm:prefix_cache_queries_total %d\nvllm:prefix_cache_hits_total %d\n", queries.Load(), hits.Load())
			n := queries.Load() / 100 // 90 s of TTFT each
			_, _ = fmt.Fprintf(w, "# TYPE vllm:time_to_first_token_seconds histogram\nvllm:time_to_first_token_seconds_sum %d\nvllm:time_to_first_token_seconds_count %d\n", 90*n, n)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		queries.Add(100)
		hits.Add(32)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, `data: {"choices":[{"text":"x","finish_reason":"length"}],"usage":{"prompt_tokens":100,"completion_tokens":1}}`+"\n\ndata: [DONE]\n\n")
	}))
	defer s.Close()
	client, err := load.New(load.Options{BaseURL: s.URL, Model: "m", TokenIDs: true})
	if err != nil {
		t.Fatal(err)
	}
	m := measurer{client: client, http: s.Client(), url: s.URL + "/metrics", bases: make(chan time.Time, 1)}
	closed, err := m.Measure(t.Context(), profile.Workload{ISL: 100, OSL: 1, Requests: 8, InFlight: 2})
	counted := func(s *profile.Server) int {
		if s == nil || s.TTFT.Server != 90*time.Second || s.TTFT.Client > 9*time.Second || len(s.Warnings()) != 1 {
			t.Errorf("the engine's own count: %+v", s)
			return 0
		}
		return s.TTFT.N
	}
	if err != nil || counted(closed.Server) != 8 || closed.Cached == nil || *closed.Cached != 0.32 || closed.Requests[0].CachedTokens != -1 {
		t.Errorf("closed loop: share %v, records %+v, %v", closed.Cached, closed.Requests, err)
	}
	open, err := m.play(t.Context(), profile.Script{Asks: slices.Repeat([]profile.Ask{{ISL: 100, OSL: 1}}, 3), Timeout: time.Minute}, nil)
	if err != nil || counted(open.Server) != 3 || open.Cached == nil || *open.Cached != 0.32 {
		t.Errorf("open loop: share %v, records %+v, %v", open.Cached, open.Requests, err)
	}
}
