package kube

import (
	"strings"
	"testing"
	"time"
)

func TestManifest(t *testing.T) {
	rights := Manifest{Name: "profile", Namespace: "ns", Engines: Options{}.Filled()}
	spread := Manifest{Name: "profile", Namespace: "ns", Engines: full(), Nodes: true}
	spread.Engines.Access, spread.Engines.Results, spread.Engines.Files = ByService, true, true
	job := spread
	job.Image, job.Args, job.Claim, job.Deadline = "registry/plimsoll:v1", []string{"profile-sla", "--isl=3000", "--kube-env=A=$(B)"}, "results", 2*time.Hour
	job.Files = map[string]string{"kube-template.yaml": "a: b\n"}
	for name, m := range map[string]Manifest{"rights": rights, "rights_spread": spread, "job": job} {
		got, err := m.YAML()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		golden(t, name+".yaml", got)
	}
}

func TestManifestsThatCannotBe(t *testing.T) {
	for want, change := range map[string]func(*Manifest){
		`name "Mine"`:                          func(m *Manifest) { m.Name = "Mine" },
		`namespace ""`:                         func(m *Manifest) { m.Namespace = "" },
		`image "a b"`:                          func(m *Manifest) { m.Image = "a b" },
		`PersistentVolumeClaim "A"`:            func(m *Manifest) { m.Claim = "A" },
		`deadline "1s": want a minute or more`: func(m *Manifest) { m.Deadline = time.Second },
		`file "a/b"`:                           func(m *Manifest) { m.Files = map[string]string{"a/b": ""} },
		"and a ConfigMap takes 1048576":        func(m *Manifest) { m.Files = map[string]string{"a": strings.Repeat("x", MostResults)} },
		"can't evaluate field Nope":            func(m *Manifest) { m.Engines.Template = "{{.Nope}}" },
	} {
		m := Manifest{Name: "profile", Namespace: "ns", Image: "i", Deadline: time.Hour, Engines: Options{}.Filled()}
		change(&m)
		if _, err := m.YAML(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
}
