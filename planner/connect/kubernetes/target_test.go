package kubernetes

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/planner"
)

func TestStateCountsPodsOfObjects(t *testing.T) {
	s := newAPIServer(t, twoDeployments())
	got, err := newTarget(t, s, nil).State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := planner.State{
		Pools: []planner.PoolState{
			{Role: engine.RolePrefill, Name: "prefill", Want: 2, Ready: 1, Starting: 1, Pending: 1, GPUs: 4},
			{Role: engine.RoleDecode, Name: "decode", Want: 2, Ready: 1, Starting: 1, Pending: 1, GPUs: 4},
		},
		Scaling: "prefill: 1 without a place (4 Insufficient nvidia.com/gpu); decode: 1 without a place (4 Insufficient nvidia.com/gpu)",
		Trouble: "prefill: 1 without a place (4 Insufficient nvidia.com/gpu); decode: 1 without a place (4 Insufficient nvidia.com/gpu)",
		Model:   "m",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// The smaller number goes first, so that GPUs are free before they are asked for.
func TestScaleShrinksFirst(t *testing.T) {
	s := newAPIServer(t, twoDeployments())
	target := newTarget(t, s, nil)
	if err := target.Scale(t.Context(), planner.Replicas{Prefill: 4, Decode: 1}, "demand"); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"PATCH " + deployments + `decode/scale?fieldManager=plimsoll {"spec":{"replicas":1}}`,
		"PATCH " + deployments + `prefill/scale?fieldManager=plimsoll {"spec":{"replicas":4}}`,
	}
	if got := s.patches(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	events := s.requests(http.MethodPost)
	if len(events) != 2 || !strings.Contains(events[0], `"note":"decode decode from 2 to 1: demand"`) || !strings.Contains(events[0], `"name":"decode","namespace":"ns","uid":"u"`) {
		t.Errorf("events: %q", events)
	}
	if err := target.Scale(t.Context(), planner.Replicas{Prefill: 4, Decode: 1}, "demand"); err != nil || len(s.patches()) != 2 {
		t.Errorf("asked again for the same: %v, %q", err, s.patches())
	}
}

func TestScaleRefuses(t *testing.T) {
	s := newAPIServer(t, twoDeployments())
	target := newTarget(t, s, func(o *Options) { o.Least = planner.Replicas{Prefill: 1, Decode: 2} })
	for _, want := range []planner.Replicas{{Prefill: 2, Decode: 1}, {Prefill: 0, Decode: 2}, {Prefill: -1, Decode: 2}, {Prefill: 1, Decode: 2, Aggregated: 1}, {Aggregated: 3}} {
		if err := target.Scale(t.Context(), want, ""); err == nil {
			t.Errorf("%+v was not refused", want)
		}
	}
	if got := s.patches(); len(got) > 0 {
		t.Errorf("patches: %q", got)
	}
}

// What an outside party does wrong, and how often it is asked then.
func TestFaults(t *testing.T) {
	forbid := func(w http.ResponseWriter) {
		status(w, 403, "Forbidden", `deployments.apps "decode" is forbidden: User "u" cannot patch resource "deployments/scale" in API group "apps" in the namespace "ns"`)
	}
	for _, c := range []struct {
		name  string
		fault func(w http.ResponseWriter, n int) bool // of PATCH decode/scale, the n-th
		want  string                                  // in the error; empty: none
		tries int
	}{
		{"conflict, then well", func(w http.ResponseWriter, n int) bool {
			if n <= 2 {
				status(w, 409, "Conflict", "the object has been modified")
			}
			return n <= 2
		}, "", 3},
		{"always in conflict", func(w http.ResponseWriter, _ int) bool { status(w, 409, "Conflict", "modified"); return true }, "scaling decode decode from 2 to 3", 6},
		{"500, then well", func(w http.ResponseWriter, n int) bool {
			if n == 1 {
				status(w, 500, "InternalError", "etcd is away")
			}
			return n == 1
		}, "", 2},
		{"cut off answer, then well", func(w http.ResponseWriter, n int) bool {
			if n == 1 {
				_, _ = fmt.Fprint(w, `{"kind":"Scale","api`)
			}
			return n == 1
		}, "", 2},
		{"connection dropped, then well", func(_ http.ResponseWriter, n int) bool {
			if n == 1 {
				panic(http.ErrAbortHandler)
			}
			return false
		}, "", 2},
		{"no permission", func(w http.ResponseWriter, _ int) bool { forbid(w); return true }, `the Role lacks a rule: {apiGroups: ["apps"], resources: ["deployments/scale"], verbs: ["patch"]}`, 1},
		{"admission", func(w http.ResponseWriter, _ int) bool {
			status(w, 403, "Forbidden", "admission webhook says no: replicas are managed")
			return true
		}, "an admission policy refused it", 1},
		{"gone", func(w http.ResponseWriter, _ int) bool { notFound(w, "deployments decode"); return true }, "kubectl get deployments.apps --namespace ns", 1},
		{"not served", func(w http.ResponseWriter, _ int) bool {
			http.Error(w, "404 page not found", http.StatusNotFound)
			return true
		}, "has no scale subresource", 1},
		{"no token", func(w http.ResponseWriter, _ int) bool { status(w, 401, "Unauthorized", "Unauthorized"); return true }, "not valid any more", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newAPIServer(t, twoDeployments())
			tries := 0
			s.fault = func(w http.ResponseWriter, r *http.Request, _ int) bool {
				if r.Method != http.MethodPatch {
					return false
				}
				tries++
				return c.fault(w, tries)
			}
			err := newTarget(t, s, nil).Scale(t.Context(), planner.Replicas{Prefill: 2, Decode: 3}, "r")
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want %q", err, c.want)
			}
			if tries != c.tries {
				t.Errorf("%d tries, want %d", tries, c.tries)
			}
		})
	}
}

