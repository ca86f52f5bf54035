//go:build full && linux && cgo

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"plimsoll/profile"
	"plimsoll/profile/store"
)

// vllmScript stands in for vLLM's command line: it takes the flags that the
// template gives and runs the embedded engine, which says that it is simulated.
const vllmScript = `#!/bin/sh
[ "$1" = serve ] || exit 64
model=$2; shift 2
cache=
while [ $# -gt 0 ]; do
  case "$1" in
    --tensor-parallel-size) tp=$2; shift;;
    --port) port=$2; shift;;
    --enable-prefix-caching) cache=--enable-prefix-caching;;
    --no-enable-prefix-caching|--enable-prompt-tokens-details) ;;
    --host|--max-model-len|--max-num-seqs|--max-num-batched-tokens) shift;;
    *) echo "unknown flag $1" >&2; exit 64;;
  esac
  shift
done
echo "devices $CUDA_VISIBLE_DEVICES"
exec plimsoll engine serve --model "$model" --gpu l40s --tp "$tp" --port "$port" $cache
`

// With GPUs that NVML lists and vllm on PATH, auto profiles vllm on those GPUs,
// and still believes the server that says of itself that it is simulated.
func TestAutoTakesGPUsAndVLLM(t *testing.T) {
	t.Parallel()
	cc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("NOT RUN: a stand-in for libnvidia-ml.so.1 takes gcc, which is not here")
	}
	bin, dir := t.TempDir(), t.TempDir()
	lib := exec.CommandContext(t.Context(), cc, "-shared", "-fPIC", "-o", filepath.Join(bin, "libnvidia-ml.so.1"), "../../engine/gpu/testdata/nvml_stub.c")
	if out, err := lib.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := os.WriteFile(filepath.Join(bin, "vllm"), []byte(vllmScript), 0o755); err != nil {
		t.Fatal(err)
	}
	self, err := exec.LookPath("plimsoll") // what testscript put on PATH
	if err != nil {
		t.Fatal(err)
	}
	plimsoll := func(args ...string) (string, string) {
		cmd := exec.CommandContext(t.Context(), self, args...)
		cmd.Dir = dir
		for _, kv := range os.Environ() {
			if !strings.HasPrefix(kv, "CUDA_VISIBLE_DEVICES=") {
				cmd.Env = append(cmd.Env, kv)
			}
		}
		cmd.Env = append(cmd.Env, gpusFromStub+"=1", "LD_LIBRARY_PATH="+bin, "PATH="+bin+":"+os.Getenv("PATH"))
		var stdout, stderr strings.Builder
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil {
			t.Fatalf("plimsoll %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
		}
		return stdout.String(), stderr.String()
	}
	if out, _ := plimsoll("gpus"); !strings.HasPrefix(out, "8 GPUs, driver ") || strings.Count(out, "H100-SXM") != 8 {
		t.Errorf("gpus:\n%s", out)
	}
	plimsoll("profile-sla", "--model", "meta-llama/Meta-Llama-3.1-8B", "--tp", "2", "--isl", "200", "--osl", "20", "--ttft", "1000", "--itl", "100",
		"--max-num-seqs", "8", "--max-context-length", "1000", "--prefill-interpolation-granularity", "3", "--decode-interpolation-granularity", "2", "--verify", "never")
	rec, err := store.ReadRecommendation(filepath.Join(dir, "profiling_results"))
	if err != nil {
		t.Fatal(err)
	}
	if rec.Engine.Kind != "vllm" || rec.GPU != "H100-SXM" || rec.Provenance != profile.Simulated {
		t.Errorf("kind %s, GPU %s, provenance %s", rec.Engine.Kind, rec.GPU, rec.Provenance)
	}
	log, err := os.ReadFile(filepath.Join(dir, "profiling_results", "engines", "tp2.log"))
	if err != nil {
		t.Fatal(err)
	}
	if line, _, _ := strings.Cut(string(log), "\n"); strings.Count(line, "GPU-") != 2 {
		t.Errorf("the engine saw %q, want two devices", line)
	}
}
