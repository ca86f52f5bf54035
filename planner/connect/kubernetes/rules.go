package kubernetes

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Rule is a permission in the words of a Role.
type Rule struct {
	Group     string   // "": the core group
	Resources []string // plurals, with subresource: deployments/scale
	Verbs     []string
}

// Rules are the least permissions in the deployment's namespace with which a
// Target works, and Lead beside it. None is for more than reading, writing
// numbers of replicas, Events, and one Lease.
func (o Options) Rules() ([]Rule, error) {
	places, err := o.places()
	if err != nil {
		return nil, err
	}
	rules := []Rule{
		{"", []string{"pods"}, []string{"list"}},
		{"events.k8s.io", []string{"events"}, []string{"create"}},
		{"coordination.k8s.io", []string{"leases"}, []string{"get", "create", "update"}},
	}
	if len(places) == 0 {
		return append([]Rule{
			{nvidia, []string{graphs}, []string{"get", "patch"}},
			{nvidia, []string{adapters + "/scale"}, []string{"get", "patch"}},
		}, rules...), nil
	}
	kinds := map[schema.GroupResource]bool{}
	for _, p := range places {
		kinds[p.resource.GroupResource()] = true
	}
	var first []Rule
	for k := range kinds {
		first = append(first, Rule{k.Group, []string{k.Resource}, []string{"get"}}, Rule{k.Group, []string{k.Resource + "/scale"}, []string{"get", "patch"}})
	}
	slices.SortFunc(first, func(a, b Rule) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resources[0], b.Resources[0]))
	})
	return append(first, rules...), nil
}