func TestASlowServerEndsWithTheContext(t *testing.T) {
	s := newAPIServer(t, twoDeployments())
	s.fault = func(_ http.ResponseWriter, r *http.Request, _ int) bool { <-r.Context().Done(); return true }
	target := newTarget(t, s, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := target.State(ctx); err == nil || !strings.Contains(err.Error(), "deadline") {
		t.Errorf("error is %v", err)
	}
}

// Scaling is done when its Event fails: the log hears of it.
func TestAnEventThatFailsKeepsNobodyFromScaling(t *testing.T) {
	s := newAPIServer(t, twoDeployments())
	s.fault = func(w http.ResponseWriter, r *http.Request, _ int) bool {
		if r.Method != http.MethodPost {
			return false
		}
		status(w, 403, "Forbidden", `events.events.k8s.io is forbidden: User "u" cannot create resource "events" in API group "events.k8s.io"`)
		return true
	}
	var log bytes.Buffer
	target := newTarget(t, s, func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	if err := target.Scale(t.Context(), planner.Replicas{Prefill: 2, Decode: 3}, strings.Repeat("ü", 2000)); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "events.k8s.io") || !strings.Contains(log.String(), "create") {
		t.Errorf("log: %s", log.String())
	}
}

func TestOptions(t *testing.T) {
	t.Setenv(ParentVariable, "")
	for name, o := range map[string]Options{
		"nothing named":       {},
		"prefill alone":       {Targets: map[engine.Role]string{engine.RolePrefill: "apps/v1/Deployment/p"}},
		"all three":           {Targets: map[engine.Role]string{engine.RolePrefill: "a", engine.RoleDecode: "b", engine.RoleAggregated: "c"}},
		"no name":             {Targets: map[engine.Role]string{engine.RoleAggregated: "apps/v1/Deployment"}},
		"a path in the name":  {Targets: map[engine.Role]string{engine.RoleAggregated: "apps/v1/Deployment/../x"}},
		"an escape":           {Targets: map[engine.Role]string{engine.RoleAggregated: "apps/v1/Deploy?x/n"}},
		"a service and not":   {Targets: map[engine.Role]string{engine.RolePrefill: "p", engine.RoleDecode: "apps/v1/Deployment/d"}},
		"one object for both": {Targets: map[engine.Role]string{engine.RolePrefill: "apps/v1/Deployment/d", engine.RoleDecode: "apps/v1/deployments/d"}},
		"services of nothing": {Targets: map[engine.Role]string{engine.RoleAggregated: "worker"}},
	} {
		if _, err := New(newAPIServer(t, nil).config(), o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	t.Setenv(ParentVariable, "mine")
	target, err := New(newAPIServer(t, nil).config(), Options{})
	if err != nil || target.o.Deployment != "mine" {
		t.Errorf("%v, %+v", err, target)
	}
}
