package capacity

import (
	"testing"
	"time"

	"plimsoll/profile/trace"
)

// The longest request is that of the trace, or of what is drawn.
func TestLongest(t *testing.T) {
	var arrivals []trace.Arrival
	for i := range leastRecorded {
		arrivals = append(arrivals, trace.Arrival{At: time.Duration(i) * time.Second, ISL: 100 + i, OSL: 10})
	}
	stats, err := trace.Summarize(trace.Of(arrivals...), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := RecordedTraffic(arrivals, stats)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := recorded.Longest(1); err != nil || got != 100+leastRecorded-1+10 {
		t.Errorf("of a trace %d, %v", got, err)
	}
	w := Workload{Rate: 10, ISL: 1000, ISLP99: 4000, OSL: 100, OSLP99: 100, PeakToAverage: 1, Pattern: trace.Flat}
	drawn, err := w.PeakTraffic()
	if err != nil {
		t.Fatal(err)
	}
	got, err := drawn.Longest(1)
	if err != nil || float64(got) < w.ISLP99+w.OSL {
		t.Errorf("drawn %d, %v", got, err)
	}
	requests, err := drawn.requests(1, DefaultTrialRequests)
	if err != nil {
		t.Fatal(err)
	}
	for r := range requests {
		if r.ISL+r.OSL > got {
			t.Fatalf("a trial has a request of %d + %d tokens, the longest is %d", r.ISL, r.OSL, got)
		}
	}
}
