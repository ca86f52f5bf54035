//go:build real

package real

import (
	"encoding/json"
	"fmt"
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

// dynamo starts Dynamo's frontend and a mocker in front of which it stands.
func dynamo(t *testing.T) server {
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
	program.StartOther(t, append(env, "DYN_SYSTEM_PORT="+own), python, "-m", "dynamo.mocker", "--model-path", model(t, "words"), "--model-name", "words", "--extra-engine-args", args)
	program.Until(t, time.Minute, "Dynamo lists its model", func() bool {
		body, err := planner.Get(s.url + "/v1/models")
		return err == nil && strings.Contains(body, `"words"`)
	})
	return s
}

// The times of Dynamo's mocker through its frontend.
func TestDynamoEndpoint(t *testing.T) {
	s := dynamo(t)
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

// planner serve sees a load through the metrics of Dynamo's frontend, as it was sent.
func TestDynamoPlanner(t *testing.T) {
	s := dynamo(t)
	p := profileSLA(t, 0, "--endpoint", s.url, "--max-in-flight", "8", "--endpoint-gpus", "1", "--max-time", maxTime)
	log := filepath.Join(t.TempDir(), "events.jsonl")
	program.Start(t, nil, "planner", "serve", "--profile", p.dir, "--environment", "local", "--no-operation", "--slots", "4",
		"--prefill-command", "sleep {{.Port}}", "--decode-command", "sleep {{.Port}}", "--metrics-endpoints", "frontend="+s.url+"/metrics",
		"--backend", "dynamo", "--adjustment-interval", "10", "--listen", free.Address(t), "--state-file", "none", "--event-log", log)
	load := planner.Load{URL: s.url, Model: "words", ISL: 256, OSL: 32, Phases: []planner.Phase{{Rate: 4, For: 65 * time.Second}}}
	sent := load.Run(t.Context())
	for _, x := range sent {
		if x.Failed != "" {
			t.Errorf("at %v: %s", x.At, x.Failed)
		}
	}
	program.Until(t, 25*time.Second, "all requests are in the event log", func() bool { return arrivals(t, log) >= float64(len(sent)) })
	if came := arrivals(t, log); came != float64(len(sent)) {
		t.Errorf("%d requests were sent, %v seen", len(sent), came)
	}
}

// arrivals are the requests in an event log, whose lengths and TTFT must be those that were
// sent.
func arrivals(t *testing.T, log string) (came float64) {
	t.Helper()
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var e struct {
			Observation *struct {
				Arrivals *float64
				ISL, OSL struct{ Mean *float64 }
				TTFT     struct{ Mean *float64 } `json:"ttft_ns"`
				Problems []string
			}
		}
		if !strings.HasSuffix(line, "\n") { // it is being written
			break
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		o := e.Observation
		if o == nil || o.Arrivals == nil || *o.Arrivals == 0 {
			continue
		}
		came += *o.Arrivals
		if *o.ISL.Mean != 256 || *o.OSL.Mean != 32 || *o.TTFT.Mean < float64(prefillTime)*0.97 {
			t.Errorf("ISL %v, OSL %v, TTFT %v ns: other lengths than were sent, or less TTFT than the engine takes", *o.ISL.Mean, *o.OSL.Mean, *o.TTFT.Mean)
		}
		for _, p := range o.Problems {
			if strings.Contains(p, "restarted") {
				t.Error(p)
			}
		}
	}
	return came
}
