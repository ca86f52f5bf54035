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

func TestOwned(t *testing.T) {
	flags := []string{"--port", "-tp", "--tensor-parallel-size", "--tp_size"}
	for words, want := range map[string]string{
		"":                              "",
		"--quantization fp8":            "",
		"--port 80":                     "--port",
		"--x --port=80":                 "--port",
		"-tp 2":                         "-tp",
		"--tensor_parallel_size 2":      "--tensor_parallel_size",
		"--tp_size 2":                   "--tp_size",
		"--tp-size 2":                   "", // click knows no dashes for it
		"--port-range 2 --x=--port":     "",
		"--quantization --port-of-call": "",
	} {
		if got := argv.Owned(strings.Fields(words), flags...); got != want {
			t.Errorf("%q: %q, want %q", words, got, want)
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
			owned []string
		}{
			"vllm": {vllm.Server{}, vllm.Owned()}, "sglang": {sglang.Server{}, sglang.Owned()}, "trtllm": {trtllm.Server{}, trtllm.Owned()},
			"llamacpp": {llamacpp.Server{}, llamacpp.Server{}.Owned()}, "llamacpp-cpu": {llamacpp.Server{CPU: true}, llamacpp.Server{CPU: true}.Owned()},
		} {
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
				if slices.Contains(a, f) != slices.Contains(b, f) && argv.Owned([]string{f}, s.owned...) == "" {
					t.Fatalf("%s: %s is not among %q", name, f, s.owned)
				}
			}
			if argv.Owned([]string{"--port=1"}, s.owned...) == "" || argv.Owned([]string{"--host"}, s.owned...) == "" {
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
