package kube

import (
	"strings"
	"testing"

	"plimsoll/engine"
)

// All that is missing is said at once, and nothing is made.
func TestBeginWithoutRights(t *testing.T) {
	s := newAPIServer(t)
	s.denied = []string{"delete pods", "create deployments", "get pods/log"}
	_, err := Begin(t.Context(), s.config(), "ns", "m", Options{Image: "i"})
	for _, want := range []string{
		`{apiGroups: [""], resources: ["pods"], verbs: ["delete"]}`,
		`{apiGroups: ["apps"], resources: ["deployments"], verbs: ["create"]}`,
		`{apiGroups: [""], resources: ["pods/log"], verbs: ["get"]}; plimsoll profile-sla manifest prints a Role that has it`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	if got := s.paths(); len(got) > 0 {
		t.Errorf("it made %v", got)
	}
}

func TestBeginAndClose(t *testing.T) {
	s := newAPIServer(t)
	r, err := Begin(t.Context(), s.config(), "ns", "profile of m", Options{Image: "i"})
	if err != nil {
		t.Fatal(err)
	}
	lease := s.objects[leased+"plimsoll-"+r.ID()]
	if lease == nil || !strings.Contains(lease["metadata"].(map[string]any)["annotations"].(map[string]any)[annotationAbout].(string), "profile of m") {
		t.Errorf("the Lease is %v", lease)
	}
	if err := r.renewOnce(t.Context()); err != nil {
		t.Error(err)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if got := s.paths(); len(got) > 0 {
		t.Errorf("there is left %v", got)
	}
}

// A stranger's object of the name that was chosen is left alone, and another name
// is taken; what was made under the first one goes.
func TestNamesThatAreTaken(t *testing.T) {
	s := newAPIServer(t)
	r, err := Begin(t.Context(), s.config(), "ns", "m", Options{Image: "i"})
	if err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= createTries; n++ {
		s.put(core+"services/"+nameOf(r.ID(), n, "decode tp1"), "Service", map[string]any{"app": "x"}, nil)
	}
	_, err = r.Start(t.Context(), Launch{Kind: engine.KindVLLM, GPUs: 1, Spec: engine.Spec{Name: "decode tp1", Argv: []string{"e"}, Port: 8000}})
	if err == nil || !strings.Contains(err.Error(), "already exists") {
		t.Errorf("got %v", err)
	}
	for _, path := range s.paths() {
		if !strings.HasPrefix(path, core+"services/") && !strings.HasPrefix(path, leased) {
			t.Errorf("there is left %s", path)
		}
	}
	if got := s.paths(); len(got) != createTries+1 {
		t.Errorf("there is %v", got)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestLaunchesWithoutACommand(t *testing.T) {
	r := &Run{}
	for _, s := range []engine.Spec{{Argv: []string{"e"}}, {Port: 8000}, {Argv: []string{"e"}, Port: 70000}} {
		if _, err := r.Start(t.Context(), Launch{Spec: s}); err == nil {
			t.Errorf("%+v started", s)
		}
	}
}
