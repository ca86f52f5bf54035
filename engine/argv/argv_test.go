package argv_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"plimsoll/engine"
	"plimsoll/engine/argv"
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
	rapid.Check(t, func(t *rapid.T) {
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
