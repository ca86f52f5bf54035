//go:build full

package load

import (
	"strings"
	"testing"
	"time"

	"plimsoll/profile"
)

// Fault 1: event-loop lag. A client that gets no processor time says so, and
// what the kernel knows it does not get wrong.
func TestFault01EventLoopLag(t *testing.T) {
	f := &fake{pace: 2 * time.Millisecond}
	c := client(t, Options{BaseURL: f.start(t).URL})
	w := closed(8, 8)
	w.OSL = 60
	stop := starve(t)
	watch := StartWatch()
	_, self, err := c.Measure(t.Context(), w)
	stop()
	if err != nil {
		t.Fatal(err)
	}
	if self.OK() {
		t.Errorf("a client without processor time is ok: %+v", self)
	}
	// Where the kernel tells nothing, the waits of goroutines do.
	blind := watch.effort()
	if why := bottleneck(profile.Client{}, blind, steady(8, 150, 2*time.Millisecond, nil)); !strings.Contains(why, "waited") {
		t.Errorf("goroutines waited %v: %q", blind.waited, why)
	}
}
