package profile

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"plimsoll/profile/store"
	"plimsoll/testdata/integration/cluster"
	"plimsoll/testdata/integration/program"
)

// account is the service account that profile-sla manifest makes.
const account = "plimsoll-profile"

// site is a namespace of the cluster, and a user in it with exactly the rights
// that profile-sla manifest prints.
type site struct {
	t          *testing.T
	on         *cluster.Cluster
	namespace  string
	kubeconfig string
	gpus       *counter
}

// newSite makes the namespace and the rights, of which edit changes the Role.
func newSite(t *testing.T, on *cluster.Cluster, name string, edit ...func(role *unstructured.Unstructured)) *site {
	t.Helper()
	s := &site{t: t, on: on, namespace: name}
	on.Create("", namespace(name))
	for _, o := range s.manifest() {
		switch o.GetKind() {
		case "Role":
			for _, e := range edit {
				e(o)
			}
			fallthrough
		case "ServiceAccount", "RoleBinding", "ClusterRole", "ClusterRoleBinding":
			on.Create(name, o)
		}
	}
	s.kubeconfig = on.KubeconfigOfAccount(name, account)
	s.gpus = watchGPUs(t, on, name)
	return s
}

// manifest is what profile-sla manifest prints of the rights alone.
func (s *site) manifest() []*unstructured.Unstructured {
	s.t.Helper()
	return s.prints("profile-sla", "manifest", "--kube-namespace", s.namespace, "--name", account)
}

// short is a profile of the embedded engine that takes seconds, on a GPU whose
// steps take so long that a busy machine decides nothing; its picks are not verified.
func short(dir string, more ...string) []string {
	return append([]string{
		"profile-sla", "--engine", "sim", "--gpu", "l40s", "--gpu-count", "8", "--tp", "1", "--isl", "500", "--osl", "30", "--ttft", "1000", "--itl", "100", "--max-num-seqs", "16",
		"--prefill-interpolation-granularity", "3", "--decode-interpolation-granularity", "2", "--max-context-length", "700", "--verify", "never", "--output-dir", dir,
	}, more...)
}

// grid has more measured by upstream's plan, in a context of which its output
// tokens, a quarter, are few.
func grid(more ...string) []string {
	return append([]string{"--search", "grid", "--isl", "200", "--osl", "20", "--max-context-length", "256"}, more...)
}

// onCluster is the same with engines that are pods here.
func (s *site) onCluster(dir string, more ...string) []string {
	return short(dir, append([]string{
		"--launcher", "kubernetes", "--kubeconfig", s.kubeconfig, "--kube-namespace", s.namespace, "--image", "plimsoll", "--gpu-resource", string(cluster.GPU),
	}, more...)...)
}

// profile runs to its end.
func (s *site) profile(dir string, more ...string) program.Result {
	s.t.Helper()
	return program.Run(s.t.Context(), s.t, nil, s.onCluster(dir, more...)...)
}

// fails runs a profile that ends with 1, and says all of the words; nothing is
// left of it.
func (s *site) fails(words []string, more ...string) {
	s.t.Helper()
	began := time.Now()
	r := s.profile(filepath.Join(s.t.TempDir(), "out"), more...)
	s.t.Logf("%v: exit code %d\n%s", time.Since(began).Round(time.Millisecond), r.Code, r.Stderr)
	if r.Code != 1 {
		s.t.Errorf("exit code %d, want 1: %s", r.Code, r.Stdout)
	}
	for _, w := range words {
		if !strings.Contains(r.Stderr, w) {
			s.t.Errorf("it does not say %q", w)
		}
	}
	s.nothingLeft()
}

// made are the kinds of what a run makes, or controllers make of it.
func made() []schema.GroupVersionResource {
	return []schema.GroupVersionResource{
		{Version: "v1", Resource: "pods"},
		{Version: "v1", Resource: "services"},
		{Group: "apps", Version: "v1", Resource: "deployments"},
		{Group: "apps", Version: "v1", Resource: "replicasets"},
		{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"},
	}
}

// objects are those in the namespace now, without the names to leave out.
func (s *site) objects(without ...string) []string {
	s.t.Helper()
	var all []string
	for _, at := range made() {
		list, err := s.on.Dynamic().Resource(at).Namespace(s.namespace).List(s.t.Context(), metav1.ListOptions{})
		if err != nil {
			s.t.Fatal(err)
		}
		for _, o := range list.Items {
			if !slices.Contains(without, o.GetName()) {
				all = append(all, at.Resource+"/"+o.GetName())
			}
		}
	}
	return all
}

func (s *site) nothingLeft(without ...string) {
	s.t.Helper()
	if left := s.objects(without...); len(left) > 0 {
		s.t.Errorf("there is left %v", left)
	}
}

// pod waits for a pod of the namespace that looks so.
func (s *site) pod(within time.Duration, what string, looks func(corev1.Pod) bool) (found corev1.Pod) {
	s.t.Helper()
	program.Until(s.t, within, what, func() bool {
		pods, err := s.on.Client.CoreV1().Pods(s.namespace).List(s.t.Context(), metav1.ListOptions{})
		if err != nil {
			return false
		}
		i := slices.IndexFunc(pods.Items, looks)
		if i >= 0 {
			found = pods.Items[i]
		}
		return i >= 0
	})
	return found
}

// journal has the lines of a run's, but one that is torn.
func journal(dir string) []string {
	data, err := os.ReadFile(filepath.Join(dir, "journal.jsonl"))
	if err != nil {
		return nil
	}
	lines := strings.Split(string(data), "\n")
	return lines[:len(lines)-1]
}

// points is how many are finished.
func points(dir string) int {
	n := 0
	for _, line := range journal(dir) {
		if strings.Contains(line, `"type":"point"`) {
			n++
		}
	}
	return n
}

// recommendation reads what a run recommends.
func recommendation(t *testing.T, dir string) store.Recommendation {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "recommendation.json"))
	if err != nil {
		t.Fatal(err)
	}
	var r store.Recommendation
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// warns reports whether a warning has that code.
func warns(r store.Recommendation, code string) bool {
	for _, w := range r.Warnings {
		if w.Code == code {
			return true
		}
	}
	return false
}
