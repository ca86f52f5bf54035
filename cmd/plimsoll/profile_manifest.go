package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/field"
	"plimsoll/engine/kube"
	"plimsoll/engine/kube/cluster"
	"plimsoll/engine/redact"
	"plimsoll/profile"
	"plimsoll/profile/store"
)

func profileManifestCommand() *cli.Command {
	own := func(name, def, usage string) cli.Flag {
		return &cli.StringFlag{Name: name, Value: def, Usage: usage, Category: "job"}
	}
	return &cli.Command{
		Name: "manifest", Usage: "a profile that runs inside Kubernetes, as YAML for kubectl apply",
		Description: "Prints a Job in the engine's image that runs profile-sla with these flags: the engine and the client that measures\n" +
			"it are in one container, which holds --gpu-count GPUs of one node from start to end. An init container copies the\n" +
			"program from its own image. Files that flags name travel in a ConfigMap. Nothing is asked of a cluster.\n\n" +
			"   plimsoll profile-sla manifest --image vllm/vllm-openai:latest --plimsoll-image registry/plimsoll:v1 --results-pvc profiles \\\n" +
			"     --engine vllm --model Qwen/Qwen3-8B --gpu h100-sxm --gpu-count 8 --secret-env HF_TOKEN=hf/token | kubectl apply -f -\n\n" +
			"plimsoll planner manifest --profile-pvc reads the results in the claim, and --profile-config-map those that\n" +
			"--results-configmap keeps; the Job may then change that one ConfigMap, and nothing else.",
		Flags: append(slices.DeleteFunc(profileFlags(), func(f cli.Flag) bool { return slices.Contains(notInJob(), f.Names()[0]) }),
			own("name", "plimsoll-profile", "`NAME` of the objects"),
			own("kube-namespace", "default", "`NAMESPACE` of the objects; empty: kustomize says it"),
			own("image", "", "container `IMAGE` of the engine, such as vllm/vllm-openai:latest"),
			own("plimsoll-image", "", "container `IMAGE` whose entry point is plimsoll"),
			own("gpu-resource", kube.GPUResource, "`NAME` by which the pod asks for --gpu-count GPUs; empty: it asks for none, as with --engine sim"),
			&cli.StringSliceFlag{Name: "secret-env", Usage: "environment of the engine out of a Secret, `NAME=SECRET/KEY`, such as HF_TOKEN=hf/token; repeat it", Category: "job"},
			own("results-pvc", "", "PersistentVolumeClaim `NAME` that --output-dir is in (default: it goes with the pod)"),
			own("active-deadline", "12h", "`time` after which the Job is ended"),
		),
		Action: profileManifest,
	}
}

// copyCommand is what the Job's init container runs: an image with the program alone
// has no cp.
func copyCommand() *cli.Command {
	return &cli.Command{
		Name: "copy", Usage: "copy this program to FILE, for a container of another image", ArgsUsage: "FILE", Hidden: true,
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return field.Errorf("want one FILE, got %d", c.NArg())
			}
			return kube.CopyProgram(c.Args().First())
		},
	}
}

// notInJob are flags of profile-sla that a Job has no use for, or must not hold.
func notInJob() []string {
	return []string{"api-key", "header", "endpoint", "endpoint-gpus", "provenance", "dry-run"}
}

func profileManifest(c *cli.Context) error {
	if c.String("format") == "json" {
		return field.Errorf("--format json: a manifest is YAML").Hint("kubectl create --dry-run=client -o json -f FILE")
	}
	m, err := manifestOf(c)
	if err != nil {
		return err
	}
	body, err := m.YAML()
	if err != nil {
		return field.Errorf("%v", err)
	}
	if m.Claim == "" && m.Results == "" {
		say(c.App.ErrWriter, "warning", "the results are lost with the pod. Keep them with --results-pvc NAME or --results-configmap NAME")
	}
	_, err = c.App.Writer.Write(body)
	return err
}

// manifestOf reads the flags of a Job.
func manifestOf(c *cli.Context) (kube.Manifest, error) {
	o, err := parseProfile(c)
	if err != nil {
		return kube.Manifest{}, err
	}
	p := &parser{c: c}
	m := kube.Manifest{
		Name: p.name("name"), Namespace: c.String("kube-namespace"), Image: p.name("image"), Plimsoll: p.name("plimsoll-image"),
		GPUs: o.gpuCount, GPUResource: strings.TrimSpace(c.String("gpu-resource")),
		Claim: p.name("results-pvc"), Results: o.results, Deadline: p.duration("active-deadline"),
	}
	for _, text := range c.StringSlice("secret-env") {
		e, err := kube.ParseSecretEnv(text)
		if err != nil {
			p.fail(field.Errorf("--secret-env %q: %v", text, err))
		}
		m.Env = append(m.Env, e)
	}
	if p.err != nil {
		return m, p.err
	}
	if o.engine == string(engine.KindSim) && !c.IsSet("gpu-resource") || m.GPUResource == "" {
		m.GPUs = 0
	}
	if err := o.checkJob(m); err != nil {
		return m, err
	}
	if m.Args, m.Files, err = jobArgs(c); err != nil {
		return m, err
	}
	if len(redact.Find(m.Args)) > 0 {
		return m, field.Errorf("a flag or an argument after -- holds a credential, which a manifest must not contain").
			Hint("--secret-env NAME=SECRET/KEY takes a variable of the engine from a Secret")
	}
	return m, nil
}

