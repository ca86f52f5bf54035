package cluster

import "regexp"

// Rule is a permission in the words of a Role.
type Rule struct {
	Group     string   // "": the core group
	Resources []string // plurals, with subresource: deployments/scale
	Names     []string // of objects; empty: of all
	Verbs     []string
}

// Allow is a Rule.
func Allow(group string, resources []string, verbs ...string) Rule {
	return Rule{Group: group, Resources: resources, Verbs: verbs}
}

// Image is a container image's name and its tag or digest, without the spaces and
// line ends that no registry takes.
func Image(name string) bool { return image.MatchString(name) }

var image = regexp.MustCompile(`^[A-Za-z0-9][-A-Za-z0-9._/:@]*$`) //nolint:gochecknoglobals // a constant
