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
	node("lost", "8", h100, false)
	s.objects["/api/v1/nodes/lost"]["status"].(map[string]any)["conditions"] = []any{map[string]any{"type": "Ready", "status": "Unknown"}}
	node("shared", "16", map[string]any{productLabel: "NVIDIA-L4-SHARED", "pool": "a"}, false)
	node("slices", "14", map[string]any{productLabel: "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", "pool": "a"}, false)
	node("none", "0", h100, false)
	node("other", "8", map[string]any{"pool": "b"}, false)
	got, err := Nodes(t.Context(), s.config(), Options{GPUResource: GPUResource, NodeSelector: map[string]string{"pool": "a"}})
	slices.SortFunc(got, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	want := []Node{
		{"a", 8, "NVIDIA H100 80GB HBM3", false},
		{"b", 4, "", false},
		{"shared", 16, "NVIDIA L4 SHARED", true},
		{"slices", 14, "NVIDIA A100 SXM4 40GB MIG 1g.5gb", true},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}
