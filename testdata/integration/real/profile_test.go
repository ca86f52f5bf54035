//go:build real

package real

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/profile"
	"plimsoll/profile/store"
	"plimsoll/testdata/integration/planner"
	"plimsoll/testdata/integration/program"
)

// profiled is what profile-sla left.
type profiled struct {
	dir string
	run store.Run
	rec store.Recommendation
	out program.Result
}

// target is what all profiles here are asked for.
var target = []string{"--isl", "256", "--osl", "32", "--ttft", "1000", "--itl", "80"}

// profileSLA runs profile-sla, which must end with a code, and reads its files where it says
// that there are any.
func profileSLA(t *testing.T, code int, args ...string) profiled {
	t.Helper()
	return profileFor(t, code, target, args...)
}

// profileFor is profileSLA for another target.
func profileFor(t *testing.T, code int, target []string, args ...string) profiled {
	t.Helper()
	p := profiled{dir: filepath.Join(t.TempDir(), "profile")}
	began := time.Now()
	p.out = program.Run(t.Context(), t, vllmEnv(t), append(append([]string{"profile-sla", "--output-dir", p.dir, "--quiet"}, target...), args...)...)
	t.Logf("plimsoll profile-sla %s: %d after %.0f s\n%s%s", strings.Join(args, " "), p.out.Code, time.Since(began).Seconds(), p.out.Stdout, p.out.Stderr)
	if p.out.Code != code {
		t.Fatalf("exit code %d, want %d", p.out.Code, code)
	}
	if code != 0 {
		return p
	}
	var err error
	if p.run, err = store.ReadRun(p.dir); err != nil {
		t.Fatal(err)
	}
	if p.rec, err = store.ReadRecommendation(p.dir); err != nil {
		t.Fatal(err)
	}
	picked, load := began, time.Duration(0)
	for _, x := range p.run.Points {
		if end := x.Started.Add(x.Elapsed); x.Stage == profile.StageSweep && end.After(picked) {
			picked = end
		}
		load += x.Elapsed
	}
	t.Logf("picks known after %.0f s; %.0f s of load in all", picked.Sub(began).Seconds(), load.Seconds())
	return p
}

// judge wants an answer, measured, whose loads are what the engine itself counted, and no
// warning of a kind that says otherwise.
func (p profiled) judge(t *testing.T) {
	t.Helper()
	if !p.rec.Feasible || p.run.Provenance != profile.Measured {
		t.Errorf("feasible %v, %s", p.rec.Feasible, p.run.Provenance)
	}
	for _, w := range p.rec.Warnings {
		if slices.Contains([]string{"buffered", "coalesced", "wrong_lengths", "no_usage", "prefix_hit", profile.CodeFailures}, w.Code) {
			t.Errorf("warning: %s: %s", w.Code, w.Message)
		}
	}
	ttft, itl := 0, 0
	for _, x := range p.run.Points {
		s := x.Server
		if s == nil {
			continue
		}
		if s.TTFT.N > 0 {
			ttft++
		}
		if s.ITL.N > 0 {
			itl++
		}
		t.Logf("%s: TTFT %v by the engine, %v by the client (%d); ITL %v, %v (%d)", x.ID, s.TTFT.Server, s.TTFT.Client, s.TTFT.N, s.ITL.Server, s.ITL.Client, s.ITL.N)
		for _, w := range s.Warnings() {
			// Where many stream, the server's own process waits for a core that the engine has.
			if (x.Rate > 0 || x.Asked > 1) && s.TTFT.Client-s.TTFT.Server < 15*time.Millisecond {
				t.Logf("%s: %s", x.ID, w.Message)
			} else {
				t.Errorf("%s: %s", x.ID, w.Message)
			}
		}
	}
	if ttft < 2 || itl < 2 {
		t.Errorf("TTFT of %d loads and ITL of %d, of %d, are compared with the engine's own", ttft, itl, len(p.run.Points))
	}
}

// surfaces wants files of both phases.
func (p profiled) surfaces(t *testing.T) {
	t.Helper()
	if s := p.rec.Surfaces; s.Prefill.Points < 3 || s.Decode.Points < 3 {
		t.Errorf("%d prefill points and %d decode points", s.Prefill.Points, s.Decode.Points)
	}
}

// facts are what the profile says of its only engine.
func (p profiled) facts(t *testing.T) store.EngineFacts {
	t.Helper()
	if len(p.run.Engines) != 1 {
		t.Fatalf("%d engines", len(p.run.Engines))
	}
	return p.run.Engines[0]
}

const maxTime = "4m"

var aggregated = []string{"--mode", "aggregated", "--sla-stat", "p95"}

