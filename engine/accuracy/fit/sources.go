package main

import (
	"cmp"
	"compress/gzip"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"plimsoll/engine"
	"plimsoll/engine/accuracy"
	"plimsoll/engine/catalog"
	"plimsoll/profile/store"
)

// reader makes rows of published files.
type reader struct {
	dir  string
	cat  catalog.Catalog
	rows []accuracy.Row
	err  error
}

// readRows reads the measured rows to fit, of tables under dir and of a profile, and those
// of testdata/gpu, which stay out of the fits.
func readRows(dir, profiles string, cat catalog.Catalog) (rows, torch []accuracy.Row, err error) {
	r := &reader{dir: dir, cat: cat}
	r.each("measured/silicon-closed-loop.csv.gz", r.silicon)
	r.each("measured/points.csv", r.point)
	// NVIDIA Dynamo's own profile. Its KV capacity says that KV is in BF16.
	dynamo := r.profile(filepath.Join(profiles, "h200-8b-fp8-tp1"), "h200_sxm", engine.Config{Kind: engine.KindVLLM, Weights: engine.FP8, KV: engine.BF16, Parallelism: engine.TP(1)})
	for _, row := range dynamo {
		if row.Concurrency <= 1000 { // above, the engine ran fewer
			r.rows = append(r.rows, row)
		}
	}
	torch = r.torch(profiles)
	if r.err == nil {
		leaveOut(r.rows)
	}
	return r.rows, torch, r.err
}

// torch are the rows of testdata/gpu.
func (r *reader) torch(profiles string) []accuracy.Row {
	return r.profile(filepath.Join(profiles, "h100-8b-bf16-torch-tp1"), "h100_sxm", engine.Config{Kind: "torch", Weights: engine.BF16, KV: engine.BF16, Parallelism: engine.TP(1)})
}

// cells is a line of a table by column.
type cells map[string]string

func (c cells) float(column string) float64 { x, _ := strconv.ParseFloat(c[column], 64); return x }
func (c cells) int(column string) int       { return int(c.float(column)) }

// each reads a CSV file, gzip or not.
func (r *reader) each(name string, row func(cells) error) {
	if r.err != nil {
		return
	}
	f, err := os.Open(filepath.Join(r.dir, name))
	if err != nil {
		r.err = err
		return
	}
	defer f.Close() //nolint:errcheck // read only
	var in io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		if in, err = gzip.NewReader(f); err != nil {
			r.err = err
			return
		}
	}
	lines, err := csv.NewReader(in).ReadAll()
	if err != nil {
		r.err = err
		return
	}
	for i, l := range lines[1:] {
		c := cells{}
		for j, column := range lines[0] {
			c[column] = l[j]
		}
		if err := row(c); err != nil {
			r.err = fmt.Errorf("%s:%d: %w", name, i+2, err)
			return
		}
	}
}

var gpus = map[string]string{"a100_sxm": "A100-80-SXM", "h100_sxm": "H100-SXM", "h200_sxm": "H200-SXM", "b200_sxm": "B200-SXM", "b300_sxm": "B300-SXM", "gb200": "GB200", "H100": "H100-SXM"}

// of finds what a row was measured on.
func (r *reader) of(model, gpu string) (row accuracy.Row, err error) {
	model = strings.TrimPrefix(model, "nvidia/")
	for _, suffix := range []string{"-FP8", "-NVFP4"} {
		model = strings.TrimSuffix(model, suffix)
	}
	if strings.Contains(model, "DeepSeek") {
		model = "deepseek-ai/DeepSeek-R1"
	}
	if row.Model, err = r.cat.Model(model); err == nil {
		row.GPU, err = r.cat.GPU(gpus[gpu])
	}
	return row, err
}

