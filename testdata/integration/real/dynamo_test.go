//go:build real

package real

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plimsoll/profile"
	"plimsoll/testdata/integration/free"
	"plimsoll/testdata/integration/planner"
	"plimsoll/testdata/integration/program"
)

// The mocker's times.
const (
	prefillTime = 80 * time.Millisecond
	decodeTime  = 12 * time.Millisecond
)

// dynamo starts Dynamo's frontend and a mocker, in front of which it stands, of the model of a
// folder, called words.
func dynamo(t *testing.T, folder string) server {
	t.Helper()
	dir, python := t.TempDir(), filepath.Join(dir(t, dynamoDir), "bin", "python")
	args := filepath.Join(dir, "engine.json")
	text := fmt.Sprintf(`{"engine": {"timing_model": {"type": "fixed", "prefill_ms": %d, "decode_ms": %d}, "num_gpu_blocks": 4096, "max_num_seqs": 8}}`,
		prefillTime.Milliseconds(), decodeTime.Milliseconds())
	if err := os.WriteFile(args, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{
		"DYN_DISCOVERY_BACKEND=file", "DYN_FILE_KV=" + filepath.Join(dir, "kv"), "DYN_REQUEST_PLANE=tcp", "DYN_EVENT_PLANE=zmq", "DYN_LOG=warn", "HF_HUB_OFFLINE=1",
	}
	address := free.Address(t)
	_, port, _ := strings.Cut(address, ":")
	s := server{program.StartOther(t, env, python, "-m", "dynamo.frontend", "--http-host", "127.0.0.1", "--http-port", port), "http://" + address}
	_, own, _ := strings.Cut(free.Address(t), ":")
	program.StartOther(t, append(env, "DYN_SYSTEM_PORT="+own), python, "-m", "dynamo.mocker", "--model-path", folder, "--model-name", "words", "--extra-engine-args", args)
	program.Until(t, time.Minute, "Dynamo lists its model", func() bool {
		body, err := planner.Get(s.url + "/v1/models")
		return err == nil && strings.Contains(body, `"words"`)
	})
	return s
}

// The times of Dynamo's mocker through its frontend.
func TestDynamoEndpoint(t *testing.T) {
	s := dynamo(t, model(t, "words"))
	p := profileSLA(t, 0, "--endpoint", s.url, "--max-in-flight", "8", "--endpoint-gpus", "1", "--max-time", maxTime)
	near := func(what string, got, want, within time.Duration) {
		t.Helper()
		if off := got - want; math.Abs(float64(off)) > 0.03*float64(want)+float64(within) {
			t.Errorf("%s %v, want %v", what, got, want)
		}
	}
	ttft, itl := 0, 0
	for _, x := range p.run.Points {
		t.Logf("%s: TTFT %v, ITL %v", x.ID, x.TTFT.Mean, x.ITL.Mean)
		if x.Phase == profile.Prefill && x.Batch <= 1 && x.TTFT.N > 0 {
			ttft++
			near(x.ID+": TTFT", x.TTFT.Mean, prefillTime, 3*time.Millisecond)
		}
		if x.Phase == profile.Decode && x.ITL.N > 0 {
			itl++
			near(x.ID+": ITL", x.ITL.Mean, decodeTime, time.Millisecond)
		}
	}
	if f := p.facts(t); ttft < 2 || itl < 2 || f.KVTokens == 0 || f.MaxNumSeqs != 8 {
		t.Errorf("%d points of TTFT, %d of ITL, %+v", ttft, itl, f)
	}
}

// What planner serve makes of a load by the metrics of Dynamo's frontend: where a part of the
// clients leave, and where about half the tokens have no text, so that no event is sent for
// them.
func TestDynamoWatched(t *testing.T) {
	for name, c := range map[string]struct {
		folder string
		leave  float64
	}{"clients leave": {model(t, "words"), 0.3}, "tokens without text": {halfText(t), 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := dynamo(t, c.folder)
			watch(t, planner.Load{URL: s.url, Model: "words", ISL: 128, OSL: 48, Phases: []planner.Phase{{Rate: 2, For: watched}}, Leave: c.leave, LeaveAfter: 10}, "frontend", "dynamo")
		})
	}
}

// halfText is the folder of a model whose tokenizer lacks half of the tokens that the mocker
// draws, 1000 to 1999: those have no text.
func halfText(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"config.json", "tokenizer_config.json", "tokenizer.json"} {
		b, err := os.ReadFile(filepath.Join(model(t, "words"), name))
		if err != nil {
			t.Fatal(err)
		}
		if name == "tokenizer.json" {
			var all map[string]any
			if err := json.Unmarshal(b, &all); err != nil {
				t.Fatal(err)
			}
			maps.DeleteFunc(all["model"].(map[string]any)["vocab"].(map[string]any), func(_ string, id any) bool { return id.(float64) >= 1500 })
			b, err = json.Marshal(all)
		}
		write(t, filepath.Join(dir, name), b, err)
	}
	return dir
}
