package kube

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"plimsoll/engine"
)

// The log that is kept of a pod has no credential of the engine's command line or
// environment, also where the engine prints it by another name.
func TestKeptLogHoldsNoCredential(t *testing.T) {
	e := &Engine{
		run:  &Run{o: Options{Env: []corev1.EnvVar{{Name: "HF_TOKEN", Value: "Conf1dential-1"}}}},
		spec: engine.Spec{Argv: []string{"vllm", "--api-key", "Conf1dential-2"}, Env: []string{"MY_KEY=Conf1dential-3"}},
	}
	var kept strings.Builder
	log := "args: Conf1dential-1\nkey Conf1dential-2, Conf1dential-3\nAuthorization: Bearer Conf1dential-4\nGPU KV cache size: 1,000 tokens\nend"
	if err := e.copyClean(&kept, strings.NewReader(log)); err != nil {
		t.Fatal(err)
	}
	if want := "args: [redacted]\nkey [redacted], [redacted]\nAuthorization: Bearer [redacted]\nGPU KV cache size: 1,000 tokens\nend"; kept.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &kept, want)
	}
}
