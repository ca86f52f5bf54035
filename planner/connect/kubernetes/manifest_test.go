package kubernetes

import (
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"plimsoll/engine"
)

func manifest() Manifest {
	return Manifest{
		Name: "planner", Image: "registry:5000/plimsoll@sha256:0", Port: 9085, Replicas: 2, Profile: "llama-profile",
		Args:   []string{"planner", "serve", "--ttft=500", "yes", "0x1", "a: b # c"},
		Target: Options{Namespace: "serving", Deployment: "llama"},
	}
}

func TestManifest(t *testing.T) {
	body, err := manifest().YAML()
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]map[string]any{}
	for doc := range strings.SplitSeq(string(body), "---\n") {
		var o map[string]any
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			t.Fatal(err)
		}
		kinds[o["kind"].(string)] = o
	}
	if len(kinds) != 5 {
		t.Fatalf("objects: %s", body)
	}
	var d struct {
		Spec struct {
			Template struct {
				Spec struct {
					Containers []struct{ Args []string }
				}
			}
		}
	}
	raw, _ := yaml.Marshal(kinds["Deployment"])
	if err := yaml.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	if got := d.Spec.Template.Spec.Containers[0].Args; strings.Join(got, "|") != strings.Join(manifest().Args, "|") {
		t.Errorf("arguments came back as %q", got)
	}
}

func TestRulesAreTheLeast(t *testing.T) {
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"DynamoGraphDeployment": {Options{Deployment: "d"}, "nvidia.com:dynamographdeployments:get,patch nvidia.com:dynamographdeploymentscalingadapters/scale:get,patch"},
		"objects": {
			Options{Targets: map[engine.Role]string{engine.RolePrefill: "apps/v1/Deployment/p", engine.RoleDecode: "leaderworkerset.x-k8s.io/v1/LeaderWorkerSet/d"}},
			"apps:deployments:get apps:deployments/scale:get,patch leaderworkerset.x-k8s.io:leaderworkersets:get leaderworkerset.x-k8s.io:leaderworkersets/scale:get,patch",
		},
		"two of a kind": {
			Options{Targets: map[engine.Role]string{engine.RolePrefill: "apps/v1/Deployment/p", engine.RoleDecode: "apps/v1/Deployment/d"}},
			"apps:deployments:get apps:deployments/scale:get,patch",
		},
	} {
		rules, err := c.o.Rules()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range rules {
			got = append(got, r.Group+":"+strings.Join(r.Resources, ",")+":"+strings.Join(r.Verbs, ","))
		}
		want := c.want + " :pods:list events.k8s.io:events:create coordination.k8s.io:leases:get,create,update"
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %s\nwant %s", name, strings.Join(got, " "), want)
		}
	}
}

// A configuration comes to the planner as it was written. Without a namespace no
// object has one.
func TestManifestOfAConfiguration(t *testing.T) {
	m := manifest()
	m.Target.Namespace, m.Config = "", "# of whom\r\nttft:\t500\n \n"
	body, err := m.YAML()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(body), "namespace") {
		t.Errorf("there is a namespace:\n%s", body)
	}
	var read string
	for doc := range strings.SplitSeq(string(body), "---\n") {
		var o struct {
			Kind string
			Data map[string]string
		}
		if err := yaml.Unmarshal([]byte(doc), &o); err != nil {
			t.Fatal(err)
		}
		if o.Kind == "ConfigMap" {
			read = o.Data["planner.yaml"]
		}
	}
	if read != m.Config {
		t.Errorf("the configuration is %q, was %q", read, m.Config)
	}
}

func TestManifestRefuses(t *testing.T) {
	for field, change := range map[string]func(*Manifest){
		"name":                  func(m *Manifest) { m.Name = "Upper" },
		"namespace":             func(m *Manifest) { m.Target.Namespace = "a/b" },
		"ConfigMap":             func(m *Manifest) { m.Profile = "a b" },
		"PersistentVolumeClaim": func(m *Manifest) { m.Claim = "a b" },
		"image":                 func(m *Manifest) { m.Image = "x\n y: z" },
		"port":                  func(m *Manifest) { m.Port = 70000 },
		"replicas":              func(m *Manifest) { m.Replicas = 0 },
		"target of":             func(m *Manifest) { m.Target.Targets = map[engine.Role]string{engine.RoleAggregated: "a/b"} },
	} {
		m := manifest()
		change(&m)
		if _, err := m.YAML(); err == nil || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: error is %v", field, err)
		}
	}
}
