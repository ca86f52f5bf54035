package latency

import (
	"fmt"

	"plimsoll/engine"
)

// Term is one part of a step's time.
type Term struct {
	Name    string             `json:"name"`
	Time    engine.Picoseconds `json:"time_ps"`
	Formula string             `json:"formula"`
}

// Terms is what StepTime is the sum of; nil for an empty batch.
func (m Model) Terms(b engine.Batch) []Term {
	if b.Empty() {
		return nil
	}
	k := m.about.fit.Coefficients
	describe := [numTerms][2]string{
		termWeights:     {"weights", fmt.Sprintf("(%.3g · bytes of weights + %.3g · bytes of experts touched) / (TP · memory bandwidth)", k.Weights, k.Experts)},
		termCompute:     {"compute", fmt.Sprintf("%.3g · 2 · parameters · tokens / (TP · peak), beyond the weights' time", m.about.work.flops(k))},
		termAttention:   {"attention", fmt.Sprintf("%.3g · FLOPs of query-key pairs / (TP · peak), in decode beyond the KV cache's time", k.Attention)},
		termKV:          {"kv cache", fmt.Sprintf("%.3g · bytes of KV cache read / (shards · memory bandwidth)", k.KV)},
		termLayers:      {"layers", fmt.Sprintf("%.3g µs · layers + %.3g µs", 1e6*k.Layer, 1e6*k.Step)},
		termPrefill:     {"prompt", fmt.Sprintf("%.3g µs · layers in a step with a prompt", 1e6*k.PrefillLayer)},
		termRequests:    {"requests", fmt.Sprintf("%.3g µs · sequences", 1e6*k.Request)},
		termCollectives: {"collectives", fmt.Sprintf("%.3g µs · layers · log2(GPUs that exchange)", 1e6*k.Collective)},
		termAllReduce:   {"all-reduce", fmt.Sprintf("%.3g · 2 · layers · 2(TP−1)/TP · tokens · hidden state / link bandwidth", k.AllReduce)},
		termAllToAll:    {"all-to-all", fmt.Sprintf("%.3g · 2 · layers · experts away · tokens · hidden state / link bandwidth", k.AllReduce)},
	}
	var times [numTerms]engine.Picoseconds
	m.unit.times(&b, &times)
	out := make([]Term, 0, numTerms)
	for i, t := range times {
		out = append(out, Term{Name: describe[i][0], Time: t, Formula: describe[i][1]})
	}
	return out
}
