package kube

import (
	"slices"

	"plimsoll/engine/kube/cluster"
)

// Rules are the least permissions in the namespace with which runs work, and
// Cleanup of what they left; of Filled options.
func (o Options) Rules() ([]cluster.Rule, error) {
	kinds, err := o.kinds()
	if err != nil {
		return nil, err
	}
	rules := []cluster.Rule{
		cluster.Allow("coordination.k8s.io", []string{"leases"}, "create", "list", "patch", "delete"),
	}
	for _, k := range withMade(kinds) {
		verbs := []string{"create", "list", "delete"}
		switch {
		case k == podResource():
			verbs = []string{"list", "watch", "delete"}
		case !slices.Contains(kinds, k):
			verbs = []string{"list", "delete"}
		}
		rules = append(rules, cluster.Allow(k.Group, []string{k.Resource}, verbs...))
	}
	rules = append(rules, cluster.Allow("", []string{"pods/log"}, "get"), cluster.Allow("", []string{"events"}, "list"))
	if o.Access == ByPortForward {
		// A WebSocket begins as a get, and API servers since 1.35 ask for create too.
		rules = append(rules, cluster.Allow("", []string{"pods/portforward"}, "get", "create"))
	}
	if o.Results {
		rules = append(rules, cluster.Allow("", []string{"configmaps"}, "create", "get", "patch"))
	}
	return rules, nil
}

// nodeRules are the permissions of the whole cluster that Nodes needs.
func nodeRules() []cluster.Rule {
	return []cluster.Rule{cluster.Allow("", []string{"nodes"}, "list")}
}
