package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// TestKustomizeBase holds the objects of deploy/kubernetes/base against planner
// manifest, whose ConfigMap kustomize makes of planner.yaml itself. -update writes
// them.
func TestKustomizeBase(t *testing.T) {
	t.Parallel()
	base := filepath.Join("..", "..", "deploy", "kubernetes", "base")
	var out bytes.Buffer
	app := newApp(streams{in: strings.NewReader(""), out: &out, err: &bytes.Buffer{}})
	args := "plimsoll planner manifest --image plimsoll --kube-namespace= --profile-config-map plimsoll-profile --config"
	if err := app.RunContext(context.Background(), append(strings.Fields(args), filepath.Join(base, "planner.yaml"))); err != nil {
		t.Fatal(err)
	}
	documents := strings.Split(out.String(), "---\n")
	kept := slices.DeleteFunc(slices.Clone(documents), func(d string) bool { return strings.Contains(d, "\nkind: ConfigMap\n") })
	if len(kept) != len(documents)-1 {
		t.Fatalf("it prints %d objects, %d without ConfigMaps", len(documents), len(kept))
	}
	want := "# " + args + " planner.yaml, without its ConfigMap\n" + strings.Join(kept, "---\n")
	checkSaid(t, filepath.Join(base, "objects.yaml"), want, "TestKustomizeBase")
}

// Whoever applies base or example as it is gets advice, and no fleet that is scaled;
// the files that a profile's ConfigMap is made of are those that a run publishes.
func TestKustomizeChangesNothing(t *testing.T) {
	t.Parallel()
	root := filepath.Join("..", "..", "deploy", "kubernetes")
	for _, overlay := range []string{"base", "example"} {
		var keys map[string]any
		if err := yaml.Unmarshal([]byte(readFile(t, filepath.Join(root, overlay, "planner.yaml"))), &keys); err != nil {
			t.Fatal(err)
		}
		if keys["no-operation"] != true {
			t.Errorf("%s/planner.yaml: no-operation is %v: want true", overlay, keys["no-operation"])
		}
	}
	text := readFile(t, filepath.Join(root, "example", "kustomization.yaml"))
	for _, name := range resultFiles() {
		if !strings.Contains(text, "#       - "+name) {
			t.Errorf("example/kustomization.yaml does not name %s", name)
		}
	}
}

// Whoever makes the profile's ConfigMap by hand is told all files that the planner
// reads: without one of them it sizes otherwise.
func TestProfileConfigMapIsWhole(t *testing.T) {
	example, err := os.ReadFile("../../deploy/kubernetes/example/kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range resultFiles() {
		for place, text := range map[string]string{"the help of planner manifest": plannerManifestCommand().Description, "kustomization.yaml": string(example)} {
			if !strings.Contains(text, name) {
				t.Errorf("%s does not name %s", place, name)
			}
		}
	}
}
