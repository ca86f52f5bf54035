package kubernetes

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"plimsoll/engine/kube/cluster"
)

// Rules are the least permissions in the deployment's namespace with which a
// Target works, and Lead beside it. None is for more than reading, writing
// numbers of replicas, Events, and one Lease.
func (o Options) Rules() ([]cluster.Rule, error) {
	places, err := o.places()
	if err != nil {
		return nil, err
	}
	rules := []cluster.Rule{
		cluster.Allow("", []string{"pods"}, "list"),
		cluster.Allow("events.k8s.io", []string{"events"}, "create"),
		cluster.Allow("coordination.k8s.io", []string{"leases"}, "get", "create", "update"),
	}
	if len(places) == 0 {
		return append([]cluster.Rule{
			cluster.Allow(nvidia, []string{graphs}, "get", "patch"),
			cluster.Allow(nvidia, []string{adapters + "/scale"}, "get", "patch"),
		}, rules...), nil
	}
	kinds := map[schema.GroupResource]bool{}
	for _, p := range places {
		kinds[p.resource.GroupResource()] = true
	}
	var first []cluster.Rule
	for k := range kinds {
		first = append(first, cluster.Allow(k.Group, []string{k.Resource}, "get"), cluster.Allow(k.Group, []string{k.Resource + "/scale"}, "get", "patch"))
	}
	slices.SortFunc(first, func(a, b cluster.Rule) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Resources[0], b.Resources[0]))
	})
	return append(first, rules...), nil
}
