package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/field"
	"plimsoll/engine/gpu"
)

// A machine with GPUs runs an engine on them, or says what is missing and how to go on:
// it simulates none in silence. One without GPUs profiles the embedded engine.
func TestDefectGPUsWereSimulatedInSilence(t *testing.T) {
	cat, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	without, with := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(with, "vllm"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	eight := gpu.Inventory{Devices: slices.Repeat([]gpu.Device{{SKU: "H100-SXM", Name: "NVIDIA H100 80GB HBM3"}}, 8)}
	hidden := gpu.Inventory{Warnings: []string{`CUDA_VISIBLE_DEVICES="9": "9" is no GPU of this machine`}}
	const model = "llama-3.1-8b"
	for name, c := range map[string]struct {
		path, model string
		found       gpu.Inventory
		err         error
		kind        engine.Kind
		says        string // of the error
	}{
		"all is there":          {with, model, eight, nil, engine.KindVLLM, ""},
		"no GPU":                {with, model, gpu.Inventory{}, nil, engine.KindSim, ""},
		"no driver":             {without, "", gpu.Inventory{}, fmt.Errorf("%w: none", gpu.ErrUnavailable), engine.KindSim, ""},
		"no model":              {with, "", eight, nil, "", "--model is missing: this machine has 8 × H100-SXM"},
		"no engine":             {without, model, eight, nil, "", "this machine has 8 × H100-SXM, but none of vllm, sglang, trtllm-serve is on PATH"},
		"neither":               {without, "", eight, nil, "", "--model is missing: "},
		"GPUs that are refused": {with, model, gpu.Inventory{}, errors.New("NVML refuses to answer"), "", "NVML refuses to answer"},
		"GPUs hidden by a typo": {with, model, hidden, nil, "", `no GPU can be used: CUDA_VISIBLE_DEVICES="9"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("PATH", c.path)
			for _, dry := range []bool{false, true} {
				o := profileOptions{engine: "auto", model: c.model, weights: engine.BF16, isl: 1000, osl: 100, maxContext: 8192, dryRun: dry}
				d, err := resolve(&o, cat, func(catalog.Catalog) (gpu.Inventory, error) { return c.found, c.err })
				if c.says == "" {
					if err != nil || d.kind != c.kind {
						t.Errorf("dry %v: %q, %v", dry, d.kind, err)
					}
					continue
				}
				var e *field.Error
				if !errors.As(err, &e) || exitOf(err) != exitUsage || !strings.Contains(err.Error(), c.says) {
					t.Fatalf("dry %v: %q, %v", dry, d.kind, err)
				}
				for i, way := range []string{"to measure: --model ", "to estimate these GPUs without running anything: --engine estimate --model ", "to simulate 4 × H100-SXM instead: --engine sim"} {
					if len(e.Hints) != 3 || !strings.HasPrefix(e.Hints[i], way) {
						t.Errorf("hints %q", e.Hints)
					}
				}
			}
		})
	}
}

// Without --gpu an estimate is of the GPUs that are here.
func TestEstimateTakesTheMachinesGPUs(t *testing.T) {
	cat, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	o := profileOptions{engine: "estimate", model: "llama-3.1-8b", weights: engine.BF16, isl: 1000, osl: 100, maxContext: 8192}
	d, err := resolve(&o, cat, func(catalog.Catalog) (gpu.Inventory, error) {
		return gpu.Inventory{Devices: []gpu.Device{{SKU: "L40S"}, {SKU: "L40S"}}}, nil
	})
	if err != nil || d.gpuName != "L40S" || d.gpuCount != 2 {
		t.Errorf("%d × %s, %v", d.gpuCount, d.gpuName, err)
	}
}

// What the latency model is asked for of a measured engine, such as the chunks to try,
// it answers by the fit to that engine.
func TestProfileTakesTheFitOfItsEngine(t *testing.T) {
	cat, err := catalog.Default()
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string]string{"vllm": "vllm", "sglang": "sglang", "trtllm": "trtllm"} {
		o := profileOptions{engine: kind, model: "llama-3.1-8b", isl: 1000, osl: 100, dryRun: true}
		d, err := resolve(&o, cat, func(catalog.Catalog) (gpu.Inventory, error) {
			return gpu.Inventory{Devices: []gpu.Device{{SKU: "H100-SXM"}}}, nil
		})
		if err != nil || d.fit.Name != want {
			t.Errorf("%s: %s, %v; want %s", kind, d.fit.Name, err, want)
		}
	}
}
