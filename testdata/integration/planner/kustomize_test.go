package planner

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authorization "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"plimsoll/testdata/integration/cluster"
	"plimsoll/testdata/integration/program"
)

// rendered is an overlay beside base and example, as kustomize makes it.
func rendered(t *testing.T, overlay map[string]string) []*unstructured.Unstructured {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", "..", "deploy", "kubernetes"))); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "overlay"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range overlay {
		if err := os.WriteFile(filepath.Join(dir, "overlay", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionLegacy // kubectl apply -k has it too: what is mounted comes first
	made, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), filepath.Join(dir, "overlay"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := made.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	list, err := cluster.Objects(text)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// apply is kubectl apply --server-side by a strict server, which has to keep every
// field as it was written.
func (f *fleet) apply(list []*unstructured.Unstructured) {
	f.t.Helper()
	strict := metav1.PatchOptions{FieldManager: "test", FieldValidation: metav1.FieldValidationStrict}
	for _, o := range list {
		body, err := json.Marshal(o)
		if err != nil {
			f.t.Fatal(err)
		}
		kept, err := f.on.Dynamic().Resource(cluster.ResourceOf(o)).Namespace(f.namespace).Patch(f.t.Context(), o.GetName(), types.ApplyPatchType, body, strict)
		if err != nil {
			f.t.Fatalf("applying %s %s: %v", o.GetKind(), o.GetName(), err)
		}
		if lost := missing(o.Object, kept.Object, o.GetKind()); len(lost) > 0 {
			f.t.Errorf("the API server changed %s", strings.Join(lost, ", "))
		}
	}
}

// missing are the fields of one value that another has not, or has otherwise.
func missing(want, got any, path string) []string {
	var lost []string
	switch w := want.(type) {
	case map[string]any:
		g, _ := got.(map[string]any)
		for name, v := range w {
			lost = append(lost, missing(v, g[name], path+"."+name)...)
		}
	case []any:
		g, _ := got.([]any)
		if len(g) != len(w) {
			return []string{fmt.Sprintf("%s: %v, was %v", path, got, want)}
		}
		for i, v := range w {
			lost = append(lost, missing(v, g[i], fmt.Sprintf("%s[%d]", path, i))...)
		}
	default:
		if fmt.Sprint(want) != fmt.Sprint(got) {
			lost = []string{fmt.Sprintf("%s: %v, was %v", path, got, want)}
		}
	}
	return lost
}

// What the base grants is what the planner does, in its own namespace, and nothing
// more.
func TestDeployedRights(t *testing.T) {
	t.Parallel()
	on := cluster.Start(t, cluster.Options{})
	f := &fleet{t: t, on: on, namespace: "rights"}
	f.create("apiVersion: v1\nkind: Namespace\nmetadata: {name: rights}\n")
	f.create(engines("prefill", "none", ""))
	f.create("apiVersion: v1\nkind: Secret\nmetadata: {name: token}\n")
	f.apply(rendered(t, map[string]string{"kustomization.yaml": "namespace: rights\nresources: [../base]\n"}))
	config, err := clientcmd.BuildConfigFromFlags("", on.KubeconfigOfAccount("rights", deployed))
	if err != nil {
		t.Fatal(err)
	}
	account, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	granted := []string{
		"get apps deployments", "get apps deployments/scale", "patch apps deployments/scale", "list  pods", "create events.k8s.io events",
		"get coordination.k8s.io leases", "create coordination.k8s.io leases", "update coordination.k8s.io leases",
	}
	slices.Sort(granted)
	var got []string
	program.Until(t, 20*time.Second, "the Role is in force", func() bool {
		got = rulesOf(t, account, "rights")
		return len(got) >= len(granted)
	})
	if !slices.Equal(got, granted) {
		t.Errorf("it may %q, want %q", got, granted)
	}
	if got := rulesOf(t, account, "default"); len(got) > 0 {
		t.Errorf("in another namespace it may %q", got)
	}

	if _, err := account.AppsV1().Deployments("rights").Patch(t.Context(), "prefill", types.MergePatchType, []byte(`{"spec":{"replicas":2}}`), metav1.PatchOptions{}, "scale"); err != nil {
		t.Errorf("scaling: %v", err)
	}
	_, read := account.CoreV1().Secrets("rights").Get(t.Context(), "token", metav1.GetOptions{})
	_, edit := account.AppsV1().Deployments("rights").Patch(t.Context(), "prefill", types.MergePatchType, []byte(`{"spec":{"paused":true}}`), metav1.PatchOptions{})
	remove := account.AppsV1().Deployments("rights").Delete(t.Context(), "prefill", metav1.DeleteOptions{})
	for what, err := range map[string]error{"reading a Secret": read, "editing a Deployment": edit, "deleting it": remove} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// rulesOf are an account's rights as the API server has them, "verb group resource",
// without those of everybody to ask for their own.
func rulesOf(t *testing.T, account kubernetes.Interface, namespace string) []string {
	t.Helper()
	review := &authorization.SelfSubjectRulesReview{Spec: authorization.SelfSubjectRulesReviewSpec{Namespace: namespace}}
	answer, err := account.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(), review, metav1.CreateOptions{})
	if err != nil || answer.Status.Incomplete {
		t.Fatalf("the rules are %+v: %v", answer, err)
	}
	var all []string
	for _, r := range answer.Status.ResourceRules {
		for _, resource := range r.Resources {
			if strings.HasPrefix(resource, "selfsubject") {
				continue
			}
			for _, verb := range r.Verbs {
				all = append(all, verb+" "+strings.Join(r.APIGroups, ",")+" "+resource)
			}
		}
	}
	slices.Sort(all)
	return all
}
