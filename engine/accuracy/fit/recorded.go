package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"

	"gonum.org/v1/gonum/stat"

	"plimsoll/engine"
	"plimsoll/engine/accuracy"
	"plimsoll/engine/catalog"
)

// recorded is a load whose every request was recorded, and what its requests met, s.
// Such loads are in no fit.
type recorded struct {
	row                  accuracy.Row
	ttft50, ttft90, tpot float64
}

// readRecorded reads the loads of folder requests under dir: vLLM 0.19 under ShareGPT at
// 10 requests/s.
func readRecorded(dir string, cat catalog.Catalog) ([]recorded, error) {
	var out []recorded
	for _, l := range []struct {
		name, model, gpu string
		p                engine.Parallelism
	}{
		{"RTXPRO6000-Llama-3.1-8B", "meta-llama/Llama-3.1-8B", "RTX-PRO-6000", engine.TP(1)},
		{"RTXPRO6000-Qwen3-30B-A3B-Instruct-2507", "Qwen/Qwen3-30B-A3B", "RTX-PRO-6000", engine.Parallelism{TP: 1, PP: 1, DP: 2, EP: 2}},
	} {
		m, err1 := cat.Model(l.model)
		g, err2 := cat.GPU(l.gpu)
		r, err3 := readRequests(filepath.Join(dir, "requests", l.name+"-requests.jsonl.gz"))
		if err := errors.Join(err1, err2, err3); err != nil {
			return nil, err
		}
		r.row.Model, r.row.GPU, r.row.Version, r.row.Loop = m, g, "0.19.0", accuracy.Open
		r.row.Config = engine.Config{Kind: engine.KindVLLM, Weights: engine.BF16, KV: engine.BF16, Parallelism: l.p, Limits: engine.Limits{MaxNumSeqs: 128, MaxNumBatchedTokens: 2048}}
		out = append(out, r)
	}
	return out, nil
}

// request is one as it was logged: by the clock of the wall, and by the engine's.
type request struct {
	ISL     int     `json:"input_toks"`
	OSL     int     `json:"output_toks"`
	Arrival float64 `json:"arrival_time"`
	Queued  float64 `json:"queued_ts"`
	First   float64 `json:"first_token_ts"`
	Last    float64 `json:"last_token_ts"`
}

// readRequests reads a log. The two clocks differ by the least time from an arrival to
// the queue.
func readRequests(path string) (r recorded, err error) {
	b, err := os.ReadFile(filepath.Clean(path))
	if err != nil {
		return r, err
	}
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		return r, fmt.Errorf("reading %s: %w", path, err)
	}
	var all []request
	clocks := math.Inf(1)
	for lines := json.NewDecoder(z); ; {
		var q request
		if err := lines.Decode(&q); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return r, fmt.Errorf("reading %s: %w", path, err)
		}
		all = append(all, q)
		clocks = min(clocks, q.Queued-q.Arrival)
	}
	slices.SortFunc(all, func(a, b request) int { return int(math.Copysign(1, a.Arrival-b.Arrival)) })
	var ttft, tpot []float64
	for _, q := range all {
		r.row.Requests = append(r.row.Requests, accuracy.Request{At: q.Arrival - all[0].Arrival, ISL: q.ISL, OSL: q.OSL})
		ttft = append(ttft, q.First-q.Arrival-clocks)
		if q.OSL > 1 {
			tpot = append(tpot, (q.Last-q.First)/float64(q.OSL-1))
		}
	}
	slices.Sort(ttft)
	r.ttft50, r.ttft90 = stat.Quantile(0.5, stat.Empirical, ttft, nil), stat.Quantile(0.9, stat.Empirical, ttft, nil)
	r.tpot = stat.Mean(tpot, nil)
	return r, nil
}

// requests are the tables' recorded loads, measured and predicted.
func requests(b *bytes.Buffer, all []recorded) {
	b.WriteString("## Recorded requests\n\nLoads of which every request was recorded (LLMServingSim, MIT; ShareGPT at 10 requests/s, more than the engines keep up with), simulated with those arrivals and lengths. They are in no fit. Measured → model.\n\n| GPU | model | engine | TTFT p50 | TTFT p90 | TPOT |\n|---|---|---|---|---|---|\n")
	for _, r := range all {
		p := accuracy.Evaluate(r.row)
		fmt.Fprintf(b, "| %s | %s | %s %s | %s | %s | %s |\n", r.row.GPU.Name, shortName(r.row.Model.Name), r.row.Config.Kind, r.row.Version,
			arrow(r.ttft50, p.TTFT50), arrow(r.ttft90, p.TTFT90), arrow(r.tpot, p.TPOT))
	}
	b.WriteString("\n")
}

// arrow is a time measured and predicted, s, and how far off it is.
func arrow(measured, predicted float64) string {
	return fmt.Sprintf("%.0f → %.0f ms (%+.0f%%)", 1e3*measured, 1e3*predicted, 100*(predicted/measured-1))
}
