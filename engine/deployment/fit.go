package deployment

import (
	"fmt"
	"slices"
	"strings"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
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

// Defaults says what of an engine is its release's own choice: "vLLM ≥ 0.28 defaults: 0.92
// of memory, 8192 tokens a step"; empty where both were asked for.
func Defaults(m catalog.Model, g catalog.GPU, c engine.Config) string {
	var own []string
	tokens := latency.Limits(m, g, c).MaxNumBatchedTokens
	if c.MemoryFraction == 0 {
		own = append(own, fmt.Sprintf("%.2g of memory", c.Served().MemoryFraction(g.MemoryBytes, c.Parallelism, tokens*c.Parallelism.Normal().DP)))
	}
	if c.Limits.MaxNumBatchedTokens == 0 {
		own = append(own, fmt.Sprintf("%d tokens a step", tokens))
	}
	if len(own) == 0 {
		return ""
	}
	return fmt.Sprintf("%v defaults: %s", c.Served(), strings.Join(own, ", "))
}

// EngineWarnings says where a KV cache, or what it keeps of prompts, hangs on things that
// releases of an engine do differently.
func EngineWarnings(l latency.Model, caching bool) (out []profile.Warning) {
	r, mem := l.Served(), l.Memory()
	most := int64(engine.MostGraphShare * float64(mem.Budget))
	if r.CountsGraphs() && most > mem.KV/10 {
		out = append(out, profile.Warnf("cuda_graphs",
			"%s: from 0.21 on vLLM takes an estimate of its CUDA graphs off the KV cache, mostly %g to %g %% of the GPU, which is not counted here: with %[3]g %% %.1[4]f of the KV cache's %.1[5]f GB per GPU are left. Read the capacity in the engine's log",
			l.Parallelism().Label(), 100*engine.LeastGraphShare, 100*engine.MostGraphShare, float64(max(0, mem.KV-most))/1e9, float64(mem.KV)/1e9))
	}
	if caching && l.HasStates() && r.Kind == engine.KindVLLM {
		kept := "after a prompt's last whole block, and where a second prompt leaves one before (so from 0.24 on)"
		if !r.Since("0.24") {
			kept = "after a prompt's last whole block alone, so that prompts which only begin alike share nothing"
		}
		if !r.Since("0.28") {
			kept += ". This release caches no prefixes of such models by itself"
		}
		out = append(out, profile.Warnf("state_caching",
			"%v keeps prefixes of this model in blocks of %d tokens, and the states of its linear attention %s. This changed with almost every release from 0.15 on: measure the hit rate before you rely on it", r, l.Limits().BlockSize, kept))
	}
	return out
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
