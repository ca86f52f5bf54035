package kubernetes

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
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

// An image's name and its tag or digest, without the spaces and line ends that
// no registry takes.
var image = regexp.MustCompile(`^[A-Za-z0-9][-A-Za-z0-9._/:@]*$`) //nolint:gochecknoglobals // a constant

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
	if !image.MatchString(m.Image) {
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
	var b bytes.Buffer
	for i, doc := range []yaml.MapSlice{m.object("v1", "ServiceAccount"), m.role(rules), m.binding(), m.deployment(), m.service()} {
		body, err := yaml.MarshalWithOptions(doc, yaml.IndentSequence(true))
		if err != nil {
			return nil, fmt.Errorf("writing YAML: %w", err)
		}
		if i > 0 {
			b.WriteString("---\n")
		}
		b.Write(body)
	}
	return b.Bytes(), nil
}

func item(key string, value any) yaml.MapItem { return yaml.MapItem{Key: key, Value: value} }

// object begins one of the objects.
func (m Manifest) object(version, kind string, rest ...yaml.MapItem) yaml.MapSlice {
	return append(yaml.MapSlice{
		item("apiVersion", version), item("kind", kind),
		item("metadata", yaml.MapSlice{item("name", m.Name), item("namespace", m.Target.Namespace), item("labels", m.labels())}),
	}, rest...)
}

func (m Manifest) labels() yaml.MapSlice {
	return yaml.MapSlice{item("app.kubernetes.io/name", "plimsoll"), item("app.kubernetes.io/instance", m.Name)}
}

func (m Manifest) role(rules []cluster.Rule) yaml.MapSlice {
	var list []yaml.MapSlice
	for _, r := range rules {
		list = append(list, yaml.MapSlice{item("apiGroups", []string{r.Group}), item("resources", r.Resources), item("verbs", r.Verbs)})
	}
	return m.object("rbac.authorization.k8s.io/v1", "Role", item("rules", list))
}

func (m Manifest) binding() yaml.MapSlice {
	return m.object("rbac.authorization.k8s.io/v1", "RoleBinding",
		item("roleRef", yaml.MapSlice{item("apiGroup", "rbac.authorization.k8s.io"), item("kind", "Role"), item("name", m.Name)}),
		item("subjects", []yaml.MapSlice{{item("kind", "ServiceAccount"), item("name", m.Name), item("namespace", m.Target.Namespace)}}))
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
		item("securityContext", yaml.MapSlice{
			item("runAsNonRoot", true), item("runAsUser", 65532), item("runAsGroup", 65532), // nobody, in distroless images
			item("seccompProfile", yaml.MapSlice{item("type", "RuntimeDefault")}),
		}),
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
		item("securityContext", yaml.MapSlice{
			item("allowPrivilegeEscalation", false), item("readOnlyRootFilesystem", true),
			item("capabilities", yaml.MapSlice{item("drop", []string{"ALL"})}),
		}),
	}
	if m.Profile != "" {
		c = append(c, item("volumeMounts", []yaml.MapSlice{{item("name", "profile"), item("mountPath", ProfileDir), item("readOnly", true)}}))
	}
	return c
}
