package kube

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"plimsoll/engine"
	"plimsoll/engine/enginetest"
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

// A Lease whose answer was lost is the run's; nobody's else is taken or deleted.
func TestLeaseUnheardOf(t *testing.T) {
	asked := func(at string) map[string]any {
		return map[string]any{"spec": map[string]any{"holderIdentity": "host pid 1", "acquireTime": at}}
	}
	cause := errors.New("the connection was lost")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx         context.Context
		there       string // when the Lease of that name was acquired; empty: there is none
		taken, left bool
	}{
		"made":                       {t.Context(), "2026-01-01T00:00:00.000000Z", true, true},
		"made, and Ctrl-C":           {ended, "2026-01-01T00:00:00.000000Z", false, false},
		"somebody else's":            {t.Context(), "2025-01-01T00:00:00.000000Z", false, true},
		"somebody else's, at an end": {ended, "2025-01-01T00:00:00.000000Z", false, true},
		"not made":                   {t.Context(), "", false, false},
	} {
		s := newAPIServer(t)
		a, err := connect(s.config(), "ns")
		if err != nil {
			t.Fatal(err)
		}
		r := &Run{api: a, id: "abc"}
		if c.there != "" {
			s.put(leased+r.leaseName(), "Lease", map[string]any{labelRun: r.id}, asked(c.there))
		}
		made, err := r.unheard(c.ctx, &unstructured.Unstructured{Object: asked("2026-01-01T00:00:00.000000Z")}, cause)
		if (made != nil) != c.taken || (err == nil) != c.taken || err != nil && !errors.Is(err, cause) {
			t.Errorf("%s: %v, %v", name, made, err)
		}
		if left := len(s.paths()) > 0; left != c.left {
			t.Errorf("%s: there is %v", name, s.paths())
		}
	}
}

// Without its Lease a run makes nothing more: it would be deleted at once.
func TestLeaseDeleted(t *testing.T) {
	s := newAPIServer(t)
	r, err := Begin(t.Context(), s.config(), "ns", "m", Options{Image: "i"})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.remove(t.Context(), leases(), r.leaseName()); err != nil {
		t.Fatal(err)
	}
	r.renewed.Go(func() { r.renew(t.Context(), time.Millisecond) })
	enginetest.Eventually(t, "the run ends", func() bool { return r.lasts() != nil })
	_, err = r.Start(t.Context(), Launch{Kind: engine.KindVLLM, GPUs: 1, Spec: engine.Spec{Name: "decode tp1", Argv: []string{"e"}, Port: 8000}})
	if err == nil || !strings.Contains(err.Error(), r.leaseName()+" was deleted by somebody") {
		t.Errorf("got %v", err)
	}
	if got := s.paths(); len(got) > 0 {
		t.Errorf("it made %v", got)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// Who gives up does not wait for an API server that is away, nor does the end of a
// run wait for each kind of object.
func TestAPIServerAway(t *testing.T) {
	s := newAPIServer(t)
	a, err := connect(s.config(), "ns")
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	for name, f := range map[string]func(ctx context.Context) error{
		"watch": func(ctx context.Context) error { _, err := a.watchPods(ctx, "a=b"); return err },
		"sweep": func(ctx context.Context) error {
			_, err := a.sweep(ctx, "a=b", withMade([]schema.GroupVersionResource{deployments()}))
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		began := time.Now()
		if err := f(ctx); err == nil || time.Since(began) > time.Minute {
			t.Errorf("%s: %v after %v", name, err, time.Since(began))
		}
		cancel()
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
