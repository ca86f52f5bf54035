package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"plimsoll/engine"
	"plimsoll/engine/argv"
	"plimsoll/engine/field"
)

// extraKey is where the app keeps the arguments for the engine's own program,
// which urfave/cli would hand over among the left-over ones.
const extraKey = "arguments after --"

// splitArguments takes the words after -- off profile-sla's and its manifest's,
// which alone start engines that take some.
func splitArguments(args []string) (own, extra []string) {
	if len(args) < 3 || args[1] != profileName || !strings.HasPrefix(args[2], "-") && args[2] != "manifest" { // or a command of its own
		return args, nil
	}
	if i := slices.Index(args, "--"); i >= 0 {
		return args[:i], args[i+1:]
	}
	return args, nil
}

// extraArguments are the arguments for the engine's own program.
func extraArguments(c *cli.Context) []string {
	extra, _ := c.App.Metadata[extraKey].([]string)
	return extra
}

// refuseExtra says who takes arguments after --, and refuses those that would say
// something else than what is measured.
func (d deployment) refuseExtra(extra []string) error {
	if e, real := realEngineOf(d.kind); real {
		if flag := argv.Owned(extra, e.owned(d)...); flag != "" {
			return field.Errorf("%s after --: the profile already sets this for %s. Leave it out", flag, e.program).
				Hint("set layouts with --parallelism, or give the whole command line with --command TEMPLATE")
		}
		return nil
	}
	var names []string
	for _, e := range realEngines() {
		names = append(names, string(e.kind))
	}
	e := field.Errorf("%q after -- has no effect with %s: it goes with --engine %s", extra[0], kindWord(d.kind), strings.Join(names, "|"))
	switch {
	case d.kind == engine.KindCommand:
		return e.Hint("write it in the command itself")
	case len(d.notes) > 0:
		return e.Hint("the engine is the embedded one: %s", strings.Join(d.notes, "; "))
	}
	return e
}
