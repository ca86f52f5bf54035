package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"plimsoll/engine"
	"plimsoll/engine/argv"
	"plimsoll/engine/field"
	"plimsoll/profile"
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

// take reads the arguments of the engine's own program, a graph's and those after --:
// what a plan knows goes into the options, the rest to the engine.
func (o *profileOptions) take(d *deployment) error {
	e, real := realEngineOf(d.kind)
	if !real || len(o.extra) == 0 {
		return nil
	}
	asked := engine.Config{Limits: o.limits, KV: o.kv, MemoryFraction: o.memory}
	asked.Limits.MaxModelLen = o.maxContext
	s, err := e.arguments(*d).Read(o.extra, asked)
	switch {
	case err != nil:
		return err
	case len(s.Owned) > 0:
		e := field.Errorf("%s after --: the profile already sets this for %s. Leave it out", s.Owned[0].Name, e.program)
		if of := s.Owned[0].Of; of != argv.Profile {
			e = e.Hint("%s sets it", of)
		}
		return e.Hint("--command TEMPLATE gives the whole command line")
	case len(s.Against) > 0:
		a := s.Against[0]
		return field.Errorf("%s after --: the profile's %s says otherwise. Leave one of them out", strings.Join(o.redacted(a.Words()), " "), a.Of)
	}
	c := s.Config
	o.limits, o.kv, o.memory, o.quantized, o.extra = c.Limits, c.KV, c.MemoryFraction, c.Weights, s.Rest
	o.limits.MaxModelLen, o.maxContext = 0, c.Limits.MaxModelLen
	o.unknown = s.Unknown
	return nil
}

// unplanned warns of arguments that may change memory or speed, and that no plan knows;
// how weights are stored is known where the model is published so.
func (d deployment) unplanned(o profileOptions) []profile.Warning {
	var names []string
	for _, a := range o.unknown {
		if a.Of != field.Weights || d.weights.Weights == engine.BF16 {
			names = append(names, strings.Join(o.redacted(a.Words()), " "))
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []profile.Warning{profile.Warnf("engine_arguments", "the plan does not know what these engine arguments change in memory and speed: %s", strings.Join(names, ", "))}
}

// refuseExtra says who takes arguments after --.
func (d deployment) refuseExtra(extra []string) error {
	if isReal(string(d.kind)) {
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
