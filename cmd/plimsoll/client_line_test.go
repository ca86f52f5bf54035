package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"plimsoll/profile"
)

// The verdict on the client says by what rule it is given: beside a long lag nobody
// could tell otherwise why it is ok.
func TestClientLineSaysItsRule(t *testing.T) {
	for _, kernel := range []bool{true, false} {
		p := profile.Point{ID: "a", Client: &profile.Client{Kernel: kernel, CPU: 0.07}}
		if kernel {
			p.Client.Lag = profile.Distribution{N: 100, P99: 49 * time.Millisecond}
		}
		b := &bytes.Buffer{}
		clientLine(b, clientReport([]profile.Point{p}))
		has, not := []string{"Measuring: client ok; lag p99 at most 49.00 ms (excluded from latencies); at most 7 % of its cores\n", "\n  latencies use kernel receive times", "5 % of chunks", "80 %"}, []string{"read times"}
		if !kernel {
			has, not = []string{"Measuring: client ok; at most 7 % of its cores\n", "\n  latencies use the client's read times", "1ms"}, []string{"lag p99", "kernel"}
		}
		for _, s := range has {
			if !strings.Contains(b.String(), s) {
				t.Errorf("kernel stamps %v: no %q in\n%s", kernel, s, b)
			}
		}
		for _, s := range not {
			if strings.Contains(b.String(), s) {
				t.Errorf("kernel stamps %v: %q in\n%s", kernel, s, b)
			}
		}
	}
}
