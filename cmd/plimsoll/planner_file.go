package main

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/urfave/cli/v2"

	"plimsoll/engine/field"
)

// plannerFile is a planner's configuration: settings for all deployments, and
// one mapping more for each where there are several.
type plannerFile struct {
	path        string
	common      yaml.MapSlice
	deployments []yaml.MapSlice
}

// readPlannerFile reads flat keys, keys with a list under deployments, or the
// Planner block of a Dynamo graph's file, whose other blocks are of other
// services.
func readPlannerFile(path string) (plannerFile, error) {
	f := plannerFile{path: path}
	if path == "" {
		return f, nil
	}
	var doc yaml.MapSlice
	if err := readYAML("config", path, &doc); err != nil {
		return f, err
	}
	for _, item := range doc {
		if item.Key == "Planner" {
			block, ok := item.Value.(yaml.MapSlice)
			if !ok {
				return f, field.Errorf("--config %s: Planner: want a mapping", path)
			}
			f.common = dynamoKeys(block)
			return f, nil
		}
	}
	for _, item := range doc {
		if item.Key != "deployments" {
			f.common = append(f.common, item)
			continue
		}
		list, ok := item.Value.([]any)
		if !ok || len(list) == 0 {
			return f, field.Errorf("--config %s: deployments: want a list of mappings", path)
		}
		for i, x := range list {
			m, ok := x.(yaml.MapSlice)
			if !ok {
				return f, field.Errorf("--config %s: deployments[%d]: want a mapping whose keys are flags", path, i)
			}
			f.deployments = append(f.deployments, m)
		}
	}
	return f, nil
}

// dynamoKeys are the keys of Dynamo's planner under our names. Those of the
// service that runs it, not of the planner, are left out.
func dynamoKeys(block yaml.MapSlice) yaml.MapSlice {
	other := map[string]string{ // its names since 2026-03, and ours
		"ttft-ms": "ttft", "itl-ms": "itl", "throughput-adjustment-interval-seconds": "adjustment-interval",
		"load-predictor-kalman-q-level": "kalman-q-level", "load-predictor-kalman-q-trend": "kalman-q-trend", "load-predictor-kalman-r": "kalman-r",
	}
	var out yaml.MapSlice
	for _, item := range block {
		key := strings.ReplaceAll(fmt.Sprint(item.Key), "_", "-")
		if key == "ServiceArgs" {
			continue
		}
		if ours, ok := other[key]; ok {
			key = ours
		}
		out = append(out, yaml.MapItem{Key: key, Value: item.Value})
	}
	return out
}

// ofProcess are the flags that a whole process has once.
func ofProcess() []string {
	return []string{"listen", "allow-host", "event-log", "log-dir"}
}

// plannerContexts are the flags of each deployment: the command line wins over
// the deployment's own keys, these over the file's, these over the defaults.
func plannerContexts(c *cli.Context) ([]*cli.Context, error) {
	f, err := readPlannerFile(c.String("config"))
	if err != nil {
		return nil, err
	}
	return f.contexts(c)
}

// contexts are plannerContexts of a file that is read.
func (f plannerFile) contexts(c *cli.Context) ([]*cli.Context, error) {
	several := len(f.deployments) > 0
	if !several {
		f.deployments = []yaml.MapSlice{nil}
	}
	var out []*cli.Context
	for i, own := range f.deployments {
		one, err := copyFlags(c)
		if err != nil {
			return nil, err
		}
		for _, item := range own {
			if slices.Contains(ofProcess(), fmt.Sprint(item.Key)) {
				return nil, field.Errorf("--config %s: deployments[%d]: %v is for the whole planner: want it beside deployments", f.path, i, item.Key)
			}
		}
		where := "--config " + f.path
		if err := setFlags(one, own, fmt.Sprintf("%s: deployments[%d]", where, i)); err != nil {
			return nil, err
		}
		common := f.common
		if several { // the budget beside deployments is that of all of them
			common = slices.DeleteFunc(slices.Clone(common), func(x yaml.MapItem) bool { return x.Key == "max-gpu-budget" })
		}
		if err := setFlags(one, common, where); err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	return out, nil
}

// sharedBudget is max-gpu-budget beside several deployments, or of the command line.
func (f plannerFile) sharedBudget(c *cli.Context) (gpus int, given bool, err error) {
	one, err := copyFlags(c)
	if err != nil {
		return 0, false, err
	}
	if err := setFlags(one, f.common, "--config "+f.path); err != nil {
		return 0, false, err
	}
	p := &parser{c: one}
	gpus = p.integer("max-gpu-budget", -1, maxGPUs, 0)
	return gpus, one.IsSet("max-gpu-budget"), p.err
}

// copyFlags is a context of its own with the command line's flags.
func copyFlags(c *cli.Context) (*cli.Context, error) {
	one, err := flagsOf(c.Command, c.App, c)
	if err != nil {
		return nil, err
	}
	return one, setTyped(one, c, c.LocalFlagNames())
}

// setTyped gives a context the values that flags of these names have in another.
func setTyped(to, from *cli.Context, names []string) error {
	for _, name := range names {
		for _, v := range typed(from, name) {
			if err := to.Set(name, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// flagsOf is a context of a command none of whose flags is set.
func flagsOf(command *cli.Command, app *cli.App, parent *cli.Context) (*cli.Context, error) {
	set := flag.NewFlagSet(command.Name, flag.ContinueOnError)
	set.SetOutput(io.Discard)
	for _, f := range command.Flags {
		if err := f.Apply(set); err != nil {
			return nil, err
		}
	}
	one := cli.NewContext(app, set, parent)
	one.Command = command
	return one, nil
}
