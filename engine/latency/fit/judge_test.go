package main

import (
	"testing"

	"plimsoll/engine/latency"
)

// judged is a choice of one GPU and outputs of 101 tokens, measured, and as the
// formula sees it.
func judged(n, ttft, tpot, seenTTFT, seenTPOT float64) choice {
	return choice{
		measured: latency.Means{TTFT: ttft, TPOT: tpot}, formula: latency.Means{TTFT: seenTTFT, TPOT: seenTPOT}, gpus: 1, inFlight: n, osl: 101,
	}
}

// A quick choice of 770 tokens/s and a slow one of 1243, both with a TPOT of
// 10 ms, which 47 of the caps allow. A wrong prediction of the slow one's TTFT
// takes the pick under one of both caps on TTFT.
func TestJudgeUnderCapsOnTTFT(t *testing.T) {
	for _, tc := range []struct {
		what string
		seen float64 // TTFT of the slow one
		want verdicts
	}{
		{"as measured", 0.3, verdicts{caps: 94, equal: 94}},
		{"the slow one is thought to be quick", 0.05, verdicts{caps: 94, equal: 47, over: 47}},
		{"the slow one is thought to be slower", 0.6, verdicts{caps: 94, equal: 47, poor: 47}},
	} {
		table := []choice{judged(8, 0.05, 0.010, 0.05, 0.010), judged(16, 0.3, 0.010, tc.seen, 0.010)}
		if got := judge(table, ways[byFormula], []float64{0.1, 0.5}); got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.what, got, tc.want)
		}
	}
}

// A pick is close from 97 % of the best measured throughput on, whatever it was
// thought to have.
func TestJudgeClose(t *testing.T) {
	for n, close := range map[float64]bool{96.9: false, 97.1: true} {
		v := judge([]choice{judged(100, 0, 0.010, 0, 0.010), judged(n, 0, 0.010, 0, 0.005)}, ways[byFormula], anyTTFT)
		if v.caps == 0 || close && v.close != v.caps || !close && v.poor != v.caps {
			t.Errorf("%g %% of the best: %+v", n, v)
		}
	}
	// Both are thought to be faster than they are: predictions are compared with
	// each other, not with what was measured.
	v := judge([]choice{judged(100, 0, 0.010, 0, 0.002), judged(80, 0, 0.010, 0, 0.004)}, ways[byFormula], anyTTFT)
	if v.caps == 0 || v.equal != v.caps {
		t.Errorf("%+v", v)
	}
}

func TestJudgeParts(t *testing.T) {
	cap := latency.Means{TTFT: 0.5, TPOT: 0.01}
	for m, want := range map[latency.Means]bool{
		cap: true, {TTFT: 0.5, TPOT: 0.011}: false, {TTFT: 0.51, TPOT: 0.01}: false,
	} {
		if meets(m, cap) != want {
			t.Errorf("%+v meets %+v: want %v", m, cap, want)
		}
	}
	c := choice{measured: latency.Means{TTFT: 1, TPOT: 2}, formula: latency.Means{TTFT: 3, TPOT: 4}, simulated: latency.Means{TTFT: 5, TPOT: 6}}
	for by, want := range map[string]latency.Means{
		byFormula: {TTFT: 3, TPOT: 4}, bySimulation: {TTFT: 5, TPOT: 6}, byBoth: {TTFT: 5, TPOT: 4},
	} {
		if got := ways[by](c); got != want {
			t.Errorf("by %s: %+v, want %+v", by, got, want)
		}
	}
	v := verdicts{1, 2, 3, 4, 5}
	v.add(verdicts{10, 20, 30, 40, 50})
	if want := (verdicts{11, 22, 33, 44, 55}); v != want {
		t.Errorf("%+v, want %+v", v, want)
	}
}
