package planner

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"plimsoll/testdata/integration/cluster"
	"plimsoll/testdata/integration/program"
)

// The planner on a real control plane, with the rights that planner manifest
// prints and a real Prometheus.
func TestKubernetes(t *testing.T) {
	t.Parallel()
	on := cluster.Start(t, cluster.Options{Workloads: true, PodStartup: time.Second})
	on.AddNode("large", 64)
	on.AddNode("small", 4)
	tests := map[string]func(*testing.T, *cluster.Cluster, *traffic, string){
		"load": followsTheLoad, "advice": onlySaysWhatItWouldDo, "rights": lacksARight, "pending": findsNoGPUs, "leaders": twoOfThem, "graph": graphDeployment,
	}
	names := []string{"restart"}
	for name := range tests {
		names = append(names, name)
	}
	sites, scraper := frontends(t, names...)
	t.Run("beside each other", func(t *testing.T) {
		for name, test := range tests {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, on, sites[name], scraper)
			})
		}
	})
	t.Run("restart", func(t *testing.T) { apiServerRestarts(t, on, sites["restart"], scraper) })
}

// Load rises, by more than the budget has, and falls; somebody edits by hand.
func followsTheLoad(t *testing.T, on *cluster.Cluster, site *traffic, prometheus string) {
	f := newFleet(t, on, "load", "large")
	s := f.planned(f.account(pools()), prometheus, append(pools(), "--load-predictor", "auto", "--headroom", "1")...)
	s.decisions(1)
	site.set(steady(brisk), figures)
	f.until(40*time.Second, "more for more", busy)
	site.set(steady(200), figures)
	f.until(40*time.Second, "all of the budget", func(p pair) bool { return p.Prefill+p.Decode == budget })
	s.decisions(2)
	fell := time.Now()
	site.set(steady(2), figures)
	f.until(60*time.Second, "less for less", is(pair{1, 1}))
	if waited := time.Since(fell); waited < 5*time.Second {
		t.Errorf("it fell after %v, before it was stable", waited)
	}
	program.Until(t, 10*time.Second, "events that say why", func() bool {
		notes := strings.Join(f.events("Deployment"), "\n")
		return strings.Contains(notes, "prefill prefill from 1 to ") && strings.Contains(notes, "decode decode from 1 to ") && strings.Contains(notes, "requests/s")
	})

	edited := time.Now()
	if err := f.set(t.Context(), "decode", 3); err != nil {
		t.Fatal(err)
	}
	s.after(edited, 20*time.Second, "it notices the edit", func(e event) bool { return e.warns("edited") })
	f.until(40*time.Second, "it corrects the edit", is(pair{1, 1}))
	f.kept()
	if code := s.Stop(); code != 0 {
		t.Errorf("TERM ends it with %d", code)
	}
	f.until(time.Second, "replicas stay", is(pair{1, 1}))
}

// Without operation nothing is written, and the event log has what would be.
func onlySaysWhatItWouldDo(t *testing.T, on *cluster.Cluster, site *traffic, prometheus string) {
	f := newFleet(t, on, "advice", "large")
	s := f.planned(f.account(pools()), prometheus, append(pools(), "--no-operation")...)
	f.until(20*time.Second, "one of each is ready", is(pair{1, 1}))
	began := time.Now()
	site.set(steady(brisk), figures)
	s.after(began, 30*time.Second, "its advice", ofKind("advice", "would ask for prefill=2, decode=1"))
	for _, e := range s.decisions(3) {
		if e.Decision.From != (pair{1, 1}) || e.warns("edited") {
			t.Errorf("it decided %+v", e.Decision)
		}
	}
	if asked := f.asked(); len(asked) != 1 || len(f.events("Deployment")) > 0 || s.count("scaled") > 0 {
		t.Errorf("without operation there were %v, and events %v", asked, f.events("Deployment"))
	}
}

