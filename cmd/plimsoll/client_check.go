package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
	"plimsoll/profile/load"
	"plimsoll/profile/store"
	"plimsoll/sweep"
)

// clientCheck is what is known of the measuring client before the run.
type clientCheck struct {
	calibration *profile.Calibration
	governor    string
}

// How the client is calibrated before a run: each of two patterns for so long,
// with as many streams as the run may have, but no more than an engine runs.
const (
	calibrateFor       = time.Second
	calibrateEmbedded  = time.Second / 4 // the embedded engine's runs are quick ones
	calibrateStreams   = 256             // where nothing says how many there will be
	calibrateAtMost    = 2048
	calibrationFailure = "calibration_failed"
)

// checkClient calibrates the client and looks at the machine; in virtual time
// there is no client.
func checkClient(ctx context.Context, d deployment, so sweep.Options, ui *console) clientCheck {
	var c clientCheck
	if d.kind == engine.KindEstimate {
		return c
	}
	c.governor = load.Governor(os.DirFS("/sys"))
	ui.warn(load.GovernorWarnings(c.governor))
	long := calibrateFor
	if d.kind == engine.KindSim {
		long = calibrateEmbedded
	}
	got, err := load.Calibrate(ctx, mostStreams(so), long)
	if err != nil {
		if ctx.Err() == nil {
			ui.warn([]profile.Warning{profile.Warnf(calibrationFailure, "%v", err)})
		}
		return c
	}
	c.calibration = &got
	ui.verbosef("the client by itself %s", calibrated(got))
	return c
}

// mostStreams is as many as a run may have at once.
func mostStreams(so sweep.Options) int {
	most := so.MaxInFlight
	if most == 0 {
		for _, c := range so.Candidates {
			most = max(most, c.Limits.MaxNumSeqs)
		}
	}
	return min(cmp.Or(most, calibrateStreams), calibrateAtMost)
}

// report is the client's part of run.json; nil in virtual time.
func (c clientCheck) report(points []profile.Point) *store.Client {
	out := store.NewClient(points)
	if out != nil {
		out.Calibration, out.Governor = c.calibration, c.governor
		out.Rule = load.Rule(out.Kernel)
	}
	return out
}

// calibrated is a calibration in one phrase.
func calibrated(c profile.Calibration) string {
	return fmt.Sprintf("adds up to %.3f ms to an ITL (p99, %s)", profile.Milliseconds(c.AddedITL()), engine.Count(c.Streams, "stream"))
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
	fmt.Fprintf(b, "at most %.0f %% of its cores", 100*c.CPU)
	if c.Calibration != nil {
		fmt.Fprintf(b, "; by itself it %s", calibrated(*c.Calibration))
	}
	fmt.Fprintf(b, "\n  by this rule: %s\n", c.Rule)
}
