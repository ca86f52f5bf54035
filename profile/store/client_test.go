package store

import (
	"testing"

	"plimsoll/profile"
)

func TestNewClient(t *testing.T) {
	if got := NewClient([]profile.Point{{ID: "virtual"}}); got != nil {
		t.Errorf("of virtual time: %+v", got)
	}
	points := []profile.Point{
		{ID: "a", Client: &profile.Client{Lag: profile.Distribution{P99: 3}, CPU: 0.5, StartSkew: 7}},
		{ID: "b", Client: &profile.Client{Lag: profile.Distribution{P99: 5}, CPU: 0.1, GCPause: 2}},
	}
	c := NewClient(points)
	if c.Verdict != ClientOK || c.LagP99 != 5 || c.CPU != 0.5 || c.GCPause != 2 || c.StartSkew != 7 || len(c.Points) != 0 {
		t.Errorf("%+v", c)
	}
	points[0].Client.Why = "late"
	if c = NewClient(points); c.Verdict != "client was the bottleneck at a" || len(c.Points) != 1 {
		t.Errorf("%+v", c)
	}
}

// Whether the lag is in the latencies is known of the run, also where a point had no
// chunk to tell it by.
func TestNewClientKnowsTheStamps(t *testing.T) {
	silent, stamped := profile.Point{ID: "a", Client: &profile.Client{}}, profile.Point{ID: "b", Client: &profile.Client{Kernel: true}}
	if !NewClient([]profile.Point{silent, stamped}).Kernel || NewClient([]profile.Point{silent}).Kernel {
		t.Error("kernel stamps of a run are not those of its points")
	}
}
