package kube

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	core   = "/api/v1/namespaces/ns/"
	apps   = "/apis/apps/v1/namespaces/ns/"
	leased = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/"
)

// lost is an API server with what two runs left, one of them without its Lease,
// and things of others.
func lost(t *testing.T, now time.Time) *apiServer {
	s := newAPIServer(t)
	at := func(ago time.Duration) string { return now.Add(-ago).UTC().Format(metav1.RFC3339Micro) }
	of := func(run string) map[string]any {
		return map[string]any{labelRun: run, labelEngine: "e", labelOwner: "plimsoll"}
	}
	s.put(leased+"plimsoll-dead", "Lease", of("dead"), map[string]any{
		"metadata": map[string]any{"annotations": map[string]any{annotationAbout: "m", annotationKinds: "deployments.v1.apps,services.v1.,leaderworkersets.v1.leaderworkerset.x-k8s.io"}},
		"spec":     map[string]any{"holderIdentity": "host pid 1", "acquireTime": at(time.Hour), "renewTime": at(121 * time.Second)},
	})
	s.put(leased+"plimsoll-alive", "Lease", of("alive"), map[string]any{"spec": map[string]any{"acquireTime": at(time.Minute), "renewTime": at(50 * time.Second)}})
	s.put(leased+"other", "Lease", map[string]any{labelOwner: "plimsoll"}, nil)
	for _, run := range []string{"dead", "alive", "orphan"} {
		s.put(apps+"deployments/"+run, "Deployment", of(run), nil)
		s.put(apps+"replicasets/"+run, "ReplicaSet", of(run), nil)
		s.put(core+"services/"+run, "Service", of(run), nil)
		s.put(core+"pods/"+run, "Pod", of(run), nil)
	}
	s.put(core+"pods/strange", "Pod", map[string]any{"app": "x"}, nil)
	return s
}

func TestFind(t *testing.T) {
	now := time.Now()
	runs, err := Find(t.Context(), lost(t, now).config(), "ns")
	if err != nil || len(runs) != 3 {
		t.Fatalf("%+v, %v", runs, err)
	}
	for i, want := range []struct {
		id    string
		lives bool
		about string
	}{{"orphan", false, ""}, {"dead", false, "m"}, {"alive", true, ""}} {
		r := runs[i]
		if r.ID != want.id || r.Lives(now) != want.lives || r.About != want.about || r.Pods != 1 {
			t.Errorf("%d is %+v, want %+v", i, r, want)
		}
	}
}

// Everything of the run goes, with or without its Lease, and nothing else.
func TestCleanup(t *testing.T) {
	for id, lease := range map[string]bool{"dead": true, "orphan": false} {
		now := time.Now()
		s := lost(t, now)
		before := s.paths()
		runs, err := Find(t.Context(), s.config(), "ns")
		if err != nil {
			t.Fatal(err)
		}
		run := runs[slices.IndexFunc(runs, func(f Found) bool { return f.ID == id })]
		deleted, err := Cleanup(t.Context(), s.config(), "ns", run)
		want := []string{"deployment/" + id, "service/" + id, "replicaset/" + id, "pod/" + id}
		if lease {
			want = append(want, "lease/plimsoll-"+id)
		}
		if err != nil || !slices.Equal(deleted, want) {
			t.Errorf("%s: deleted %v, want %v, %v", id, deleted, want, err)
		}
		left := slices.DeleteFunc(before, func(path string) bool { return strings.HasSuffix(path, "/"+id) || strings.HasSuffix(path, "-"+id) })
		if got := s.paths(); !slices.Equal(got, left) {
			t.Errorf("%s: there is %v, want %v", id, got, left)
		}
	}
}

// A run whose clock is another's, or whose renewals did not get through, is known by
// that it renews its Lease; one that is dead does not.
func TestListen(t *testing.T) {
	now := time.Now()
	s := lost(t, now)
	s.put(leased+"plimsoll-slow", "Lease", map[string]any{labelOwner: "plimsoll", labelRun: "slow"}, map[string]any{
		"spec": map[string]any{"renewTime": now.Add(-20 * time.Minute).UTC().Format(metav1.RFC3339Micro)},
	})
	found, err := Find(t.Context(), s.config(), "ns")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		if want := f.ID == "slow" || f.ID == "dead"; f.Doubtful(now) != want {
			t.Errorf("%+v", f)
		}
	}
	s.put(leased+"plimsoll-slow", "Lease", map[string]any{labelOwner: "plimsoll", labelRun: "slow"}, map[string]any{
		"spec": map[string]any{"renewTime": now.Add(-20*time.Minute + renewEvery).UTC().Format(metav1.RFC3339Micro)},
	})
	again, err := Listen(t.Context(), s.config(), "ns", found, time.Millisecond)
	if err != nil || len(again) != 4 {
		t.Fatalf("%+v, %v", again, err)
	}
	for _, f := range again {
		if want := f.ID == "slow" || f.ID == "alive"; f.Lives(now) != want || f.Doubtful(now) == want && f.ID != "orphan" {
			t.Errorf("%+v", f)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Listen(ended, s.config(), "ns", found, time.Hour); err == nil {
		t.Error("it waits on")
	}
}

func TestKinds(t *testing.T) {
	kinds, err := full().kinds()
	if err != nil || len(kinds) != 3 || !slices.Equal(parseKinds(kindsText(kinds)), kinds) {
		t.Errorf("%v, %v", kinds, err)
	}
	if got := parseKinds("x,,deployments.v1.apps,a.b"); len(got) != 1 || got[0] != kinds[0] {
		t.Errorf("%v", got)
	}
}

func TestResults(t *testing.T) {
	s := newAPIServer(t)
	write := func(name string, files map[string][]byte) error {
		return WriteResults(t.Context(), s.config(), "ns", name, files)
	}
	if err := write("mine", map[string][]byte{"a.json": []byte("1"), "b.json": []byte("2")}); err != nil {
		t.Fatal(err)
	}
	if err := write("mine", map[string][]byte{"a.json": []byte("3")}); err != nil {
		t.Fatal(err)
	}
	data, _ := s.objects[core+"configmaps/mine"]["data"].(map[string]any)
	if len(data) != 1 || data["a.json"] != "3" {
		t.Errorf("%v: want the later run's alone", data)
	}
	s.put(core+"configmaps/other", "ConfigMap", map[string]any{"app": "x"}, map[string]any{"data": map[string]any{"k": "v"}})
	for want, err := range map[string]error{
		"is somebody else's":                write("other", map[string][]byte{"a": nil}),
		"a is no text":                      write("new", map[string][]byte{"a": {0xff}}),
		"have 1048577 bytes":                write("new", map[string][]byte{"a": make([]byte, MostResults)}),
		"profile-sla manifest --results-pv": write("new", map[string][]byte{"a": make([]byte, MostResults)}),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	if other, _ := s.objects[core+"configmaps/other"]["data"].(map[string]any); other["k"] != "v" {
		t.Errorf("another's is %v", other)
	}
}
