package planner

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"plimsoll/testdata/integration/cluster"
	"plimsoll/testdata/integration/program"
)

// budget is the planners' default.
const budget = 8

// fleet is a namespace with Deployments of prefill and decode engines, and a
// record of what they were.
type fleet struct {
	t         *testing.T
	on        *cluster.Cluster
	namespace string

	mu      sync.Mutex
	history []instant // each differs from the one before
}

// instant is what a namespace had at one.
type instant struct {
	want pair // asked for
	pods int  // that hold a GPU, ending ones included
}

// newFleet has one replica of each pool, of one GPU, on a node.
func newFleet(t *testing.T, on *cluster.Cluster, namespace, node string) *fleet {
	t.Helper()
	f := &fleet{t: t, on: on, namespace: namespace}
	f.create("apiVersion: v1\nkind: Namespace\nmetadata: {name: " + namespace + "}\n")
	for _, role := range []string{"prefill", "decode"} {
		f.create(engines(role, node, ""))
	}
	f.watched()
	return f
}

// engines is a Deployment of one replica.
func engines(name, node, labels string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: 1
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s%[3]s}}
    spec:
      nodeSelector: {kubernetes.io/hostname: %[2]s}
      terminationGracePeriodSeconds: 1
      containers: [{name: engine, image: engine, resources: {limits: {nvidia.com/gpu: "1"}}}]
`, name, node, labels)
}

func (f *fleet) create(text string) {
	f.t.Helper()
	list, err := cluster.Objects([]byte(text))
	if err != nil {
		f.t.Fatal(err)
	}
	f.on.Create(f.namespace, list...)
}

// watched notes what there is until the test ends, ten times a second.
func (f *fleet) watched() {
	done := make(chan struct{})
	ctx, end := context.WithCancel(context.Background())
	go func() {
		defer close(done)
		for wait(ctx, 100*time.Millisecond) {
			if now, err := f.look(ctx); err == nil { // else the API server is away
				f.note(now)
			}
		}
	}()
	f.t.Cleanup(func() { end(); <-done })
}

func (f *fleet) look(ctx context.Context) (instant, error) {
	var now instant
	deployments, err := f.on.Client.AppsV1().Deployments(f.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return now, err
	}
	pods, err := f.on.Client.CoreV1().Pods(f.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return now, err
	}
	now.pods = len(slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool {
		return p.Spec.NodeName == ""
	}))
	for _, d := range deployments.Items {
		switch d.Name {
		case "prefill":
			now.want.Prefill = int(*d.Spec.Replicas)
		case "decode":
			now.want.Decode = int(*d.Spec.Replicas)
		}
	}
	return now, nil
}

func (f *fleet) note(now instant) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.history); n == 0 || f.history[n-1] != now {
		f.history = append(f.history, now)
	}
}

// asked are the replicas that were asked for, one after another.
func (f *fleet) asked() []pair {
	f.mu.Lock()
	defer f.mu.Unlock()
	var list []pair
	for _, h := range f.history {
		if n := len(list); n == 0 || list[n-1] != h.want {
			list = append(list, h.want)
		}
	}
	return list
}

// kept fails the test where the bounds were left at any instant.
func (f *fleet) kept() {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range f.history {
		if h.want.Prefill < 1 || h.want.Decode < 1 || h.want.Prefill+h.want.Decode > budget || h.pods > budget {
			f.t.Errorf("at some instant there was %+v, with at least one replica of each pool and %d GPUs at most", h, budget)
		}
	}
}

// until waits for replicas asked for, and ready.
func (f *fleet) until(within time.Duration, what string, ok func(pair) bool) pair {
	f.t.Helper()
	var now pair
	program.Until(f.t, within, what, func() bool {
		list, err := f.on.Client.AppsV1().Deployments(f.namespace).List(f.t.Context(), metav1.ListOptions{})
		if err != nil {
			return false
		}
		ready := pair{of(list.Items, "prefill", true), of(list.Items, "decode", true)}
		now = pair{of(list.Items, "prefill", false), of(list.Items, "decode", false)}
		return ok(now) && ready == now
	})
	if seen, err := f.look(f.t.Context()); err == nil {
		f.note(seen) // what ended the waiting is on record
	}
	return now
}

func of(list []appsv1.Deployment, name string, ready bool) int {
	i := slices.IndexFunc(list, func(d appsv1.Deployment) bool { return d.Name == name })
	switch {
	case i < 0:
		return 0
	case ready:
		return int(list[i].Status.ReadyReplicas)
	}
	return int(*list[i].Spec.Replicas)
}

// set is kubectl scale.
func (f *fleet) set(ctx context.Context, name string, replicas int64) error {
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)
	_, err := f.on.Client.AppsV1().Deployments(f.namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// events are the planner's on objects of a kind, as kubectl describe shows them.
func (f *fleet) events(kind string) []string {
	f.t.Helper()
	list, err := f.on.Client.CoreV1().Events(f.namespace).List(f.t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.kind=" + kind})
	if err != nil {
		f.t.Fatal(err)
	}
	var notes []string
	for _, e := range list.Items {
		if e.Reason == "Scaled" && e.ReportingController == "plimsoll" {
			notes = append(notes, e.Message)
		}
	}
	return notes
}

// pools are planner serve's flags, and planner manifest's, for the two Deployments.
func pools() []string {
	return []string{"--target", "prefill=apps/v1/Deployment/prefill", "--target", "decode=apps/v1/Deployment/decode"}
}

// account makes what planner manifest prints but for the planner itself, which
// runs here, and gives a kubeconfig with the account's token. A rule may be edited
// out of the manifest.
func (f *fleet) account(target []string, edits ...func(string) string) string {
	f.t.Helper()
	r := program.Run(f.t.Context(), f.t, nil, append([]string{"planner", "manifest", "--image", "plimsoll", "--name", "planner", "--kube-namespace", f.namespace}, target...)...)
	if r.Code != 0 {
		f.t.Fatalf("planner manifest: %+v", r)
	}
	for doc := range strings.SplitSeq(r.Stdout, "---\n") {
		if strings.Contains(doc, "kind: Role") || strings.Contains(doc, "kind: ServiceAccount\n") {
			for _, edit := range edits {
				doc = edit(doc)
			}
			f.create(doc)
		}
	}
	return f.on.KubeconfigOfAccount(f.namespace, "planner")
}

// planned is a planner with an account's rights.
func (f *fleet) planned(kubeconfig, prometheus string, args ...string) *served {
	f.t.Helper()
	all := []string{"--environment", "kubernetes", "--kubeconfig", kubeconfig, "--kube-namespace", f.namespace, "--prometheus-endpoint", prometheus}
	return serve(f.t, f.namespace, append(all, args...)...)
}
