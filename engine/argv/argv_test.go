package argv_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/engine/argv"
	"plimsoll/engine/enginetest"
	"plimsoll/engine/llamacpp"
	"plimsoll/engine/sglang"
	"plimsoll/engine/trtllm"
	"plimsoll/engine/vllm"
)

func TestLine(t *testing.T) {
	var l argv.Line
	l.Words("engine")
	l.Address(engine.Launch{Port: 8000})
	l.Number("--seqs", 0)
	l.Number("--tokens", 5)
	l.Ranks("--pp", 1)
	l.Ranks("--dp", 2)
	l.Share("--none", 0)
	l.Share("--share", 0.85)
	if got, want := strings.Join(l, " "), "engine --host 127.0.0.1 --port 8000 --tokens 5 --dp 2 --share 0.85"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	s := l.Spec(engine.Config{Role: engine.RoleDecode, Parallelism: engine.TP(2)}, engine.Launch{Port: 8000, LogPath: "a.log", GPUs: []string{"0"}}, "/ready", 5)
	if s.Name != "decode tp2" || s.ReadyPath != "/ready" || s.ReadyTimeout != 5 || s.LogPath != "a.log" || len(s.GPUs) != 1 || s.Port != 8000 {
		t.Errorf("%+v", s)
	}
}

// A user's words are taken into the Config, refused, told to the engine, or doubted, by
// each engine's table.
func TestRead(t *testing.T) {
	cpu, gpu := llamacpp.Server{CPU: true}.Arguments(), llamacpp.Server{}.Arguments()
	limits := func(seqs, tokens, context, block int) engine.Config {
		return engine.Config{Limits: engine.Limits{MaxNumSeqs: seqs, MaxNumBatchedTokens: tokens, MaxModelLen: context, BlockSize: block}}
	}
	with := func(c engine.Config, memory float64, kv, weights engine.DType) engine.Config {
		c.MemoryFraction, c.KV, c.Weights = memory, kv, weights
		return c
	}
	none := engine.Config{}
	for _, tt := range []struct {
		table                argv.Table
		words                string
		want                 engine.Config
		rest, owned, unknown string
	}{
		{vllm.Arguments(), "--max-num-seqs 64 --max_num_batched_tokens=8k --max-model-len 32K --block-size 32 --gpu-memory-utilization 0.95", with(limits(64, 8000, 32768, 32), 0.95, "", ""), "", "", ""},
		{vllm.Arguments(), "-q modelopt_fp4 --kv-cache-dtype fp8_e5m2", with(none, 0, engine.FP8, engine.FP4), "-q modelopt_fp4 --kv-cache-dtype fp8_e5m2", "", ""},
		{vllm.Arguments(), "--quantization compressed-tensors --max-model-len auto --kv-cache-dtype auto", none, "--quantization compressed-tensors --max-model-len auto --kv-cache-dtype auto", "", "--quantization"},
		{vllm.Arguments(), "--enforce-eager --cpu-offload-gb 4 --speculative-config.method ngram", none, "--enforce-eager --cpu-offload-gb 4 --speculative-config.method ngram", "", "--enforce-eager --cpu-offload-gb --speculative-config.method"},
		{vllm.Arguments(), "--trust-remote-code --tool-call-parser hermes --dtype bfloat16 --seed=-1 --chat-template=-x", none, "--trust-remote-code --tool-call-parser hermes --dtype bfloat16 --seed=-1 --chat-template=-x", "", ""},
		{vllm.Arguments(), "--dtype float32 --no-enable-chunked-prefill", none, "--dtype float32 --no-enable-chunked-prefill", "", "--dtype --no-enable-chunked-prefill"},
		{vllm.Arguments(), "-tp 2 --data_parallel_size=2 -ep --port 1 --tensor-par 4 --model m --device cuda", none, "--device cuda", "-tp --data_parallel_size -ep --port --tensor-par --model", ""},
		{vllm.Arguments(), "x --max-num 3", none, "x --max-num 3", "", "x --max-num"}, // which may be one or the other
		{vllm.Arguments(), "--max-num-seqs 2 --max-num-seqs 3", limits(3, 0, 0, 0), "", "", ""},
		{
			sglang.Arguments(), "--max-running-requests 8 --chunked-prefill-size 4096 --context-length 9000 --page-size 64 --mem-fraction-static .8 --kv-cache-dtype fp4_e2m1 --quantization w8a8_fp8",
			with(limits(8, 4096, 9000, 64), 0.8, engine.FP4, engine.FP8), "--kv-cache-dtype fp4_e2m1 --quantization w8a8_fp8", "", "",
		},
		{sglang.Arguments(), "--tp 2 --dp=2 --ep-size 2 --enable-dp-attention --disable-radix-cache", none, "", "--tp --dp --ep-size --enable-dp-attention --disable-radix-cache", ""},
		{sglang.Arguments(), "--chunked-prefill-size -1 --cuda-graph-max-bs 8 --enable-metrics", none, "--chunked-prefill-size -1 --cuda-graph-max-bs 8 --enable-metrics", "", "--chunked-prefill-size --cuda-graph-max-bs"},
		{
			trtllm.Arguments(), "--max_batch_size 8 --max_num_tokens 4096 --max-seq-len 9000 --kv_cache_free_gpu_memory_fraction 0.8 --kv_cache_dtype nvfp4 --kv-block-size 64",
			with(limits(8, 4096, 9000, 64), 0.8, engine.FP4, ""), "", "", "",
		},
		{trtllm.Arguments(), "--tp_size 2 --extra_llm_api_options f --max_beam_width 4 --backend pytorch", none, "--max_beam_width 4 --backend pytorch", "--tp_size --extra_llm_api_options", "--max_beam_width"},
		{gpu, "-c 32768 -np 8 -b 512 -ctk q8_0", limits(8, 512, 4096, 0), "-ctk q8_0", "", "-ctk"},
		{gpu, "--ctx-size 32768 -t 4 --jinja", limits(0, 0, 32768, 0), "-t 4 --jinja", "", "-t"},
		{cpu, "-t 4 --host x", none, "", "-t --host", ""},
	} {
		got, err := tt.table.Read(strings.Fields(tt.words), engine.Config{})
		names := func(all []argv.Argument) string {
			var out []string
			for _, a := range all {
				out = append(out, a.Name)
			}
			return strings.Join(out, " ")
		}
		if rest := strings.Join(got.Rest, " "); err != nil || got.Config != tt.want || rest != tt.rest || names(got.Owned) != tt.owned || names(got.Unknown) != tt.unknown {
			t.Errorf("%s: %v\n%+v\nrest %q, owned %q, unknown %q", tt.words, err, got.Config, rest, names(got.Owned), names(got.Unknown))
		}
	}
}

