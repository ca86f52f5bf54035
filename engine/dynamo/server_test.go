package dynamo_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/dynamo"
)

func TestSpec(t *testing.T) {
	g := read(t, "disagg")
	s := dynamo.Server{Graph: g, Dir: "/src/examples/llm", Extra: []string{"--VllmWorker.enforce-eager=true"}, ReadyTimeout: time.Minute}
	at := engine.Launch{Port: 8123, GPUs: []string{"GPU-a", "GPU-b"}, LogPath: "/out/engines/decode_tp2.log"}
	got, err := s.Spec(configOf("decode", 2), at)
	if err != nil {
		t.Fatal(err)
	}
	if want := "dynamo serve graphs.agg:Frontend -f /out/engines/decode_tp2.yaml --VllmWorker.enforce-eager=true"; strings.Join(got.Argv, " ") != want {
		t.Errorf("%q", got.Argv)
	}
	if got.Dir != "/src/examples/llm" || got.Port != 8123 || got.LogPath != at.LogPath || got.ReadyTimeout != time.Minute || !slices.Equal(got.GPUs, at.GPUs) {
		t.Errorf("%+v", got)
	}
	if want := []string{"DYN_LOCAL_STATE_DIR=/out/engines/decode_tp2.state", "DYN_DISABLE_AUTO_GPU_ALLOCATION=1"}; !slices.Equal(got.Env, want) {
		t.Errorf("environment %q", got.Env)
	}
	variant, _ := g.Variant(configOf("decode", 2), 8123)
	if want := []engine.File{{Path: "/out/engines/decode_tp2.yaml", Text: variant}}; !slices.Equal(got.Files, want) {
		t.Errorf("files %q", got.Files)
	}
	var ask struct {
		Model     string `json:"model"`
		MaxTokens int    `json:"max_tokens"`
		Messages  []struct{ Role, Content string }
	}
	if err := json.Unmarshal([]byte(got.ReadyBody), &ask); err != nil || got.ReadyPath != "/v1/chat/completions" ||
		ask.Model != g.Model() || ask.MaxTokens != 1 || len(ask.Messages) != 1 || ask.Messages[0].Role != "user" {
		t.Errorf("%s %s %v", got.ReadyPath, got.ReadyBody, err)
	}

	at.GPUs, s.Program = nil, "/opt/dynamo"
	if got, err := s.Spec(configOf("decode", 2), at); err != nil || len(got.Env) != 1 || got.Argv[0] != "/opt/dynamo" {
		t.Errorf("%q %q %v", got.Env, got.Argv, err)
	}
}

func TestSpecRefuses(t *testing.T) {
	s := dynamo.Server{Graph: read(t, "agg")}
	for want, at := range map[string]engine.Launch{
		"a graph runs on this machine alone": {Host: "0.0.0.0", Port: 1, LogPath: "a.log"},
		"no log file":                        {Port: 1},
		"port 0":                             {LogPath: "a.log"},
	} {
		if _, err := s.Spec(configOf("decode", 1), at); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", at, err, want)
		}
	}
}

func TestExtraThatWouldUndo(t *testing.T) {
	at := engine.Launch{Port: 8123, LogPath: "a.log"}
	for arg, refused := range map[string]bool{
		"--VllmWorker.tensor-parallel-size=8": true, "--VllmWorker.tensor_parallel_size": true, "--VllmWorker.ServiceArgs.workers=2": true,
		"--Frontend.port=1": true, "-f": true, "--config-file=b.yaml": true, "--Planner.no-operation=false": true,
		"--VllmWorker.enforce-eager=true": false, "--Frontend.endpoint=a.b": false, "--Processor.tensor-parallel-size=2": false, "--target": false,
	} {
		_, err := dynamo.Server{Graph: read(t, "agg"), Extra: []string{arg}}.Spec(configOf("decode", 1), at)
		if (err != nil) != refused || err != nil && !strings.Contains(err.Error(), arg) {
			t.Errorf("%s: %v", arg, err)
		}
	}
}

// The worker's line comes with what circus and Dynamo's logger put in front of it;
// upstream read the first one, without thousands separators, by splitting.
func TestKVTokens(t *testing.T) {
	f, err := os.Open("testdata/serve.log")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if n, err := (dynamo.Server{}).KVTokens(engine.Config{}, f); err != nil || n != 402882 { // 16384 × 24.59, cut
		t.Errorf("%d, %v", n, err)
	}
	if n, err := (dynamo.Server{}).KVTokens(engine.Config{}, strings.NewReader("Waiting for workers to be ready.\n")); err == nil {
		t.Errorf("%d of a log without it", n)
	}
}

func TestDiverting(t *testing.T) {
	for name, does := range dynamo.Diverting() {
		if !strings.HasPrefix(name, "DYN") || does == "" {
			t.Errorf("%q: %q", name, does)
		}
	}
}
