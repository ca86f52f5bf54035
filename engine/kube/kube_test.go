package kube

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

func job() Manifest {
	return Manifest{Name: "profile", Namespace: "ns", Image: "i", Plimsoll: "p", Deadline: time.Hour, GPUs: 1, GPUResource: GPUResource}
}

// The program runs in the engine's image, whatever its entry point, with arguments in
// which the kubelet finds no variable; the pod asks for its GPUs.
func TestManifest(t *testing.T) {
	m := job()
	m.Args, m.GPUs = []string{"profile-sla", "--command=x $(HOME)"}, 2
	body, err := m.YAML()
	if err != nil {
		t.Fatal(err)
	}
	var o batchv1.Job
	if err := yaml.UnmarshalStrict(body, &o); err != nil {
		t.Fatal(err)
	}
	pod := o.Spec.Template.Spec
	init, c := pod.InitContainers[0], pod.Containers[0]
	if init.Image != "p" || len(init.Command) > 0 || strings.Join(init.Args, " ") != "copy /program/plimsoll" {
		t.Errorf("the program is copied by %+v", init)
	}
	if c.Image != "i" || strings.Join(c.Command, " ") != Program || c.Args[1] != "--command=x $$(HOME)" {
		t.Errorf("the profile is %+v", c)
	}
	gpus := c.Resources.Limits[GPUResource]
	if gpus.Value() != 2 || c.Resources.Requests.Cpu().Value() != 4 || c.Resources.Requests.Memory().String() != "9Gi" {
		t.Errorf("it asks for %+v", c.Resources)
	}
}

func TestManifestsThatCannotBe(t *testing.T) {
	if _, err := job().YAML(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Manifest){
		`name "Mine"`:                          func(m *Manifest) { m.Name = "Mine" },
		`namespace "a/b"`:                      func(m *Manifest) { m.Namespace = "a/b" },
		`engine's image "a b"`:                 func(m *Manifest) { m.Image = "a b" },
		`plimsoll's image ""`:                  func(m *Manifest) { m.Plimsoll = "" },
		`PersistentVolumeClaim "A"`:            func(m *Manifest) { m.Claim = "A" },
		`ConfigMap "A"`:                        func(m *Manifest) { m.Results = "A" },
		`ConfigMap "profile"`:                  func(m *Manifest) { m.Results, m.Files = "profile", map[string]string{"a": ""} },
		`GPU resource "a b"`:                   func(m *Manifest) { m.GPUResource = "a b" },
		`environment variable "A=B"`:           func(m *Manifest) { m.Env = []SecretEnv{{"A=B", "s", "k"}} },
		`Secret "S"`:                           func(m *Manifest) { m.Env = []SecretEnv{{"A", "S", "k"}} },
		`key of Secret s "a b"`:                func(m *Manifest) { m.Env = []SecretEnv{{"A", "s", "a b"}} },
		`deadline "1s": want a minute or more`: func(m *Manifest) { m.Deadline = time.Second },
		`file "a/b"`:                           func(m *Manifest) { m.Files = map[string]string{"a/b": ""} },
		"and a ConfigMap takes 1048576":        func(m *Manifest) { m.Files = map[string]string{"a": strings.Repeat("x", MostResults)} },
	} {
		m := job()
		change(&m)
		if _, err := m.YAML(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}

// One patch replaces what the ConfigMap held: the right to it is all that is needed.
func TestWriteResults(t *testing.T) {
	var asked string
	var patch []map[string]any
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.Path + " " + r.Header.Get("Content-Type")
		body, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(body, &patch); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"llama"}}`)
	}))
	defer server.Close()
	write := func(files map[string][]byte) error {
		return WriteResults(t.Context(), &rest.Config{Host: server.URL}, "ns", "llama", files)
	}
	if err := write(map[string][]byte{"run.json": []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	if asked != "PATCH /api/v1/namespaces/ns/configmaps/llama application/json-patch+json" {
		t.Errorf("asked %s", asked)
	}
	if len(patch) != 1 || patch[0]["op"] != "add" || patch[0]["path"] != "/data" || patch[0]["value"].(map[string]any)["run.json"] != "{}" {
		t.Errorf("patched %v", patch)
	}
	if status = http.StatusNotFound; write(nil) == nil {
		t.Error("a ConfigMap that is not there is no error")
	}
	for want, files := range map[string]map[string][]byte{
		"run.json is no text": {"run.json": {0xff}},
		"--results-pvc CLAIM": {"run.json": make([]byte, MostResults)},
	} {
		if err := write(files); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}