// What fields ask for stays, and an argument that contradicts them is named. llama.cpp's
// context is divided by the slots that are asked for.
func TestReadBesideFields(t *testing.T) {
	asked := engine.Config{Limits: engine.Limits{MaxNumSeqs: 4}, KV: engine.FP8}
	s, err := vllm.Arguments().Read(strings.Fields("--max-num-seqs 4 --max-num-seqs x --kv-cache-dtype auto --kv-cache-dtype fp8_e4m3"), asked)
	if err != nil || s.Config != asked || len(s.Against) != 2 || s.Against[0].Value() != "x" || s.Against[1].Value() != "auto" || strings.Join(s.Rest, " ") != "--kv-cache-dtype fp8_e4m3" {
		t.Errorf("%v: %+v", err, s)
	}
	if s, err := (llamacpp.Server{}).Arguments().Read([]string{"-c", "8000"}, asked); err != nil || s.Config.Limits.MaxModelLen != 2000 {
		t.Errorf("%v: %+v", err, s)
	}
}

func TestReadRefuses(t *testing.T) {
	for words, want := range map[string]string{
		"--max-num-seqs":               "engine argument --max-num-seqs: want a whole number of at least 1, such as 8192 or 8k",
		"--max-num-seqs $(N)":          "engine argument --max-num-seqs $(N): want a whole number",
		"--max-num-seqs 1.5":           "want a whole number",
		"--max-num-seqs -7":            "want a whole number",
		"--max-num-seqs 9999999999":    "want a whole number",
		"--gpu-memory-utilization 1.5": "engine argument --gpu-memory-utilization 1.5: want a share above 0, at most 1",
		"--gpu-memory-utilization nan": "want a share above 0",
	} {
		if s, err := vllm.Arguments().Read(strings.Fields(words), engine.Config{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v", words, s, err)
		}
	}
}

// A type of the KV cache that a user says to the engine stands in place of the Config's.
func TestKVTypeIsSaidOnce(t *testing.T) {
	for _, s := range []interface {
		Spec(cfg engine.Config, l engine.Launch) (engine.Spec, error)
	}{vllm.Server{Extra: []string{"--kv_cache_dtype=nvfp4"}}, sglang.Server{Extra: []string{"--kv_cache_dtype=nvfp4"}}} {
		spec, err := s.Spec(engine.Config{Model: "m", KV: engine.FP4}, engine.Launch{Port: 1})
		if line := strings.Join(spec.Argv, " "); err != nil || strings.Count(line, "dtype") != 1 {
			t.Errorf("%v: %s", err, line)
		}
	}
}

// The flags by which layouts differ, and engines with prefix reuse from those
// without, are all ones that a user may not give a second time.
func TestEnginesOwnTheirLayout(t *testing.T) {
	flagsOf := func(words []string) (flags []string) {
		for _, w := range words {
			if strings.HasPrefix(w, "-") {
				flags = append(flags, w)
			}
		}
		return flags
	}
	enginetest.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int{1, 2, 4})
		cfg := engine.Config{Model: "m", Parallelism: engine.TP(1), PrefixCaching: true}
		other := engine.Config{Model: "m", Parallelism: engine.Parallelism{TP: size.Draw(t, "tp"), PP: size.Draw(t, "pp"), DP: size.Draw(t, "dp"), EP: size.Draw(t, "ep")}}
		at := engine.Launch{Port: 8000, LogPath: "x.log"}
		for name, s := range map[string]struct {
			server interface {
				Spec(cfg engine.Config, l engine.Launch) (engine.Spec, error)
			}
			table argv.Table
		}{
			"vllm": {vllm.Server{}, vllm.Arguments()}, "sglang": {sglang.Server{}, sglang.Arguments()}, "trtllm": {trtllm.Server{}, trtllm.Arguments()},
			"llamacpp": {llamacpp.Server{}, llamacpp.Server{}.Arguments()}, "llamacpp-cpu": {llamacpp.Server{CPU: true}, llamacpp.Server{CPU: true}.Arguments()},
		} {
			owns := func(words ...string) bool { return s.table.Arguments(words)[0].Owned() }
			one, err := s.server.Spec(cfg, at)
			if err != nil {
				t.Fatal(err)
			}
			two, err := s.server.Spec(other, at)
			if err != nil {
				continue
			}
			a, b := flagsOf(one.Argv), flagsOf(two.Argv)
			for _, f := range append(a, b...) {
				if slices.Contains(a, f) != slices.Contains(b, f) && !owns(f) {
					t.Fatalf("%s does not own %s", name, f)
				}
			}
			if !owns("--port=1") || !owns("--host") {
				t.Fatalf("%s does not own its address", name)
			}
		}
	})
}

