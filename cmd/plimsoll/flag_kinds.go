package main

import (
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"plimsoll/engine"
	"plimsoll/engine/field"
)

// flagKinds are the kinds of engine that each flag of profile-sla has an effect
// on; a flag that is not listed has one on all.
func flagKinds() map[string][]engine.Kind {
	const estimate, sim, command, endpoint = engine.KindEstimate, engine.KindSim, engine.KindCommand, engine.KindEndpoint
	var named []engine.Kind
	for _, e := range realEngines() {
		named = append(named, e.kind)
	}
	modelled, processes := []engine.Kind{estimate, sim}, append(named, command)
	launched, foreign := append([]engine.Kind{sim}, processes...), append(slices.Clone(processes), endpoint)
	started := append([]engine.Kind{estimate}, launched...)
	return map[string][]engine.Kind{
		"tp": started, "parallelism": started, "gpu-count": started, "gpus-per-node": started, "max-num-batched-tokens": started,
		"memory-fraction": {estimate, sim, engine.KindVLLM, engine.KindSGLang, engine.KindTRTLLM, command}, // of a command, what the plan counts with
		"kv-dtype":        {estimate, sim, engine.KindVLLM, engine.KindSGLang, engine.KindTRTLLM, command},
		"noise":           modelled, "explain": modelled,
		"fit":           {estimate, sim, engine.KindVLLM, engine.KindSGLang, engine.KindTRTLLM}, // of these, whose release's defaults the plan counts with
		"ready-timeout": processes,
		"command":       {command}, "ready-path": {command}, "kv-tokens-pattern": {command},
		"endpoint": {endpoint}, "endpoint-gpus": {endpoint},
		"provenance": foreign, "api-key": foreign, "header": foreign,
		"api": append([]engine.Kind{sim}, foreign...),
	}
}

// refuseFlags refuses flags that would have no effect on the engine that was
// resolved. The environment may hold what other runs need.
func (d deployment) refuseFlags(c *cli.Context) error {
	kinds := flagKinds()
	for _, f := range c.Command.Flags {
		name := f.Names()[0]
		having, some := kinds[name]
		if !some || slices.Contains(having, d.kind) || !c.IsSet(name) || fromEnvironment(f) {
			continue
		}
		words := kindWords(having)
		e := field.Errorf("--%s has no effect with %s: it goes with %s", name, kindWord(d.kind), orList(words))
		if len(d.notes) > 0 {
			e = e.Hint("the engine is the embedded one: %s", strings.Join(d.notes, "; "))
		}
		return e
	}
	if extra := extraArguments(c); len(extra) > 0 {
		if err := d.refuseExtra(extra); err != nil {
			return err
		}
	}
	for flag, value := range map[string]string{"max-num-batched-tokens": "MaxNumBatchedTokens", "kv-dtype": "KV"} {
		if d.kind == engine.KindCommand && c.IsSet(flag) && !d.template.Uses(value) {
			return field.Errorf("--%s has no effect: the command does not use {{.%s}}", flag, value)
		}
	}
	return nil
}

// kindWords are how those kinds are asked for; the engines known by name are one word.
func kindWords(kinds []engine.Kind) []string {
	var words, named []string
	for _, k := range kinds {
		if isReal(string(k)) {
			named = append(named, string(k))
		} else {
			words = append(words, kindWord(k))
		}
	}
	if len(named) > 0 {
		words = append(words, "--engine "+strings.Join(named, "|"))
	}
	return words
}

// kindWord is how a kind of engine is asked for.
func kindWord(k engine.Kind) string {
	if k == engine.KindCommand || k == engine.KindEndpoint {
		return "--" + string(k)
	}
	return "--engine " + string(k)
}

// fromEnvironment reports whether a flag's variable is set.
func fromEnvironment(f cli.Flag) bool {
	d, ok := f.(cli.DocGenerationFlag)
	return ok && slices.ContainsFunc(d.GetEnvVars(), func(v string) bool { return os.Getenv(v) != "" })
}
