package catalog

import (
	"testing"

	"plimsoll/engine"
)

// A rack's GPUs are of several nodes, and exchange bytes as those of one.
func TestNodes(t *testing.T) {
	c, err := Default()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		gpu     string
		perNode int // as somebody says; 0 = as the row does
		layout  engine.Parallelism
		nodes   string
		linked  int
	}{
		{"h100-sxm", 0, engine.TP(8), "", 8},
		{"h100-sxm", 0, engine.TP(16), "2 nodes of 8, 50 GB/s per GPU assumed", 8},
		{"h100-sxm", 0, engine.Parallelism{TP: 4, PP: 3}, "2 nodes of 8, 50 GB/s per GPU assumed", 8},
		{"h100-sxm", 0, engine.Parallelism{DP: 32, EP: 32}, "4 nodes of 8, 50 GB/s per GPU assumed", 8},
		{"h100-sxm", 16, engine.TP(16), "", 16},
		{"h100-sxm", 4, engine.TP(8), "2 nodes of 4, 50 GB/s per GPU assumed", 4},
		{"gb200", 0, engine.TP(4), "", 8},
		{"gb200", 0, engine.TP(8), "2 nodes of 4, 900 GB/s per GPU assumed", 8},
		{"gh200", 0, engine.TP(2), "2 nodes of 1, 50 GB/s per GPU assumed", 1},
		{"a10g", 0, engine.TP(16), "2 nodes of 8, network speed unknown", 8},
	} {
		g, err := c.GPU(tt.gpu)
		if err != nil {
			t.Fatal(err)
		}
		if tt.perNode > 0 {
			g.PerNode = tt.perNode
		}
		if n := g.Nodes(tt.layout).String(); n != tt.nodes || g.Linked() != tt.linked {
			t.Errorf("%s, %d a node, %s: %q, %d linked, want %q, %d", tt.gpu, tt.perNode, tt.layout.Label(), n, g.Linked(), tt.nodes, tt.linked)
		}
	}
}