// gpusOf counts the GPUs that a command line makes its engine take: of SGLang's
// replicas each takes those of its tensor parallelism, of its attention replicas none.
func gpusOf(kind string, words []string) int {
	n := func(flag string) int {
		i := slices.Index(words, flag)
		if i < 0 {
			return 1
		}
		v, err := strconv.Atoi(words[i+1])
		if err != nil {
			panic(err)
		}
		return v
	}
	switch kind {
	case "vllm":
		return n("--tensor-parallel-size") * n("--pipeline-parallel-size") * n("--data-parallel-size")
	case "sglang":
		if slices.Contains(words, "--enable-dp-attention") {
			return n("--tp-size") * n("--pp-size")
		}
		return n("--tp-size") * n("--pp-size") * n("--dp-size")
	default:
		return n("--tp_size") * n("--pp_size")
	}
}

// Whatever the layout, an engine refuses it or takes as many GPUs as it is given,
// and a user's own arguments come last.
func TestEnginesTakeTheirGPUs(t *testing.T) {
	enginetest.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int{0, 1, 2, 4, 8})
		p := engine.Parallelism{TP: size.Draw(t, "tp"), PP: size.Draw(t, "pp"), DP: size.Draw(t, "dp"), EP: size.Draw(t, "ep")}
		cfg := engine.Config{
			Model: "m", Parallelism: p, PrefixCaching: rapid.Bool().Draw(t, "caching"),
			Limits: engine.Limits{MaxNumSeqs: rapid.IntRange(0, 9).Draw(t, "seqs"), MaxModelLen: rapid.IntRange(0, 9).Draw(t, "length")},
		}
		at, own := engine.Launch{Port: 8000, LogPath: "x.log"}, []string{"--own", "1"}
		for kind, s := range map[string]interface {
			Spec(cfg engine.Config, l engine.Launch) (engine.Spec, error)
		}{
			"vllm": vllm.Server{Extra: own}, "sglang": sglang.Server{Extra: own}, "trtllm": trtllm.Server{Extra: own},
			"llamacpp": llamacpp.Server{Extra: own}, "llamacpp-cpu": llamacpp.Server{CPU: true, Extra: own},
		} {
			spec, err := s.Spec(cfg, at)
			if err != nil {
				continue
			}
			if got := gpusOf(kind, spec.Argv); !strings.HasPrefix(kind, "llamacpp") && got != cfg.GPUs() {
				t.Fatalf("%s takes %d GPUs, not %d: %q", kind, got, cfg.GPUs(), spec.Argv)
			}
			if n := len(spec.Argv); !slices.Equal(spec.Argv[n-2:], own) {
				t.Fatalf("%s: %q", kind, spec.Argv)
			}
		}
	})
}
