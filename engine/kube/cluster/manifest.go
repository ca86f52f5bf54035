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
	about := yaml.MapSlice{Item("name", i.Name)}
	if i.Namespace != "" {
		about = append(about, Item("namespace", i.Namespace))
	}
	return append(yaml.MapSlice{
		Item("apiVersion", version), Item("kind", kind), Item("metadata", append(about, Item("labels", i.Labels))),
	}, rest...)
}

// Account are a ServiceAccount, a Role with rules and a RoleBinding between them.
func (i Identity) Account(rules []Rule) []yaml.MapSlice {
	const rbac = "rbac.authorization.k8s.io"
	account := yaml.MapSlice{Item("kind", "ServiceAccount"), Item("name", i.Name)}
	if i.Namespace != "" {
		account = append(account, Item("namespace", i.Namespace))
	}
	list := []yaml.MapSlice{}
	for _, r := range rules {
		rule := yaml.MapSlice{Item("apiGroups", []string{r.Group}), Item("resources", r.Resources)}
		if len(r.Names) > 0 {
			rule = append(rule, Item("resourceNames", r.Names))
		}
		list = append(list, append(rule, Item("verbs", r.Verbs)))
	}
	return []yaml.MapSlice{
		i.Object("v1", "ServiceAccount"),
		i.Object(rbac+"/v1", "Role", Item("rules", list)),
		i.Object(rbac+"/v1", "RoleBinding",
			Item("roleRef", yaml.MapSlice{Item("apiGroup", rbac), Item("kind", "Role"), Item("name", i.Name)}),
			Item("subjects", []yaml.MapSlice{account})),
	}
}

// Nobody is the user and group of programs without rights, as in distroless images.
const Nobody = 65532

// Unprivileged is a pod's security context that every cluster admits.
func Unprivileged() yaml.MapItem { return Item("securityContext", unprivileged()) }

func unprivileged() yaml.MapSlice {
	return yaml.MapSlice{
		Item("runAsNonRoot", true), Item("runAsUser", Nobody), Item("runAsGroup", Nobody),
		Item("seccompProfile", yaml.MapSlice{Item("type", "RuntimeDefault")}),
	}
}

// Confined is the security context of a container that needs no rights.
func Confined() yaml.MapItem { return Item("securityContext", confined()) }

func confined() yaml.MapSlice {
	return yaml.MapSlice{
		Item("allowPrivilegeEscalation", false), Item("readOnlyRootFilesystem", true),
		Item("capabilities", yaml.MapSlice{Item("drop", []string{"ALL"})}),
	}
}

// Alone is the security context of a container that is Confined in a pod that is not
// Unprivileged.
func Alone() yaml.MapItem { return Item("securityContext", append(unprivileged(), confined()...)) }
