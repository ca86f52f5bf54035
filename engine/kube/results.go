package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"plimsoll/engine/field"
	"plimsoll/engine/kube/cluster"
)

// MostResults is what a ConfigMap takes, in bytes
// (https://kubernetes.io/docs/concepts/configuration/configmap/, read 2026-11-21).
const MostResults = 1 << 20

// patience is how long a cluster may be away when a profile is done.
const patience = 5 * time.Minute

// WriteResults puts files into a ConfigMap, in place of what it held.
func WriteResults(ctx context.Context, config *rest.Config, namespace, name string, files map[string][]byte) error {
	data, total := map[string]string{}, 0
	for key, text := range files {
		if !utf8.Valid(text) {
			return fmt.Errorf("ConfigMap %s: %s is no text", name, key)
		}
		total += len(key) + len(text)
		data[key] = string(text)
	}
	if total > MostResults {
		return fmt.Errorf("ConfigMap %s: the results have %d bytes, and one takes %d (hint: a PersistentVolumeClaim takes them: profile-sla manifest "+field.ResultsPVC+" CLAIM)", name, total, MostResults)
	}
	body, err := json.Marshal([]any{map[string]any{"op": "add", "path": "/data", "value": data}})
	if err != nil {
		return fmt.Errorf("ConfigMap %s: %w", name, err)
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("ConfigMap %s: %w", name, err)
	}
	at := schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	r := cluster.Request{Verb: "patch", Resource: at, Namespace: namespace, Name: name, Manifest: "plimsoll profile-sla manifest " + field.ResultsConfigmap + " " + name}
	return r.Do(ctx, patience, func(ctx context.Context) error {
		_, err := client.Resource(at).Namespace(namespace).Patch(ctx, name, types.JSONPatchType, body, metav1.PatchOptions{FieldManager: cluster.Manager})
		return err
	})
}
