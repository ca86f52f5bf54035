package cluster

// Rule is a permission in the words of a Role.
type Rule struct {
	Group     string   // "": the core group
	Resources []string // plurals, with subresource: deployments/scale
	Verbs     []string
}

// Allow is a Rule.
func Allow(group string, resources []string, verbs ...string) Rule {
	return Rule{Group: group, Resources: resources, Verbs: verbs}
}
