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

// Where a Manifest's Job has what.
const (
	resultsDir = "/results" // the program's working directory
	FilesDir   = "/files"   // Manifest.Files
)

// Manifest are the rights of profile runs in a namespace and, with an Image, a Job
// that is one.
type Manifest struct {
	Name, Namespace string // of every object; a DNS label
	Engines         Options
	Nodes           bool // the run asks the nodes for their GPUs

	Image    string            // whose entry point is the program; empty: the rights alone
	Args     []string          // of the program
	Files    map[string]string // name → text, to be found in FilesDir
	Claim    string            // PersistentVolumeClaim for the results; empty: it goes with the pod
	Deadline time.Duration     // after which the Job is ended
}

// stopWithin is what a Job that is ended has left to stop its engines.
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
	bad("namespace", m.Namespace, validation.IsDNS1123Label(m.Namespace))
	if m.Image != "" && !cluster.Image(m.Image) {
		bad("image", m.Image, []string{"want a container image, as registry/plimsoll:v1"})
	}
	if m.Claim != "" {
		bad("PersistentVolumeClaim", m.Claim, validation.IsDNS1123Subdomain(m.Claim))
	}
	if m.Image != "" && m.Deadline < time.Minute {
		bad("deadline", m.Deadline.String(), []string{"want a minute or more"})
	}
	total := 0
	for name, text := range m.Files {
		bad("file", name, validation.IsConfigMapKey(name))
		total += len(name) + len(text)
	}
	if total > MostResults {
		errs = append(errs, fmt.Errorf("the files have %d bytes, and a ConfigMap takes %d", total, MostResults))
	}
	return errors.Join(errs...)
}

// YAML are the objects: ServiceAccount, Role, RoleBinding, where nodes are asked
// a ClusterRole with its binding, and the Job with its files.
func (m Manifest) YAML() ([]byte, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	rules, err := m.Engines.Rules()
	if err != nil {
		return nil, err
	}
	i := cluster.Identity{Name: m.Name, Namespace: m.Namespace, Labels: yaml.MapSlice{
		cluster.Item(labelName, "plimsoll-profile"), cluster.Item("app.kubernetes.io/instance", m.Name),
	}}
	objects := i.Account(rules)
	if m.Nodes {
		objects = append(objects, i.ClusterRights(nodeRules())...)
	}
	if m.Image == "" {
		return cluster.YAML(objects)
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

func (m Manifest) job(i cluster.Identity) yaml.MapSlice {
	item := cluster.Item
	return i.Object("batch/v1", "Job", item("spec", yaml.MapSlice{
		item("backoffLimit", 0), // a second try would measure what the first one left running
		item("activeDeadlineSeconds", int(m.Deadline.Seconds())),
		item("template", yaml.MapSlice{
			item("metadata", yaml.MapSlice{item("labels", i.Labels), item("annotations", undisturbed())}),
			item("spec", yaml.MapSlice{
				item("serviceAccountName", i.Name), item("restartPolicy", "Never"),
				item("terminationGracePeriodSeconds", int(stopWithin.Seconds())),
				cluster.Unprivileged(item("fsGroup", cluster.Nobody)), // for the claim to be writable
				item("containers", []yaml.MapSlice{m.container()}),
				item("volumes", m.volumes(i)),
			}),
		}),
	}))
}

func (m Manifest) container() yaml.MapSlice {
	item := cluster.Item
	mounts := []yaml.MapSlice{{item("name", "results"), item("mountPath", resultsDir)}}
	if len(m.Files) > 0 {
		mounts = append(mounts, yaml.MapSlice{item("name", "files"), item("mountPath", FilesDir), item("readOnly", true)})
	}
	return yaml.MapSlice{
		item("name", "profile"), item("image", m.Image), item("args", escaped(m.Args)), item("workingDir", resultsDir),
		// The client that measures must not wait for a processor itself.
		item("resources", yaml.MapSlice{
			item("requests", yaml.MapSlice{item("cpu", "2"), item("memory", "1Gi")}),
			item("limits", yaml.MapSlice{item("memory", "4Gi")}),
		}),
		cluster.Confined(), item("volumeMounts", mounts),
	}
}

func (m Manifest) volumes(i cluster.Identity) []yaml.MapSlice {
	item := cluster.Item
	results := yaml.MapSlice{item("name", "results"), item("emptyDir", yaml.MapSlice{})}
	if m.Claim != "" {
		results[1] = item("persistentVolumeClaim", yaml.MapSlice{item("claimName", m.Claim)})
	}
	all := []yaml.MapSlice{results}
	if len(m.Files) > 0 {
		all = append(all, yaml.MapSlice{item("name", "files"), item("configMap", yaml.MapSlice{item("name", i.Name)})})
	}
	return all
}