// A right that is missing is named, and nothing is scaled until it is given.
func lacksARight(t *testing.T, on *cluster.Cluster, site *traffic, prometheus string) {
	f := newFleet(t, on, "rights", "large")
	const verb = "patch"
	without := func(doc string) string { return strings.ReplaceAll(doc, verb, "list") }
	s := f.planned(f.account(pools(), without), prometheus, pools()...)
	s.decisions(1)
	began := time.Now()
	site.set(steady(brisk), figures)
	why := s.after(began, 30*time.Second, "it says what is missing", ofKind("error", "lacks a rule"))
	if want := `{apiGroups: ["apps"], resources: ["deployments/scale"], verbs: ["patch"]}`; !strings.Contains(why.Text, want) {
		t.Errorf("it says %q, want %s", why.Text, want)
	}
	for _, e := range s.decisions(2) {
		if e.warns("edited") {
			t.Errorf("it blames somebody else: %+v", e.Decision.Warnings)
		}
	}
	if asked := f.asked(); len(asked) != 1 {
		t.Errorf("without the right there were %v", asked)
	}
	f.create(`
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: more}
rules: [{apiGroups: [apps], resources: [deployments/scale], verbs: [patch]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: more}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: more}
subjects: [{kind: ServiceAccount, name: planner, namespace: rights}]
`)
	f.until(30*time.Second, "with the right it scales", busy)
	f.kept()
}

// Pods that find no GPUs do not keep it from scaling down (dynamo#14251).
func findsNoGPUs(t *testing.T, on *cluster.Cluster, site *traffic, prometheus string) {
	f := newFleet(t, on, "pending", "small") // four GPUs
	s := f.planned(f.account(pools()), prometheus, pools()...)
	s.decisions(1)
	began := time.Now()
	site.set(steady(60), figures)
	s.after(began, 40*time.Second, "six are asked for", ofKind("scaled", "prefill=4, decode=2"))
	s.after(began, 40*time.Second, "it says that two find no place", ofKind("warning", "without a place"))
	site.set(steady(2), figures)
	f.until(60*time.Second, "it falls though two never started", is(pair{1, 1}))
	f.kept()
}

// Of two planners one acts; when it is killed the other does, and nothing is done
// twice.
func twoOfThem(t *testing.T, on *cluster.Cluster, site *traffic, prometheus string) {
	f := newFleet(t, on, "leaders", "large")
	kubeconfig := f.account(pools())
	args := append(pools(), "--lease", "planner")
	both := []*served{f.planned(kubeconfig, prometheus, args...), f.planned(kubeconfig, prometheus, args...)}
	leader, standby := both[0], both[1]
	program.Until(t, 30*time.Second, "one leads", func() bool { return leader.count("started")+standby.count("started") > 0 })
	if standby.count("started") > 0 {
		leader, standby = standby, leader
	}
	leader.decisions(1)
	site.set(steady(brisk), figures)
	want := f.until(30*time.Second, "the leader acts", busy)
	if n := standby.count("started"); n > 0 {
		t.Errorf("two lead")
	}
	if body, err := Get(standby.site + "/api/v1/status"); err != nil || !strings.Contains(body, `"standby":true`) {
		t.Errorf("the other is no standby: %v %s", err, body)
	}
	leader.Kill()
	killed := time.Now()
	started := standby.after(killed, 60*time.Second, "the other takes over", ofKind("started", ""))
	if after := started.At.Sub(killed); after < 5*time.Second {
		t.Errorf("the other leads %v after the kill, while the Lease was held", after)
	}
	for _, e := range standby.decisions(2) {
		if e.Decision.Act || e.Decision.Want != want {
			t.Errorf("with the load as it was the other decided %+v", e.Decision)
		}
	}
	site.set(steady(2), figures)
	f.until(60*time.Second, "the other acts", is(pair{1, 1}))
	if asked := f.asked(); len(asked) != 3 || asked[1] != want {
		t.Errorf("one rise and one fall of the load made it %v", asked)
	}
	f.kept()
}

