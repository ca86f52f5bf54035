package main

import (
	"bytes"
	"fmt"

	"plimsoll/profile"
	"plimsoll/profile/load"
	"plimsoll/profile/store"
)

// clientReport is the client's part of run.json; nil in virtual time.
func clientReport(points []profile.Point) *store.Client {
	out := store.NewClient(points)
	if out != nil {
		out.Rule = load.Rule(out.Kernel)
	}
	return out
}

// clientLine is the client's verdict on the terminal.
func clientLine(b *bytes.Buffer, c *store.Client) {
	if c == nil {
		return
	}
	fmt.Fprintf(b, "Measuring: %s; ", c.Verdict)
	if c.Kernel {
		fmt.Fprintf(b, "lag p99 at most %.2f ms (excluded from latencies); ", profile.Milliseconds(c.LagP99))
	}
	fmt.Fprintf(b, "at most %.0f %% of its cores\n  %s\n", 100*c.CPU, c.Rule)
}
