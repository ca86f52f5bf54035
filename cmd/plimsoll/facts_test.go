package main

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/field"
	"plimsoll/engine/gpu"
	"plimsoll/engine/llamacpp"
	"plimsoll/engine/vllm"
	"plimsoll/profile"
	"plimsoll/recommend"
	"plimsoll/sweep"
)

// logged is an engine of which nothing is there but its log.
type logged struct {
	running
	log  string
	lost error // it cannot be read
}

func (l logged) Log() (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(l.log)), l.lost
}

func (l logged) LogPath() string { return "engines/x.log" }

// The log goes before the metrics, these before the info endpoint; where two
// disagree by more than a block in each rank, both are named.
func TestKVSources(t *testing.T) {
	const size = "GPU KV cache size: "
	assumed := []profile.Warning{profile.Warnf("kv_assumed", "")}
	for _, c := range []struct {
		name    string
		log     string
		metrics int
		told    kvSource
		dp      int
		flag    int
		want    int
		source  string
		codes   []string
	}{
		{"all agree", size + "16,000 tokens", 16000, kvSource{name: "server_info", tokens: 16000}, 1, 0, 16000, "log", nil},
		{"by a block", size + "16,000 tokens", 16016, kvSource{}, 1, 0, 16000, "log", nil},
		{"by a block of each rank", size + "1,600 tokens", 3232, kvSource{}, 2, 0, 3200, "log", nil},
		{"by rounding", size + "1,000,000 tokens", 1_004_000, kvSource{}, 1, 0, 1_000_000, "log", nil},
		{"by half", size + "16,000 tokens", 32000, kvSource{}, 1, 0, 16000, "log", []string{"kv_disagree"}},
		{"the info endpoint", size + "16,000 tokens", 16000, kvSource{name: "server_info", tokens: 8000}, 1, 0, 16000, "log", []string{"kv_disagree"}},
		{"no log", "", 16000, kvSource{name: "server_info", tokens: 8000}, 1, 0, 16000, "metrics", []string{"kv_disagree"}},
		{"the info endpoint alone", "", 0, kvSource{name: "server_info", tokens: 8000}, 1, 0, 8000, "server_info", nil},
		{"what is assumed", "", 0, kvSource{"props", 8000, assumed}, 1, 0, 8000, "props", []string{"kv_assumed"}},
		{"what is assumed contradicts nothing", size + "2,000 tokens", 0, kvSource{"props", 8000, assumed}, 1, 0, 2000, "log", nil},
		{"by flag", size + "16,000 tokens", 8, kvSource{}, 1, 5000, 5000, "--kv-tokens", nil},
		{"nothing is said", "", 0, kvSource{}, 1, 0, 0, "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := launcher{opts: profileOptions{kvTokens: c.flag}, dep: deployment{kind: engine.KindVLLM, server: vllm.Server{}}}
			f := profile.EngineFacts{BlockSize: 16}
			cfg := engine.Config{Parallelism: engine.Parallelism{TP: 1, DP: c.dp}}
			err := l.kvCapacity(&f, cfg, logged{log: c.log}, c.told, c.metrics)
			var codes []string
			for _, w := range f.Warnings {
				codes = append(codes, w.Code)
			}
			if f.KVTokens != c.want || f.KVSource != c.source || !slices.Equal(codes, c.codes) || (err == nil) != (c.want > 0) {
				t.Errorf("%d tokens from %q, warnings %q, %v", f.KVTokens, f.KVSource, codes, err)
			}
		})
	}
	l := launcher{opts: profileOptions{kvPattern: "kv=([0-9]+)"}, dep: deployment{kind: engine.KindVLLM, server: vllm.Server{}}}
	if err := l.kvCapacity(&profile.EngineFacts{}, engine.Config{}, logged{log: "x"}, kvSource{}, 16000); err == nil || !strings.Contains(err.Error(), "engines/x.log") {
		t.Errorf("a pattern that matches nothing: %v", err)
	}
}

