package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/urfave/cli/v2"

	"plimsoll/engine/dynamo"
	"plimsoll/engine/field"
	"plimsoll/profile"
)

// applyProfileConfig reads --config: flags by their names, or a file of Dynamo's, from
// which it takes the engine that is to be profiled.
func applyProfileConfig(c *cli.Context) (dynamo.Worker, error) {
	var none dynamo.Worker
	path := c.String("config")
	if path == "" {
		return none, nil
	}
	var doc yaml.MapSlice
	if err := readYAML("config", path, &doc); err != nil {
		return none, err
	}
	flags := flagNames(c)
	isComponent := func(i yaml.MapItem) bool {
		_, mapping := i.Value.(yaml.MapSlice)
		return mapping && !slices.Contains(flags, fmt.Sprint(i.Key))
	}
	first := slices.IndexFunc(doc, isComponent)
	if first < 0 {
		return none, setFlags(c, doc, "--config "+path)
	}
	text, err := readConfigText("config", path)
	if err != nil {
		return none, err
	}
	w, err := dynamo.Read(text)
	mixed := slices.ContainsFunc(doc, func(i yaml.MapItem) bool { return slices.Contains(flags, fmt.Sprint(i.Key)) })
	switch {
	case errors.Is(err, dynamo.ErrOther), mixed:
		return none, field.Errorf("--config %s: it is neither flags by their names, since %v holds a mapping, nor a file of Dynamo's", path, doc[first].Key).
			Hint("a graph has components such as Frontend and VllmWorker; a manifest is a DynamoGraphDeployment")
	case err != nil:
		return none, field.Errorf("--config %s: %v", path, err)
	}
	return w, setWorker(c, w, path)
}

// setWorker sets what a file of Dynamo's says, and no flag does.
func setWorker(c *cli.Context, w dynamo.Worker, path string) error {
	if e := c.String("engine"); e != "auto" && e != string(w.Kind) {
		return field.Errorf("--engine %s: --config %s is of %s", e, path, w.Kind).Hint("leave --engine out")
	}
	if err := c.Set("engine", string(w.Kind)); err != nil {
		return err
	}
	var words []string
	e, _ := realEngineOf(w.Kind)
	for _, a := range e.arguments(deployment{}).Arguments(w.Args) {
		if flag, says := strings.CutPrefix(a.Of, "--"); !says || a.Of == field.Weights || !c.IsSet(flag) {
			words = append(words, a.Words()...)
		}
	}
	c.App.Metadata[extraKey] = append(words, extraArguments(c)...)
	return setFlags(c, yaml.MapSlice{{Key: "model", Value: w.Model}}, "--config "+path)
}

// dynamoWarnings say what of a deployment is measured otherwise than it is deployed.
func dynamoWarnings(o profileOptions) []profile.Warning {
	var ws []profile.Warning
	w, shown := o.dynamo, func(words []string) string { return strings.Join(o.redacted(words), " ") }
	if len(w.Prefill) > 0 {
		ws = append(ws, profile.Warnf("dynamo_prefill", "the prefill worker's arguments (%s) differ from the decode worker's (%s). Both phases are measured with the latter", shown(w.Prefill), shown(w.Args)))
	}
	if len(w.LeftOut) > 0 {
		ws = append(ws, profile.Warnf("dynamo_left_out", "these worker arguments are left out, as Dynamo or the profile sets them, or they are of a file: %s", shown(w.LeftOut)))
	}
	return ws
}

// upstreamFlags are flags of the profilers of NVIDIA Dynamo (profile_sla.py, v0.2.1
// to v0.9, read in November 2026) that have other names here, and what to say.
func upstreamFlags() map[string]string {
	return map[string]string{
		"backend":                 "set --engine to vllm, sglang or trtllm, or give a Dynamo file with --config FILE",
		"use-ai-configurator":     "--engine estimate computes the profile without a GPU",
		"aic-system":              "--gpu NAME, with --engine estimate",
		"aic-hf-id":               "--model NAME, with --engine estimate",
		"aic-backend":             "--fit vllm, sglang or trtllm, with --engine estimate",
		"aic-backend-version":     "--fit ENGINE-VERSION, such as vllm-0.19, with --engine estimate",
		"min-num-gpus-per-engine": "--tp 1,2,4 names the sizes to try",
		"max-num-gpus-per-engine": "--tp 1,2,4 names the sizes to try",
		"num-gpus-per-node":       "--gpu-count N",
		"deployment-timeout":      "--ready-timeout 30m",
		"profile-config":          "--config FILE",
		"skip-existing-results":   "--resume goes on with the run in --output-dir",
		"force-rerun":             "--force moves the run in --output-dir aside",
	}
}
