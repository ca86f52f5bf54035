package kube

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll/testdata/integration/cluster"
	"plimsoll/testdata/integration/program"
)

// printed is what the program prints with exit code 0.
func printed(t *testing.T, args ...string) []byte {
	t.Helper()
	r := program.Run(t.Context(), t, nil, args...)
	if r.Code != 0 {
		t.Fatalf("plimsoll %v: exit code %d\n%s", args, r.Code, r.Stderr)
	}
	return []byte(r.Stdout)
}

// applies is kubectl apply --server-side: unknown fields are refused.
func applies(t *testing.T, c *cluster.Cluster, text []byte, options metav1.ApplyOptions) {
	t.Helper()
	options.FieldManager = "test"
	for _, o := range objects(t, text) {
		eventually(t, "applying "+o.GetKind(), func(ctx context.Context) error {
			_, err := c.Dynamic().Resource(cluster.ResourceOf(o)).Namespace(namespace).Apply(ctx, o.GetName(), o, options)
			return err
		})
	}
}

// What the program prints is what a cluster takes.
func TestPrintedManifestsApply(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{})
	dry := metav1.ApplyOptions{DryRun: []string{metav1.DryRunAll}}
	for _, target := range [][]string{
		{"--deployment", "llama"},
		{"--target", "prefill=apps/v1/Deployment/p", "--target", "decode=apps/v1/StatefulSet/d", "--profile-config-map", "llama-profile"},
	} {
		text := printed(t, append([]string{"planner", "manifest", "--image", "registry/plimsoll:v1", "--name", "planner"}, target...)...)
		if n := len(objects(t, text)); n != 5 {
			t.Errorf("%d objects", n)
		}
		applies(t, c, text, dry)
		applies(t, c, text, metav1.ApplyOptions{})
	}
}

// The two forms of a plan: a Deployment of aggregated engines, and Dynamo's
// services.
func TestPrintedPlansApply(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{})
	create(t, c, file(t, "graph-v1alpha1.yaml"))
	for _, strategy := range []string{"aggregated", "disaggregated"} {
		text := printed(t, "capacity", "plan", "--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--tp", "1", "--rate", "4", "--isl", "500", "--osl", "100",
			"--ttft-p99", "2000", "--itl-p99", "100", "--strategy", strategy, "--emit", "kubernetes")
		applies(t, c, text, metav1.ApplyOptions{})
	}
}
