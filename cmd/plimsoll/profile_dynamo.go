package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/goccy/go-yaml"
	"github.com/urfave/cli/v2"

	"plimsoll/engine"
	"plimsoll/engine/dynamo"
	"plimsoll/engine/field"
	"plimsoll/profile"
	"plimsoll/profile/load"
)

// dynamoInstall is what to do where dynamo is not on PATH: its releases from 0.4.0
// on have no dynamo serve (https://github.com/ai-dynamo/dynamo/pull/2149, 2025-07-28).
const dynamoInstall = "dynamo serve is in the releases before 0.4: pip install 'ai-dynamo[all]==0.3.0', with etcd and NATS running; a later one is started by hand and profiled with --endpoint URL"

// dynamoFlags are those of a graph.
func dynamoFlags(category string) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "graph", Usage: "dynamo: configuration of a graph, the `FILE` of dynamo serve -f; it is left as it is, and each engine is started from a copy with one worker", Category: category},
		&cli.StringFlag{Name: "graph-dir", Aliases: []string{"example-dir"}, Value: ".", Usage: "dynamo: `DIR` with graphs/agg.py, such as examples/llm of Dynamo's repository", Category: category},
	}
}

// graphServer is a graph whose files lie where the program's own folder says,
// whatever folder the graph runs in.
type graphServer struct{ dynamo.Server }

// Spec implements server.
func (s graphServer) Spec(cfg engine.Config, at engine.Launch) (engine.Spec, error) {
	path, err := filepath.Abs(at.LogPath)
	if err != nil {
		return engine.Spec{}, err
	}
	at.LogPath = path
	return s.Server.Spec(cfg, at)
}

// applyProfileConfig reads --config: flags by their names, or with --engine dynamo
// the configuration of a graph, as upstream's profiler took it.
func applyProfileConfig(c *cli.Context) error {
	path := c.String("config")
	if path == "" {
		return nil
	}
	var doc yaml.MapSlice
	if err := readYAML("config", path, &doc); err != nil {
		return err
	}
	flags := flagNames(c)
	isComponent := func(i yaml.MapItem) bool {
		_, mapping := i.Value.(yaml.MapSlice)
		return mapping && !slices.Contains(flags, fmt.Sprint(i.Key))
	}
	first := slices.IndexFunc(doc, isComponent)
	if first < 0 {
		return setFlags(c, doc, "--config "+path)
	}
	if slices.ContainsFunc(doc, func(i yaml.MapItem) bool { return !isComponent(i) }) {
		return mixedError(path, doc[first].Key)
	}
	switch {
	case c.String("engine") != string(engine.KindDynamo):
		return field.Errorf("--config %s: it holds components, as the configuration of a graph of Dynamo does, and no flags", path).Hint("--engine dynamo profiles such a graph")
	case c.IsSet("graph"):
		return field.Errorf("--config %s: it is the configuration of a graph, and --graph names another", path).Hint("--config may hold flags beside --graph")
	}
	return c.Set("graph", path)
}

// mixedError is of a configuration that holds components and what is none.
func mixedError(path string, component any) error {
	text, err := readConfigText("config", path)
	if err != nil {
		return err
	}
	if _, err := dynamo.Read(text); errors.Is(err, dynamo.ErrManifest) {
		return manifestError("config", path)
	}
	return field.Errorf("--config %s: it is neither flags by their names, since %v holds a mapping, nor the configuration of a graph, where each key holds one", path, component)
}

func manifestError(flag, path string) error {
	return field.Errorf("--%s %s: it is a manifest for Kubernetes, and dynamo serve runs on this machine", flag, path).
		Hint("apply it, and profile its frontend: kubectl port-forward, then --endpoint URL --endpoint-gpus N --max-in-flight N --api chat")
}

