package profile

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rbac "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"plimsoll/testdata/integration/cluster"
)

// right is a verb of a rule of the printed Role.
type right struct{ group, resource, verb string }

func (r right) String() string { return r.verb + " " + strings.ReplaceAll(r.resource, "/", "-") }

// rule is how the program says that it lacks one.
func (r right) rule() string {
	return fmt.Sprintf("{apiGroups: [%q], resources: [%q], verbs: [%q]}", r.group, r.resource, r.verb)
}

// Each verb of each rule is asked for before anything is made, and the program
// says which one is missing.
func rightsAreNamed(t *testing.T, on *cluster.Cluster) {
	all := newSite(t, on, "all-rights").rights()
	if len(all) < 10 {
		t.Fatalf("the Role has %v", all)
	}
	for i, r := range all {
		t.Run(r.String(), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, on, fmt.Sprintf("without-%d", i), func(role *unstructured.Unstructured) { without(t, role, r) })
			got := s.profile(filepath.Join(t.TempDir(), "out"))
			others := strings.Count(strings.ReplaceAll(got.Stderr, r.rule(), ""), "lacks a rule: {")
			if got.Code != 1 || !strings.Contains(got.Stderr, r.rule()) || others > 0 {
				t.Errorf("exit code %d; want 1, %s missing, and no other:\n%s", got.Code, r.rule(), got.Stderr)
			}
			s.nothingLeft()
		})
	}
}

// rights are those of the Role in the namespace.
func (s *site) rights() []right {
	s.t.Helper()
	var all []right
	for _, o := range s.manifest() {
		if o.GetKind() != "Role" {
			continue
		}
		for _, rule := range rules(s.t, o) {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					all = append(all, right{rule.APIGroups[0], resource, verb})
				}
			}
		}
	}
	return all
}

func rules(t *testing.T, role *unstructured.Unstructured) []rbac.PolicyRule {
	t.Helper()
	var typed rbac.Role
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(role.Object, &typed); err != nil {
		t.Fatal(err)
	}
	return typed.Rules
}

// without takes one right out of a Role.
func without(t *testing.T, role *unstructured.Unstructured, r right) {
	t.Helper()
	var kept []any
	for _, rule := range rules(t, role) {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				if one := (right{rule.APIGroups[0], resource, verb}); one != r {
					kept = append(kept, map[string]any{
						"apiGroups": []any{one.group}, "resources": []any{one.resource}, "verbs": []any{one.verb},
					})
				}
			}
		}
	}
	if err := unstructured.SetNestedSlice(role.Object, slices.Clip(kept), "rules"); err != nil {
		t.Fatal(err)
	}
}
