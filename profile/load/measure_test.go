package load

import (
	"testing"
	"time"

	"plimsoll/profile"
)

func client(t testing.TB, o Options) *Client {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func closed(n, inFlight int) profile.Workload {
	return profile.Workload{
		ISL: 32, OSL: 8, Requests: n, InFlight: inFlight, Arrival: profile.ClosedLoop,
		Seed: 1, Timeout: 20 * time.Second,
	}
}

func measure(t testing.TB, c *Client, w profile.Workload) []profile.Request {
	t.Helper()
	rs, err := c.Measure(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	return rs
}

func TestMeasureClosedLoop(t *testing.T) {
	f := &fake{pace: time.Millisecond}
	c := client(t, Options{BaseURL: f.start(t).URL})
	rs := measure(t, c, closed(10, 3))
	for i, r := range rs {
		if !r.OK() {
			t.Fatalf("request %d: %s: %s", i, r.Failure, r.Error)
		}
		t.Log(r)
	}
}
