package kube

import (
	"strings"
	"testing"

	"plimsoll/planner"
	"plimsoll/planner/connect/kubernetes"
)

// While the API server is away nothing is said of the replicas, in particular
// not that there are none; what is asked for during its start arrives.
func TestAPIServerRestarts(t *testing.T) {
	t.Parallel()
	c := withGraph(t, "v1alpha1")
	o := kubernetes.Options{Namespace: namespace, Deployment: "llama"}
	on := target(t, granted(t, c, o), o)
	scaled(t, on, planner.Replicas{Prefill: 1, Decode: 1}, "first")
	c.KillAPIServer()
	s, err := on.State(t.Context())
	if err == nil || !strings.Contains(err.Error(), "the API server was not reached") || len(s.Pools) > 0 {
		t.Errorf("without an API server: %+v, %v", s, err)
	}
	asked := make(chan error, 1)
	go func() {
		for {
			err := on.Scale(t.Context(), planner.Replicas{Prefill: 4, Decode: 2}, "second")
			if err == nil || t.Context().Err() != nil {
				asked <- err
				return
			}
		}
	}()
	c.RestartAPIServer()
	if err := <-asked; err != nil {
		t.Fatal(err)
	}
	wants(t, on, planner.Replicas{Prefill: 4, Decode: 2})
}
