package cluster_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"plimsoll/engine/kube/cluster"
)

func pods() schema.GroupVersionResource {
	return schema.GroupVersionResource{Version: "v1", Resource: "pods"}
}

func TestExplain(t *testing.T) {
	deployments := schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	for name, c := range map[string]struct {
		r    cluster.Request
		err  error
		want string
	}{
		"a missing rule": {
			cluster.Request{Verb: "create", Resource: deployments, Namespace: "ns", Name: "a", Manifest: "plimsoll x"},
			apierrors.NewForbidden(deployments.GroupResource(), "a", errors.New(`User "u" cannot create resource "deployments"`)),
			`the Role lacks a rule: {apiGroups: ["apps"], resources: ["deployments"], verbs: ["create"]}; plimsoll x prints a Role that has it)`,
		},
		"a quota": {
			cluster.Request{Verb: "create", Resource: pods(), Namespace: "ns"},
			apierrors.NewForbidden(pods().GroupResource(), "a", errors.New("exceeded quota: gpus, requested: requests.nvidia.com/gpu=2")),
			"kubectl describe resourcequota --namespace ns",
		},
		"an admission policy": {
			cluster.Request{Verb: "create", Resource: pods(), Namespace: "ns"},
			apierrors.NewForbidden(pods().GroupResource(), "a", errors.New("violates PodSecurity")), "an admission policy refused it, not a Role",
		},
	} {
		if got := c.r.Explain(c.err); got == nil || !strings.Contains(got.Error(), c.want) || !errors.Is(got, c.err) {
			t.Errorf("%s: got %v, want %q in it", name, got, c.want)
		}
	}
	if err := (cluster.Request{}).Explain(nil); err != nil {
		t.Error(err)
	}
}

func TestDo(t *testing.T) {
	gone := errors.New("connection refused")
	for name, c := range map[string]struct {
		fails int // so often
		with  error
		tries int
		ok    bool
	}{
		"at once":                        {0, nil, 1, true},
		"an API server that restarts":    {6, gone, 7, true},
		"one that stays away":            {1000, gone, 9, false}, // 0.1 + 0.2 + … + 3.2 + 5 + 5 s of pauses
		"a busy one":                     {2, apierrors.NewTooManyRequests("later", 1), 3, true},
		"a conflict":                     {2, apierrors.NewConflict(pods().GroupResource(), "a", gone), 3, true},
		"what is there stays there":      {1000, apierrors.NewAlreadyExists(pods().GroupResource(), "a"), 1, false},
		"what is refused stays refused":  {1000, apierrors.NewForbidden(pods().GroupResource(), "a", gone), 1, false},
		"an object that is wrong in any": {1000, apierrors.NewBadRequest("no"), 1, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			tries := 0
			err := cluster.Request{Verb: "get", Resource: pods()}.Do(t.Context(), 20*time.Second, func(context.Context) error {
				if tries++; tries <= c.fails {
					return c.with
				}
				return nil
			})
			if tries != c.tries || (err == nil) != c.ok {
				t.Errorf("%s: %d tries, %v; want %d", name, tries, err, c.tries)
			}
		})
	}
}

func TestDoEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		err := cluster.Request{Verb: "get", Resource: pods()}.Do(ctx, time.Hour, func(context.Context) error { return errors.New("no") })
		if took := time.Since(began); err == nil || took > time.Second {
			t.Errorf("%v after %v", err, took)
		}
	})
}
