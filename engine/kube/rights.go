package kube

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"plimsoll/engine/kube/cluster"
)

// permit says all that the user may not do of what a run needs, before it makes
// something that it may not delete. An API server that does not tell is asked for
// nothing.
func (a *api) permit(ctx context.Context, rules []cluster.Rule) error {
	var errs []error
	for _, rule := range rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				allowed, err := a.may(ctx, verb, rule.Group, resource)
				if err != nil {
					return nil //nolint:nilerr // what is not permitted shows when it is done
				}
				if !allowed {
					name, sub, _ := strings.Cut(resource, "/")
					r := a.request(verb, schema.GroupVersionResource{Group: rule.Group, Resource: name}, sub, "")
					errs = append(errs, fmt.Errorf("%s is not permitted%s", r, r.Lacks()))
				}
			}
		}
	}
	a.permitted = len(errs) == 0
	return errors.Join(errs...)
}

// may asks whether the user may do something in the namespace; everybody who can
// log in may ask.
func (a *api) may(ctx context.Context, verb, group, resource string) (allowed bool, err error) {
	name, sub, _ := strings.Cut(resource, "/")
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	at := schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1", Resource: "selfsubjectaccessreviews"}
	answer, err := a.dynamic.Resource(at).Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
		"spec": map[string]any{"resourceAttributes": map[string]any{
			"namespace": a.namespace, "verb": verb, "group": group, "resource": name, "subresource": sub,
		}},
	}}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	allowed, _, err = unstructured.NestedBool(answer.Object, "status", "allowed")
	return allowed, err
}
