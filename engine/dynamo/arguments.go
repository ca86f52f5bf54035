package dynamo

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"plimsoll/engine"
	"plimsoll/engine/sglang"
	"plimsoll/engine/trtllm"
	"plimsoll/engine/vllm"
)

// Arguments are those of the worker of Dynamo that runs cfg on cfg.Kind, and takes its
// role in a disaggregated deployment: examples/backends/*/deploy/disagg.yaml and
// components/src/dynamo/trtllm/backend_args.py of Dynamo's main branch, read in November
// 2026.
func Arguments(cfg engine.Config) ([]string, error) {
	at, role := engine.Launch{Port: 1, LogPath: "engine.log"}, string(cfg.Role)
	switch cfg.Kind { //nolint:exhaustive // those of Dynamo's backends
	case engine.KindVLLM:
		spec, err := vllm.Server{}.Spec(cfg, at)
		flags := slices.DeleteFunc(afterPort(spec.Argv), func(w string) bool { return w == "--enable-prompt-tokens-details" }) // of its HTTP server
		return slices.Concat([]string{"--model", cfg.Model}, flags, []string{"--is-" + role + "-worker"}), err
	case engine.KindSGLang:
		spec, err := sglang.Server{}.Spec(cfg, at)
		return slices.Concat([]string{"--model-path", cfg.Model, "--host", "0.0.0.0"}, afterPort(spec.Argv), []string{
			"--disaggregation-mode", role, "--disaggregation-transfer-backend", "nixl", "--disaggregation-bootstrap-port", "12345",
		}), err
	case engine.KindTRTLLM:
		spec, err := trtllm.Server{}.Spec(cfg, at)
		if err != nil {
			return nil, err
		}
		return trtllmArguments(cfg, spec)
	}
	return nil, fmt.Errorf("dynamo has no worker for engine %q", cfg.Kind)
}

// trtllmArguments are the server's flags by the worker's names for them, and its file as
// one of them.
func trtllmArguments(cfg engine.Config, spec engine.Spec) ([]string, error) {
	args := []string{"--model-path", cfg.Model}
	names := map[string]string{"--tp_size": "--tensor-parallel-size", "--pp_size": "--pipeline-parallel-size", "--ep_size": "--expert-parallel-size"}
	for pair := range slices.Chunk(afterPort(spec.Argv), 2) {
		name, renamed := names[pair[0]]
		if !renamed {
			name = hyphens(pair[0])
		}
		if name != "--backend" && name != "--extra-llm-api-options" {
			args = append(args, name, pair[1])
		}
	}
	config := spec.Files[0].Text + "cache_transceiver_config:\n  backend: DEFAULT\n"
	if cfg.Role == engine.RolePrefill { // whose workers have no overlap scheduler
		config += "disable_overlap_scheduler: true\n"
	}
	override, err := yaml.YAMLToJSON([]byte(config))
	return append(args, "--override-engine-args", strings.TrimSpace(string(override)), "--disaggregation-mode", string(cfg.Role)), err
}

// afterPort are the words of a server's command line after its address.
func afterPort(argv []string) []string {
	i := slices.Index(argv, "--port")
	return slices.Clone(argv[min(i+2, len(argv)):])
}
