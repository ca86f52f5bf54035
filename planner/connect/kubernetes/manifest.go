package kubernetes

import (
	"errors"
	"fmt"
	"strings"

	"plimsoll/engine/kube/cluster"

	"github.com/goccy/go-yaml"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Manifest is a planner as it runs on a cluster.
type Manifest struct {
	Name  string // of every object; a DNS label
	Image string // with the program as its entry point
	// Target's Rules are granted in Target.Namespace. Where that is empty the objects
	// have none: somebody else, as kustomize, says where they are.
	Target Options
	// Args are of the program; it must serve /healthz, /readyz and /metrics on Port.
	Args     []string
	Port     int
	Replicas int    // planners, of which one leads; 1 or more
	Profile  string // ConfigMap mounted at ProfileDir; empty: none
	Claim    string // PersistentVolumeClaim mounted there instead, read-only; empty: none
	Config   string // text of a ConfigMap mounted as ConfigFile; empty: none
}

// Where a Manifest's planner finds what is mounted.
const (
	ProfileDir = "/profile"
	configDir  = "/config"
	configKey  = "planner.yaml"
	ConfigFile = configDir + "/" + configKey
	stateDir   = "/state"
)

// Check says all that is wrong, each by field and range.
func (m Manifest) Check() error {
	var errs []error
	bad := func(field, value string, wrong []string) {
		if len(wrong) > 0 {
			errs = append(errs, fmt.Errorf("%s %q: %s", field, value, strings.Join(wrong, "; ")))
		}
	}
	bad("name", m.Name, validation.IsDNS1035Label(m.Name)) // a Service's names begin with a letter
	if m.Target.Namespace != "" {
		bad("namespace", m.Target.Namespace, validation.IsDNS1123Label(m.Target.Namespace))
	}
	if m.Profile != "" {
		bad("ConfigMap", m.Profile, validation.IsDNS1123Subdomain(m.Profile))
	}
	if m.Claim != "" {
		bad("PersistentVolumeClaim", m.Claim, validation.IsDNS1123Subdomain(m.Claim))
	}
	if !cluster.Image(m.Image) {
		bad("image", m.Image, []string{"want a container image, as registry/plimsoll:v1"})
	}
	bad("port", fmt.Sprint(m.Port), validation.IsValidPortNum(m.Port))
	if m.Replicas < 1 {
		bad("replicas", fmt.Sprint(m.Replicas), []string{"want 1 or more"})
	}
	_, err := m.Target.places()
	return errors.Join(append(errs, err)...)
}

// YAML are the objects: ServiceAccount, Role, RoleBinding, Deployment, Service, and
// before those two the ConfigMap with Config.
func (m Manifest) YAML() ([]byte, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	rules, err := m.Target.Rules()
	if err != nil {
		return nil, err
	}
	objects := m.identity().Account(rules)
	if m.Config != "" {
		objects = append(objects, m.object("v1", "ConfigMap", item("data", yaml.MapSlice{item(configKey, cluster.Text(m.Config))})))
	}
	return cluster.YAML(append(objects, m.deployment(), m.service()))
}

func (m Manifest) identity() cluster.Identity {
	return cluster.Identity{Name: m.Name, Namespace: m.Target.Namespace, Labels: m.labels()}
}

func (m Manifest) object(version, kind string, rest ...yaml.MapItem) yaml.MapSlice {
	return m.identity().Object(version, kind, rest...)
}

func item(key string, value any) yaml.MapItem { return cluster.Item(key, value) }

func (m Manifest) labels() yaml.MapSlice {
	return yaml.MapSlice{item("app.kubernetes.io/name", "plimsoll"), item("app.kubernetes.io/instance", m.Name)}
}

func (m Manifest) service() yaml.MapSlice {
	return m.object("v1", "Service", item("spec", yaml.MapSlice{
		item("selector", m.labels()),
		item("ports", []yaml.MapSlice{{item("name", "metrics"), item("port", m.Port), item("targetPort", "metrics")}}),
	}))
}

func (m Manifest) deployment() yaml.MapSlice {
	var volumes []yaml.MapSlice
	for _, v := range m.volumes() {
		volumes = append(volumes, yaml.MapSlice{item("name", v.name), v.source})
	}
	pod := yaml.MapSlice{
		item("serviceAccountName", m.Name),
		cluster.Unprivileged(),
		item("containers", []yaml.MapSlice{m.container()}),
		item("volumes", volumes),
	}
	return m.object("apps/v1", "Deployment", item("spec", yaml.MapSlice{
		item("replicas", m.Replicas),
		item("selector", yaml.MapSlice{item("matchLabels", m.labels())}),
		item("template", yaml.MapSlice{
			item("metadata", yaml.MapSlice{
				item("labels", m.labels()),
				item("annotations", yaml.MapSlice{item("prometheus.io/scrape", "true"), item("prometheus.io/port", fmt.Sprint(m.Port))}),
			}),
			item("spec", pod),
		}),
	}))
}

// volume is something that the container mounts.
type volume struct {
	name, path string
	source     yaml.MapItem
	writable   bool
}

func (m Manifest) volumes() []volume {
	of := func(configMap string) yaml.MapItem { return item("configMap", yaml.MapSlice{item("name", configMap)}) }
	list := []volume{{"state", stateDir, item("emptyDir", yaml.MapSlice{item("sizeLimit", "64Mi")}), true}}
	if m.Config != "" {
		list = append(list, volume{name: "config", path: configDir, source: of(m.Name)})
	}
	if m.Profile != "" {
		list = append(list, volume{name: "profile", path: ProfileDir, source: of(m.Profile)})
	}
	if m.Claim != "" {
		claim := yaml.MapSlice{item("claimName", m.Claim), item("readOnly", true)}
		list = append(list, volume{name: "profile", path: ProfileDir, source: item("persistentVolumeClaim", claim)})
	}
	return list
}

func (m Manifest) container() yaml.MapSlice {
	probe := func(path string, period int) yaml.MapSlice {
		return yaml.MapSlice{item("httpGet", yaml.MapSlice{item("path", path), item("port", "metrics")}), item("periodSeconds", period)}
	}
	var mounts []yaml.MapSlice
	for _, v := range m.volumes() {
		mount := yaml.MapSlice{item("name", v.name), item("mountPath", v.path)}
		if !v.writable {
			mount = append(mount, item("readOnly", true))
		}
		mounts = append(mounts, mount)
	}
	return yaml.MapSlice{
		item("name", "planner"), item("image", m.Image), item("args", m.Args),
		// The root, where the home is, cannot be written.
		item("env", []yaml.MapSlice{{item("name", "XDG_STATE_HOME"), item("value", stateDir)}}),
		item("ports", []yaml.MapSlice{{item("name", "metrics"), item("containerPort", m.Port)}}),
		item("livenessProbe", append(probe("/healthz", 10), item("initialDelaySeconds", 10))),
		item("readinessProbe", probe("/readyz", 5)),
		item("resources", yaml.MapSlice{
			item("requests", yaml.MapSlice{item("cpu", "100m"), item("memory", "128Mi")}),
			item("limits", yaml.MapSlice{item("memory", "512Mi")}),
		}),
		cluster.Confined(),
		item("volumeMounts", mounts),
	}
}
