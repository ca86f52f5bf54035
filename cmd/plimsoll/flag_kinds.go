package main

import (
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"plimsoll/engine"
)

// flagKinds are the kinds of engine that each flag of profile-sla has an effect
// on; a flag that is not listed has one on all.
func flagKinds() map[string][]engine.Kind {
	const estimate, sim, command, endpoint = engine.KindEstimate, engine.KindSim, engine.KindCommand, engine.KindEndpoint
	modelled, started := []engine.Kind{estimate, sim}, []engine.Kind{estimate, sim, command}
	foreign := []engine.Kind{command, endpoint}
	return map[string][]engine.Kind{
		"tp": started, "gpu-count": started, "max-num-batched-tokens": started,
		"noise": modelled, "fit": modelled, "explain": modelled,
		"launcher": {sim, command},
		"command":  {command}, "ready-path": {command}, "ready-timeout": {command}, "kv-tokens-pattern": {command},
		"endpoint": {endpoint}, "endpoint-gpus": {endpoint},
		"provenance": foreign, "prompts": foreign, "api-key": foreign, "header": foreign,
		"api": {sim, command, endpoint},
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
		words := make([]string, 0, len(having))
		for _, k := range having {
			words = append(words, kindWord(k))
		}
		e := usagef("--%s has no effect with %s: it goes with %s", name, kindWord(d.kind), orList(words))
		if len(d.notes) > 0 {
			e = e.hint("the engine is the embedded one: %s", strings.Join(d.notes, "; "))
		}
		return e
	}
	if d.kind == engine.KindCommand && c.IsSet("max-num-batched-tokens") && !d.template.Uses("MaxNumBatchedTokens") {
		return usagef("--max-num-batched-tokens has no effect: the command does not use {{.MaxNumBatchedTokens}}")
	}
	return nil
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
