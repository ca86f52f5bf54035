package planner

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plimsoll/testdata/integration/cluster"
	"plimsoll/testdata/integration/program"
)

// deployed is what deploy/kubernetes calls all of the planner's objects.
const deployed = "plimsoll-planner"

// The planner as deploy/kubernetes has it, by an overlay on the example, in a
// namespace that is restricted: its pods are processes, which do what they do with
// their account's token.
func TestDeploy(t *testing.T) {
	t.Parallel()
	const namespace = "deployed"
	on := cluster.Start(t, cluster.Options{Workloads: true, Images: map[string][]string{
		"registry/plimsoll:v1": {os.Getenv(program.Path)}, "engine": {"/bin/sleep", "1h"},
	}})
	on.AddNode("large", 64)
	sites, scraper := frontends(t, namespace)
	f := &fleet{t: t, on: on, namespace: namespace}
	f.create("apiVersion: v1\nkind: Namespace\nmetadata: {name: " + namespace + ", labels: {pod-security.kubernetes.io/enforce: restricted}}\n")
	f.create(profileMap(t))
	for _, role := range []string{"prefill", "decode"} {
		f.create(strings.Replace(engines(role, "large", ""), "containers: [{", `securityContext: {runAsNonRoot: true, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}}
      containers: [{args: [], securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}, `, 1))
	}
	f.watched()
	f.apply(rendered(t, map[string]string{
		"kustomization.yaml": fmt.Sprintf("namespace: %s\nresources: [../example]\nconfigMapGenerator: [{name: %s, behavior: replace, files: [planner.yaml]}]\n", namespace, deployed),
		"planner.yaml":       briskConfig(namespace, scraper),
	}))
	t.Cleanup(f.said)
	f.until(30*time.Second, "one of each is ready", is(pair{1, 1}))
	program.Until(t, 60*time.Second, "both planners are ready", func() bool {
		d, err := on.Client.AppsV1().Deployments(namespace).Get(t.Context(), deployed, metav1.GetOptions{})
		return err == nil && d.Status.ReadyReplicas == 2
	})
	sites[namespace].set(steady(brisk), figures)
	f.until(60*time.Second, "more for more", func(p pair) bool { return p.Prefill+p.Decode > 2 })
	program.Until(t, 10*time.Second, "events that say why", func() bool {
		return strings.Contains(strings.Join(f.events("Deployment"), "\n"), " from 1 to ")
	})
	lease, err := on.Client.CoordinationV1().Leases(namespace).Get(t.Context(), deployed, metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" {
		t.Errorf("nobody leads: %+v, %v", lease, err)
	}
	f.kept()
}

// said shows, where the test has failed, what the planners' pods say.
func (f *fleet) said() {
	if !f.t.Failed() {
		return
	}
	pods := f.on.Client.CoreV1().Pods(f.namespace)
	list, err := pods.List(context.Background(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/instance=" + deployed})
	if err != nil {
		f.t.Log(err)
		return
	}
	for _, p := range list.Items {
		log, err := pods.GetLogs(p.Name, &corev1.PodLogOptions{}).DoRaw(context.Background())
		f.t.Logf("%s: %v %+v\n%s", p.Name, err, p.Status.ContainerStatuses, log)
	}
}

// briskConfig decides every two seconds.
func briskConfig(namespace, prometheus string) string {
	return fmt.Sprintf(`target: [prefill=apps/v1/Deployment/prefill, decode=apps/v1/Deployment/decode]
prometheus-endpoint: %s
backend: dynamo
metrics-namespace: %s
accept-provenance: estimated
ttft: 300
itl: 20
adjustment-interval: 2
startup-time: 1s
load-predictor: constant
headroom: 0
`, prometheus, namespace)
}

// profileMap is the profile that the planner mounts.
func profileMap(t *testing.T) string {
	t.Helper()
	dir, data := profiled(t), map[string]string{}
	for _, name := range []string{"prefill_raw_data.json", "decode_raw_data.json", "recommendation.json"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		data[name] = string(b)
	}
	text, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "plimsoll-profile"}, "data": data})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
