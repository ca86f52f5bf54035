package kube

import (
	"slices"
	"strings"
	"testing"
)

func TestNodes(t *testing.T) {
	s := newAPIServer(t)
	node := func(name, gpus string, labels map[string]any, cordoned bool) {
		s.put("/api/v1/nodes/"+name, "Node", labels, map[string]any{
			"spec": map[string]any{"unschedulable": cordoned}, "status": map[string]any{"allocatable": map[string]any{GPUResource: gpus, "cpu": "8"}},
		})
	}
	h100 := map[string]any{productLabel: "NVIDIA-H100-80GB-HBM3", "pool": "a"}
	node("a", "8", h100, false)
	node("b", "4", map[string]any{"pool": "a"}, false)
	node("cordoned", "8", h100, true)
	node("none", "0", h100, false)
	node("other", "8", map[string]any{"pool": "b"}, false)
	got, err := Nodes(t.Context(), s.config(), Options{GPUResource: GPUResource, NodeSelector: map[string]string{"pool": "a"}})
	slices.SortFunc(got, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	if err != nil || !slices.Equal(got, []Node{{"a", 8, "NVIDIA H100 80GB HBM3"}, {"b", 4, ""}}) {
		t.Errorf("%+v, %v", got, err)
	}
}
