package profile

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"plimsoll/testdata/integration/cluster"
	"plimsoll/testdata/integration/program"
)

// What profile-sla manifest prints runs a profile inside the cluster, with the
// rights that it prints, and a planner takes its results out of the ConfigMap.
// (Engines are reached by port-forward: the test's pods share this machine, where
// no DNS knows Services.)
func runsInside(t *testing.T, on *cluster.Cluster) {
	s := &site{t: t, on: on, namespace: "inside"}
	on.Create("", namespace(s.namespace))
	args := short("profile", "--kube-namespace", s.namespace, "--name", "llama", "--job-image", "plimsoll", "--image", "plimsoll",
		"--gpu-resource", string(cluster.GPU), "--kube-access", "port-forward", "--results-configmap", "llama-profile", "--schedule-timeout", "20s")
	list := s.prints(append([]string{"profile-sla", "manifest"}, args[1:]...)...)
	for _, o := range list {
		resource := on.Dynamic().Resource(cluster.ResourceOf(o)).Namespace(s.namespace)
		if _, err := resource.Create(t.Context(), o, metav1.CreateOptions{FieldValidation: "Strict", DryRun: []string{metav1.DryRunAll}}); err != nil {
			t.Errorf("a dry run of %s: %v", o.GetKind(), err)
		}
	}
	on.Create(s.namespace, list...)
	s.await(120*time.Second, "the Job is complete", func(ctx context.Context) error {
		job, err := on.Client.BatchV1().Jobs(s.namespace).Get(ctx, "llama", metav1.GetOptions{})
		if err == nil && job.Status.Succeeded != 1 {
			err = fmt.Errorf("%+v; its pod says\n%s", job.Status, s.log("job-name=llama"))
		}
		return err
	})
	results, err := on.Client.CoreV1().ConfigMaps(s.namespace).Get(t.Context(), "llama-profile", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"prefill_raw_data.json", "decode_raw_data.json", "recommendation.json", "run.json"} {
		if !strings.HasPrefix(results.Data[name], "{") {
			t.Errorf("%s of the ConfigMap is %q", name, results.Data[name])
		}
	}

	for _, pool := range []string{"prefill", "decode"} {
		on.Create(s.namespace, deployment(pool))
	}
	config := filepath.Join(t.TempDir(), "planner.yaml")
	if err := os.WriteFile(config, []byte("accept-provenance: simulated\nno-operation: true\nprometheus-endpoint: http://127.0.0.1:9\nadjustment-interval: 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	on.Create(s.namespace, s.prints("planner", "manifest", "--image", "plimsoll", "--kube-namespace", s.namespace, "--replicas", "1", "--profile-config-map", "llama-profile",
		"--target", "prefill=apps/v1/Deployment/prefill", "--target", "decode=apps/v1/Deployment/decode", "--config", config)...)
	s.await(30*time.Second, "the planner decides by the profile", func(context.Context) error {
		if log := s.log("app.kubernetes.io/instance=plimsoll-planner"); !strings.Contains(log, "dynamo decision: ") {
			return fmt.Errorf("it says\n%s", log)
		}
		return nil
	})
}

// prints is what the program prints as objects.
func (s *site) prints(args ...string) []*unstructured.Unstructured {
	s.t.Helper()
	r := program.Run(s.t.Context(), s.t, nil, args...)
	if r.Code != 0 {
		s.t.Fatalf("plimsoll %v: %d\n%s", args, r.Code, r.Stderr)
	}
	list, err := cluster.Objects([]byte(r.Stdout))
	if err != nil {
		s.t.Fatal(err)
	}
	return list
}

// log is of the pods with a label.
func (s *site) log(label string) string {
	pods := s.on.Client.CoreV1().Pods(s.namespace)
	list, err := pods.List(s.t.Context(), metav1.ListOptions{LabelSelector: label})
	if err != nil {
		return err.Error()
	}
	text := ""
	for _, p := range list.Items {
		log, err := pods.GetLogs(p.Name, &corev1.PodLogOptions{}).DoRaw(s.t.Context())
		text += string(log)
		if err != nil {
			text += err.Error()
		}
	}
	return text
}

func (s *site) await(within time.Duration, what string, done func(context.Context) error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), within)
	defer cancel()
	if err := cluster.Poll(ctx, done); err != nil {
		s.t.Fatalf("%s: %v", what, err)
	}
}

func namespace(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}}
}

// deployment is a pool without replicas.
func deployment(name string) *unstructured.Unstructured {
	labels := map[string]any{"app": name}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"replicas": int64(0), "selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{
				"metadata": map[string]any{"labels": labels},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "engine", "image": "plimsoll"}}},
			},
		},
	}}
}
