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
	Name   string  // of every object; a DNS label
	Image  string  // with the program as its entry point
	Target Options // whose Rules the planner is granted in Target.Namespace
	// Args are of the program; it must serve /healthz, /readyz and /metrics on Port.
	Args     []string
	Port     int
	Replicas int    // planners, of which one leads; 1 or more
	Profile  string // ConfigMap mounted at ProfileDir; empty: none
}

// ProfileDir is where a Manifest's profile is mounted.
const ProfileDir = "/profile"

// Check says all that is wrong, each by field and range.
func (m Manifest) Check() error {
	var errs []error
	bad := func(field, value string, wrong []string) {
		if len(wrong) > 0 {
			errs = append(errs, fmt.Errorf("%s %q: %s", field, value, strings.Join(wrong, "; ")))
		}
	}
	bad("name", m.Name, validation.IsDNS1035Label(m.Name)) // a Service's names begin with a letter
	bad("namespace", m.Target.Namespace, validation.IsDNS1123Label(m.Target.Namespace))
	if m.Profile != "" {
		bad("ConfigMap", m.Profile, validation.IsDNS1123Subdomain(m.Profile))
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

// YAML are the objects: ServiceAccount, Role, RoleBinding, Deployment, Service.
func (m Manifest) YAML() ([]byte, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	rules, err := m.Target.Rules()
	if err != nil {
		return nil, err
	}
	return cluster.YAML(append(m.identity().Account(rules), m.deployment(), m.service()))
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
	pod := yaml.MapSlice{
		item("serviceAccountName", m.Name),
		cluster.Unprivileged(),
		item("containers", []yaml.MapSlice{m.container()}),
	}
	if m.Profile != "" {
		pod = append(pod, item("volumes", []yaml.MapSlice{{item("name", "profile"), item("configMap", yaml.MapSlice{item("name", m.Profile)})}}))
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

func (m Manifest) container() yaml.MapSlice {
	probe := func(path string, period int) yaml.MapSlice {
		return yaml.MapSlice{item("httpGet", yaml.MapSlice{item("path", path), item("port", "metrics")}), item("periodSeconds", period)}
	}
	c := yaml.MapSlice{
		item("name", "planner"), item("image", m.Image), item("args", m.Args),
		item("ports", []yaml.MapSlice{{item("name", "metrics"), item("containerPort", m.Port)}}),
		item("livenessProbe", append(probe("/healthz", 10), item("initialDelaySeconds", 10))),
		item("readinessProbe", probe("/readyz", 5)),
		item("resources", yaml.MapSlice{
			item("requests", yaml.MapSlice{item("cpu", "100m"), item("memory", "128Mi")}),
			item("limits", yaml.MapSlice{item("memory", "512Mi")}),
		}),
		cluster.Confined(),
	}
	if m.Profile != "" {
		c = append(c, item("volumeMounts", []yaml.MapSlice{{item("name", "profile"), item("mountPath", ProfileDir), item("readOnly", true)}}))
	}
	return c
}
