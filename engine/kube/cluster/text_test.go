package cluster

import (
	"testing"

	"plimsoll/engine/enginetest"

	"github.com/goccy/go-yaml"
	"pgregory.net/rapid"
	apimachinery "sigs.k8s.io/yaml"
)

// A text comes back as it was from whichever YAML library.
func TestText(t *testing.T) {
	t.Parallel()
	enginetest.Check(t, func(t *rapid.T) {
		text := rapid.StringOfN(rapid.SampledFrom([]rune("\n\n\n  \t\r#:-|ab'\"\\é\u2028\x01")), 0, 12, -1).Draw(t, "text")
		body, err := YAML([]yaml.MapSlice{{Item("data", yaml.MapSlice{Item("planner.yaml", Text(text)), Item("next", "x")})}})
		if err != nil {
			t.Fatal(err)
		}
		for name, read := range map[string]func([]byte, any) error{
			"goccy":      yaml.Unmarshal,
			"kubernetes": func(b []byte, to any) error { return apimachinery.Unmarshal(b, to) },
		} {
			var back struct {
				Data map[string]string `json:"data" yaml:"data"`
			}
			if err := read(body, &back); err != nil || back.Data["planner.yaml"] != text || back.Data["next"] != "x" {
				t.Fatalf("%s reads %q of %q, which was %q: %v", name, back.Data, body, text, err)
			}
		}
	})
}
