package kube

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"k8s.io/apimachinery/pkg/util/validation"

	"plimsoll/engine/kube/cluster"
)

// Where the Job's containers have what.
const (
	FilesDir   = "/files"   // Manifest.Files
	resultsDir = "/results" // the profile's working directory
	programDir = "/program"
	// Program is the copy that the profile runs.
	Program   = programDir + "/plimsoll"
	sharedDir = "/dev/shm"
)

// GPUResource is what NVIDIA's device plugin calls its GPUs.
const GPUResource = "nvidia.com/gpu"

// Manifest is a profile as a Job: its container has the engine's image, and starts the
// engine beside the client that measures it.
type Manifest struct {
	Name string // of every object; a DNS label
	// Namespace of every object. Where it is empty the objects have none: somebody
	// else, as kustomize, says where they are.
	Namespace string
	Image     string // the engine's
	Plimsoll  string // image whose entry point is the program
	Args      []string
	Files     map[string]string // name → text, to be found in FilesDir

	GPUs        int    // that the pod holds from start to end; 0: none
	GPUResource string // by which they are asked for
	Env         []SecretEnv

	Claim    string        // PersistentVolumeClaim for the results; empty: they go with the pod
	Results  string        // ConfigMap that the run writes its results into; empty: none
	Deadline time.Duration // after which the Job is ended
}

// SecretEnv is a variable of the environment out of a Secret.
type SecretEnv struct{ Name, Secret, Key string }

// ParseSecretEnv reads NAME=SECRET/KEY.
func ParseSecretEnv(text string) (SecretEnv, error) {
	name, from, ok := strings.Cut(text, "=")
	secret, key, slash := strings.Cut(from, "/")
	if !ok || !slash || name == "" || secret == "" || key == "" {
		return SecretEnv{}, errors.New("want NAME=SECRET/KEY")
	}
	return SecretEnv{name, secret, key}, nil
}

// stopWithin is what a Job that is ended has left to stop its engine.
const stopWithin = 5 * time.Minute

// Check says all that is wrong, each by field and range.
func (m Manifest) Check() error {
	var errs []error
	bad := func(field, value string, wrong []string) {
		if len(wrong) > 0 {
			errs = append(errs, fmt.Errorf("%s %q: %s", field, value, strings.Join(wrong, "; ")))
		}
	}
	bad("name", m.Name, validation.IsDNS1123Label(m.Name))
	if m.Namespace != "" {
		bad("namespace", m.Namespace, validation.IsDNS1123Label(m.Namespace))
	}
	for field, image := range map[string]string{"engine's image": m.Image, "plimsoll's image": m.Plimsoll} {
		if !cluster.Image(image) {
			bad(field, image, []string{"want a container image, as registry/image:v1"})
		}
	}
	if m.Claim != "" {
		bad("PersistentVolumeClaim", m.Claim, validation.IsDNS1123Subdomain(m.Claim))
	}
	if m.Results != "" {
		bad("ConfigMap", m.Results, validation.IsDNS1123Subdomain(m.Results))
	}
	if m.Results == m.Name && len(m.Files) > 0 {
		bad("ConfigMap", m.Results, []string{"the files that flags name are in one of that name: want another"})
	}
	if m.GPUs > 0 {
		bad("GPU resource", m.GPUResource, validation.IsQualifiedName(m.GPUResource))
	}
	for _, e := range m.Env {
		bad("environment variable", e.Name, validation.IsRelaxedEnvVarName(e.Name))
		bad("Secret", e.Secret, validation.IsDNS1123Subdomain(e.Secret))
		bad("key of Secret "+e.Secret, e.Key, validation.IsConfigMapKey(e.Key))
	}
	if m.Deadline < time.Minute {
		bad("deadline", m.Deadline.String(), []string{"want a minute or more"})
	}
	total := 0
	for _, name := range slices.Sorted(maps.Keys(m.Files)) {
		bad("file", name, validation.IsConfigMapKey(name))
		total += len(name) + len(m.Files[name])
	}
	if total > MostResults {
		errs = append(errs, fmt.Errorf("the files have %d bytes, and a ConfigMap takes %d", total, MostResults))
	}
	return errors.Join(errs...)
}

// YAML are the objects: the Job; before it a ConfigMap with Files; and for Results an
// empty ConfigMap with a ServiceAccount, a Role and a RoleBinding that may change it
// and nothing else.
func (m Manifest) YAML() ([]byte, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	var objects []yaml.MapSlice
	i := m.identity(m.Name)
	if m.Results != "" {
		objects = append(i.Account([]cluster.Rule{{Resources: []string{"configmaps"}, Names: []string{m.Results}, Verbs: []string{"patch"}}}),
			m.identity(m.Results).Object("v1", "ConfigMap"))
	}
	if len(m.Files) > 0 {
		data := yaml.MapSlice{}
		for _, name := range slices.Sorted(maps.Keys(m.Files)) {
			data = append(data, cluster.Item(name, cluster.Text(m.Files[name])))
		}
		objects = append(objects, i.Object("v1", "ConfigMap", cluster.Item("data", data)))
	}
	return cluster.YAML(append(objects, m.job(i)))
}

func (m Manifest) identity(name string) cluster.Identity {
	return cluster.Identity{Name: name, Namespace: m.Namespace, Labels: yaml.MapSlice{
		cluster.Item("app.kubernetes.io/name", "plimsoll-profile"), cluster.Item("app.kubernetes.io/instance", m.Name),
	}}
}