// An engine that plimsoll starts, as the README has it, and whose tokens are in part no text:
// what it takes to start is said, and it is gone at the end.
func TestLaunchedBytes(t *testing.T) {
	p := profileSLA(t, 0, "--engine", "vllm", "--model", model(t, "bytes"), "--gpu-count", "1", "--tp", "1", "--max-time", "8m", "--", "--max-model-len", "4096")
	p.judge(t)
	p.surfaces(t)
	if f := p.facts(t); !strings.HasPrefix(f.Version, "0.32.0") || f.KVTokens == 0 {
		t.Errorf("%+v", f)
	}
	nothingLeft(t)
}

func TestLaunchedWordsAggregated(t *testing.T) {
	p := profileSLA(t, 0, append(aggregated, "--engine", "vllm", "--model", model(t, "words"), "--gpu-count", "1", "--tp", "1", "--max-time", "6m", "--", "--max-model-len", "4096", "--enforce-eager")...)
	p.judge(t)
	nothingLeft(t)
}

// write writes a file, unless its content could not be had.
func write(t *testing.T, path string, content []byte, err error) {
	t.Helper()
	if err == nil {
		err = os.WriteFile(path, content, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// withoutWeights is a checkpoint of which only the weights are missing.
func withoutWeights(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"config.json", "tokenizer.json", "tokenizer_config.json"} {
		b, err := os.ReadFile(filepath.Join(model(t, "words"), name))
		write(t, filepath.Join(dir, name), b, err)
	}
	return dir
}

func TestLaunchedDummy(t *testing.T) {
	p := profileSLA(t, 0, "--engine", "vllm", "--model", withoutWeights(t), "--gpu-count", "1", "--tp", "1", "--max-time", maxTime, "--", "--max-model-len", "4096", "--enforce-eager", "--load-format", "dummy")
	p.judge(t)
}

// An engine that does not start: the cause stands in the error, not at the end of a log.
func TestFailedStart(t *testing.T) {
	p := profileSLA(t, 1, "--engine", "vllm", "--model", withoutWeights(t), "--gpu-count", "1", "--tp", "1", "--", "--enforce-eager")
	cause, hint := strings.Index(p.out.Stderr, "Cannot find any model weights"), strings.Index(p.out.Stderr, "--load-format dummy")
	if cause < 0 || hint < cause || strings.Contains(p.out.Stderr[:max(cause, 0)], "See root cause above") {
		t.Errorf("stderr:\n%s", p.out.Stderr)
	}
	nothingLeft(t)
}

// nothingLeft wants no engine to outlive its profile.
func nothingLeft(t *testing.T) {
	t.Helper()
	program.Until(t, 20*time.Second, "no engine is left", func() bool { return len(children(os.Getpid())) == 0 })
}

// A server that already runs, by both interfaces.
func TestEndpointCompletions(t *testing.T) {
	s := serve(t, "words")
	p := profileSLA(t, 0, "--endpoint", s.url, "--max-in-flight", "16", "--endpoint-gpus", "1", "--max-time", maxTime)
	p.judge(t)
	p.surfaces(t)
}

func TestEndpointChat(t *testing.T) {
	s := serve(t, "bytes")
	p := profileSLA(t, 0, append(aggregated, "--endpoint", s.url, "--api", "chat", "--max-in-flight", "16", "--max-time", maxTime)...)
	p.judge(t)
	if p.rec.Aggregated == nil || p.rec.Aggregated.SustainedRPS <= 0 {
		t.Errorf("%+v", p.rec.Aggregated)
	}
}

// A profile with several tokens in an event.
func TestSpeculation(t *testing.T) {
	s := serve(t, "words", "--speculative-config", `{"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3}`)
	p := profileSLA(t, 0, "--endpoint", s.url, "--max-in-flight", "8", "--endpoint-gpus", "1", "--max-time", maxTime)
	p.judge(t)
	if !slices.ContainsFunc(p.run.Points, func(x profile.Point) bool { return x.TokensPerChunk > 1.02 }) {
		t.Error("no point has more than one token in an event")
	}
}

// Two cores behind one server: their KV caches are one capacity.
func TestDataParallel(t *testing.T) {
	s := serve(t, "words", "--data-parallel-size", "2")
	text, err := planner.Get(s.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	p := profileSLA(t, 0, "--endpoint", s.url, "--max-in-flight", "8", "--endpoint-gpus", "2", "--max-time", maxTime)
	p.judge(t)
	if n := strings.Count(text, "vllm:cache_config_info{"); n != 2 || p.rec.Prefill.Label != "TP:1 DP:2" {
		t.Errorf("%d lines of KV capacity, %s", n, p.rec.Prefill.Label)
	}
	t.Logf("KV capacity %d tokens", p.facts(t).KVTokens)
}

func TestNoPrefixCaching(t *testing.T) {
	s := serve(t, "bytes", "--no-enable-prefix-caching")
	p := profileSLA(t, 0, "--endpoint", s.url, "--max-in-flight", "8", "--endpoint-gpus", "1", "--max-time", maxTime)
	p.judge(t)
}
