//go:build full && linux

package load

import (
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"plimsoll/profile"
)

// nagling accepts connections on which small writes wait for acknowledgements, as those
// of Dynamo's frontend do (1.6.1).
type nagling struct{ net.Listener }

func (l nagling) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		err = c.(*net.TCPConn).SetNoDelay(false)
	}
	return c, err
}

// A server that sends its header first and waits for acknowledgements is measured as it
// is, and what other clients see is said.
func TestAcknowledgementsHoldNothingBack(t *testing.T) {
	const prefill = 19 * time.Millisecond
	for _, slow := range []bool{true, false} {
		f := &fake{handle: func(w http.ResponseWriter, _ *http.Request, q query) bool {
			if q.Stream {
				begin(w)
				time.Sleep(prefill)
			}
			return false
		}}
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
		if median := ttfts[len(ttfts)/2]; median < prefill || median > prefill+5*time.Millisecond {
			t.Errorf("waits for acknowledgements: %v; TTFT %v, want %v", slow, median, prefill)
		}
	}
}
