package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"plimsoll/engine"
)

// GPU is one kind of accelerator. Peaks are dense (without sparsity) and per
// GPU; 0 = the GPU has no such unit, or its figure is not known.
type GPU struct {
	Name string `json:"name"`
	// MemoryBytes is what an engine finds on an empty GPU where a source tells,
	// else the nameplate's GB; Notes say which.
	MemoryBytes          int64   `json:"memory_bytes"`
	HBMBytesPerSec       float64 `json:"hbm_bytes_per_sec"`
	BF16FLOPS            float64 `json:"bf16_flops"` // per second
	FP8FLOPS             float64 `json:"fp8_flops"`
	FP4FLOPS             float64 `json:"fp4_flops"`
	LinkBytesPerSec      float64 `json:"link_bytes_per_sec"`       // to the other GPUs of the node, one way
	InterNodeBytesPerSec float64 `json:"inter_node_bytes_per_sec"` // to another node, one way, assumed
	PerNode              int     `json:"gpus_per_node,omitzero"`   // of one server; 0 = UsualPerNode
	TDPWatts             int     `json:"tdp_watts"`
	DeviceNames          string  `json:"device_names"` // under which drivers report it, separated by ";"
	Source               string  `json:"source"`
	Notes                string  `json:"notes"`
}

// FLOPS is the dense peak with operands of that type, per second. Where the GPU
// has no unit for it, engines keep only the weights in that type and compute in
// BF16: that peak, and false.
func (g GPU) FLOPS(d engine.DType) (float64, bool) {
	switch {
	case d == engine.FP8 && g.FP8FLOPS > 0:
		return g.FP8FLOPS, true
	case d.Width() == engine.FP4 && d != engine.INT4 && g.FP4FLOPS > 0:
		return g.FP4FLOPS, true
	}
	return g.BF16FLOPS, d == engine.BF16 || d == ""
}

// UsualPerNode is a server's GPUs where a row says nothing else (DGX and HGX A100, H100,
// H200 and B200, data sheets).
const UsualPerNode = 8

// MostPerNode is the most that is taken for a server's.
const MostPerNode = 1024

// Nodes are those that a layout spans.
func (g GPU) Nodes(p engine.Parallelism) engine.Nodes {
	each := cmp.Or(g.PerNode, UsualPerNode)
	if n := p.GPUs(); n > each {
		return engine.Nodes{Count: (n + each - 1) / each, GPUs: each, BytesPerSec: g.InterNodeBytesPerSec}
	}
	return engine.Nodes{}
}

// Linked is how many GPUs exchange bytes at LinkBytesPerSec: those of a node, and in a
// rack that links its nodes as fast as the GPUs of one, as many as were measured.
func (g GPU) Linked() int {
	each := cmp.Or(g.PerNode, UsualPerNode)
	if g.InterNodeBytesPerSec >= g.LinkBytesPerSec {
		return max(each, UsualPerNode)
	}
	return each
}

// check refuses what no GPU is; bounds some ten times around those of 2026.
func (g GPU) check() error {
	var errs []error
	bounded := func(field string, v, low, high float64) {
		if math.IsNaN(v) || v < low || v > high {
			errs = append(errs, fmt.Errorf("%s is %g: want %g to %g", field, v, low, high))
		}
	}
	bounded("memory_bytes", float64(g.MemoryBytes), 1e9, 10e12)
	bounded("hbm_gb_per_s", g.HBMBytesPerSec/giga, 10, 100_000)
	bounded("bf16_tflops", g.BF16FLOPS/tera, 1, 100_000)
	bounded("fp8_tflops", g.FP8FLOPS/tera, 0, 200_000)
	bounded("fp4_tflops", g.FP4FLOPS/tera, 0, 400_000)
	bounded("link_gb_per_s", g.LinkBytesPerSec/giga, 1, 20_000)
	bounded("inter_node_gb_per_s", g.InterNodeBytesPerSec/giga, 0, 20_000)
	bounded("gpus_per_node", float64(g.PerNode), 0, MostPerNode)
	bounded("tdp_w", float64(g.TDPWatts), 0, 20_000)
	if g.Name == "" {
		errs = append(errs, errors.New("the GPU has no name"))
	}
	return errors.Join(errs...)
}

const (
	giga = 1e9
	tera = 1e12
)
