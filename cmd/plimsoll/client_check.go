package main

import (
	"bytes"
	"fmt"
	"os"

	"plimsoll/engine"
	"plimsoll/profile"
	"plimsoll/profile/load"
	"plimsoll/profile/store"
)

// clientCheck is what is known of the measuring client before the run.
type clientCheck struct{ governor string }

// checkClient looks at the machine; in virtual time there is no client.
func checkClient(d deployment, ui *console) clientCheck {
	var c clientCheck
	if d.kind == engine.KindEstimate {
		return c
	}
	c.governor = load.Governor(os.DirFS("/sys"))
	ui.warn(load.GovernorWarnings(c.governor))
	return c
}

// report is the client's part of run.json; nil in virtual time.
func (c clientCheck) report(points []profile.Point) *store.Client {
	out := store.NewClient(points)
	if out != nil {
		out.Governor = c.governor
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
		fmt.Fprintf(b, "lag p99 at most %.2f ms, which is in no latency; ", profile.Milliseconds(c.LagP99))
	}
	fmt.Fprintf(b, "at most %.0f %% of its cores\n  by this rule: %s\n", 100*c.CPU, c.Rule)
}
