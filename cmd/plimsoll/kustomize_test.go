package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
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
	file := filepath.Join(base, "objects.yaml")
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what planner manifest prints: go test ./cmd/plimsoll -run TestKustomizeBase -update", file)
	}
}