// readGraph reads --graph and takes from it what it says itself: the model's name,
// the longest context, and that its frontend chats.
func (o *profileOptions) readGraph(c *cli.Context) error {
	path := c.String("graph")
	if o.kube.on {
		return nil // checkKube has the words for it
	}
	if path == "" {
		if o.engine == string(engine.KindDynamo) {
			return field.Errorf("--engine dynamo needs --graph FILE").Hint("the file of dynamo serve -f; --config FILE takes it too")
		}
		return nil
	}
	if o.engine == "auto" && o.command == "" && o.endpoint == "" {
		o.engine = string(engine.KindDynamo)
	}
	if o.engine != string(engine.KindDynamo) {
		return nil // refuseFlags says so, or check
	}
	text, err := readConfigText("graph", path)
	if err != nil {
		return err
	}
	g, err := dynamo.Read(text)
	switch {
	case errors.Is(err, dynamo.ErrManifest):
		return manifestError("graph", path)
	case err != nil:
		return field.Errorf("--graph %s: %v", path, err)
	case g.Model() == "":
		return field.Errorf("--graph %s: Frontend.served_model_name is missing: requests name the model by it", path)
	case o.model != "" && o.model != g.Model():
		return field.Errorf("--model %s: the graph serves %s", o.model, g.Model()).Hint("leave --model out")
	}
	if o.parallel > 1 { // cli/serving.py, clear_namespace
		return field.Errorf("--parallel %d: dynamo serve empties its namespace in etcd and NATS as it starts, and with it the graph beside it", o.parallel)
	}
	for _, p := range o.layouts {
		if p != engine.TP(p.Normal().TP) {
			return field.Errorf("--parallelism %s: the workers of a graph take tensor parallelism alone", p.Label())
		}
	}
	if most := g.MaxModelLen(); o.maxContext == 0 && most > 0 {
		if o.isl+o.osl > most {
			return field.Errorf("--isl %d and --osl %d are %d tokens together: max-model-len of the graph's workers is %d", o.isl, o.osl, o.isl+o.osl, most).
				Hint("--max-context-length N gives them another one")
		}
		o.maxContext = most
	}
	if !c.IsSet("api") {
		if err := c.Set("api", string(load.Chat)); err != nil {
			return err
		}
		o.api = load.Chat // its first frontends complete nothing else
	}
	o.model, o.graph, o.graphPath = g.Model(), g, path
	return o.checkGraphDir(c.String("graph-dir"))
}

// graphWarnings say what of a graph is measured otherwise than it is deployed.
func graphWarnings(o profileOptions) []profile.Warning {
	if n := o.graph.Stages(); n > 1 {
		return []profile.Warning{profile.Warnf("graph_pp", "a worker of the graph has %d pipeline stages: it is measured with one, by tensor parallelism alone", n)}
	}
	return nil
}

// checkGraphDir refuses what dynamo serve would only find out by itself, or not at all.
func (o *profileOptions) checkGraphDir(dir string) error {
	o.graphDir = dir
	if _, err := os.Stat(filepath.Join(dir, "graphs", "agg.py")); err != nil {
		return field.Errorf("--graph-dir %s: there is no graphs/agg.py, the graph of one worker that is profiled", dir).
			Hint("--graph-dir DIR is the folder in which dynamo serve graphs.agg:Frontend works, such as examples/llm of Dynamo's repository")
	}
	diverting := dynamo.Diverting()
	for _, name := range sortedKeys(diverting) {
		if _, set := os.LookupEnv(name); set {
			return field.Errorf("%s is set, which %s: dynamo serve would not run what is to be measured", name, diverting[name]).Hint("unset %s", name)
		}
	}
	return nil
}

// upstreamFlags are flags of the profilers of NVIDIA Dynamo (profile_sla.py, v0.2.1
// to v0.9, read in November 2026) that have other names here, and what to say.
func upstreamFlags() map[string]string {
	return map[string]string{
		"backend":                 "--engine says what is profiled: vllm, sglang or trtllm by itself, dynamo for a graph",
		"use-ai-configurator":     "--engine estimate computes the profile without a GPU",
		"aic-system":              "--gpu NAME, with --engine estimate",
		"aic-hf-id":               "--model NAME, with --engine estimate",
		"aic-backend":             "--fit NAME, with --engine estimate",
		"aic-backend-version":     "--fit NAME, with --engine estimate",
		"min-num-gpus-per-engine": "--tp 1,2,4 names the sizes to try",
		"max-num-gpus-per-engine": "--tp 1,2,4 names the sizes to try",
		"num-gpus-per-node":       "--gpu-count N",
		"deployment-timeout":      "--ready-timeout 30m",
		"profile-config":          "--config FILE",
		"skip-existing-results":   "--resume goes on with the run in --output-dir",
		"force-rerun":             "--force moves the run in --output-dir aside",
	}
}
