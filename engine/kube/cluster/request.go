package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Request is what is asked of the API server, for its errors.
type Request struct {
	Verb        string // get, list, watch, create, update, patch, delete
	Resource    schema.GroupVersionResource
	Subresource string
	Namespace   string
	Name        string // empty for lists
	// Manifest is the command that prints a Role with the rule that is missing;
	// empty: none does.
	Manifest string
}

func (r Request) plural() string {
	if r.Subresource != "" {
		return r.Resource.Resource + "/" + r.Subresource
	}
	return r.Resource.Resource
}

func (r Request) String() string {
	what := r.plural()
	if r.Name != "" {
		what += " " + r.Name
	}
	return fmt.Sprintf("%s %s in namespace %s", r.Verb, what, r.Namespace)
}

// Explain says what an error of the API server means for this request, and what
// to do; nil for nil.
func (r Request) Explain(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w%s", r, err, r.hint(err))
}

func (r Request) hint(err error) string {
	var network net.Error
	switch {
	case apierrors.IsForbidden(err) && r.denied(err):
		return fmt.Sprintf(" (hint: the Role lacks a rule: {apiGroups: [%q], resources: [%q], verbs: [%q]}%s)", r.Resource.Group, r.plural(), r.Verb, r.printed())
	case overQuota(err):
		return fmt.Sprintf(" (hint: kubectl describe resourcequota --namespace %s shows what is left)", r.Namespace)
	case apierrors.IsForbidden(err):
		return " (hint: an admission policy refused it, not a Role)"
	case NotServed(err) && r.Subresource != "":
		return fmt.Sprintf(" (hint: %s has no %s subresource, or %s is not its plural: write group/version/plural/name)", r.Resource.Resource, r.Subresource, r.Resource.Resource)
	case NotServed(err):
		return fmt.Sprintf(" (hint: this API server does not serve %s in %s: is its operator installed, is the context the right one?)", r.Resource.Resource, r.Resource.GroupVersion())
	case apierrors.IsNotFound(err):
		return fmt.Sprintf(" (hint: kubectl get %s --namespace %s shows the names that there are)", schemaName(r.Resource), r.Namespace)
	case apierrors.IsUnauthorized(err):
		return " (hint: the token or certificate is not valid any more, or not for this cluster)"
	case errors.As(err, &network):
		return " (hint: the API server was not reached: is the kubeconfig's server the right one?)"
	}
	return ""
}

func (r Request) printed() string {
	if r.Manifest == "" {
		return ""
	}
	return fmt.Sprintf("; %s prints a Role that has it", r.Manifest)
}

// overQuota is an object that a ResourceQuota has no room for.
func overQuota(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota")
}

// denied tells the authorizer's refusal from an admission policy's, which has
// the same status.
func (r Request) denied(err error) bool {
	return strings.Contains(err.Error(), fmt.Sprintf("cannot %s resource", r.Verb))
}

func schemaName(r schema.GroupVersionResource) string {
	return strings.TrimSuffix(r.Resource+"."+r.Group, ".")
}

// NotServed tells a kind that the server does not know from an object that is
// not there; both are 404.
func NotServed(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// passing is an error after which the same request may succeed: a conflict, a
// server that is busy, restarting or ill.
func passing(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return true // never arrived, or the answer was cut off; asking twice does no harm
	}
	if apierrors.IsAlreadyExists(err) {
		return false
	}
	code := status.Status().Code
	return code == 409 || code == 429 || code >= 500
}

// Do makes a request until it succeeds, fails for good, or patience is over; it
// is tried once in any case. A failure is explained.
func (r Request) Do(ctx context.Context, patience time.Duration, do func(context.Context) error) error {
	limit, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := do(ctx)
		if err == nil || !passing(err) {
			return r.Explain(err)
		}
		select {
		case <-limit.Done():
			return r.Explain(err)
		case <-time.After(pause):
		}
	}
}

// Pauses between the tries of a request.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = 5 * time.Second
)