// A DynamoGraphDeployment, whose operator is played by the test: its services
// become Deployments.
func graphDeployment(t *testing.T, on *cluster.Cluster, site *traffic, prometheus string) {
	f := &fleet{t: t, on: on, namespace: "graph"}
	definition, err := os.ReadFile("../kube/testdata/graph-v1alpha1.yaml")
	if err != nil {
		t.Fatal(err)
	}
	f.create(string(definition))
	f.create("apiVersion: v1\nkind: Namespace\nmetadata: {name: graph}\n")
	for _, role := range []string{"prefill", "decode"} {
		f.create(engines(role, "large", ", nvidia.com/dynamo-graph-deployment-name: llama, nvidia.com/dynamo-component: "+role))
	}
	f.create(`
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: llama}
spec:
  services:
    Frontend: {componentType: frontend, replicas: 1}
    prefill: {componentType: worker, subComponentType: prefill, replicas: 1, resources: {limits: {gpu: "1"}}}
    decode: {componentType: worker, subComponentType: decode, replicas: 1, resources: {limits: {gpu: "1"}}}
`)
	f.watched()
	f.operated()
	target := []string{"--deployment", "llama"}
	s := f.planned(f.account(target), prometheus, target...)
	s.decisions(1)
	site.set(steady(60), figures)
	f.until(40*time.Second, "more for more", is(pair{4, 2}))
	site.set(steady(2), figures)
	f.until(60*time.Second, "less for less", is(pair{1, 1}))
	program.Until(t, 10*time.Second, "an event that says why", func() bool {
		return strings.Contains(strings.Join(f.events("DynamoGraphDeployment"), "\n"), "prefill prefill from 1 to 4: ")
	})
	f.kept()
}

// The API server is killed while the load rises, and comes back: nothing is
// decided blindly, and what is due is done once.
func apiServerRestarts(t *testing.T, on *cluster.Cluster, site *traffic, prometheus string) {
	f := newFleet(t, on, "restart", "large")
	s := f.planned(f.account(pools()), prometheus, pools()...)
	f.until(30*time.Second, "one of each is ready", is(pair{1, 1}))
	s.decisions(1)
	on.KillAPIServer()
	gone := time.Now()
	site.set(steady(brisk), figures)
	s.after(gone, 40*time.Second, "it says that the API server is away", ofKind("error", "the API server was not reached"))
	blind := s.after(gone, 40*time.Second, "it decides that it would", func(e event) bool {
		return e.Kind == "decision" && e.Decision.Want != e.Decision.From
	})
	if blind.Decision.Act {
		t.Errorf("without an API server it acts: %+v", blind.Decision)
	}
	on.RestartAPIServer()
	want := f.until(60*time.Second, "with the API server back it scales", busy)
	for _, e := range s.decisions(2) {
		if e.Decision.Act || e.Decision.Want != want || e.warns("edited") {
			t.Errorf("after that it decided %+v", e.Decision)
		}
	}
	f.kept()
}

// operated copies the replicas of a DynamoGraphDeployment's services into
// Deployments, as its operator would.
func (f *fleet) operated() {
	graphs := f.on.Dynamic().Resource(schema.GroupVersionResource{Group: "nvidia.com", Version: "v1alpha1", Resource: "dynamographdeployments"}).Namespace(f.namespace)
	done := make(chan struct{})
	ctx, end := context.WithCancel(context.Background())
	go func() {
		defer close(done)
		for wait(ctx, 200*time.Millisecond) {
			graph, err := graphs.Get(ctx, "llama", metav1.GetOptions{})
			if err != nil {
				continue
			}
			for _, name := range []string{"prefill", "decode"} {
				if n, ok, _ := unstructured.NestedInt64(graph.Object, "spec", "services", name, "replicas"); ok {
					_ = f.set(ctx, name, n) // or the next time
				}
			}
		}
	}()
	f.t.Cleanup(func() { end(); <-done })
}
