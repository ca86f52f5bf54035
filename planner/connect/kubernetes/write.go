package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"plimsoll/engine/kube/cluster"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// patience is how long a request is tried again; the planner's next interval
// tries anew.
const patience = 4 * time.Second

// manifestCommand prints a Role with what a planner needs.
const manifestCommand = "plimsoll planner manifest"

// request is one in the deployment's namespace.
func (t *Target) request(verb string, resource schema.GroupVersionResource, subresource, name string) cluster.Request {
	return cluster.Request{Verb: verb, Resource: resource, Subresource: subresource, Namespace: t.o.Namespace, Name: name, Manifest: manifestCommand}
}

// write makes n the pool's number. Where the list of components changed since it
// was read, the pool is looked up once more.
func (t *Target) write(ctx context.Context, p pool, n int) error {
	err := t.patch(ctx, p, n)
	if !apierrors.IsInvalid(err) || p.at.subresource != "" || p.service.index < 0 {
		return err
	}
	pools, readErr := t.read(ctx)
	if readErr != nil {
		return errors.Join(err, readErr)
	}
	for _, now := range pools {
		if now.role == p.role && now.name == p.name {
			return t.patch(ctx, now, n)
		}
	}
	return fmt.Errorf("the service is gone: %w", err)
}

func (t *Target) patch(ctx context.Context, p pool, n int) error {
	c := p.patch(n)
	options := metav1.PatchOptions{FieldManager: cluster.Manager}
	var sub []string
	if p.at.subresource != "" {
		sub = []string{p.at.subresource}
	}
	return t.request("patch", p.at.resource, p.at.subresource, p.at.name).Do(ctx, patience, func(ctx context.Context) error {
		_, err := t.client.Resource(p.at.resource).Namespace(t.o.Namespace).Patch(ctx, p.at.name, c.kind, c.body, options, sub...)
		return err
	})
}

// longestNote is what the API server takes, in bytes.
const longestNote = 1024

// record writes an Event on the object. Scaling is done by then: a failure is
// for the log.
func (t *Target) record(ctx context.Context, p pool, n int, reason string) {
	resource := schema.GroupVersionResource{Group: "events.k8s.io", Version: "v1", Resource: "events"}
	note := fmt.Sprintf("%s %s from %d to %d: %s", p.role, p.name, p.want, n, reason)
	event := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "events.k8s.io/v1", "kind": "Event",
		"metadata":            map[string]any{"generateName": p.about.Name + "-", "namespace": t.o.Namespace},
		"eventTime":           time.Now().UTC().Format(metav1.RFC3339Micro),
		"reportingController": cluster.Manager, "reportingInstance": instance(),
		"action": "Scale", "reason": "Scaled", "type": "Normal", "note": cut(note, longestNote),
		"regarding": map[string]any{
			"apiVersion": p.about.APIVersion, "kind": p.about.Kind, "name": p.about.Name,
			"namespace": p.about.Namespace, "uid": string(p.about.UID),
		},
	}}
	_, err := t.client.Resource(resource).Namespace(t.o.Namespace).Create(ctx, event, metav1.CreateOptions{FieldManager: cluster.Manager})
	if err != nil {
		r := t.request("create", resource, "", "")
		t.o.Log.Warn("no Event was written on the deployment", "error", r.Explain(err))
	}
}

// instance is which of several planners this is.
func instance() string {
	if host, err := os.Hostname(); err == nil && host != "" {
		return cut(host, 128)
	}
	return cluster.Manager
}

// cut keeps the first bytes of a text, without half a character at its end.
func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most-len("…")], "") + "…"
}
