package cluster

import (
	"bytes"
	"fmt"

	"github.com/goccy/go-yaml"
)

// Item is one entry of an object that is written as YAML in the order in which
// people read it.
func Item(key string, value any) yaml.MapItem { return yaml.MapItem{Key: key, Value: value} }

// YAML are objects as kubectl apply takes them.
func YAML(objects []yaml.MapSlice) ([]byte, error) {
	var b bytes.Buffer
	for i, o := range objects {
		body, err := yaml.MarshalWithOptions(o, yaml.IndentSequence(true))
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

// Identity is what the objects of a manifest have in common.
type Identity struct {
	Name      string
	Namespace string // empty: the objects have none
	Labels    yaml.MapSlice
}

// Object begins an object in the namespace.
func (i Identity) Object(version, kind string, rest ...yaml.MapItem) yaml.MapSlice {
	return i.object(i.Name, i.Namespace, version, kind, rest...)
}

func (i Identity) object(name, namespace, version, kind string, rest ...yaml.MapItem) yaml.MapSlice {
	about := yaml.MapSlice{Item("name", name)}
	if namespace != "" {
		about = append(about, Item("namespace", namespace))
	}
	return append(yaml.MapSlice{
		Item("apiVersion", version), Item("kind", kind), Item("metadata", append(about, Item("labels", i.Labels))),
	}, rest...)
}

const rbac = "rbac.authorization.k8s.io"

// Account are a ServiceAccount, a Role with rules and a RoleBinding between them.
func (i Identity) Account(rules []Rule) []yaml.MapSlice {
	return append([]yaml.MapSlice{i.Object("v1", "ServiceAccount")}, i.grant("", i.Name, i.Namespace, rules)...)
}

// ClusterRights are a ClusterRole with rules and a binding of the ServiceAccount
// to it. Its name has the namespace in it: it is the whole cluster's.
func (i Identity) ClusterRights(rules []Rule) []yaml.MapSlice {
	return i.grant("Cluster", i.Namespace+"-"+i.Name, "", rules)
}

func (i Identity) grant(scope, name, namespace string, rules []Rule) []yaml.MapSlice {
	account := yaml.MapSlice{Item("kind", "ServiceAccount"), Item("name", i.Name)}
	if i.Namespace != "" {
		account = append(account, Item("namespace", i.Namespace))
	}
	list := []yaml.MapSlice{}
	for _, r := range rules {
		list = append(list, yaml.MapSlice{Item("apiGroups", []string{r.Group}), Item("resources", r.Resources), Item("verbs", r.Verbs)})
	}
	return []yaml.MapSlice{
		i.object(name, namespace, rbac+"/v1", scope+"Role", Item("rules", list)),
		i.object(name, namespace, rbac+"/v1", scope+"RoleBinding",
			Item("roleRef", yaml.MapSlice{Item("apiGroup", rbac), Item("kind", scope+"Role"), Item("name", name)}),
			Item("subjects", []yaml.MapSlice{account})),
	}
}

// Nobody is the user and group of programs without rights, as in distroless images.
const Nobody = 65532

// Unprivileged is a pod's security context that every cluster admits, and more.
func Unprivileged(more ...yaml.MapItem) yaml.MapItem {
	return Item("securityContext", append(yaml.MapSlice{
		Item("runAsNonRoot", true), Item("runAsUser", Nobody), Item("runAsGroup", Nobody),
		Item("seccompProfile", yaml.MapSlice{Item("type", "RuntimeDefault")}),
	}, more...))
}

// Confined is the security context of a container that needs no rights.
func Confined() yaml.MapItem {
	return Item("securityContext", yaml.MapSlice{
		Item("allowPrivilegeEscalation", false), Item("readOnlyRootFilesystem", true),
		Item("capabilities", yaml.MapSlice{Item("drop", []string{"ALL"})}),
	})
}