// A log that cannot be read, or holds nonsense, is named with its reason once nothing
// else tells the capacity; with a pattern of the user's own at once.
func TestKVOfUnreadLogs(t *testing.T) {
	forbidden := errors.New("pods/log is forbidden")
	for _, c := range []struct {
		pattern string
		p       running
		metrics int
		want    string // empty: no error
	}{
		{"", logged{lost: forbidden}, 0, "give --kv-tokens N (reading the engine's log: pods/log is forbidden)"},
		{"", logged{lost: forbidden}, 16000, ""},
		{"", logged{log: "GPU KV cache size: 0 tokens"}, 0, "0 is no number of tokens: see engines/x.log)"},
		{"", logged{log: "nothing"}, 0, "capacity: give --kv-tokens N"},
		{"kv=([0-9]+)", logged{lost: forbidden}, 16000, "reading the engine's log: pods/log is forbidden"},
	} {
		l := launcher{opts: profileOptions{kvPattern: c.pattern}, dep: deployment{kind: engine.KindVLLM, server: vllm.Server{}}}
		err := l.kvCapacity(&profile.EngineFacts{}, engine.Config{}, c.p, kvSource{}, c.metrics)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasSuffix(err.Error(), c.want)) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// Where no endpoint says it, the program itself is asked; one that is not there
// says nothing.
func TestProgramVersion(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	l := launcher{dep: deployment{kind: engine.KindVLLM}}
	if got := l.programVersion(t.Context()); got != "" {
		t.Errorf("got %q", got)
	}
	if got := (&launcher{dep: deployment{kind: engine.KindSim}}).programVersion(t.Context()); got != "" {
		t.Errorf("the embedded engine: %q", got)
	}
}

// Of the programs on PATH auto takes the first of vLLM, SGLang and TensorRT-LLM;
// what has to be asked for it leaves alone.
func TestInstalledPrefers(t *testing.T) {
	bin := t.TempDir()
	t.Setenv("PATH", bin)
	for _, c := range []struct{ program, want string }{
		{"llama-server", ""}, {"dynamo", ""}, {"trtllm-serve", "trtllm"}, {"sglang", "sglang"}, {"vllm", "vllm"},
	} {
		if err := os.WriteFile(filepath.Join(bin, c.program), []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		got, err := installed()
		if string(got.kind) != c.want || (err == nil) != (c.want != "") {
			t.Errorf("with %s: %q, %v", c.program, got.kind, err)
		}
		if err != nil && err.Error() != "none of vllm, sglang, trtllm-serve is on PATH" {
			t.Error(err)
		}
	}
	e, _ := realEngineOf(engine.KindSGLang)
	if err := e.present(); err != nil {
		t.Error(err)
	}
	t.Setenv("PATH", t.TempDir())
	var hinted *field.Failure
	if err := e.present(); !errors.As(err, &hinted) || !strings.Contains(hinted.Hints[0], "pip install sglang") {
		t.Errorf("%v", err)
	}
}

// A layout that the engine does not have is left out before anything is started.
func TestLayoutsOfEngines(t *testing.T) {
	o := profileOptions{layouts: []engine.Parallelism{engine.TP(2), {TP: 1, PP: 1, DP: 2, EP: 2}}}
	d := deployment{kind: engine.KindLlamaCpp, modelName: "m.gguf", gpuCount: 2, server: llamacpp.Server{}}
	cs, skips, err := d.candidates(o)
	if err != nil || len(cs) != 1 || len(skips) != 1 || skips[0].Reason != "llamacpp: it has no data or expert parallelism" {
		t.Errorf("%d candidates, skips %+v, %v", len(cs), skips, err)
	}
}

// Half of what weights leave is room for TensorRT-LLM, half of the GPU is none for vLLM.
func TestMemoryFractionIsTheEngines(t *testing.T) {
	cat, err := catalog.Load("")
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[engine.Kind]int{engine.KindTRTLLM: 1, engine.KindVLLM: 0} {
		o := profileOptions{engine: string(kind), model: "llama-3.1-70b", gpu: "h100-sxm", memory: 0.5, isl: 1000, osl: 100, layouts: []engine.Parallelism{engine.TP(2)}}
		d := deployment{kind: kind, gpuCount: 2}
		if err := errors.Join(d.setModel(o, cat), d.setGPUs(profileOptions{gpu: o.gpu, gpuCount: 2}, cat, gpu.Inventory{}), d.setServer(o)); err != nil {
			t.Fatal(err)
		}
		if cs, skips, _ := d.candidates(o); len(cs) != want {
			t.Errorf("%s: %d candidates, skips %+v", kind, len(cs), skips)
		}
	}
}

// --fit says whose release's defaults count, also of an engine that is started.
func TestReleaseOfTheFit(t *testing.T) {
	cat, err := catalog.Load("")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		engine, fit string
		want        engine.Release
		fails       string
	}{
		{"estimate", "", engine.Release{}, ""},
		{"estimate", "sglang", engine.Release{Kind: engine.KindSGLang}, ""},
		{"vllm", "", engine.Release{}, ""},
		{"vllm", "vllm-0.19", engine.Release{Kind: engine.KindVLLM, Version: "0.19"}, ""},
		{"sglang", "", engine.Release{}, ""},
		{"sglang", "vllm-0.19", engine.Release{}, "--fit vllm-0.19: the engine is sglang"},
	} {
		o := profileOptions{engine: c.engine, fit: c.fit, model: "llama-3.1-8b", gpu: "h100-sxm", gpuCount: 1, isl: 1000, osl: 100, dryRun: true}
		d, err := resolve(&o, cat, func(catalog.Catalog) (gpu.Inventory, error) { return gpu.Inventory{}, nil })
		switch {
		case c.fails != "":
			if err == nil || err.Error() != c.fails || exitOf(err) != exitUsage {
				t.Errorf("%s, %q: %v", c.engine, c.fit, err)
			}
		case err != nil || d.base(o).Release != c.want:
			t.Errorf("%s, %q: %+v, %v, want %+v", c.engine, c.fit, d.base(o).Release, err, c.want)
		}
	}
}

// The queue that a planner allows is that of all attention replicas of the pick.
func TestThresholdsOfReplicas(t *testing.T) {
	picked := func(p engine.Parallelism) recommend.Choice {
		pt := profile.Point{Phase: profile.Prefill, Config: engine.Config{Parallelism: p}, TTFT: profile.Distribution{Mean: 50 * time.Millisecond}}
		return recommend.Choice{Picked: recommend.Candidate{Point: pt}}
	}
	sla := profile.SLA{TTFT: 200 * time.Millisecond, Stat: profile.Mean}
	one := thresholdsOf(sweep.Result{Prefill: picked(engine.TP(8))}, profileOptions{sla: sla}).PrefillQueueSize
	dep := thresholdsOf(sweep.Result{Prefill: picked(engine.Parallelism{DP: 8, EP: 8})}, profileOptions{sla: sla}).PrefillQueueSize
	if one.Upper <= 3 || dep.Upper != 8*one.Upper || dep.Lower != 8*one.Lower {
		t.Errorf("TP:8 %+v, DEP:8 %+v", one, dep)
	}
}

// Data-parallel ranks that an endpoint tells of share its GPUs.
func TestRanksBehindAnEndpoint(t *testing.T) {
	const two = "vllm:num_requests_running{engine=\"0\"} 0\nvllm:num_requests_running{engine=\"1\"} 0\n"
	for _, c := range []struct {
		name, metrics, info string
		gpus                int
		want, err           string
	}{
		{"two ranks of one GPU", two, "", 2, "TP:1 DP:2", ""},
		{"two ranks of two GPUs", two, "", 4, "TP:2 DP:2", ""},
		{"GPUs that they cannot share", two, "", 3, "", "--endpoint-gpus 3: want a multiple of 2, as the server has 2 data-parallel ranks"},
		{"nobody said how many GPUs", two, "", 0, "TP:1", ""},
		{"one rank", "vllm:num_requests_running{engine=\"0\"} 0\n", "", 2, "TP:2", ""},
		{"no metrics", "", "", 2, "TP:2", ""},
		{"in an info answer", "sglang:num_running_reqs 0\n", `{"version":"0.5.9","dp_size":2}`, 2, "TP:1 DP:2", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				text := map[string]string{"/metrics": c.metrics, "/server_info": c.info}[r.URL.Path]
				if text == "" {
					w.WriteHeader(http.StatusNotFound)
				}
				_, _ = io.WriteString(w, text)
			}))
			defer s.Close()
			l := newLauncher(profileOptions{endpoint: s.URL, endpointGPUs: c.gpus}, deployment{kind: engine.KindEndpoint, gpuCount: max(c.gpus, 1)}, t.Logf)
			got, err := l.behind(t.Context())
			if err == nil && got.Label() != c.want || c.err != "" && (err == nil || err.Error() != c.err) || c.err == "" && err != nil {
				t.Errorf("%s, %v", got.Label(), err)
			}
		})
	}
}

// Nobody said how many GPUs an endpoint has: the answer names none.
func TestUnknownGPUs(t *testing.T) {
	d := deployment{kind: engine.KindEndpoint}
	if err := d.setGPUs(profileOptions{}, catalog.Catalog{}, gpu.Inventory{}); err != nil {
		t.Fatal(err)
	}
	o := outcome{dep: d}
	if use, head := o.useWords(cardFleet{}), o.gpuWords(); use != "the endpoint as it is" || head != "GPUs not known" {
		t.Errorf("%q, %q", use, head)
	}
	if len(d.warnings) != 1 || urgency(d.warnings[0]) <= len(urgent) {
		t.Errorf("%v", d.warnings)
	}
}
