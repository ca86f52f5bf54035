//go:build full

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll/profile"
	"plimsoll/profile/store"
)

const graphFile = `# The deployment as it is.
Common:
  model: meta-llama/Meta-Llama-3.1-8B
  block-size: 64
  max-model-len: 1000
  router: kv
Frontend:
  served_model_name: meta-llama/Meta-Llama-3.1-8B
  endpoint: dynamo.Processor.chat/completions
  port: 8000
Processor:
  common-configs: [model, block-size, router]
VllmWorker:
  remote-prefill: true
  conditional-disagg: true
  pipeline-parallel-size: 2
  ServiceArgs:
    workers: 2
    resources:
      gpu: 1
  common-configs: [model, block-size, max-model-len, router]
PrefillWorker:
  max-num-batched-tokens: 1000 # all of a prompt
  ServiceArgs:
    workers: 3
    resources:
      gpu: '1'
  common-configs: [model, block-size, max-model-len]
Planner:
  environment: local
  no-operation: false
`

// A graph of Dynamo is profiled from its own configuration, which stays as it is:
// every engine is a graph with one worker of the size in question, prefill without
// and decode with prefix caching.
func TestProfileDynamo(t *testing.T) {
	t.Parallel()
	bin, dir := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		filepath.Join(bin, "dynamo"): "#!/bin/sh\nexec dynamostandin \"$@\"\n", filepath.Join(dir, "graphs", "agg.py"): "", filepath.Join(dir, "disagg.yaml"): graphFile,
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil { //nolint:gosec // one is run
			t.Fatal(err)
		}
	}
	file, out := filepath.Join(dir, "disagg.yaml"), filepath.Join(dir, "results")
	p := start(t, []string{"PATH=" + bin + ":" + os.Getenv("PATH")}, "profile-sla", "--engine", "dynamo", "--config", file, "--example-dir", dir,
		"--output-dir", out, "--gpu", "l40s", "--gpu-count", "2", "--isl", "200", "--osl", "20", "--ttft", "5000", "--itl", "1000",
		"--prefill-interpolation-granularity", "2", "--decode-interpolation-granularity", "2", "--max-num-seqs", "8", "--verify", "never", "--quiet")
	if code := p.wait(t); code != exitDone {
		t.Fatalf("exit code %d\nstdout:\n%s\nstderr:\n%s\n%s", code, &p.out, &p.errout, logs(t, out))
	}
	if left := p.family(t); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != graphFile {
		t.Errorf("the graph's configuration is now:\n%s\n%v", after, err)
	}
	rec, err := store.ReadRecommendation(out)
	if err != nil {
		t.Fatal(err)
	}
	checkSuggested(t, p.out.String(), rec)
	if rec.Engine.Kind != "dynamo" || rec.Model != "meta-llama/Meta-Llama-3.1-8B" || rec.Provenance != profile.Simulated {
		t.Errorf("%s, %s, %s", rec.Engine.Kind, rec.Model, rec.Provenance)
	}
	if !strings.Contains(p.errout.String(), "a worker of the graph has 2 pipeline stages: it is measured with one") {
		t.Errorf("stderr:\n%s", &p.errout)
	}
	for phase, want := range map[string]string{"prefill": "enable-prefix-caching: false", "decode": "enable-prefix-caching: true"} {
		for _, tp := range []string{"1", "2"} {
			b, err := os.ReadFile(filepath.Join(out, "engines", phase+"_tp"+tp+".yaml"))
			if tp == "2" && errors.Is(err, os.ErrNotExist) {
				continue // it could not win
			}
			if err != nil || !strings.Contains(string(b), want) || !strings.Contains(string(b), "tensor-parallel-size: "+tp+"\n") {
				t.Errorf("%s at TP %s: %v\n%s\n%s\n%s", phase, tp, err, b, &p.out, &p.errout)
			}
		}
	}
}
