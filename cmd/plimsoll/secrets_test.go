package main

import (
	"slices"
	"testing"
)

// What an engine's own flags hold is no less secret than what is said here.
func TestRedacted(t *testing.T) {
	got := profileOptions{apiKey: "k1"}.redacted([]string{"vllm", "--header", "Bearer k1", "--api-key", "k2", "--hf-token=k3", "--quantization", "fp8"})
	want := []string{"vllm", "--header", "Bearer [redacted]", "--api-key", "[redacted]", "--hf-token=[redacted]", "--quantization", "fp8"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
