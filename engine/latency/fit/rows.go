package main

import (
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/latency"
)

// row is one measured operating point; 0 seconds = not measured.
type row struct {
	family, loop string
	load         latency.Observation // without Kind and Seconds; its Run is the row
	ttft, tpot   float64             // s
}

// trtMostInFlight is up to which concurrency TensorRT-LLM's rows are fitted.
// Above it the client, not the engine, decides: at TP4 and TP8 TPOT falls by half
// from 64 to 128 in flight while TTFT grows fivefold, and answers of 256 tokens
// are faster than those of 128.
const trtMostInFlight = 32

func (r row) fitted() bool {
	return r.family != "trtllm-1.0.0rc3" || r.load.InFlight <= trtMostInFlight
}

// observations are what a row says of step times. A closed loop's TTFT is how
// its client's requests bunch, and is left out.
func (r row) observations() []latency.Observation {
	var out []latency.Observation
	add := func(k latency.Kind, seconds float64) {
		if o := r.load; seconds > 0 {
			o.Kind, o.Seconds = k, seconds
			out = append(out, o)
		}
	}
	switch r.loop {
	case "closed":
		add(latency.KindTPOT, r.tpot)
	case "open":
		add(latency.KindOpenITL, r.tpot)
		add(latency.KindOpenTTFT, r.ttft)
	case "single":
		add(latency.KindTTFT, r.ttft)
		add(latency.KindTPOT, r.tpot)
	case "step":
		add(latency.KindITL, r.tpot)
	}
	return out
}

// observations are those of the fitted rows of some families, in file order.
func observations(rows []row, families ...string) []latency.Observation {
	var out []latency.Observation
	for _, r := range rows {
		if r.fitted() && slices.Contains(families, r.family) {
			out = append(out, r.observations()...)
		}
	}
	return out
}

var columns = []string{
	"family", "loop", "model", "gpu", "precision", "tp", "isl", "osl", "cached", "in_flight", "rate_rps", "batched_tokens", "ttft_ms", "tpot_ms",
}

// readRows reads testdata/rows.csv with the models of the catalog and those of
// testdata/models.csv.
func readRows(dir string) ([]row, error) {
	cat, err := catalog.Default()
	if err != nil {
		return nil, fmt.Errorf("reading the catalog: %w", err)
	}
	if cat, err = cat.WithFile(filepath.Join(dir, "testdata", "models.csv")); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "testdata", "rows.csv")
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening measured rows: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if len(lines) < 2 || !slices.Equal(lines[0], columns) {
		return nil, fmt.Errorf("%s: want the columns %v and a row", path, columns)
	}
	var rows []row
	for i, fields := range lines[1:] {
		r, err := parseRow(cat, fields)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, i+2, err)
		}
		r.load.Run = i + 1
		rows = append(rows, r)
	}
	return rows, nil
}

func parseRow(cat catalog.Catalog, fields []string) (row, error) {
	var failed error
	num := func(column string) float64 {
		s := fields[slices.Index(columns, column)]
		if s == "" {
			return 0
		}
		x, err := strconv.ParseFloat(s, 64)
		if err != nil || math.IsNaN(x) || x < 0 || x > 1e9 {
			failed = fmt.Errorf("%s is %q: want a number from 0 to 1e9", column, s)
		}
		return x
	}
	model, err := cat.Model(fields[2])
	if err != nil {
		return row{}, err
	}
	gpu, err := cat.GPU(fields[3])
	if err != nil {
		return row{}, err
	}
	r := row{family: fields[0], loop: fields[1], ttft: num("ttft_ms") / 1e3, tpot: num("tpot_ms") / 1e3}
	r.load = latency.Observation{
		Model: model, GPU: gpu,
		Config: engine.Config{
			Weights: engine.DType(fields[4]), Parallelism: engine.TP(int(num("tp"))),
			Limits: engine.Limits{MaxNumBatchedTokens: int(num("batched_tokens"))},
		},
		ISL: int(num("isl")), OSL: int(num("osl")), Cached: int(num("cached")),
		InFlight: int(num("in_flight")), Rate: num("rate_rps"),
	}
	r.load.Context = float64(r.load.ISL) + float64(r.load.OSL)/2
	return r, failed
}
