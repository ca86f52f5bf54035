package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"plimsoll/plots/pages"
	"plimsoll/profile"
	"plimsoll/profile/store"
)

// profileOrigin is where a profile comes from.
func profileOrigin(run store.Run, rec store.Recommendation) pages.Origin {
	engine := strings.TrimSpace(string(rec.Engine.Kind) + " " + rec.Engine.Version)
	if rec.Engine.Fit != "" {
		engine += ", fit " + rec.Engine.Fit
	}
	facts := []pages.Fact{
		{Name: "Model", Text: cmp.Or(rec.Model, "not known")},
		{Name: "GPU", Text: cmp.Or(rec.GPU, "not known")},
		{Name: "Engine", Text: engine},
		{Name: "Workload", Text: fmt.Sprintf("ISL %d, OSL %d tokens; %s", rec.Workload.ISL, rec.Workload.OSL, rec.Mode)},
		{Name: "SLA", Text: rec.SLA.SLA().String()},
		{Name: "Made", Text: fmt.Sprintf("%s to %s", run.Started.UTC().Format("2006-01-02 15:04"), run.Ended.UTC().Format("2006-01-02 15:04 UTC"))},
	}
	for _, x := range []struct {
		name string
		pick *store.Pick
	}{{"TTFT", rec.Prefill}, {"ITL", rec.Decode}, {"latency", rec.Aggregated}} {
		if x.pick != nil && x.pick.ModelError.Known() {
			facts = append(facts, pages.Fact{Name: "Model error of " + x.name, Text: x.pick.ModelError.Words()})
		}
	}
	command, lost := profileAgain(run.Inputs)
	if len(lost) > 0 {
		facts = append(facts, pages.Fact{Name: "Not in the command", Text: strings.Join(lost, ", ")})
	}
	o := pages.Origin{
		Title: "Profile of " + cmp.Or(rec.Model, "an engine"), Provenance: rec.Provenance, Virtual: rec.Provenance == profile.Estimated,
		Version: run.Version, Command: command, Facts: facts,
	}
	for _, w := range profile.ImplausibleFirst(rec.Warnings) {
		o.Warnings = append(o.Warnings, pages.Warning{Warning: w})
	}
	return o
}

// profileAgain is the command of a run, and the flags that its inputs do not keep as
// they were written.
func profileAgain(in store.Inputs) (command string, lost []string) {
	words := []string{"plimsoll", profileName}
	for _, f := range profileFlags() {
		name := "--" + f.Names()[0]
		v := in[name]
		switch f := f.(type) {
		case *cli.StringFlag:
			if v != "" && v != f.Value {
				words = append(words, name, v)
			}
		case *cli.BoolFlag:
			if v == "true" {
				words = append(words, name)
			}
		}
	}
	command = commandLine(words)
	if extra := in["engine arguments"]; extra != "" {
		// They are kept as one text, whose words are known where none is quoted.
		fields := strings.Fields(extra)
		if quoted := commandLine(append([]string{""}, fields...)); quoted != "plimsoll "+extra {
			return command, []string{"engine arguments " + extra}
		}
		command += " -- " + extra
	}
	return command, nil
}
