//go:build full && linux

package load

import (
	"net"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"plimsoll/profile"
)

// nagling accepts connections without TCP_NODELAY, as Dynamo's frontend does (1.6.1).
type nagling struct{ net.Listener }

func (l nagling) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		err = c.(*net.TCPConn).SetNoDelay(false)
	}
	return c, err
}

// A server that holds the first token back until its header is acknowledged is measured
// without that delay, and a warning says what other clients see.
func TestAcknowledgementsHoldNothingBack(t *testing.T) {
	for _, slow := range []bool{true, false} {
		f := &fake{} // flushes its header before the first event
		s := httptest.NewUnstartedServer(f)
		if slow {
			s.Listener = nagling{s.Listener}
		}
		s.Start()
		t.Cleanup(s.Close)
		c := client(t, Options{BaseURL: s.URL})
		p, err := c.Probe(t.Context())
		if err != nil || hasWarning(p.Warnings, "delayed_ack") != slow {
			t.Errorf("waits for acknowledgements: %v; %+v, %v", slow, p.Warnings, err)
		}
		rs, _, err := c.Measure(t.Context(), profile.Workload{ISL: 64, OSL: 4, Requests: 20, InFlight: 1})
		if err != nil {
			t.Fatal(err)
		}
		var ttfts []time.Duration
		for _, r := range rs {
			ttfts = append(ttfts, r.TTFT())
		}
		slices.Sort(ttfts)
		if median := ttfts[len(ttfts)/2]; median > 5*time.Millisecond { // a delayed acknowledgement takes 40
			t.Errorf("waits for acknowledgements: %v; TTFT %v", slow, median)
		}
	}
}