// checkJob refuses what no Job can run.
func (o profileOptions) checkJob(m kube.Manifest) error {
	switch {
	case o.engine == string(engine.KindEstimate):
		return field.Errorf("--engine estimate launches nothing: it computes, and needs no cluster").Hint("plimsoll profile-sla --engine estimate")
	case !filepath.IsLocal(o.dir):
		return field.Errorf("--output-dir %q: want a folder below the Job's own, which is the claim", o.dir).Hint("--output-dir profiling_results")
	}
	var missing, hints []string
	for _, f := range []struct {
		lacks      bool
		flag, hint string
	}{
		{o.engine == "auto" && o.command == "", "--engine", "--engine NAME or --command TEMPLATE: nothing else tells which engine --image holds"},
		{m.Image == "", "--image", "the engine's image, such as --image vllm/vllm-openai:latest for --engine vllm"},
		{m.Plimsoll == "", "--plimsoll-image", "an image whose entry point is plimsoll, such as --plimsoll-image registry/plimsoll:v1: the program is copied from it"},
		{o.gpuCount == 0 && o.engine != string(engine.KindSim), "--gpu-count", "the Job holds --gpu-count GPUs of one node: the largest layout that is tried has no more"},
	} {
		if f.lacks {
			missing, hints = append(missing, f.flag), append(hints, f.hint)
		}
	}
	if len(missing) == 0 {
		g := catalog.GPU{}
		if cat, err := catalog.Load(o.catalog); err == nil {
			g, _ = cat.GPU(o.gpu) // the engine's nodes may have another
		}
		g.PerNode = cmp.Or(o.perNode, g.PerNode)
		n := g.Nodes(engine.TP(m.GPUs))
		if err := manyNodes(fmt.Sprintf("--gpu-count %d", m.GPUs), n); err != nil {
			return err.Hint("--gpu-count %d profiles the layouts of one node", n.GPUs)
		}
		return nil
	}
	e := field.Errorf("%s", areMissing(missing))
	for _, hint := range hints {
		e = e.Hint("%s", hint)
	}
	return e
}

// jobArgs are the program's in the Job: the flags that were given, those of --config
// among them, and the files that they name.
func jobArgs(c *cli.Context) (args []string, files map[string]string, err error) {
	args, files = []string{profileName}, map[string]string{}
	for _, f := range profileFlags() {
		name := f.Names()[0]
		if !c.IsSet(name) || name == "config" || slices.Contains(notInJob(), name) {
			continue
		}
		for _, v := range typed(c, name) {
			if slices.Contains([]string{"catalog", "fit", "model", "trace", "dataset"}, name) {
				if v, err = carried(name, v, files); err != nil {
					return nil, nil, err
				}
			}
			args = append(args, "--"+name+"="+v)
		}
	}
	if extra := extraArguments(c); len(extra) > 0 {
		args = append(append(args, "--"), extra...)
	}
	return args, files, nil
}

// carried is the value of a flag in the Job: where it is a file here, that file
// there.
func carried(flag, value string, files map[string]string) (string, error) {
	if info, err := os.Stat(value); err != nil || !info.Mode().IsRegular() {
		if flag == "model" && !strings.HasSuffix(value, ".json") || flag == "fit" {
			return value, nil // a name
		}
		return "", field.Errorf("--%s %q: want a file", flag, value)
	}
	text, err := os.ReadFile(value)
	if err != nil {
		return "", field.Errorf("--%s: %v", flag, err)
	}
	if !utf8.Valid(text) {
		return "", field.Errorf("--%s %q: it travels in a ConfigMap, which takes text", flag, value)
	}
	name := flag
	if i := strings.LastIndexByte(value, '.'); i >= 0 && !strings.Contains(value[i:], "/") {
		name += value[i:]
	}
	files[name] = string(text)
	return kube.FilesDir + "/" + name, nil
}

// resultFiles are the files of a run that its ConfigMap gets: what planner serve
// --profile reads, and what says how they came about.
func resultFiles() []string {
	return []string{"prefill_raw_data.json", "decode_raw_data.json", store.BatchedFile, store.RecommendationFile, store.RunFile}
}

// checkResults refuses a ConfigMap that could not be written when the run ends.
func (o profileOptions) checkResults() error {
	if o.results == "" {
		return nil
	}
	if _, _, err := (cluster.Connection{}).Config(); err != nil {
		return field.Errorf("--results-configmap %s: no cluster was found", o.results).
			Hint("it is for a Job of plimsoll profile-sla manifest, which has a service account; elsewhere $KUBECONFIG names the cluster")
	}
	return nil
}

// publish puts a run's results into the ConfigMap that was asked for. What does not
// fit with run.json goes without it: it is for people, and in --output-dir too.
func (o profileOptions) publish(ctx context.Context, ui *console) error {
	if o.results == "" {
		return nil
	}
	config, namespace, err := (cluster.Connection{}).Config()
	if err != nil {
		return err
	}
	files, total := map[string][]byte{}, 0
	for _, name := range resultFiles() {
		text, err := os.ReadFile(filepath.Join(o.dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // there is no surface of a phase in which nothing was usable
		}
		if err != nil {
			return fmt.Errorf("reading the results: %w", err)
		}
		if total += len(name) + len(text); name == store.RunFile && total > kube.MostResults {
			ui.warn([]profile.Warning{profile.Warnf("results_cut", "ConfigMap %s leaves out %s: with it the size would be %d bytes (limit %d)", o.results, name, total, kube.MostResults)})
			continue
		}
		files[name] = text
	}
	return kube.WriteResults(ctx, config, namespace, o.results, files)
}
