package fleet_test

import (
	"encoding/csv"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/latency"
	"plimsoll/engine/sim"
	"plimsoll/engine/sim/fleet"
)

// Whole runs against vLLM 0.15.1 under open-loop load on H100 (where from:
// engine/latency/testdata/README.md): mean TTFT and mean TPOT of Llama-3.1-8B and
// Mixtral-8x7B, by engines whose coefficients are fitted to the same engine
// version, these rows among them. The formula that they were fitted by is not the
// simulator: this holds the simulator's queueing, batching and scheduling to
// what a real engine does. Limits are a little above what is reached today.
func TestAgainstMeasuredOpenLoop(t *testing.T) {
	fit, err := latency.FitByName("vllm-0.15.1")
	if err != nil {
		t.Fatal(err)
	}
	var ttft, tpot, hasty []float64
	for _, r := range openLoop(t) {
		at := r.simulate(t, fit, true)
		ttft, tpot = append(ttft, math.Abs(at.ttft/r.ttft-1)), append(tpot, math.Abs(at.tpot/r.tpot-1))
		hasty = append(hasty, math.Abs(r.simulate(t, fit, false).ttft/r.ttft-1))
	}
	median := func(xs []float64) float64 { slices.Sort(xs); return xs[len(xs)/2] }
	t.Logf("%d runs, median errors: TTFT %.1f %% (%.1f %% without asynchronous scheduling), TPOT %.1f %%",
		len(ttft), 100*median(ttft), 100*median(hasty), 100*median(tpot))
	if len(ttft) < 25 {
		t.Errorf("%d rows: want those of 0.15.1", len(ttft))
	}
	if median(ttft) > 0.10 || median(tpot) > 0.05 {
		t.Errorf("median TTFT error %.1f %%, TPOT %.1f %%: want at most 10 and 5", 100*median(ttft), 100*median(tpot))
	}
	if median(hasty) < 2*median(ttft) {
		t.Error("asynchronous scheduling explains nothing: is it still what the fit assumes?")
	}
}

// run is one measured run; latencies in ms.
type run struct {
	model, gpu                   string
	tp, isl, osl, cached, budget int
	rate, ttft, tpot             float64
}

func openLoop(t *testing.T) []run {
	t.Helper()
	f, err := os.Open("../../latency/testdata/rows.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // only read
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var runs []run
	for _, cells := range rows[1:] {
		word := func(column string) string { return cells[slices.Index(rows[0], column)] }
		num := func(column string) float64 {
			x, err := strconv.ParseFloat(word(column), 64)
			if err != nil {
				t.Fatalf("%s %q: %v", column, word(column), err)
			}
			return x
		}
		if word("family") != "vllm-0.15.1" || word("loop") != "open" {
			continue
		}
		runs = append(runs, run{
			model: word("model"), gpu: word("gpu"), tp: int(num("tp")), isl: int(num("isl")), osl: int(num("osl")),
			cached: int(num("cached")), budget: int(num("batched_tokens")), rate: num("rate_rps"), ttft: num("ttft_ms"), tpot: num("tpot_ms"),
		})
	}
	return runs
}

// simulate is the run's mean TTFT and TPOT in virtual time, in ms.
func (r run) simulate(t *testing.T, fit latency.Fit, async bool) (at struct{ ttft, tpot float64 }) {
	t.Helper()
	cat, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	m, err := cat.Model(r.model)
	if err != nil {
		t.Fatal(err)
	}
	g, err := cat.GPU(r.gpu)
	if err != nil {
		t.Fatal(err)
	}
	limits := engine.Limits{MaxNumSeqs: 128, MaxNumBatchedTokens: r.budget}
	lm, err := latency.NewWith(m, g, engine.Config{Parallelism: engine.TP(r.tp), Limits: limits}, fit)
	if err != nil {
		t.Fatal(err)
	}
	block := lm.Limits().BlockSize
	f, err := fleet.New(fleet.Config{Pools: []fleet.Pool{{
		Engine: sim.Config{
			Role: engine.RoleAggregated, Limits: lm.Limits(), KVBlocks: lm.KVTokens() / block,
			PrefixCaching: true, AsyncScheduling: async,
		},
		Timer: lm, Replicas: 1, Overhead: lm.Overhead(),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	system := make([]uint64, r.cached/block) // what all prompts begin with
	for i := range system {
		system[i] = uint64(i) + 1
	}
	rng, now := rand.New(rand.NewPCG(1, 1)), engine.Picoseconds(0)
	for range 3000 {
		now += engine.FromSeconds(rng.ExpFloat64() / r.rate)
		if err := f.Offer(fleet.Request{At: now, ISL: r.isl, OSL: r.osl, Prefix: system}); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Finish(fleet.Forever); err != nil {
		t.Fatal(err)
	}
	report := f.Report()
	at.ttft, at.tpot = report.TTFT.Mean()/float64(engine.Millisecond), report.TPOT.Mean()/float64(engine.Millisecond)
	return at
}
