package main

import (
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"plimsoll/engine"
	"plimsoll/engine/field"
	"plimsoll/engine/kube"
	"plimsoll/engine/kube/cluster"
)

// kubeOptions are what --launcher kubernetes adds to a profile.
type kubeOptions struct {
	on         bool // --launcher kubernetes
	connection cluster.Connection
	engines    kube.Options
	gpus       bool   // --gpu-resource was given, which sim asks for only then
	model      string // path of the model in the engine; empty: --model says
	results    string // ConfigMap for the results; empty: none
}

// kubeCategory heads its flags in --help.
const kubeCategory = "kubernetes"

// clusterFlags say where the cluster is.
func clusterFlags() []cli.Flag {
	s := func(name, usage string) cli.Flag {
		return &cli.StringFlag{Name: name, Usage: usage, Category: kubeCategory}
	}
	return []cli.Flag{
		s("kubeconfig", "`FILE` (default: $KUBECONFIG, ~/.kube/config, or the pod's own)"), s("context", "`NAME` in the kubeconfig (default: its current one)"),
		s("kube-namespace", "`NAMESPACE` of the engines (default: the context's)"),
	}
}

// kubeFlags are those that mean nothing without --launcher kubernetes.
func kubeFlags() []cli.Flag {
	s := func(name, def, usage string) cli.Flag {
		return &cli.StringFlag{Name: name, Value: def, Usage: usage, Category: kubeCategory}
	}
	many := func(name, usage string) cli.Flag {
		return &cli.StringSliceFlag{Name: name, Usage: usage + "; repeat it", Category: kubeCategory}
	}
	return append(clusterFlags(),
		s("image", "", "container `IMAGE` of the engine (sim: one whose entry point is plimsoll)"),
		many("image-pull-secret", "Secret `NAME` for the registry"),
		s("node-selector", "", "labels of the nodes to run on, `KEY=VALUE,…`"),
		many("toleration", "taint that is tolerated, `KEY[=VALUE][:EFFECT]`"),
		s("model-pvc", "", "PersistentVolumeClaim `CLAIM[:PATH]`, mounted at "+kube.ModelDir+": with PATH the engine loads the model there, without it keeps Hugging Face's files there"),
		s("gpu-resource", kube.GPUResource, "`NAME` by which pods ask for GPUs; empty: they ask for none (sim: only where this is given)"),
		s("gpus-per-node", "", "`N`: an engine with more GPUs spans nodes, as a LeaderWorkerSet (default: what the nodes have)"),
		s("shm-size", kube.SharedMemory, "`SIZE` of an engine's /dev/shm"),
		s("cpu-request", "", "`NUMBER` of processors that an engine's pod asks for (default: 1 for each GPU)"),
		s("memory-request", "", "`SIZE` of memory that an engine's pod asks for (default: 4Gi for each GPU)"),
		s("service-account", "", "`NAME` of the engines' pods' (default: the namespace's default)"),
		many("kube-env", "environment of the engine, `NAME=VALUE`"),
		many("kube-secret-env", "environment of the engine out of a Secret, `NAME=SECRET/KEY`, such as HF_TOKEN=hf/token"),
		s("kube-template", "", "`FILE` in place of the objects of an engine; plimsoll profile-sla manifest --template prints the built-in one"),
		s("kube-access", "auto", "how requests reach engines: `auto|service|port-forward` (auto: service from a pod, else port-forward)"),
		s("schedule-timeout", kube.ScheduleTimeout.String(), "`time` for a pod to get a node, such as an autoscaler needs"),
		s("results-configmap", "", "ConfigMap `NAME` that gets the results too, for planner manifest --profile-config-map"),
	)
}

