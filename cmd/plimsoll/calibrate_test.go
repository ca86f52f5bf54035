package main

import (
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/latency"
	"plimsoll/profile"
	"plimsoll/profile/store"
)

// What was measured is as --model and --gpu say, else as the profile does, else
// as the engine does.
func TestRanOn(t *testing.T) {
	cat, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		on                 ranOn
		model, gpu, served string
		wantModel, wantGPU string // or the error
	}{
		{ranOn{}, "llama-3.1-8b", "h100-sxm", "x", simModel, simGPU},
		{ranOn{}, "", "h100-sxm", "llama-3.1-8b", simModel, simGPU},
		{ranOn{"llama-3.1-8b", "h100-sxm"}, "x", "l40s", "x", simModel, simGPU},
		{ranOn{gpu: "h100-sxm"}, "llama-3.1-8b", "", "", simModel, simGPU},
		{ranOn{}, "llama-3.1-8b", "", "", "", "--gpu NAME"},
		{ranOn{}, "", "h100-sxm", "", "", "--model NAME"},
		{ranOn{gpu: "h100-sx"}, "llama-3.1-8b", "", "", "", "unknown GPU"},
	} {
		m, g, err := tt.on.of(profile.Point{Config: engine.Config{Model: tt.model, GPU: tt.gpu}}, tt.served, cat)
		if tt.wantModel == "" {
			if err == nil || !strings.Contains(err.Error(), tt.wantGPU) {
				t.Errorf("%+v: %v, want %q", tt, err, tt.wantGPU)
			}
		} else if err != nil || m.Name != tt.wantModel || g.Name != tt.wantGPU {
			t.Errorf("%+v: %s on %s, %v", tt, m.Name, g.Name, err)
		}
	}
}

// Only what was measured is calibrated to.
func TestCalibrateRefusesWhatNobodyMeasured(t *testing.T) {
	cat, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	for _, pr := range []profile.Provenance{profile.Measured, profile.Simulated, profile.Estimated, profile.Published} {
		dir := t.TempDir()
		p := profile.Point{
			ID: "sweep/prefill/tp1/isl500", Phase: profile.Prefill, Provenance: pr, ISL: 500,
			Config: engine.Config{Model: "llama-3.1-8b", GPU: "h100-sxm", Parallelism: engine.TP(1)},
		}
		p.TTFT.Mean = 20 * time.Millisecond
		if err := store.WriteRun(dir, store.Run{Points: []profile.Point{p}, Provenance: pr}); err != nil {
			t.Fatal(err)
		}
		set, err := folderPoints(dir, ranOn{}, cat)
		if pr == profile.Measured {
			if err != nil || len(set.obs) != 1 {
				t.Errorf("%d points, %v", len(set.obs), err)
			}
		} else if err == nil || !strings.Contains(err.Error(), "sweep/prefill/tp1/isl500 is "+pr.String()+", but calibration needs measured points") {
			t.Errorf("%s: %v", pr, err)
		}
	}
}

// Of a point or two there is no 90th percentile.
func TestErrorCell(t *testing.T) {
	for n, want := range []string{"–", "10.0 % / –", "10.0 % / –", "10.0 % / 20.0 %"} {
		if got := errorCell(latency.Error{Median: 0.1, P90: 0.2, N: n}); got != want {
			t.Errorf("%d points: %q, want %q", n, got, want)
		}
	}
}
