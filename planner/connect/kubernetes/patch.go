package kubernetes

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
)

// change is a patch as it goes over the wire.
type change struct {
	kind types.PatchType
	body []byte
}

// patch is for the DynamoGraphDeployment itself, of the version that s was read
// in. Components are a list: the test keeps the number from landing on another
// one when somebody changed the list since.
func (s service) patch(n int) change {
	if s.index < 0 {
		return merge(map[string]any{"spec": map[string]any{"services": map[string]any{s.name: map[string]any{"replicas": n}}}})
	}
	at := fmt.Sprintf("/spec/components/%d", s.index)
	return change{types.JSONPatchType, must(json.Marshal([]any{
		map[string]any{"op": "test", "path": at + "/name", "value": s.name},
		map[string]any{"op": "add", "path": at + "/replicas", "value": n},
	}))}
}

func merge(doc any) change { return change{types.MergePatchType, must(json.Marshal(doc))} }

// must is for what has only strings, numbers, maps and lists in it, which JSON
// always takes.
func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}
