package frontend

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"plimsoll/engine"
)

// gaps streams one request of n tokens and returns the TTFT and the gaps between
// reads.
func gaps(b *testing.B, client *http.Client, url string, n int) (ttft time.Duration, out []time.Duration) {
	b.Helper()
	began := time.Now()
	req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, url+"/v1/completions", strings.NewReader(ask("a b c", n, true)))
	if err != nil {
		b.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	buf := make([]byte, 32<<10)
	last := began
	for {
		_, err := resp.Body.Read(buf)
		now := time.Now()
		if err != nil {
			if err != io.EOF {
				b.Error(err)
			}
			return ttft, out
		}
		if ttft == 0 {
			ttft = now.Sub(began)
		} else {
			out = append(out, now.Sub(last))
		}
		last = now
	}
}

// BenchmarkStream streams 100 tokens, a step of 10 ms each, to 8 clients at once,
// from an engine directly and through the frontend: TTFT and the gaps between
// tokens in microseconds. What the frontend adds is the difference.
func BenchmarkStream(b *testing.B) {
	timer := stepTimer{step: 10 * time.Millisecond}
	one := engineAt(b, "a", engine.RoleAggregated, timer)
	through := serve(b, Options{}, one)
	apart := serve(b, Options{PrefillConcurrency: 8}, engineAt(b, "p", engine.RolePrefill, timer), engineAt(b, "d", engine.RoleDecode, timer))
	for _, c := range []struct{ name, url string }{{"direct", one.URL}, {"frontend", through.url}, {"apart", apart.url}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			var mu sync.Mutex
			var first, between []time.Duration
			for b.Loop() {
				var all sync.WaitGroup
				for range 8 {
					all.Go(func() {
						t, g := gaps(b, through.client, c.url, 100)
						mu.Lock()
						defer mu.Unlock()
						first, between = append(first, t), append(between, g...)
					})
				}
				all.Wait()
			}
			report := func(name string, d []time.Duration) {
				slices.Sort(d)
				for _, q := range []struct {
					name string
					at   float64
				}{{"p50", 0.5}, {"p99", 0.99}} {
					b.ReportMetric(float64(d[int(q.at*float64(len(d)-1))].Microseconds()), q.name+"-"+name+"-us")
				}
			}
			report("ttft", first)
			report("gap", between)
		})
	}
}

// BenchmarkRelay passes the events of a stream on, one token each, without a network.
func BenchmarkRelay(b *testing.B) {
	const tokens = 1000
	text := strings.Repeat(`data: {"id":"cmpl-0123456789abcdef","object":"text_completion","created":1700000000,"model":"test/model","choices":[{"index":0,"text":" word","logprobs":null,"finish_reason":null}]}`+"\n\n", tokens) + finished
	b.ReportAllocs()
	for b.Loop() {
		if _, m, err := relayText(b, text, 180, false); err != nil || m.tokens != tokens {
			b.Fatal(err, m.tokens)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*tokens), "ns/token")
}
