package deployment

import (
	"fmt"
	"slices"
	"strings"

	"plimsoll/engine"
	"plimsoll/engine/field"
	"plimsoll/engine/latency"
	"plimsoll/profile"
)

// ModelError is a latency model's error as points and files carry it.
func ModelError(e latency.Error) profile.ModelError {
	return profile.ModelError{Median: e.Median, P90: e.P90, Factor50: e.Factor50, Factor90: e.Factor90, Worst: e.Worst, N: e.N, Basis: e.Basis}
}

// Worth says in a line how far off a latency model's numbers may be.
func Worth(m latency.Model) string {
	return fmt.Sprintf("latency model's fit %s: TTFT %s, ITL %s",
		m.Fit().Name, ModelError(m.TTFTError()).Words(), ModelError(m.ITLError()).Words())
}

// CodeDataSheet is the code of the warning that times are from a GPU's data sheet.
const CodeDataSheet = "fit_gpu"

// The codes of the warnings that an engine spans servers, and that the latency model is
// likely too optimistic. Their first sentences stand by themselves.
const (
	CodeNodes  = "nodes"
	CodeSlower = "fit_optimistic"
)

// ModelWarnings are those of an engine that a latency model stands for.
func ModelWarnings(m latency.Model, c engine.Config) []profile.Warning {
	out := NodesWarnings(c)
	if s := m.Optimism(); s != "" {
		out = append(out, profile.Warnf(CodeSlower, "estimates of %s on %s are likely too optimistic: %s. Calibrate with a few points measured on it", c.Model, c.GPU, s))
	}
	return out
}

// NodesWarnings says of engines that span servers what is assumed of the network between
// them.
func NodesWarnings(cs ...engine.Config) []profile.Warning {
	var said []string
	for _, c := range cs {
		if s := c.Parallelism.Label() + ": " + c.Nodes.String(); c.Nodes.Count > 0 && !slices.Contains(said, s) {
			said = append(said, s)
		}
	}
	if said == nil {
		return nil
	}
	return []profile.Warning{profile.Warnf(CodeNodes, "%s ("+field.GPUsPerNode+" N for other servers). The latency model counts bytes between nodes and no delay of the network: "+
		"DeepSeek-R1 on 2 nodes of 8 × H100-SXM was measured at 2.6 times its TPOT. Measure before you promise", strings.Join(said, "; "))}
}

// FitWarnings says where nothing was measured on the GPU, or a fit has no row so long.
func FitWarnings(f latency.Fit, gpu string, isl, osl int) []profile.Warning {
	var out []profile.Warning
	if f.FromDataSheet(gpu) {
		out = append(out, profile.Warnf(CodeDataSheet,
			"no kernels were measured on %s; times come from another GPU's, scaled by the data sheets. Expect a larger error; calibrate with a few points measured on this GPU", gpu))
	}
	if longest := isl + osl; f.Longest > 0 && longest > f.Longest {
		out = append(out, profile.Warnf("fit_length",
			"step times above %[3]d tokens are extrapolated (your sequences: up to %[1]d; fit %[2]s). Expect a larger error; calibrate with a few measured points", longest, f.Name, f.Longest))
	} else if f.LongestTTFT > 0 && isl > f.LongestTTFT {
		out = append(out, profile.Warnf("fit_length",
			"TTFT above %[2]d tokens is extrapolated (your prompts: %[3]d; fit %[1]s). Expect a larger error; calibrate with a few measured points", f.Name, f.LongestTTFT, isl))
	}
	return out
}
