package capacity

import (
	"testing"
	"time"

	"plimsoll/profile/trace"
)

// A trace that begins calmly was judged by its beginning, and then nothing held.
func TestDefectTraceWasJudgedByItsBeginning(t *testing.T) {
	var arrivals []trace.Arrival
	at := time.Duration(0)
	for i := range 12_000 {
		gap := time.Second
		if i >= 3000 {
			gap /= 10
		}
		at += gap
		arrivals = append(arrivals, trace.Arrival{At: at, ISL: 256, OSL: 128})
	}
	stats, err := trace.Summarize(trace.Of(arrivals...))
	if err != nil {
		t.Fatal(err)
	}
	traffic, err := RecordedTraffic(arrivals, stats)
	if err != nil {
		t.Fatal(err)
	}
	s := scene{"llama-3.1-8b", "h100-sxm", 1, 0, 1, 256, 256, 128, 128, time.Second, 50 * ms, 0}
	got, err := Variants{s.layout(t)}.Highest(1, 0, traffic, s.slo(), SizeOptions{Seed: 1})
	if err != nil || got.Infeasible != nil || got.Rate < 24 {
		t.Errorf("%g requests/s, %v, %v: one engine holds 24.7", got.Rate, got.Infeasible, err)
	}
}
