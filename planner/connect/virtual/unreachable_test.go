package virtual

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"plimsoll/planner"
)

// deaf is an address that takes connections and never answers.
func deaf(t *testing.T) Options {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return Options{Endpoints: []string{"http://" + l.Addr().String()}, Namespace: "dynamo", Timeout: 50 * time.Millisecond}
}

// closed is an address where nobody listens.
func closed(t *testing.T) Options {
	t.Helper()
	o := deaf(t)
	o.Endpoints = []string{"http://127.0.0.1:1"}
	return o
}

func TestUnreachable(t *testing.T) {
	for name, options := range map[string]func(*testing.T) Options{"deaf": deaf, "closed": closed} {
		t.Run(name, func(t *testing.T) {
			p, err := NewPlanner(PlannerOptions{Options: options(t)})
			if err != nil {
				t.Fatal(err) // etcd may come later
			}
			defer func() { _ = p.Close() }()
			if _, err := p.State(t.Context()); !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "reading v1/dynamo/planner/ from etcd: etcd does not answer at http") {
				t.Errorf("State: %v", err)
			}
			if err := p.Scale(t.Context(), planner.Replicas{Prefill: 1, Decode: 1}, "test"); !errors.Is(err, ErrUnreachable) {
				t.Errorf("Scale: %v", err)
			}
		})
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	c, err := NewClient(closed(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = c.Wait(ctx, Status.Pending)
	if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrUnreachable) {
		t.Errorf("Wait: %v, want the deadline and why nothing was seen", err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	notPEM := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(notPEM, []byte("no"), 0o600); err != nil {
		t.Fatal(err)
	}
	const some = "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"
	for _, test := range []struct {
		name   string
		change func(*PlannerOptions)
		want   string
	}{
		{"namespace", func(o *PlannerOptions) { o.Namespace = "a/b" }, `namespace "a/b": want a word`},
		{"no endpoints", func(o *PlannerOptions) { o.Endpoints = nil }, "no endpoints"},
		{"negative wait", func(o *PlannerOptions) { o.MaxWait = -time.Second }, "want 0 or more"},
		{"no such authority", func(o *PlannerOptions) { o.CA = notPEM + "x" }, "no such file"},
		{"authority that is none", func(o *PlannerOptions) { o.CA = notPEM }, "no PEM certificates"},
		{"authority in the environment", func(o *PlannerOptions) { o.CA = some }, "no PEM certificates"},
		{"certificate without key", func(o *PlannerOptions) { o.Cert = some }, "want both"},
		{"key without certificate", func(o *PlannerOptions) { o.Key = some }, "want both"},
		{"certificate that is none", func(o *PlannerOptions) { o.Cert, o.Key = some, some }, "client certificate"},
	} {
		t.Run(test.name, func(t *testing.T) {
			o := PlannerOptions{Options: Options{Endpoints: []string{"http://127.0.0.1:1"}, Namespace: "dynamo"}}
			test.change(&o)
			if _, err := NewPlanner(o); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want %q in it", err, test.want)
			}
		})
	}
}
