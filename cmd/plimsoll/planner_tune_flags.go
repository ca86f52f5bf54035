package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"plimsoll/engine/field"
	"plimsoll/planner/replay"
	"plimsoll/planner/tune"
)

// tuneFlags are those of planner replay but for what it does beside replaying, and
// those of the search.
func tuneFlags() []cli.Flag {
	own := append(stringFlags("tune", [][3]string{
		{"fit-on", "", "choose settings on this part of the load, `FROM..TO` (default: its first half, or what comes before --report-on)"},
		{"report-on", "", "and say on this part what they are worth, `FROM..TO` (default: its second half, or what comes after --fit-on)"},
		{"tune", "", "`NAMES` of the policy's parameters that are searched, separated by commas, each with =LOW..HIGH or =word|word where another range is to be searched (default: those that the policy's table says)"},
		{"attainment", fmt.Sprint(replay.DefaultTarget), "`share` of the requests that is to meet both promises"},
		{"budget", "200", "replays of the fit part at most, `N`, one for each setting and seed"},
	}), &cli.StringFlag{Name: "output", Usage: "also write the settings as a configuration `FILE` of planner serve and planner replay; a file that is there is overwritten, but not the one of --config", Category: "output"})
	left := []string{"oracle", "oracle-simulations", "output-dir", "from", "to", "repeat"}
	for _, f := range replayFlags() {
		name := f.Names()[0]
		if slices.Contains(left, name) || name == "force" {
			continue
		}
		if s, ok := f.(*cli.StringFlag); ok {
			switch name {
			case "policy":
				s.Value, s.Usage = "default", "`POLICY` to tune: "+strings.Join(tunedPolicies(), ", ")
			case "seeds":
				s.Value, s.Usage = "5", "`N` runs of each setting with seeds from --seed on, the same for all; a budget buys fewer settings with more of them"
			}
		}
		own = append(own, f)
	}
	return own
}

// tuneOptions are what is tuned, as the flags say it.
type tuneOptions struct {
	replay      replayOptions
	fit, report *span // nil: not said
	parameters  []tunable
	target      float64
	budget      int
	output      string
}

func parseTune(c *cli.Context, arguments []string) (tuneOptions, error) {
	p := &parser{c: c}
	o := tuneOptions{
		fit: p.span("fit-on"), report: p.span("report-on"), target: p.number("attainment", 0.01, 1), output: p.output(),
	}
	name := p.choice("policy", tunedPolicies()...)
	if p.err != nil {
		return o, p.err
	}
	var err error
	if o.replay, err = parseReplayed(p, arguments, []chosenPolicy{{name: name, policy: name}}); err != nil {
		return o, err
	}
	if n := o.replay.seeds; n < 2 {
		return o, field.Errorf("--seeds %d: settings are compared by the interval of their differences, which one run does not give: want 2 or more", n)
	}
	o.budget = p.integer("budget", 2*o.replay.seeds, 100_000, 0)
	if p.err != nil {
		return o, p.err
	}
	if o.parameters, err = parseTunables(c.String("tune"), tunables(name)); err != nil {
		return o, err
	}
	for i, t := range o.parameters {
		o.parameters[i] = t.with(o.replay)
		for _, end := range []float64{t.low, t.high} {
			if _, err := o.variant(map[string]string{t.flag: t.text(end)}); err != nil && t.kind != tunedWord {
				return o, field.Errorf("--tune %s: %v", t.flag, err)
			}
		}
	}
	return o, nil
}

// output reads where the settings go: not over those that were given.
func (p *parser) output() string {
	file := p.inFolder("output", p.name("output"))
	at, err := os.Stat(file)
	if err != nil {
		return file // it is new
	}
	if given, err := os.Stat(p.name("config")); err == nil && os.SameFile(at, given) {
		p.fail(field.Errorf("--output %s: it is the file of --config", file).Hint("name another file: the new settings are compared with those in this one"))
	}
	return file
}

// span reads a part of the load; nil where there is nothing.
func (p *parser) span(name string) *span {
	s := p.name(name)
	if s == "" {
		return nil
	}
	w, err := parseSpan(s)
	if err != nil {
		p.fail(field.Errorf("--%s %q: %v", name, s, err))
	}
	return &w
}

// variant are the options with some flags set otherwise.
func (o tuneOptions) variant(flags map[string]string) (replayOptions, error) {
	out := o.replay
	one, err := copyFlags(o.replay.context)
	if err != nil {
		return out, err
	}
	for name, value := range flags {
		if err := one.Set(name, value); err != nil {
			return out, err
		}
	}
	was := o.replay.policies[0]
	p := &parser{c: one}
	out.parseOthers(p)
	if p.err != nil {
		return out, p.err
	}
	s, err := plannerSettings{policy: was.policy, surfaces: was.settings.surfaces}.parse(p)
	out.policies = []replayPolicy{{was.chosenPolicy, s}}
	return out, err
}

// changed are a setting's flags that differ from the default ones.
func (o tuneOptions) changed(s tune.Setting) map[string]string {
	out := map[string]string{}
	for i, t := range o.parameters {
		if s[i] != t.parameter(o.replay).Default {
			out[t.flag] = t.text(s[i])
		}
	}
	return out
}

// space is what is searched.
func (o tuneOptions) space() tune.Options {
	out := tune.Options{Seeds: o.replay.seeds, Budget: o.budget, Target: o.target, Seed: o.replay.seed}
	for _, t := range o.parameters {
		out.Parameters = append(out.Parameters, t.parameter(o.replay))
	}
	return out
}
