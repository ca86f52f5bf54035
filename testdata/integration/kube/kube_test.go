// Package kube tests planner/connect/kubernetes, and the manifests that the
// program prints, on a real control plane.
package kube

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"plimsoll/planner"
	"plimsoll/planner/connect/kubernetes"
	"plimsoll/testdata/integration/cluster"
)

const namespace = "default"

// planners is the service account that the manifests bind their Role to.
const planners = "system:serviceaccount:default:planner"

// objects reads YAML documents.
func objects(t testing.TB, text []byte) []*unstructured.Unstructured {
	t.Helper()
	list, err := cluster.Objects(text)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func file(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func create(t testing.TB, c *cluster.Cluster, text []byte) {
	t.Helper()
	c.Create(namespace, objects(t, text)...)
}

func eventually(t testing.TB, what string, done func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	if err := cluster.Poll(ctx, done); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// granted makes the manifest's Role and binding for the planners' service
// account, and gives their configuration.
func granted(t testing.TB, c *cluster.Cluster, o kubernetes.Options) *rest.Config {
	t.Helper()
	text, err := kubernetes.Manifest{Name: "planner", Image: "plimsoll", Target: o, Port: 9085, Replicas: 1}.YAML()
	if err != nil {
		t.Fatal(err)
	}
	for _, obj := range objects(t, text) {
		if strings.HasPrefix(obj.GetKind(), "Role") {
			raw, err := json.Marshal(obj.Object)
			if err != nil {
				t.Fatal(err)
			}
			create(t, c, raw)
		}
	}
	return c.ConfigOf(planners)
}

func target(t testing.TB, config *rest.Config, o kubernetes.Options) *kubernetes.Target {
	t.Helper()
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	made, err := kubernetes.New(config, o)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func scaled(t testing.TB, on *kubernetes.Target, want planner.Replicas, reason string) {
	t.Helper()
	eventually(t, "scaling", func(ctx context.Context) error { return on.Scale(ctx, want, reason) }) // a Role takes a moment
}

func wants(t testing.TB, on *kubernetes.Target, want planner.Replicas) {
	t.Helper()
	s, err := on.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got planner.Replicas
	for _, p := range s.Pools {
		got = got.With(p.Role, p.Want)
	}
	if got != want {
		t.Errorf("replicas are %s, want %s", got, want)
	}
}
