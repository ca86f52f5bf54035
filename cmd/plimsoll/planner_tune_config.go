package main

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"github.com/goccy/go-yaml"
	"github.com/urfave/cli/v2"
)

// config is what is to be run as a file of planner serve and planner replay: every
// flag of the planner's that was set, and the parameters. Where they came from is in
// comments.
func (t tuning) config(f tuneFile) ([]byte, error) {
	doc := yaml.MapSlice{item("policy", f.Policy)}
	tuned := map[string]string{}
	if f.Recommended {
		tuned = t.options.changed(t.found.Best.Setting)
	}
	c := t.options.replay.context
	for _, name := range configKeys(c.Command.Flags, t.options.parameters) {
		if v, ok := tuned[name]; ok {
			doc = append(doc, item(name, yamlValue(v)))
		} else if c.IsSet(name) || name == "max-gpu-budget" { // whose default is another one in planner serve
			doc = append(doc, item(name, yamlValue(c.Value(name))))
		}
	}
	body, err := yaml.MarshalWithOptions(doc, yaml.IndentSequence(true))
	if err != nil {
		return nil, fmt.Errorf("writing YAML: %w", err)
	}
	var b bytes.Buffer
	for _, line := range t.provenance(f) {
		fmt.Fprintf(&b, "# %s\n", line)
	}
	b.Write(body)
	return b.Bytes(), nil
}

// configKeys are the flags that a planner's file may have, in their order, and those
// that were searched.
func configKeys(all []cli.Flag, searched []tunable) []string {
	var keys []string
	for _, f := range plannerFlags() {
		if name := f.Names()[0]; !slices.Contains(notInFile(), name) && name != "policy" {
			keys = append(keys, name)
		}
	}
	for _, p := range searched {
		if !slices.Contains(keys, p.flag) {
			keys = append(keys, p.flag)
		}
	}
	known := func(name string) bool {
		return slices.ContainsFunc(all, func(f cli.Flag) bool { return f.Names()[0] == name })
	}
	return slices.DeleteFunc(keys, func(name string) bool { return !known(name) })
}

// yamlValue is a flag's value as YAML has it: numbers without quotes.
func yamlValue(v any) any {
	s, ok := v.(string)
	if !ok {
		if list, ok := v.(cli.StringSlice); ok {
			return list.Value()
		}
		return v
	}
	if n, err := strconv.Atoi(s); err == nil && strconv.Itoa(n) == s {
		return n
	}
	if x, err := strconv.ParseFloat(s, 64); err == nil && strconv.FormatFloat(x, 'g', -1, 64) == s {
		return x
	}
	return s
}

// provenance says where the settings come from and what they are worth.
func (t tuning) provenance(f tuneFile) []string {
	figures := func(x tuneFiguresFile) string {
		return fmt.Sprintf("attained %s at %s GPU-hours", x.Both.share(), x.GPUHours.figure())
	}
	lines := []string{
		fmt.Sprintf("plimsoll planner tune, %s: settings of the policy %s; figures are %s, in virtual time", f.Version, f.Policy, f.Provenance),
		"fit: " + t.fit.facts.text(1), "report: " + t.report.facts.text(1),
	}
	if f.Recommended {
		lines = append(lines, "recommended: "+f.Why)
	} else {
		lines = append(lines, "the settings that were given, since no others are recommended: "+f.Why)
	}
	for i, part := range []tunePartFile{f.Fit, *f.Report} {
		name := []string{"fit", "report"}[i]
		lines = append(lines, fmt.Sprintf("%s: default settings %s", name, figures(part.Default)))
		if t.changed() {
			lines = append(lines, fmt.Sprintf("%s: tuned settings %s", name, figures(part.Tuned)))
		}
	}
	for _, w := range f.Warnings {
		lines = append(lines, "warning: "+w.Message)
	}
	if t.options.replay.fleet.Profile == "" {
		lines = append(lines, "the engines were the latency model's: planner serve wants a --profile of its own")
	}
	if !policyOf(f.Policy).serves {
		lines = append(lines, fmt.Sprintf("planner serve does not run %s; planner replay does", f.Policy))
	}
	return append(lines, "again: "+f.Command)
}
