package kube

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"plimsoll/engine/kube/cluster"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Defaults of Options.
const (
	// GPUResource is what NVIDIA's device plugin calls its GPUs.
	GPUResource = "nvidia.com/gpu"
	// ScheduleTimeout leaves an autoscaler the time to add a node.
	ScheduleTimeout = 10 * time.Minute
	// SharedMemory is of /dev/shm, by which the processes of one engine talk: a
	// container has 64 MiB without it, and NCCL and vLLM fail with more than one GPU.
	SharedMemory = "16Gi"
)

// Access says how requests reach an engine.
type Access string

// The ways to an engine.
const (
	// ByService goes to the Service's name: from inside the cluster.
	ByService Access = "service"
	// ByPortForward goes through the API server: from everywhere, and slower.
	ByPortForward Access = "port-forward"
)

// Options are how every engine of a run is started.
type Options struct {
	Image            string
	ImagePullSecrets []string
	NodeSelector     map[string]string
	Tolerations      []corev1.Toleration
	ServiceAccount   string // of the engines' pods; empty: the namespace's default
	Env              []corev1.EnvVar
	// Claim is a PersistentVolumeClaim that is mounted at ModelDir; empty: none.
	Claim string
	// GPUResource is the extended resource that pods ask for; empty: they ask for
	// none.
	GPUResource  string
	GPUsPerNode  int    // an engine with more spans nodes; 0: no engine does
	SharedMemory string // size of /dev/shm, a quantity; empty: SharedMemory
	// CPU and Memory are quantities that a pod asks for; empty: 1 processor and 4 GiB
	// for each GPU.
	CPU, Memory string
	Template    string // in place of DefaultTemplate; empty: that
	Access      Access
	// ScheduleTimeout is how long a pod may be without a node; 0: ScheduleTimeout.
	ScheduleTimeout time.Duration
	Files           bool // engines have files to read, as Spec.Files
	Results         bool // the run writes its results into a ConfigMap
	// Note hears of what happens while an engine starts; nil: nobody.
	Note func(format string, args ...any)
}

// ModelDir is where Options.Claim is mounted.
const ModelDir = "/models"

// Filled has the defaults where nothing was given.
func (o Options) Filled() Options {
	if o.SharedMemory == "" {
		o.SharedMemory = SharedMemory
	}
	if o.Template == "" {
		o.Template = DefaultTemplate()
	}
	if o.ScheduleTimeout == 0 {
		o.ScheduleTimeout = ScheduleTimeout
	}
	if o.Access == "" {
		o.Access = ByPortForward
	}
	if o.Note == nil {
		o.Note = func(string, ...any) {}
	}
	return o
}

// Check says all that is wrong, each by field and range.
func (o Options) Check() error {
	var errs []error
	bad := func(field, value string, wrong []string) {
		if len(wrong) > 0 {
			errs = append(errs, fmt.Errorf("%s %q: %s", field, value, strings.Join(wrong, "; ")))
		}
	}
	if !cluster.Image(o.Image) {
		bad("image", o.Image, []string{"want a container image, as registry/engine:v1"})
	}
	for _, s := range o.ImagePullSecrets {
		bad("image pull secret", s, validation.IsDNS1123Subdomain(s))
	}
	if o.ServiceAccount != "" {
		bad("service account", o.ServiceAccount, validation.IsDNS1123Subdomain(o.ServiceAccount))
	}
	if o.Claim != "" {
		bad("PersistentVolumeClaim", o.Claim, validation.IsDNS1123Subdomain(o.Claim))
	}
	if o.GPUResource != "" {
		bad("GPU resource", o.GPUResource, validation.IsQualifiedName(o.GPUResource))
	}
	for _, k := range slices.Sorted(maps.Keys(o.NodeSelector)) {
		bad("node selector", k, validation.IsQualifiedName(k))
		bad("node selector "+k, o.NodeSelector[k], validation.IsValidLabelValue(o.NodeSelector[k]))
	}
	for _, e := range o.Env {
		bad("environment variable", e.Name, validation.IsRelaxedEnvVarName(e.Name))
	}
	bad("shared memory", o.SharedMemory, quantity(o.SharedMemory))
	if o.CPU != "" {
		bad("request of processors", o.CPU, quantity(o.CPU))
	}
	if o.Memory != "" {
		bad("request of memory", o.Memory, quantity(o.Memory))
	}
	if o.GPUsPerNode < 0 {
		bad("GPUs of a node", fmt.Sprint(o.GPUsPerNode), []string{"want 0 or more"})
	}
	if o.Access != ByService && o.Access != ByPortForward {
		bad("access", string(o.Access), []string{"want service or port-forward"})
	}
	if _, err := o.kinds(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// quantity is what is wrong with one that must be more than nothing.
func quantity(text string) []string {
	if q, err := resource.ParseQuantity(text); err != nil || q.Sign() <= 0 {
		return []string{"want a quantity above 0, as 16Gi or 500m"}
	}
	return nil
}
