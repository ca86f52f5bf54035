//go:build full

package kubernetes

import (
	"context"
	"strings"
	"testing"
	"time"
)

// A leader that cannot renew stops, and leads again; what it still finishes is
// finished before, with the Lease not given back.
func TestLostLead(t *testing.T) {
	l := &leases{}
	ill := func(is bool) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.ill = is
	}
	works, calls := false, 0
	err := Election{Namespace: "ns", Name: "planner", Identity: "me", Duration: time.Second}.Lead(t.Context(), electionOn(t, l), func(working context.Context) error {
		if works {
			t.Error("two work")
		}
		if calls++; calls == 2 {
			return nil
		}
		works = true
		ill(true)
		<-working.Done()
		ill(false)
		time.Sleep(300 * time.Millisecond) // what it still finishes
		l.mu.Lock()
		defer l.mu.Unlock()
		if !strings.Contains(l.stored, `"holderIdentity":"me"`) {
			t.Errorf("given back while it works: %s", l.stored)
		}
		works = false
		return working.Err()
	})
	if err != nil || calls != 2 {
		t.Errorf("%d calls, error is %v", calls, err)
	}
}
