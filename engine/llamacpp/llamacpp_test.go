package llamacpp_test

import (
	"strings"
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/llamacpp"
)

func TestModels(t *testing.T) {
	for name, want := range map[string]string{
		"m.gguf": "-m m.gguf --offline", "/models/m": "-m /models/m --offline", "./m": "-m ./m --offline", "m": "-m m --offline",
		"org/m-GGUF": "-hf org/m-GGUF", "org/m-GGUF:Q8_0": "-hf org/m-GGUF:Q8_0", "models/m.GGUF": "-m models/m.GGUF --offline",
	} {
		s, err := llamacpp.Server{}.Spec(engine.Config{Model: name}, engine.Launch{Port: 1})
		if got := strings.Join(s.Argv, " "); err != nil || !strings.HasPrefix(got, "llama-server "+want+" --host ") {
			t.Errorf("%s: %v: %q", name, err, got)
		}
	}
}
