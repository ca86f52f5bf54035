package kube

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"plimsoll/planner"
	"plimsoll/planner/connect/kubernetes"
	"plimsoll/testdata/integration/cluster"
)

const alphaGraph = `
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: llama}
spec:
  services:
    Frontend: {componentType: frontend, replicas: 1}
    First: {componentType: worker, subComponentType: prefill, replicas: 2, resources: {limits: {gpu: "2"}}}
    Second: {componentType: worker, subComponentType: decode, replicas: 3, resources: {limits: {gpu: "4"}}}
`

const betaGraph = `
apiVersion: nvidia.com/v1beta1
kind: DynamoGraphDeployment
metadata: {name: llama}
spec:
  components:
    - {name: Frontend, type: frontend, replicas: 1}
    - {name: First, type: prefill, replicas: 2, podTemplate: {spec: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: "2"}}}]}}}
    - {name: Second, type: decode, replicas: 3, podTemplate: {spec: {containers: [{name: main, resources: {limits: {nvidia.com/gpu: "4"}}}]}}}
`

// withGraph is a control plane with one deployment of a version.
func withGraph(t *testing.T, version string) *cluster.Cluster {
	t.Helper()
	c := cluster.Start(t, cluster.Options{})
	create(t, c, file(t, "graph-"+version+".yaml"))
	create(t, c, []byte(map[string]string{"v1alpha1": alphaGraph, "v1beta1": betaGraph}[version]))
	return c
}

func graphs(version string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "nvidia.com", Version: version, Resource: "dynamographdeployments"}
}

// replicas are those of each service in the deployment itself.
func replicas(t *testing.T, c *cluster.Cluster, version string) (string, *unstructured.Unstructured) {
	t.Helper()
	o, err := c.Dynamic().Resource(graphs(version)).Namespace(namespace).Get(t.Context(), "llama", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	services, _, _ := unstructured.NestedMap(o.Object, "spec", "services")
	for name, s := range services {
		found = append(found, fmt.Sprintf("%s=%v", name, s.(map[string]any)["replicas"]))
	}
	components, _, _ := unstructured.NestedSlice(o.Object, "spec", "components")
	for _, s := range components {
		found = append(found, fmt.Sprintf("%v=%v", s.(map[string]any)["name"], s.(map[string]any)["replicas"]))
	}
	slices.Sort(found)
	return strings.Join(found, " "), o
}

// Both versions of Dynamo's API, with the rights of the manifest's Role alone.
func TestGraphDeployment(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		t.Run(version, func(t *testing.T) {
			c := withGraph(t, version)
			o := kubernetes.Options{Namespace: namespace, Deployment: "llama", Least: planner.Replicas{Prefill: 1, Decode: 1}}
			config := granted(t, c, o)
			on := target(t, config, o)
			wants(t, on, planner.Replicas{Prefill: 2, Decode: 3})

			scaled(t, on, planner.Replicas{Prefill: 3, Decode: 1}, "more prefill is wanted")
			got, object := replicas(t, c, version)
			if want := "First=3 Frontend=1 Second=1"; got != want {
				t.Errorf("replicas are %s, want %s", got, want)
			}
			if fields := object.GetManagedFields(); !slices.ContainsFunc(fields, func(f metav1.ManagedFieldsEntry) bool { return f.Manager == "plimsoll" }) {
				t.Errorf("nobody named plimsoll manages a field: %v", fields)
			}
			s, err := on.State(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if s.Pools[0].GPUs != 2 || s.Pools[1].GPUs != 4 || s.Pools[0].Starting != 3 {
				t.Errorf("state: %+v", s)
			}
			// Somebody else's change is the truth at once (upstream missed it, dynamo#4420).
			patch := map[string]string{
				"v1alpha1": `{"spec":{"services":{"Second":{"replicas":6}}}}`,
				"v1beta1":  `{"spec":{"components":[{"name":"Second","type":"decode","replicas":6},{"name":"First","type":"prefill","replicas":3}]}}`,
			}[version]
			if _, err := c.Dynamic().Resource(graphs(version)).Namespace(namespace).Patch(t.Context(), "llama", types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
				t.Fatal(err)
			}
			wants(t, on, planner.Replicas{Prefill: 3, Decode: 6})
			if err := on.Scale(t.Context(), planner.Replicas{Prefill: 0, Decode: 6}, "too few"); err == nil {
				t.Error("fewer than the least were not refused")
			}
			events(t, c, "DynamoGraphDeployment", "prefill First from 2 to 3: more prefill is wanted", "decode Second from 3 to 1: more prefill is wanted")
		})
	}
}

// events are those that kubectl describe shows of the object.
func events(t *testing.T, c *cluster.Cluster, kind string, want ...string) {
	t.Helper()
	list, err := c.Client.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.kind=" + kind})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range list.Items {
		if e.Reason == "Scaled" && e.ReportingController == "plimsoll" {
			got = append(got, e.Message)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("events are %q, want %q", got, want)
	}
}

// The adapter is written where there is one, and the deployment is not.
func TestScalingAdapter(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		t.Run(version, func(t *testing.T) {
			c := withGraph(t, version)
			create(t, c, file(t, "adapter.yaml"))
			create(t, c, []byte(`
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeploymentScalingAdapter
metadata: {name: llama-second}
spec: {replicas: 5, dgdRef: {name: llama, serviceName: Second}}
`))
			o := kubernetes.Options{Namespace: namespace, Deployment: "llama"}
			on := target(t, granted(t, c, o), o)
			scaled(t, on, planner.Replicas{Prefill: 1, Decode: 7}, "load")
			wants(t, on, planner.Replicas{Prefill: 1, Decode: 7})
			if got, _ := replicas(t, c, version); got != "First=1 Frontend=1 Second=3" {
				t.Errorf("the deployment has %s", got)
			}
			adapters := schema.GroupVersionResource{Group: "nvidia.com", Version: "v1alpha1", Resource: "dynamographdeploymentscalingadapters"}
			a, err := c.Dynamic().Resource(adapters).Namespace(namespace).Get(t.Context(), "llama-second", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if n, _, _ := unstructured.NestedInt64(a.Object, "spec", "replicas"); n != 7 {
				t.Errorf("the adapter has %d", n)
			}
		})
	}
}
