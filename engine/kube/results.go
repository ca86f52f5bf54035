package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"plimsoll/engine/field"
)

// MostResults is what a ConfigMap takes, in bytes
// (https://kubernetes.io/docs/concepts/configuration/configmap/, read 2026-11-21).
const MostResults = 1 << 20

// labelResults marks a ConfigMap as results, which Cleanup leaves alone.
const labelResults = "plimsoll.dev/results"

// WriteResults makes a ConfigMap of files, or puts them into one that an earlier
// call made; another's of that name is left alone.
func WriteResults(ctx context.Context, config *rest.Config, namespace, name string, files map[string][]byte) error {
	total := 0
	data := map[string]any{}
	for _, key := range slices.Sorted(maps.Keys(files)) {
		if !utf8.Valid(files[key]) {
			return fmt.Errorf("ConfigMap %s: %s is no text", name, key)
		}
		total += len(key) + len(files[key])
		data[key] = string(files[key])
	}
	if total > MostResults {
		return fmt.Errorf("ConfigMap %s: the results have %d bytes, and one takes %d (hint: a PersistentVolumeClaim takes them: profile-sla manifest "+field.ResultsPVC+" CLAIM)", name, total, MostResults)
	}
	a, err := connect(config, namespace)
	if err != nil {
		return err
	}
	at := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": name, "labels": map[string]any{labelName: "plimsoll-profile", labelOwner: "plimsoll", labelResults: "true"}},
		"data":     data,
	}}
	_, err = a.create(ctx, at, object)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	return a.replace(ctx, at, object)
}

// replace puts new data into an object of ours.
func (a *api) replace(ctx context.Context, at schema.GroupVersionResource, o *unstructured.Unstructured) error {
	name := o.GetName()
	var old *unstructured.Unstructured
	err := a.do(ctx, a.request("get", at, "", name), func(ctx context.Context) (err error) {
		old, err = a.objects(at).Get(ctx, name, metav1.GetOptions{})
		return err
	})
	if err != nil {
		return err
	}
	if old.GetLabels()[labelResults] != "true" {
		return fmt.Errorf("%s %s in namespace %s is somebody else's: it has no label %s=true (hint: another "+field.ResultsConfigmap+")", at.Resource, name, a.namespace, labelResults)
	}
	gone := map[string]any{}
	had, _, _ := unstructured.NestedMap(old.Object, "data") // none where there are none
	for key := range had {
		gone[key] = nil // a merge patch's word for taking away
	}
	maps.Copy(gone, o.Object["data"].(map[string]any))
	body, err := json.Marshal(map[string]any{"data": gone})
	if err != nil {
		return fmt.Errorf("writing %s %s: %w", at.Resource, name, err)
	}
	return a.patch(ctx, at, name, body)
}
