package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"plimsoll/engine"
	"plimsoll/engine/field"
	"plimsoll/engine/kube"
	"plimsoll/engine/redact"
)

func kubeManifestCommand() *cli.Command {
	own := func(name, def, usage string) cli.Flag {
		return &cli.StringFlag{Name: name, Value: def, Usage: usage, Category: "job"}
	}
	return &cli.Command{
		Name: "manifest", Usage: "a profile that runs inside Kubernetes, as YAML for kubectl apply",
		Description: "Prints a ServiceAccount, a Role with no more than --launcher kubernetes needs, a RoleBinding, and a Job that runs\n" +
			"profile-sla with these flags inside the cluster: requests go to Services, not through the API server. Where the\n" +
			"nodes are asked for their GPUs (no --gpu or no --gpu-count), a ClusterRole that may list them is there too. Files\n" +
			"that flags name travel in a ConfigMap. Without --job-image it prints the rights alone, for profiles that run\n" +
			"elsewhere. Nothing is asked of a cluster.\n\n" +
			"   plimsoll profile-sla manifest --job-image registry/plimsoll:v1 --kube-namespace inference --results-configmap llama \\\n" +
			"     --engine vllm --image vllm/vllm-openai:latest --model Qwen/Qwen3-8B --gpu h100-sxm --gpu-count 8 | kubectl apply -f -\n" +
			"   plimsoll profile-sla manifest --template > engine.yaml\n\n" +
			"The ConfigMap is what plimsoll planner manifest --profile-config-map mounts.",
		Flags: append(slices.DeleteFunc(profileFlags(), func(f cli.Flag) bool { return slices.Contains(notInJob(), f.Names()[0]) }),
			own("name", "plimsoll-profile", "`NAME` of the objects"),
			own("job-image", "", "container `IMAGE` whose entry point is plimsoll (default: no Job)"),
			own("results-pvc", "", "PersistentVolumeClaim `NAME` for --output-dir (default: it goes with the pod)"),
			own("active-deadline", "12h", "`time` after which the Job is ended"),
			&cli.BoolFlag{Name: "template", Usage: "print the objects of an engine instead, for --kube-template", Category: "job"},
		),
		Action: kubeManifest,
	}
}

// notInJob are flags of profile-sla that steer a run elsewhere.
func notInJob() []string { return []string{"launcher", "kubeconfig", "context", "api-key", "header"} }

func kubeManifest(c *cli.Context) error {
	if c.String("format") == "json" {
		return field.Errorf("--format json: a manifest is YAML").Hint("kubectl create --dry-run=client -o json -f FILE")
	}
	if c.Bool("template") {
		_, err := fmt.Fprint(c.App.Writer, kube.DefaultTemplate())
		return err
	}
	m, err := kubeManifestOf(c)
	if err != nil {
		return err
	}
	body, err := m.YAML()
	if err != nil {
		return field.Errorf("%v", err)
	}
	_, err = c.App.Writer.Write(body)
	return err
}

func kubeManifestOf(c *cli.Context) (kube.Manifest, error) {
	p := &parser{c: c}
	m := kube.Manifest{
		Name: p.name("name"), Namespace: p.name("kube-namespace"), Image: p.name("job-image"), Claim: p.name("results-pvc"),
		Deadline: p.duration("active-deadline"),
	}
	if m.Namespace == "" {
		m.Namespace = "default"
	}
	if m.Image == "" {
		o := p.kube(true)
		m.Engines, m.Nodes = o.engines.Filled(), isReal(c.String("engine"))
		return m, p.err
	}
	o, err := parseProfile(c, true)
	if err != nil {
		return m, err
	}
	if p.err != nil {
		return m, p.err
	}
	m.Engines = o.kube.engines.Filled()
	if c.String("kube-access") == "auto" {
		m.Engines.Access = kube.ByService // from the Job's pod
	}
	m.Nodes = o.engine != string(engine.KindSim) && !o.saysGPUs()
	m.Args, m.Files, err = jobArgs(c, m.Namespace)
	if err == nil && len(redact.Find(m.Args)) > 0 {
		return m, field.Errorf("a manifest is no place for a credential, and a flag or what follows -- holds one").
			Hint("--kube-secret-env NAME=SECRET/KEY takes a variable of the engine from a Secret")
	}
	return m, err
}

// saysGPUs reports whether the flags tell all of the GPUs, so that no node is asked.
func (o profileOptions) saysGPUs() bool {
	return o.gpuCount > 0 && (o.gpu != "" || o.kube.engines.GPUsPerNode > 0)
}

// jobArgs are the Job's: the flags that were given, and the files that they name.
func jobArgs(c *cli.Context, namespace string) (args []string, files map[string]string, err error) {
	args, files = []string{"profile-sla", "--launcher=kubernetes", "--kube-namespace=" + namespace}, map[string]string{}
	skip := []string{"kube-namespace", "config"}
	for _, f := range profileFlags() {
		name := f.Names()[0]
		if !c.IsSet(name) || slices.Contains(skip, name) || slices.Contains(notInJob(), name) {
			continue
		}
		for _, v := range typed(c, name) {
			if slices.Contains([]string{"catalog", "fit", "kube-template", "model"}, name) {
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
	name := flag
	if i := strings.LastIndexByte(value, '.'); i >= 0 && !strings.Contains(value[i:], "/") {
		name += value[i:]
	}
	files[name] = string(text)
	return kube.FilesDir + "/" + name, nil
}
