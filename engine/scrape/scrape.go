// Package scrape reads what an engine says about itself over HTTP: its
// Prometheus metrics and its info answers.
//
// It takes a URL or the text of an answer of vLLM, SGLang, TensorRT-LLM or
// llama.cpp's server (or of one that uses their metric names), or of a worker of Dynamo; it
// gives a Reading: requests running and waiting, KV use and capacity, prefix hits,
// preemptions, work done, over all data-parallel ranks of the engine; of Dynamo's frontend,
// what it says of a worker.
// It refuses text that is not in the
// format, that is too long, or that has no metric of a known engine. What an
// engine does not state is not known, and never zero.
package scrape

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// maxBytes bounds an answer: vLLM's own is about 100 kB.
const maxBytes = 8 << 20

// Value is a number that may not be known.
type Value struct {
	V     float64
	Known bool
}

// Int is the value as a whole number; 0 where it is not known.
func (v Value) Int() int { return int(v.V) }

// known is a Value that is.
func known(v float64) Value { return Value{V: v, Known: true} }

// Reading is one look at an engine.
type Reading struct {
	Engine string // "vllm", "sglang", "trtllm", "llamacpp" or "dynamo", by its metrics' names
	Ranks  int    // data-parallel, that have metrics of their own; 0 = it does not say

	Running Value // requests in the batch, now
	Waiting Value // requests in the queue, now
	KVUsage Value // fraction of the KV cache in use, 0..1, now

	KVTokens  Value // capacity of the KV cache, tokens
	BlockSize Value // tokens in one KV block

	PrefixQueries Value // prompt tokens looked up in the prefix cache, since the start
	PrefixHits    Value // of those, found
	Preemptions   Value // requests thrown out of the batch for want of KV, since the start

	// Work is what it has counted of tokens, steps and requests since the start, in one sum:
	// while it stands still, as all else here, the engine ends no step.
	Work Value

	TTFT, ITL Total // of requests' first tokens, and of gaps between outputs
}

// Total is a histogram of seconds, since the start.
type Total struct {
	Sum   float64
	Count uint64
}

// Since is the mean over what came after an earlier reading, and over how many.
func (t Total) Since(before Total) (mean time.Duration, n int) {
	const most = 1e9 // seconds; also of what is no number
	rise := t.Sum - before.Sum
	if t.Count <= before.Count || !(rise >= 0 && rise < most) { // nothing came, or the engine began anew
		return 0, 0
	}
	n = int(t.Count - before.Count) //nolint:gosec // a count
	return time.Duration(rise / float64(n) * float64(time.Second)), n
}

// Read asks url, an engine's /metrics, once. Where that is trtllm-serve's list of steps, or
// no metrics, it also asks for what trtllm-serve has at /prometheus/metrics.
func Read(ctx context.Context, client *http.Client, url string) (r Reading, err error) {
	answered := false
	ask := func(url string) (r Reading, err error) {
		err = get(ctx, client, url, func(body io.Reader) (err error) {
			answered = true
			r, err = Parse(body)
			return err
		})
		return r, err
	}
	r, err = ask(url)
	base, ok := strings.CutSuffix(url, "/metrics")
	if !ok || !answered || err == nil && r.Engine != "trtllm" {
		return r, err
	}
	if text, failed := ask(base + "/prometheus/metrics"); failed == nil {
		text.add(r)
		return text, nil
	}
	return r, err
}

// add takes in what a list of steps says of the same engine.
func (r *Reading) add(steps Reading) {
	r.Running, r.Waiting, r.KVUsage = cmp.Or(steps.Running, r.Running), cmp.Or(steps.Waiting, r.Waiting), cmp.Or(steps.KVUsage, r.KVUsage)
	r.KVTokens, r.BlockSize = steps.KVTokens, steps.BlockSize
	r.Work = Value{V: r.Work.V + steps.Work.V, Known: r.Work.Known || steps.Work.Known}
}

// get hands the body of a 2xx answer to parse. Its errors name url.
func get(ctx context.Context, client *http.Client, url string, parse func(io.Reader) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("reading %s: %w", url, err)
	}
	req.Header.Set("Accept", "text/plain;version=0.0.4, application/json, */*;q=0.1")
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("reading from the engine: %w", err) // the client's error names the URL
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		hint := ""
		if strings.HasSuffix(req.URL.Path, "/metrics") && (resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusNotImplemented) {
			hint = ": the engine may need a flag for it, as llama-server's --metrics and SGLang's --enable-metrics"
		}
		return fmt.Errorf("reading %s: the engine answers %s%s", url, resp.Status, hint)
	}
	if err := parse(resp.Body); err != nil {
		return fmt.Errorf("reading %s: %w", url, err)
	}
	return nil
}

// errTooLong is returned by a bounded reader.
var errTooLong = fmt.Errorf("the answer is longer than %d MiB", maxBytes>>20)

// bounded reads from r and fails, rather than ends, beyond maxBytes.
type bounded struct {
	r    io.Reader
	left int
}

func bound(r io.Reader) io.Reader { return &bounded{r: r, left: maxBytes} }

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	if b.left <= 0 && !errors.Is(err, io.EOF) {
		return n, errTooLong
	}
	return n, err
}