// silicon is a row of AIConfigurator's silicon_sample.csv. Its TP, DP and EP do not say
// how many GPUs there are: vLLM's rows count DP in TP, TensorRT-LLM's EP in both.
func (r *reader) silicon(c cells) error {
	row, err := r.of(c["model_path"], c["system"])
	if err != nil {
		return err
	}
	row.Version, row.Loop = c["backend_version"], accuracy.Closed
	row.TTFT, row.TPOT = c.float("silicon_ttft_ms")/1e3, c.float("silicon_tpot_ms")/1e3
	isl, osl, source := c.float("isl"), c.float("osl"), c["silicon_data_source"]
	inferenceX := strings.Contains(source, "db-dump") || strings.Contains(source, "2026-0")
	if inferenceX { // lengths are uniform in 0.8 to 1.0 of the nominal ones
		isl, osl = isl*.9, osl*.9
	} else if strings.HasPrefix(source, "source_file=qwen3.5") {
		row.Left = "repeats InferenceX"
	}
	row.ISL, row.OSL = int(isl), int(osl)
	tp, dp, ep := max(1, c.int("tp_size")), max(1, c.int("attention_dp_size")), max(1, c.int("moe_ep_size"))
	switch vllm := c["backend"] == "vllm"; {
	case tp == 64 && ep == 8, tp == 16 && ep == 4:
		tp = ep
	case vllm && dp > 1:
		tp, ep = 1, dp
	case dp == 64:
		tp, dp, ep = 1, 8, 8
	case dp == 16:
		tp, dp, ep = 1, 4, 4
	}
	row.Concurrency = c.int("batch_size") * dp
	p := engine.Parallelism{TP: tp, PP: 1, DP: dp, EP: 1}
	if ep > 1 {
		p.EP = tp * dp
	}
	weights := map[string]engine.DType{"fp8": engine.FP8, "fp4": engine.FP4}[c["precision"]]
	if row.Model.Weights.Width() == engine.FP4 { // MXFP4 is all that there is of it
		weights = engine.FP4
	}
	if weights == "" {
		weights = engine.BF16
	}
	kind := engine.Kind(c["backend"])
	row.Config = engine.Config{Kind: kind, Weights: weights, Parallelism: p}
	if inferenceX {
		row.Served()
	}
	row.Config.KV = cmp.Or(row.Config.KV, accuracy.KVOf(kind, row.GPU, weights))
	r.rows = append(r.rows, row)
	return nil
}

// point is a row of engines of 2025, in closed loops, and of vLLM 0.15.1 in open loops,
// of whose prompts the first 100 tokens are shared and cached. Requests came at equal
// distances there (inference-perf's constant load): the 90th percentile of TTFT is 1.1
// times the mean at 20 requests/s, where random arrivals give 1.3.
func (r *reader) point(c cells) error {
	loop, source := accuracy.Loop(c["loop"]), c["source"]
	if source != "silicon_sample" && source != "blis_ground_truth" {
		return nil
	}
	row, err := r.of(c["model"], c["gpu"])
	if err != nil {
		return err
	}
	weights, kind := engine.DType(c["precision"]), engine.Kind(c["backend"])
	if weights != engine.FP8 {
		weights = engine.BF16
	}
	row.Version, row.Loop, row.ISL, row.OSL, row.Concurrency = c["version"], loop, c.int("isl"), c.int("osl"), c.int("concurrency")
	row.TTFT, row.TPOT, row.Rate = c.float("ttft_ms")/1e3, c.float("tpot_or_itl_ms")/1e3, c.float("rate_rps")
	row.Config = engine.Config{Kind: kind, Weights: weights, KV: engine.BF16, Parallelism: engine.TP(c.int("tp"))}
	switch {
	case loop == accuracy.Open:
		row.Cached, row.Regular = 100, true
		row.Config.Limits = engine.Limits{MaxNumBatchedTokens: 2048, MaxNumSeqs: 128}
		if row.OSL > 1000 {
			row.Left = "two rates one after the other"
		}
	case weights == engine.FP8: // lengths are uniform in 0.8 to 1.0 of the nominal ones
		row.ISL, row.OSL = row.ISL*9/10, row.OSL*9/10
	}
	r.rows = append(r.rows, row)
	return nil
}

// profile reads the samples of a profile of Llama-3.1-8B, a pair of files.
func (r *reader) profile(name, gpu string, config engine.Config) (rows []accuracy.Row) {
	if r.err != nil {
		return nil
	}
	row, err := r.of("meta-llama/Llama-3.1-8B", gpu)
	row.Config = config
	prefill, err1 := store.ReadPrefill(name+"-prefill.npz", store.LoadOptions{})
	decode, err2 := store.ReadDecode(name+"-decode.npz", store.LoadOptions{})
	if r.err = cmp.Or(err, err1, err2); r.err != nil {
		return nil
	}
	for _, s := range prefill.Samples {
		one := row
		one.Loop, one.ISL, one.TTFT = accuracy.Single, s.ISL, s.TTFT.Seconds()
		rows = append(rows, one)
	}
	for _, s := range decode.Samples {
		one := row
		one.Loop, one.ISL, one.TPOT = accuracy.Step, int(s.Context), s.ITL.Seconds()
		one.Concurrency = int(math.Round(s.KVUsage * float64(decode.MaxKVTokens) / s.Context))
		rows = append(rows, one)
	}
	return rows
}
