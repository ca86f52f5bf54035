package kube

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	rbac "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	rights "plimsoll/engine/kube/cluster"
	"plimsoll/planner"
	"plimsoll/planner/connect/kubernetes"
	"plimsoll/testdata/integration/cluster"
)

// Each verb of each rule is needed, and the error or the log says which one is
// missing.
func TestEveryRightIsNeededAndNamed(t *testing.T) {
	t.Parallel()
	c := withGraph(t, "v1alpha1")
	create(t, c, file(t, "adapter.yaml"))
	create(t, c, []byte(`
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeploymentScalingAdapter
metadata: {name: llama-second}
spec: {replicas: 1, dgdRef: {name: llama, serviceName: Second}}
`))
	o := kubernetes.Options{Namespace: namespace, Deployment: "llama"}
	rules, err := o.Rules()
	if err != nil {
		t.Fatal(err)
	}
	number := 0
	try := func(user string) string {
		number++
		var log bytes.Buffer
		o := o
		o.Log = slog.New(slog.NewTextHandler(&log, nil))
		config := c.ConfigOf(user)
		on := target(t, config, o)
		_, state := on.State(t.Context())
		scale := on.Scale(t.Context(), planner.Replicas{Prefill: 2 + number, Decode: 2 + number}, "r")
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		lead := kubernetes.Election{Namespace: namespace, Name: "planner", Identity: user, Duration: time.Second}.Lead(ctx, config, func(ctx context.Context) error {
			<-time.After(300 * time.Millisecond) // time for a renewal, which is an update
			return ctx.Err()
		})
		return fmt.Sprint(state, scale, lead, log.String())
	}
	grant(t, c, "all", rules)
	eventually(t, "with all rights", func(context.Context) error {
		if said := try("all"); said != "<nil> <nil> <nil>" {
			return fmt.Errorf("%s", said)
		}
		return nil
	})
	for i, r := range rules {
		for j, verb := range r.Verbs {
			if r.Resources[0] == "leases" && verb == "create" { // there is one by now
				continue
			}
			user := fmt.Sprintf("without-%d-%d", i, j)
			fewer := append([]rights.Rule{}, rules...)
			fewer[i].Verbs = append(append([]string{}, r.Verbs[:j]...), r.Verbs[j+1:]...)
			grant(t, c, user, fewer)
			want := fmt.Sprintf(`{apiGroups: [%q], resources: [%q], verbs: [%q]}`, r.Group, r.Resources[0], verb)
			eventually(t, user, func(context.Context) error {
				said := strings.ReplaceAll(try(user), `\"`, `"`)
				if !strings.Contains(said, want) || strings.Count(strings.ReplaceAll(said, want, ""), "lacks a rule: {") > 0 {
					return fmt.Errorf("want %s alone to be missing, not %s", want, said)
				}
				return nil
			})
		}
	}
}

// grant gives a user rules.
func grant(t *testing.T, c *cluster.Cluster, user string, rules []rights.Rule) {
	t.Helper()
	role := &rbac.Role{ObjectMeta: metav1.ObjectMeta{Name: user}}
	for _, r := range rules {
		if len(r.Verbs) > 0 {
			role.Rules = append(role.Rules, rbac.PolicyRule{APIGroups: []string{r.Group}, Resources: r.Resources, Verbs: r.Verbs})
		}
	}
	binding := &rbac.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "Role", Name: user},
		Subjects:   []rbac.Subject{{APIGroup: rbac.GroupName, Kind: rbac.UserKind, Name: user}},
	}
	if _, err := c.Client.RbacV1().Roles(namespace).Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Client.RbacV1().RoleBindings(namespace).Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}
