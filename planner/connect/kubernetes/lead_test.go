package kubernetes

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// leases is as much of an API server as an election needs: one Lease, whose
// writers must know its last version.
type leases struct {
	mu       sync.Mutex
	stored   string
	refuse   bool
	ill      bool
	released chan struct{}
}

func (l *leases) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "application/json")
	switch {
	case l.refuse:
		status(w, 403, "Forbidden", `leases is forbidden: User "u" cannot get resource "leases" in API group "coordination.k8s.io"`)
	case l.ill:
		status(w, 500, "InternalError", "etcd is away")
	case r.Method == http.MethodGet && l.stored == "":
		notFound(w, "lease")
	case r.Method == http.MethodGet:
		_, _ = io.WriteString(w, l.stored)
	default:
		l.stored = string(body)
		if strings.Contains(l.stored, `"holderIdentity":""`) && l.released != nil {
			close(l.released)
			l.released = nil
		}
		_, _ = w.Write(body)
	}
}

func electionOn(t *testing.T, l *leases) *rest.Config {
	t.Helper()
	s := httptest.NewServer(l)
	t.Cleanup(s.Close)
	return &rest.Config{Host: s.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}
}

// The Lease is given back after the work has returned, and not before.
func TestLeadGivesTheLeaseBackAfterTheWork(t *testing.T) {
	released := make(chan struct{})
	config := electionOn(t, &leases{released: released})
	ctx, cancel := context.WithCancel(t.Context())
	err := Election{Namespace: "ns", Name: "planner", Duration: time.Second}.Lead(ctx, config, func(working context.Context) error {
		cancel()
		<-working.Done()
		select {
		case <-released:
			t.Error("given back while it works")
		case <-time.After(200 * time.Millisecond):
		}
		return working.Err()
	})
	if err != nil {
		t.Error(err)
	}
	select {
	case <-released:
	default:
		t.Error("not given back")
	}
}

func TestLeadEndsWithItsWork(t *testing.T) {
	broken := errors.New("broken")
	for _, want := range []error{nil, broken} {
		err := Election{Namespace: "ns", Name: "planner"}.Lead(t.Context(), electionOn(t, &leases{}), func(context.Context) error { return want })
		if !errors.Is(err, want) {
			t.Errorf("error is %v, want %v", err, want)
		}
	}
}

func TestLeadWithoutRights(t *testing.T) {
	err := Election{Namespace: "ns", Name: "planner"}.Lead(t.Context(), electionOn(t, &leases{refuse: true}), func(context.Context) error {
		t.Error("works")
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), `{apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs: ["get"]}`) {
		t.Errorf("error is %v", err)
	}
}