func (m Manifest) job(i cluster.Identity) yaml.MapSlice {
	item := cluster.Item
	account := item("automountServiceAccountToken", false)
	if m.Results != "" {
		account = item("serviceAccountName", i.Name)
	}
	var volumes []yaml.MapSlice
	for _, v := range m.volumes() {
		volumes = append(volumes, yaml.MapSlice{item("name", v.name), v.source})
	}
	return i.Object("batch/v1", "Job", item("spec", yaml.MapSlice{
		item("backoffLimit", 0), // a profile that failed is looked at before it is run again
		item("activeDeadlineSeconds", int(m.Deadline.Seconds())),
		item("template", yaml.MapSlice{
			item("metadata", yaml.MapSlice{item("labels", i.Labels), item("annotations", undisturbed())}),
			item("spec", yaml.MapSlice{
				account, item("restartPolicy", "Never"),
				item("terminationGracePeriodSeconds", int(stopWithin.Seconds())),
				item("enableServiceLinks", false),
				// For the claim to be writable, whatever user the image has.
				item("securityContext", yaml.MapSlice{item("fsGroup", cluster.Nobody)}),
				item("initContainers", []yaml.MapSlice{m.copies()}),
				item("containers", []yaml.MapSlice{m.profiles()}),
				item("volumes", volumes),
			}),
		}),
	}))
}

// undisturbed asks those who make room on nodes to leave the pod where it is: one that
// is moved is measured no more (https://karpenter.sh/preview/reference/annotations/ and
// the FAQ of Kubernetes' cluster autoscaler, read 2026-11-22).
func undisturbed() yaml.MapSlice {
	return yaml.MapSlice{cluster.Item("karpenter.sh/do-not-disrupt", "true"), cluster.Item("cluster-autoscaler.kubernetes.io/safe-to-evict", "false")}
}

// volume is something that the profile's container mounts.
type volume struct {
	name, path string
	source     yaml.MapItem
	readOnly   bool
}

func (m Manifest) volumes() []volume {
	item := cluster.Item
	results := item("emptyDir", yaml.MapSlice{})
	if m.Claim != "" {
		results = item("persistentVolumeClaim", yaml.MapSlice{item("claimName", m.Claim)})
	}
	list := []volume{
		{"program", programDir, item("emptyDir", yaml.MapSlice{}), true},
		{"results", resultsDir, results, false},
		// By it the processes of one engine talk: a container has 64 MiB without it, and
		// NCCL and vLLM fail with more than one GPU.
		{"shm", sharedDir, item("emptyDir", yaml.MapSlice{item("medium", "Memory")}), false},
	}
	if len(m.Files) > 0 {
		list = append(list, volume{"files", FilesDir, item("configMap", yaml.MapSlice{item("name", m.Name)}), true})
	}
	return list
}

// copies is the container that copies the program to where the engine's image has it.
func (m Manifest) copies() yaml.MapSlice {
	item := cluster.Item
	return yaml.MapSlice{
		item("name", "program"), item("image", m.Plimsoll), item("args", []string{"copy", Program}),
		cluster.Alone(),
		item("volumeMounts", []yaml.MapSlice{{item("name", "program"), item("mountPath", programDir)}}),
	}
}

// What the pod asks for besides GPUs: less than every machine with GPUs has, and enough
// for the client that measures never to wait for a processor.
const (
	clientCPU, cpuPerGPU       = 2, 1
	clientMemory, memoryPerGPU = 1, 4 // GiB
)

// profiles is the container that has the engine's image and runs the program.
func (m Manifest) profiles() yaml.MapSlice {
	item := cluster.Item
	var mounts, env []yaml.MapSlice
	for _, v := range m.volumes() {
		mount := yaml.MapSlice{item("name", v.name), item("mountPath", v.path)}
		if v.readOnly {
			mount = append(mount, item("readOnly", true))
		}
		mounts = append(mounts, mount)
	}
	for _, e := range m.Env {
		env = append(env, yaml.MapSlice{item("name", e.Name), item("valueFrom", yaml.MapSlice{
			item("secretKeyRef", yaml.MapSlice{item("name", e.Secret), item("key", e.Key)}),
		})})
	}
	resources := yaml.MapSlice{item("requests", yaml.MapSlice{
		item("cpu", fmt.Sprint(clientCPU+cpuPerGPU*m.GPUs)), item("memory", fmt.Sprintf("%dGi", clientMemory+memoryPerGPU*m.GPUs)),
	})}
	if m.GPUs > 0 {
		resources = append(resources, item("limits", yaml.MapSlice{item(m.GPUResource, m.GPUs)}))
	}
	c := yaml.MapSlice{
		// The image's entry point is the engine.
		item("name", "profile"), item("image", m.Image), item("command", []string{Program}), item("args", escaped(m.Args)), item("workingDir", resultsDir),
	}
	if len(env) > 0 {
		c = append(c, item("env", env))
	}
	return append(c, item("resources", resources),
		item("securityContext", yaml.MapSlice{item("allowPrivilegeEscalation", false)}), item("volumeMounts", mounts))
}

// escaped are arguments in which the kubelet finds no variable.
func escaped(args []string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = strings.ReplaceAll(a, "$", "$$")
	}
	return out
}
