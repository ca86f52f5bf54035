package main

import (
	"fmt"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/urfave/cli/v2"
	"golang.org/x/term"

	"plimsoll/engine"
)

// progressLine is a line on stderr that says what is under way; none where nobody
// watches.
func progressLine(c *cli.Context) (say func(what string), done func()) {
	f, ok := terminalOf(c)
	if !ok || c.Bool("quiet") {
		return func(string) {}, func() {}
	}
	bar := progressbar.NewOptions(-1, progressbar.OptionSetWriter(f), progressbar.OptionClearOnFinish(),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionSetElapsedTime(false))
	say = func(what string) {
		if c.Err() != nil {
			return // the command may be abandoned, and its line cleared
		}
		bar.Describe(what)
		ignoreTerminal(bar.Add(1))
	}
	return say, func() { ignoreTerminal(bar.Finish()) }
}

// terminalOf is the terminal behind stderr, if there is one.
func terminalOf(c *cli.Context) (*os.File, bool) {
	f, ok := fileOf(c.App.ErrWriter)
	return f, ok && term.IsTerminal(int(f.Fd())) //nolint:gosec // a file descriptor is small
}

// simulationProgress says how far a simulation is. Where it ends is often not
// known: a trace is read as it goes.
func simulationProgress(c *cli.Context) (seen func(requests int, at time.Duration), done func()) {
	say, done := progressLine(c)
	return func(requests int, at time.Duration) {
		say(fmt.Sprintf("%s, %v of virtual time", engine.Count(requests, "request"), at.Round(time.Second)))
	}, done
}
