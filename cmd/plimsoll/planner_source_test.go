package main

import (
	"strings"
	"testing"

	"plimsoll/engine"
	"plimsoll/planner"
	"plimsoll/planner/observe"
)

// A pool that may be switched off is refused where its own engines alone say what
// comes: it would never wake.
func TestPoolsThatNeverWakeAreRefused(t *testing.T) {
	frontend, worker := observe.Endpoint{URL: "http://f/metrics"}, observe.Endpoint{Role: engine.RoleDecode, URL: "http://w/metrics"}
	for _, c := range []struct {
		least   int
		given   []observe.Endpoint
		refused bool
		policy  string
	}{
		{0, nil, true, "default"},
		{0, []observe.Endpoint{worker}, true, "default"},
		{0, []observe.Endpoint{worker, frontend}, false, "default"},
		{0, []observe.Endpoint{worker, frontend}, true, "load"}, // which looks at engines alone
		{1, []observe.Endpoint{worker}, false, "load"},
	} {
		s := plannerSettings{policy: c.policy}
		s.deployment.Pools = []planner.Pool{{Role: engine.RolePrefill, Min: 1}, {Role: engine.RoleDecode, Min: c.least}}
		err := s.wakes(c.given)
		if (err != nil) != c.refused || err != nil && !strings.Contains(err.Error(), "--min-endpoint 0") {
			t.Errorf("at least %d, %v: %v", c.least, c.given, err)
		}
	}
}
