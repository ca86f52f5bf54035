package kube

import (
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"plimsoll/engine/kube/cluster"
)

// A watch that is refused for good ends an engine; one that a fresh API server
// refuses does not.
func TestWatchesThatAreRefused(t *testing.T) {
	refusal := apierrors.NewForbidden(podResource().GroupResource(), "", errors.New(`cannot watch resource "pods"`))
	away := errors.New("connection refused")
	for name, c := range map[string]struct {
		permitted bool
		errs      []error // ten seconds apart
		fails     bool
	}{
		"never permitted": {false, []error{refusal}, true},
		"just started":    {true, []error{refusal, refusal}, false},
		"taken away":      {true, []error{refusal, refusal, refusal}, true},
		"started twice":   {true, []error{refusal, refusal, away, refusal, refusal}, false},
		"watched between": {true, []error{refusal, nil, refusal, refusal}, false},
		"away":            {true, []error{away, away, away, away}, false},
	} {
		w := &watcher{changed: make(chan struct{}, 1)}
		for i, err := range c.errs {
			if err == nil {
				w.accepted()
				continue
			}
			w.refused(err, time.Unix(int64(10*i), 0), cluster.Request{Verb: "watch", Resource: podResource(), Permitted: c.permitted})
		}
		if err := w.failure(); (err != nil) != c.fails || c.fails != (len(w.changed) > 0) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
