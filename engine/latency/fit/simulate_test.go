package main

import (
	"math"
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/latency"
)

func closedRows(t *testing.T, family string) []row {
	t.Helper()
	rows, err := readRows("..")
	if err != nil {
		t.Fatal(err)
	}
	var out []row
	for _, r := range rows {
		if r.family == family && r.loop == "closed" {
			out = append(out, r)
		}
	}
	return out
}

func modelOf(t *testing.T, r row) latency.Model {
	t.Helper()
	m, err := latency.New(r.load.Model, r.load.GPU, r.load.Config)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Two equal requests stay in lock-step: each pair's prompts share one step, and
// from then on both decode.
func TestSimulateByHand(t *testing.T) {
	r := closedRows(t, "vllm-0.12")[0]
	r.load.ISL, r.load.OSL, r.load.InFlight = 1000, 4, 2
	m := modelOf(t, r)
	var prompts engine.Batch
	prompts.AddChunk(1000, 0)
	prompts.AddChunk(1000, 0)
	want := latency.Means{TTFT: (m.StepTime(prompts) + m.Overhead()).Seconds()}
	for context := 1001; context < 1004; context++ {
		want.TPOT += m.StepTime(engine.Batch{DecodeSeqs: 2, DecodeContext: int64(2 * context)}).Seconds() / 3
	}
	got, err := simulate(m, r)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(got.TTFT/want.TTFT-1) > 1e-9 || math.Abs(got.TPOT/want.TPOT-1) > 1e-9 {
		t.Errorf("simulated %+v, by hand %+v", got, want)
	}
}

// Lengths that vary have the row's means, and keep to their bounds.
func TestLengths(t *testing.T) {
	r := closedRows(t, "vllm-fp8")[0]
	r.load.ISL, r.load.OSL, r.load.InFlight = 9000, 900, 1
	m := modelOf(t, r)
	varied, err := simulate(m, r)
	if err != nil {
		t.Fatal(err)
	}
	r.family = "vllm-0.12"
	fixed, err := simulate(m, r)
	if err != nil {
		t.Fatal(err)
	}
	if varied == fixed || math.Abs(varied.TTFT/fixed.TTFT-1) > 0.1 || math.Abs(varied.TPOT/fixed.TPOT-1) > 0.02 {
		t.Errorf("one request at a time: %+v with varied lengths, %+v with fixed ones", varied, fixed)
	}
}

// However requests bunch, they live about as long as the formula says, where the
// KV cache holds them all and where it does not; and none is faster than alone.
func TestSimulateAgainstTheFormula(t *testing.T) {
	for _, r := range closedRows(t, "vllm-0.12") {
		if r.load.ISL != 4096 || r.load.OSL != 128 {
			continue
		}
		m := modelOf(t, r)
		got, err := simulate(m, r)
		if err != nil {
			t.Fatal(err)
		}
		formula := m.ClosedLoop(r.load)
		if got.TPOT < m.ITL(1, 4096).Seconds() || got.TTFT < m.TTFT(4096, 0).Seconds() {
			t.Errorf("%d in flight at TP%d: %+v is faster than alone", r.load.InFlight, r.load.Config.Parallelism.TP, got)
		}
		live := func(m latency.Means) float64 { return m.TTFT + 127*m.TPOT }
		if ratio := live(got) / live(formula); ratio < 0.8 || ratio > 1.25 {
			t.Errorf("%d in flight at TP%d live %.2f s simulated, %.2f s by the formula", r.load.InFlight, r.load.Config.Parallelism.TP, live(got), live(formula))
		}
	}
}
