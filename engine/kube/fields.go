package kube

import (
	"fmt"
	"maps"
	"path"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"plimsoll/engine"
)

// Launch is one engine to start.
type Launch struct {
	Spec engine.Spec // of which Dir and GPUs mean nothing here
	Kind engine.Kind // decides how an engine spans nodes
	GPUs int         // of the whole engine
	// EntryPoint says that the image's entry point is the program: Spec.Argv[0] is
	// left to it.
	EntryPoint bool
}

// Fields are what a template can name.
type Fields struct {
	Name, Namespace, Run string
	// Labels are of every object and of the pods; Selector are those of the pod
	// that serves.
	Labels, Selector map[string]string
	// Annotations are of the pods.
	Annotations      map[string]string
	Image            string
	ImagePullSecrets []string
	NodeSelector     map[string]string
	Tolerations      []corev1.Toleration
	ServiceAccount   string
	// Command is empty where the image's entry point is the program.
	Command, Args []string
	Env           []corev1.EnvVar
	Port          int
	ReadyPath     string
	GraceSeconds  int
	GPUResource   string
	GPUs          int // of one pod; 0: none are asked for
	// Requests are quantities of cpu and memory that a pod asks for besides.
	Requests     map[string]string
	Nodes        int // pods of the engine
	Claim        string
	ModelDir     string
	SharedMemory string
	IsWorker     bool // these are of a pod that does not serve
	Files        []File

	worker []string
}

// File is one that the engine reads as it starts.
type File struct {
	Key  string // in a ConfigMap
	Path string // in the engine's container
	Text string
}

// Worker are the fields of the pods beside the one that serves, of an engine that
// spans nodes.
func (f Fields) Worker() Fields {
	f.IsWorker, f.Command, f.Args = true, f.worker[:1], f.worker[1:]
	return f
}

// defaultGrace is Kubernetes' own.
const defaultGrace = 30 * time.Second

// fields are those of one launch; name is of its objects.
func (o Options) fields(namespace, run, name string, l Launch) (Fields, error) {
	nodes, err := o.nodes(l)
	if err != nil {
		return Fields{}, err
	}
	if l.Spec.ReadyBody != "" {
		return Fields{}, fmt.Errorf("%s is ready when it answers a POST, which a pod's probe cannot send", l.Spec.Name)
	}
	f := Fields{
		Name: name, Namespace: namespace, Run: run, Labels: labelsOf(run, name), Annotations: undisturbed(),
		Image: o.Image, ImagePullSecrets: o.ImagePullSecrets, NodeSelector: o.NodeSelector, ServiceAccount: o.ServiceAccount,
		Port: l.Spec.Port, ReadyPath: l.Spec.ReadyPath, GraceSeconds: int(grace(l.Spec).Seconds()),
		GPUResource: o.GPUResource, GPUs: l.GPUs / nodes, Nodes: nodes,
		Claim: o.Claim, ModelDir: ModelDir, SharedMemory: o.SharedMemory,
	}
	if f.ReadyPath == "" {
		f.ReadyPath = "/health"
	}
	if o.GPUResource == "" {
		f.GPUs = 0
	}
	f.Requests, f.Tolerations = o.requests(f.GPUs), o.tolerations(f.GPUs)
	f.Selector = maps.Clone(f.Labels)
	for i, file := range l.Spec.Files {
		if !path.IsAbs(file.Path) {
			return Fields{}, fmt.Errorf("file %q of the engine: want an absolute path", file.Path)
		}
		f.Files = append(f.Files, File{Key: fmt.Sprintf("file-%d", i+1), Path: path.Clean(file.Path), Text: file.Text})
	}
	leader, worker := escaped(l.Spec.Argv), []string(nil)
	if nodes > 1 {
		f.Selector[indexLabel] = "0"
		if leader, worker, err = spanning(l.Kind, l.Spec.Argv); err != nil {
			return Fields{}, err
		}
	}
	f.worker, f.Command, f.Args = worker, leader[:1], leader[1:]
	if l.EntryPoint {
		f.Command = nil
	}
	f.Env, err = o.env(l.Spec.Env)
	return f, err
}

// indexLabel is what a LeaderWorkerSet numbers a group's pods by; the leader is 0.
const indexLabel = "leaderworkerset.sigs.k8s.io/worker-index"

func grace(s engine.Spec) time.Duration {
	if s.Grace > 0 {
		return max(s.Grace.Round(time.Second), time.Second)
	}
	return defaultGrace
}

// nodes is how many nodes an engine spans.
func (o Options) nodes(l Launch) (int, error) {
	if o.GPUsPerNode == 0 || l.GPUs <= o.GPUsPerNode {
		return 1, nil
	}
	n := (l.GPUs + o.GPUsPerNode - 1) / o.GPUsPerNode
	if l.GPUs%n != 0 {
		return 0, fmt.Errorf("%s has %d GPUs, which %d nodes of %d cannot share evenly", l.Spec.Name, l.GPUs, n, o.GPUsPerNode)
	}
	return n, nil
}

// env are the engine's own settings, then what every engine gets.
func (o Options) env(own []string) ([]corev1.EnvVar, error) {
	all := []corev1.EnvVar{}
	for _, kv := range own {
		name, value, ok := strings.Cut(kv, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("environment setting %q: want KEY=value", kv)
		}
		all = append(all, corev1.EnvVar{Name: name, Value: escape(value)})
	}
	if o.Claim != "" { // where Hugging Face's libraries look for models, and put those that they download
		all = append(all, corev1.EnvVar{Name: "HF_HOME", Value: ModelDir})
	}
	return append(all, o.Env...), nil
}

// escape keeps the kubelet from taking a text's $(NAME) for a variable's value, and
// its $$ for one $: it reads $$ as $ wherever it is.
func escape(s string) string { return strings.ReplaceAll(s, "$", "$$") }

func escaped(argv []string) []string {
	out := make([]string, len(argv))
	for i, a := range argv {
		out[i] = escape(a)
	}
	return out
}

func labelsOf(run, name string) map[string]string {
	return map[string]string{labelName: "plimsoll-engine", labelOwner: "plimsoll", labelRun: run, labelEngine: name}
}
