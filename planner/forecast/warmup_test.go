package forecast

import (
	"math"
	"os"
	"testing"
	"time"

	"plimsoll/profile/trace"
)

// A trace's quiet intervals are 0 requests of unknown length, in the middle too.
// Upstream left them out, which made traffic look denser than it was
// (ai-dynamo/dynamo#10670).
func TestDynamo10670QuietIntervalsAreZero(t *testing.T) {
	at := func(s float64, isl, osl int) trace.Arrival {
		return trace.Arrival{At: time.Duration(s * float64(time.Second)), ISL: isl, OSL: osl}
	}
	got, err := Intervals(trace.Of(at(0, 100, 10), at(9.9, 300, 30), at(30, 50, 5), at(41, 1, 1)), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	none := math.NaN()
	want := []Interval{{2, 200, 20}, {0, none, none}, {0, none, none}, {1, 50, 5}}
	if len(got) != len(want) {
		t.Fatalf("%v, want %v", got, want)
	}
	for i, w := range want {
		g := got[i]
		if g.Requests != w.Requests || !same(g.ISL, w.ISL) || !same(g.OSL, w.OSL) {
			t.Errorf("interval %d: %v, want %v", i, g, w)
		}
	}
}

// same is equality where NaN equals NaN.
func same(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }

func TestIntervalsOfRealRequestsAreThoseOfTheFile(t *testing.T) {
	const name = "../../profile/trace/testdata/azure-2023.csv"
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // only read
	opened, err := trace.Open(f, name, trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := Intervals(opened.Arrivals(), 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	// azure-conv.csv was cut from the whole file, of which this one is the head.
	rates := column(t, "azure-conv.csv", "rate_rps")
	isl := column(t, "azure-conv.csv", "isl")
	if len(got) < 2 {
		t.Fatalf("%d intervals", len(got))
	}
	for i, g := range got {
		near(t, "requests", g.Requests/30, rates[i], 0, 1e-4)
		near(t, "ISL", g.ISL, isl[i], 0, 1e-4)
	}
}

func TestIntervalsOutOfRangeAreRefused(t *testing.T) {
	late := trace.Of(trace.Arrival{At: time.Hour, ISL: 1, OSL: 1})
	for _, length := range []time.Duration{-1, 0, time.Millisecond} {
		if _, err := Intervals(late, length); err == nil {
			t.Errorf("intervals of %v of an hour are taken", length)
		}
	}
	if got, err := Intervals(trace.Of(), time.Second); err != nil || len(got) != 0 {
		t.Errorf("an empty trace has intervals %v, %v", got, err)
	}
}
