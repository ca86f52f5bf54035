package main

import (
	"bytes"
	"fmt"
	"strings"

	"plimsoll/engine"
	"plimsoll/sweep"
)

// plannedCommand is how an engine of a plan would be started.
type plannedCommand struct {
	Engine string   `json:"engine"`  // as its log is called
	Argv   []string `json:"command"` // without credentials
}

// plannedPort stands for the free one that an engine is given when it starts.
const plannedPort = 8000

// commands are the command lines of all engines that the plan may start, where a
// program is started: one each for the layouts, two where prefill needs its own
// or surfaces another than rates.
func (d deployment) commands(o profileOptions, so sweep.Options) ([]plannedCommand, error) {
	if !d.onGPUs() {
		return nil, nil
	}
	var out []plannedCommand
	for _, c := range so.Candidates {
		for _, cfg := range sweep.EnginesOf(so, c) {
			name := o.launchName(cfg)
			spec, err := d.server.Spec(cfg, engine.Launch{Port: plannedPort, LogPath: o.engineLog(name)})
			if err != nil {
				return nil, fmt.Errorf("making the command line of %s: %w", name, err)
			}
			out = append(out, plannedCommand{Engine: name, Argv: o.redacted(spec.Argv)})
		}
	}
	return out, nil
}

// commandLines prints them.
func commandLines(b *bytes.Buffer, commands []plannedCommand) {
	if len(commands) == 0 {
		return
	}
	fmt.Fprintf(b, "Commands, each with a free port for %d:\n", plannedPort)
	for _, c := range commands {
		fmt.Fprintf(b, "  %s: %s\n", c.Engine, strings.Join(c.Argv, " "))
	}
}
