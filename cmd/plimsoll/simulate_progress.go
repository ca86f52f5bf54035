package main

import (
	"fmt"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/urfave/cli/v2"
	"golang.org/x/term"
)

// simulationProgress says on a terminal how far a simulation is. Where it ends
// is often not known: a trace is read as it goes.
func simulationProgress(c *cli.Context) (seen func(requests int, at time.Duration), done func()) {
	f, ok := c.App.ErrWriter.(*os.File)
	if !ok || c.Bool("quiet") || !term.IsTerminal(int(f.Fd())) { //nolint:gosec // a file descriptor is small
		return func(int, time.Duration) {}, func() {}
	}
	bar := progressbar.NewOptions(-1, progressbar.OptionSetWriter(f), progressbar.OptionClearOnFinish(),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionSetElapsedTime(false))
	seen = func(requests int, at time.Duration) {
		bar.Describe(fmt.Sprintf("%d requests, %v of virtual time", requests, at.Round(time.Second)))
		ignoreTerminal(bar.Add(1))
	}
	return seen, func() { ignoreTerminal(bar.Finish()) }
}
