package kube

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plimsoll/engine"
)

var update = flag.Bool("update", false, "write the golden files anew") //nolint:gochecknoglobals // a test's flag

// full has every option.
func full() Options {
	return Options{
		Image: "registry.example/vllm:v1", ImagePullSecrets: []string{"pull", "pull-too"}, NodeSelector: map[string]string{"pool": "h100", "a": "b"},
		Tolerations:    []corev1.Toleration{{Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}},
		ServiceAccount: "engines", Claim: "weights", GPUResource: GPUResource, GPUsPerNode: 8, SharedMemory: "8Gi",
		Env: []corev1.EnvVar{{Name: "HF_TOKEN", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "hf"}, Key: "token",
		}}}},
	}.Filled()
}

func vllm(gpus int) Launch {
	return Launch{
		Kind: engine.KindVLLM, GPUs: gpus,
		Spec: engine.Spec{
			Name: "decode tp2", Argv: []string{"vllm", "serve", "a model", "--port", "8000", `--json={"a": "it's $(X) $$(Y) $5"}`}, Env: []string{"A=1", "B=$(C)"},
			Port: 8000, ReadyPath: "/health", Grace: 10 * time.Second,
		},
	}
}

// The objects of each kind of launch, as they are sent.
func TestObjects(t *testing.T) {
	bare := Options{Image: "plimsoll:v1"}.Filled()
	sglang := vllm(16)
	sglang.Kind = engine.KindSGLang
	withFile := vllm(1)
	withFile.Spec.Files = []engine.File{{Path: "/etc/engine/a.yaml", Text: "a: \"b\"\n---\n"}}
	for name, c := range map[string]struct {
		o Options
		l Launch
	}{
		"file":                   {bare, withFile},
		"deployment":             {full(), vllm(2)},
		"leaderworkerset_vllm":   {full(), vllm(16)},
		"leaderworkerset_sglang": {full(), sglang},
		"sim": {bare, Launch{Kind: engine.KindSim, GPUs: 2, EntryPoint: true, Spec: engine.Spec{
			Name: "prefill tp1", Argv: []string{"/usr/bin/plimsoll", "engine", "serve", "--port", "8000"}, Port: 8000,
		}}},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := c.o.fields("ns", "k3f9x2aa", nameOf("k3f9x2aa", 1, c.l.Spec.Name), c.l)
			if err != nil {
				t.Fatal(err)
			}
			list, err := c.o.render(f)
			if err != nil {
				t.Fatal(err)
			}
			r := &Run{api: &api{namespace: "ns"}, id: "k3f9x2aa"}
			r.owner.APIVersion, r.owner.Kind, r.owner.Name, r.owner.UID = "coordination.k8s.io/v1", "Lease", "plimsoll-k3f9x2aa", "u"
			var got bytes.Buffer
			for _, o := range list {
				r.own(o, f)
				e := json.NewEncoder(&got)
				e.SetEscapeHTML(false)
				e.SetIndent("", "  ")
				if err := e.Encode(o.Object); err != nil {
					t.Fatal(err)
				}
			}
			golden(t, name+".json", got.Bytes())
		})
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (go test -update writes it anew); got\n%s", path, got)
	}
}

func TestLaunchesThatCannotBe(t *testing.T) {
	const head = "kind: Deployment\nmetadata:\n  name: {{.Name}}"
	for name, c := range map[string]struct {
		change func(*Options, *Launch)
		want   string
	}{
		"an uneven share":              {func(_ *Options, l *Launch) { l.GPUs = 9 }, "has 9 GPUs, which 2 nodes of 8 cannot share evenly"},
		"an engine that spans nothing": {func(_ *Options, l *Launch) { l.Kind, l.GPUs = engine.KindCommand, 16 }, "command spans nodes in no way that the program knows"},
		"no template at all":           {func(o *Options, _ *Launch) { o.Template = "{{.Nope}}" }, "can't evaluate field Nope"},
		"no YAML":                      {func(o *Options, _ *Launch) { o.Template = "a: [" }, "is no YAML"},
		"nothing":                      {func(o *Options, _ *Launch) { o.Template = "---\n" }, `called "engine"`},
		"a shared name": {func(o *Options, _ *Launch) {
			o.Template = strings.Replace(o.Template, head, strings.Replace(head, "{{.Name}}", "mine", 1), 1)
		}, "Deployment mine: its name has no {{.Name}}"},
		"a Service of all engines": {func(o *Options, _ *Launch) {
			o.Template = strings.Replace(o.Template, "selector: {{json .Selector}}", "selector: {app: vllm}", 1)
		}, "its selector could match another's pods"},
		"another namespace": {func(o *Options, _ *Launch) {
			o.Template = strings.Replace(o.Template, head, head+"\n  namespace: other", 1)
		}, "it is in namespace other, and the run in ns"},
		"another container": {func(o *Options, _ *Launch) {
			o.Template = strings.Replace(o.Template, "name: engine", "name: server", 1)
		}, `called "engine"`},
		"a Deployment over nodes": {func(o *Options, l *Launch) {
			o.Template, l.GPUs = strings.Replace(o.Template, "eq .Nodes 1", "true", 1), 16
		}, "the engine spans 2 nodes, and a Deployment's pod has one"},
		"a template without end": {func(o *Options, _ *Launch) { o.Template = `{{define "a"}}{{include "a" .}}{{end}}{{include "a" .}}` }, "it includes itself without end"},
		"a file that is nowhere": {func(_ *Options, l *Launch) { l.Spec.Files = []engine.File{{Path: "a.yaml"}} }, `file "a.yaml" of the engine: want an absolute path`},
		"a file without a place": {func(o *Options, l *Launch) {
			o.Template = strings.Replace(o.Template, "{{json .Text}}", "''", 1)
			l.Spec.Files = []engine.File{{Path: "/a.yaml", Text: "a"}}
		}, "the engine reads /a.yaml, and no object has its text"},
		"a request to be ready": {func(_ *Options, l *Launch) { l.Spec.ReadyBody = "{}" }, "is ready when it answers a POST"},
		"a wrong environment":   {func(_ *Options, l *Launch) { l.Spec.Env = []string{"A"} }, `environment setting "A": want KEY=value`},
	} {
		o, l := full(), vllm(2)
		c.change(&o, &l)
		f, err := o.fields("ns", "run", "plimsoll-run-1-x", l)
		if err == nil {
			_, err = o.render(f)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q in it", name, err, c.want)
		}
	}
}
