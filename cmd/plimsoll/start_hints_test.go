package main

import (
	"slices"
	"testing"

	"plimsoll/engine"
	"plimsoll/profile"
)

func TestStartHints(t *testing.T) {
	const room = "tp1 exited with code 1; its first error: ValueError: Based on the available memory, the estimated maximum model length is 130944. Try"
	shorter := "--force … -- --max-model-len 130944 starts over with the longest context that has room in the KV cache"
	for _, c := range []struct {
		name    string
		kind    engine.Kind
		reasons []string
		want    []string
	}{
		{"context", engine.KindVLLM, []string{room}, []string{shorter}},
		{"two layouts", engine.KindVLLM, []string{room, room}, []string{shorter}},
		{"flag", engine.KindVLLM, []string{"vllm: error: unrecognized arguments: --x"}, []string{"vllm serve --help=all lists the arguments that may follow --; with others than before, start over with --force"}},
		{"unknown cause", engine.KindSGLang, []string{"exited with code 1"}, []string{"arguments after -- go to sglang, for example -- --context-length 4096; with others than before, start over with --force"}},
		{"by a command", engine.KindCommand, []string{room}, nil},
		{"embedded", engine.KindSim, []string{"exited with code 1"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var skips []profile.Skip
			for _, r := range c.reasons {
				skips = append(skips, profile.Skip{Reason: r})
			}
			if got := startHints(c.kind, skips); !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