// kube reads the flags of kubeFlags, and refuses them without --launcher
// kubernetes.
func (p *parser) kube(on bool) kubeOptions {
	if !on {
		for _, f := range kubeFlags() {
			if name := f.Names()[0]; p.c.IsSet(name) {
				p.fail(field.Errorf("--%s goes with --launcher kubernetes", name))
			}
		}
		return kubeOptions{}
	}
	claim, path, _ := strings.Cut(p.name("model-pvc"), ":")
	o := kubeOptions{
		on: true, connection: p.connection(), results: p.name("results-configmap"), gpus: p.c.IsSet("gpu-resource"),
		engines: kube.Options{
			Image: p.name("image"), ImagePullSecrets: p.c.StringSlice("image-pull-secret"), NodeSelector: p.labels("node-selector"),
			Claim: claim, GPUResource: strings.TrimSpace(p.c.String("gpu-resource")), GPUsPerNode: p.integer("gpus-per-node", 1, maxGPUs, 0),
			SharedMemory: p.name("shm-size"), CPU: p.name("cpu-request"), Memory: p.name("memory-request"), ServiceAccount: p.name("service-account"), ScheduleTimeout: p.duration("schedule-timeout"),
			Access: p.access(), Template: p.file("kube-template"), Results: p.c.String("results-configmap") != "",
			Files: p.c.String("engine") == string(engine.KindTRTLLM), // its options
		},
	}
	if path = strings.Trim(path, "/"); path != "" {
		o.model = kube.ModelDir + "/" + path
	}
	o.engines.Tolerations = parsed(p, "toleration", kube.ParseToleration)
	o.engines.Env = append(parsed(p, "kube-env", kube.ParseEnv), parsed(p, "kube-secret-env", kube.ParseSecretEnv)...)
	return o
}

// parsed reads each value of a flag that may be repeated.
func parsed[T any](p *parser, flag string, parse func(string) (T, error)) []T {
	var all []T
	for _, text := range p.c.StringSlice(flag) {
		v, err := parse(text)
		if err != nil {
			p.fail(field.Errorf("--%s %q: %v", flag, text, err))
		}
		all = append(all, v)
	}
	return all
}

func (p *parser) connection() cluster.Connection {
	return cluster.Connection{Kubeconfig: p.name("kubeconfig"), Context: p.name("context"), Namespace: p.name("kube-namespace")}
}

// labels reads KEY=VALUE,….
func (p *parser) labels(flag string) map[string]string {
	text := p.name(flag)
	if text == "" {
		return nil
	}
	all, err := kube.ParseLabels(text)
	if err != nil {
		p.fail(field.Errorf("--%s: %v", flag, err))
	}
	return all
}

// access is how requests reach engines: in a pod whose own service account is
// used, they go to the Service.
func (p *parser) access() kube.Access {
	word := p.choice("kube-access", "auto", "service", "port-forward")
	if word != "auto" {
		return kube.Access(word)
	}
	if p.connection().Inside() {
		return kube.ByService
	}
	return kube.ByPortForward
}

// checkKube refuses what cannot be run on a cluster.
func (o profileOptions) checkKube() error {
	k := o.kube
	switch {
	case !k.on:
		return nil
	case o.engine == "auto" && o.command == "" && o.endpoint == "":
		return field.Errorf("--launcher kubernetes needs --engine NAME or --command TEMPLATE").Hint("a cluster does not tell which engine --image holds")
	case o.engine == "estimate":
		return field.Errorf("--launcher kubernetes: --engine estimate launches nothing: it computes")
	case o.endpoint != "":
		return field.Errorf("--launcher kubernetes: --endpoint runs already, and nothing is launched")
	case o.engine == string(engine.KindDynamo):
		return field.Errorf("--launcher kubernetes: Dynamo's frontend, workers and etcd are objects of its own operator").
			Hint("profile-sla --endpoint URL measures a DynamoGraphDeployment that runs")
	case k.engines.Image == "":
		return field.Errorf("--launcher kubernetes needs --image IMAGE").Hint("such as --image vllm/vllm-openai:latest for --engine vllm")
	case o.engine == "sim" && (o.catalog != "" || strings.HasSuffix(o.model, ".json") || strings.ContainsAny(o.fit, "/.")):
		return field.Errorf("--engine sim on a cluster knows no files of this machine").Hint("names from the built-in catalog, and of a shipped fit")
	}
	if err := k.engines.Filled().Check(); err != nil {
		return field.Errorf("--launcher kubernetes: %v", err)
	}
	return nil
}

// kubeReady is how long the embedded engine may take to become ready on a
// cluster: its image has to be pulled.
const kubeReady = 10 * time.Minute
