package latency

import (
	"encoding/csv"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"

	"plimsoll/engine"
)

// What vLLM had left for KV cache on an H100 of 79.18 GiB, in GiB per GPU
// (source: see samplerBytes).
func TestMemoryAgainstVLLM(t *testing.T) {
	for _, tc := range []struct {
		model   string
		weights engine.DType
		tp      int
		gib     float64
	}{
		{"llama-3.1-8b", engine.BF16, 1, 51.38},
		{"qwen3-32b", engine.BF16, 1, 4.45},
		{"qwen3-32b", engine.BF16, 2, 34.49},
		{"gpt-oss-120b", engine.FP4, 1, 3.33},
		{"gpt-oss-20b", engine.FP4, 1, 50.28},
		{"llama-3.3-70b", engine.FP8, 2, 32.0},
	} {
		lm := on(t, tc.model, "h100-sxm", engine.Config{Weights: tc.weights, Parallelism: engine.TP(tc.tp)})
		got := float64(lm.Memory().KV) / gib
		t.Logf("%s TP%d: %.2f GiB for KV, vLLM %.2f", tc.model, tc.tp, got, tc.gib)
		if math.Abs(got-tc.gib) > 0.6 {
			t.Errorf("%s TP%d: %.2f GiB for KV, vLLM has %.2f", tc.model, tc.tp, got, tc.gib)
		}
	}
}

// 51.38 GiB at 131072 bytes a token, MLA on every rank, KV heads never split.
func TestKVTokens(t *testing.T) {
	for _, tc := range []struct {
		model   string
		gpu     string
		config  engine.Config
		perGPU  float64 // bytes of KV per token on each GPU
		replica int
	}{
		{"llama-3.1-8b", "h100-sxm", engine.Config{}, 131072, 1},
		{"llama-3.1-8b", "h100-sxm", engine.Config{KV: engine.FP8}, 65536, 1},
		{"llama-3.1-8b", "h100-sxm", engine.Config{Parallelism: engine.TP(4)}, 131072 / 4, 1},
		{"llama-3.1-8b", "h100-sxm", engine.Config{Parallelism: engine.TP(16)}, 131072 / 8, 1},
		{"llama-3.1-8b", "h100-sxm", engine.Config{Parallelism: engine.Parallelism{TP: 2, PP: 2, DP: 2}}, 131072 / 4, 2},
		{"deepseek-v3", "h200", engine.Config{Weights: engine.FP8, Parallelism: engine.TP(8)}, 70272, 1},
	} {
		lm := on(t, tc.model, tc.gpu, tc.config)
		blocks := int(float64(lm.Memory().KV) / (16 * tc.perGPU))
		if got := lm.KVTokens(); got != 16*blocks*tc.replica {
			t.Errorf("%s %s: %d KV tokens, want %d", tc.model, tc.config.Parallelism.Label(), got, 16*blocks*tc.replica)
		}
	}
	if n := on(t, "llama-3.1-8b", "h100-sxm", engine.Config{}).KVTokens(); n < 420_000 || n > 422_000 {
		t.Errorf("Llama-3.1-8B on an H100 has room for %d tokens", n)
	}
}

// errors of the predicted time per output token, by data set. What mixes decode
// with the prefill of other requests is worked out here from Little's law; the
// simulator does it properly.
func TestTPOTAgainstVLLM(t *testing.T) {
	open := byModel(t, "testdata/open-loop.csv", func(r row) float64 {
		rate, inFlight := r.num("rate_rps"), r.num("rate_rps")*r.num("e2e_ms")/1e3
		const cached = 100
		alone, mixed := steps(t, r, inFlight, r.num("isl"), r.num("osl"), cached)
		// rate·step of the steps carry a prompt: step = alone + rate·step·(mixed − alone).
		return alone / (1 - rate*(mixed-alone)) / (r.num("itl_ms") / 1e3)
	})
	closed := byModel(t, "testdata/closed-loop.csv", func(r row) float64 {
		isl, osl := r.num("isl"), r.num("osl")
		if r.str("model") == "meta-llama/Llama-3.1-70B" {
			isl, osl = 0.9*isl, 0.9*osl
		}
		alone, mixed := steps(t, r, r.num("concurrency"), isl, osl, 0)
		share := min(1, r.num("concurrency")/osl)
		return (alone + share*(mixed-alone)) / (r.num("tpot_ms") / 1e3)
	})
	// Held a little above what the model reaches today.
	for _, tc := range []struct {
		set   map[string][]float64
		model string
		limit float64
	}{
		{open, "meta-llama/Llama-3.1-8B-Instruct", 0.08},
		{open, "mistralai/Mixtral-8x7B-v0.1", 0.13},
		{closed, "Qwen/Qwen3-32B", 0.08},
		{closed, "meta-llama/Llama-3.1-70B", 0.06},
	} {
		ratios := tc.set[tc.model]
		if len(ratios) < 8 {
			t.Errorf("%s: %d points", tc.model, len(ratios))
			continue
		}
		var errors []float64
		for _, x := range ratios {
			errors = append(errors, math.Abs(x-1))
		}
		slices.Sort(errors)
		median := errors[len(errors)/2]
		t.Logf("%s: %d points, median TPOT error %.1f %%, largest %.1f %%", tc.model, len(errors), 100*median, 100*errors[len(errors)-1])
		if median > tc.limit {
			t.Errorf("%s: median TPOT error %.1f %%, limit %.0f %%", tc.model, 100*median, 100*tc.limit)
		}
	}
}

// steps are the seconds of a step that only decodes and of one that also
// prefills the uncached part of one prompt.
func steps(t *testing.T, r row, inFlight, isl, osl, cached float64) (alone, mixed float64) {
	t.Helper()
	config := engine.Config{Parallelism: engine.TP(int(r.num("tp")))}
	if r.str("precision") == "fp8" {
		config.Weights = engine.FP8
	}
	lm := on(t, r.str("model"), "h100-sxm", config)
	b := engine.Batch{DecodeSeqs: int(math.Round(inFlight)), DecodeContext: int64(inFlight * (isl + osl/2))}
	alone = lm.StepTime(b).Seconds()
	b.AddChunk(int(isl-cached), int(cached))
	return alone, lm.StepTime(b).Seconds()
}

type row struct {
	t      *testing.T
	header []string
	fields []string
}

func (r row) str(column string) string {
	if i := slices.Index(r.header, column); i >= 0 {
		return r.fields[i]
	}
	return ""
}

func (r row) num(column string) float64 {
	r.t.Helper()
	x, err := strconv.ParseFloat(r.str(column), 64)
	if err != nil {
		r.t.Fatal(err)
	}
	return x
}

// byModel is predicted over measured for each row of a file.
func byModel(t *testing.T, path string, ratio func(row) float64) map[string][]float64 {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // only read
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]float64{}
	for _, fields := range rows[1:] {
		r := row{t, rows[0], fields}
		out[r.str("model")] = append(out[r.str("model")], ratio(r))
	}
	return out
}
