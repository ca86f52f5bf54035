package capacity

import (
	"slices"
	"testing"
	"time"

	"plimsoll/profile/trace"
)

func dayOf(t *testing.T, w Workload, block int) []trace.Arrival {
	t.Helper()
	day, err := w.DayTrace(1, block)
	if err != nil {
		t.Fatal(err)
	}
	var out []trace.Arrival
	for a, err := range day {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, a)
	}
	return out
}

// A day has the pattern's rate in every hour, within the noise of Poisson.
func TestDay(t *testing.T) {
	w := Workload{Rate: 2.1, ISL: 100, ISLP99: 400, OSL: 10, OSLP99: 10, Pattern: "business_hours", PeakToAverage: 2.1, PeakWindow: time.Hour}
	var hours [24]float64
	for _, a := range dayOf(t, w, 0) {
		hours[int(a.At.Hours())]++
		if a.OSL != 10 {
			t.Fatalf("OSL %d", a.OSL)
		}
	}
	for h, rate := range w.Day() {
		if want := rate * 3600; hours[h] < want*0.8 || hours[h] > want*1.2 {
			t.Errorf("hour %d: %v requests, want about %v", h, hours[h], want)
		}
	}
	if _, err := (Workload{}).DayTrace(1, 0); err == nil {
		t.Error("a workload of nothing has a day")
	}
}

// What the requests of a day share comes with them, in the engine's blocks, and
// changes neither when they come nor how long they are.
func TestDayShares(t *testing.T) {
	w := Workload{Rate: 0.05, ISL: 256, ISLP99: 1024, OSL: 10, OSLP99: 10, Pattern: trace.Flat, PeakToAverage: 1, Prefixes: trace.Prefixes{Groups: 2, Tokens: 128, Share: 1}}
	plain, shared := dayOf(t, w, 0), dayOf(t, w, 32)
	if len(plain) != len(shared) || len(shared) < 1000 {
		t.Fatalf("%d and %d requests", len(plain), len(shared))
	}
	var heads []uint64
	for i, a := range shared {
		if len(a.Blocks) != a.ISL/32 || plain[i].Blocks != nil || a.At != plain[i].At || a.ISL != plain[i].ISL {
			t.Fatalf("request %d: %d tokens in %d blocks, without blocks %+v", i, a.ISL, len(a.Blocks), plain[i])
		}
		if len(a.Blocks) > 3 && !slices.Contains(heads, a.Blocks[3]) {
			heads = append(heads, a.Blocks[3])
		}
	}
	if len(heads) != 2 {
		t.Errorf("%d beginnings of 128 tokens, want those of 2 groups", len(heads))
	}
}
