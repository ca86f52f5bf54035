package kubernetes

import (
	"errors"
	"fmt"
	"net"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// request is what was asked of the API server, for its errors.
type request struct {
	verb        string // get, list, patch, create
	resource    schema.GroupVersionResource
	subresource string
	namespace   string
	name        string // empty for lists
}

func (r request) plural() string {
	if r.subresource != "" {
		return r.resource.Resource + "/" + r.subresource
	}
	return r.resource.Resource
}

func (r request) String() string {
	what := r.plural()
	if r.name != "" {
		what += " " + r.name
	}
	return fmt.Sprintf("%s %s in namespace %s", r.verb, what, r.namespace)
}

// explain says what an error of the API server means for this request, and what
// to do.
func (r request) explain(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w%s", r, err, r.hint(err))
}

func (r request) hint(err error) string {
	var network net.Error
	switch {
	case apierrors.IsForbidden(err) && r.denied(err):
		return fmt.Sprintf(" (hint: the Role lacks a rule: {apiGroups: [%q], resources: [%q], verbs: [%q]}; plimsoll planner manifest prints a Role that has it)",
			r.resource.Group, r.plural(), r.verb)
	case apierrors.IsForbidden(err):
		return " (hint: an admission policy refused it, not a Role)"
	case notServed(err) && r.subresource != "":
		return fmt.Sprintf(" (hint: %s has no %s subresource, or %s is not its plural: write group/version/plural/name)", r.resource.Resource, r.subresource, r.resource.Resource)
	case notServed(err):
		return fmt.Sprintf(" (hint: this API server does not serve %s in %s: is its operator installed, is the context the right one?)", r.resource.Resource, r.resource.GroupVersion())
	case apierrors.IsNotFound(err):
		return fmt.Sprintf(" (hint: kubectl get %s --namespace %s shows the names that there are)", schemaName(r.resource), r.namespace)
	case apierrors.IsUnauthorized(err):
		return " (hint: the token or certificate is not valid any more, or not for this cluster)"
	case errors.As(err, &network):
		return " (hint: the API server was not reached: is the kubeconfig's server the right one?)"
	}
	return ""
}

// denied tells the authorizer's refusal from an admission policy's, which has
// the same status.
func (r request) denied(err error) bool {
	return strings.Contains(err.Error(), fmt.Sprintf("cannot %s resource", r.verb))
}

func schemaName(r schema.GroupVersionResource) string {
	return strings.TrimSuffix(r.Resource+"."+r.Group, ".")
}

// notServed tells a kind that the server does not know from an object that is
// not there; both are 404.
func notServed(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// passing is an error after which the same request may succeed: a conflict, a
// server that is busy, restarting or ill.
func passing(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true // never arrived, or the answer was cut off; asking twice does no harm
	}
	code := status.Status().Code
	return code == 409 || code == 429 || code >= 500
}
