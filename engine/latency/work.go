package latency

import (
	"math"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
)

// work is what the pieces of a step take on the busiest GPU at the data sheet's
// speeds, in seconds: physics without a measured number in it. What is counted
// instead of timed says so.
type work struct {
	fixedWeights float64 // per step: everything but routed experts
	allExperts   float64 // per step that touches every expert
	miss         float64 // chance that one token does not pass a given expert; 0 = dense
	expertTokens float64 // share of the step's tokens that pass these experts

	prefill, decode       float64 // per token through the linear layers
	low                   bool    // whose operands have 8 bits or fewer
	prefillLogits, logits float64 // per sequence through the output layer
	pair, attend          float64 // per layer: query-key pair of prefill; token of context attended to in decode
	kv                    float64 // per layer: token of context read
	full, windowed        float64 // layers, counted
	window                int64   // tokens; 0 = none

	layers, exchanges float64 // counted per step: layers; layers × doublings of the GPUs that exchange
	sequences         float64 // share of the step's sequences that one GPU schedules
	replicas          int     // of attention (DP), which share the step's sequences
	allReduce         float64 // per token
	allToAll          float64 // per token
}

// workOf lays the work of m out over the GPUs. Work of tensor-parallel ranks
// divides by TP; attention replicas share the step's sequences evenly (DP; fewer
// sequences than replicas leave some idle: units.busiest); a
// pipeline (PP) runs decode as PP smaller batches that follow each other, so
// that what grows with sequences divides by PP and what each batch costs does
// not, and a prefill passes all of its stages.
func workOf(m catalog.Model, g catalog.GPU, c engine.Config) work {
	p := c.Parallelism
	tp, dp, pp := float64(p.TP), float64(p.DP), float64(p.PP)
	linear, native := g.FLOPS(c.Weights)

	w := work{
		full: float64(m.FullAttentionLayers), windowed: float64(m.Layers - m.FullAttentionLayers),
		window: int64(m.SlidingWindow), layers: float64(m.Layers), sequences: 1 / (dp * pp), replicas: p.DP,
		exchanges: float64(m.Layers) * math.Log2(tp), low: native && c.Weights.Bytes() < engine.BF16.Bytes(),
	}
	experts := expertBytes(m, c.Weights)
	w.fixedWeights = (m.WeightBytes(c.Weights) - experts) / (tp * g.HBMBytesPerSec)
	w.allExperts, w.expertTokens = experts/(tp*g.HBMBytesPerSec), 1/dp
	if p.EP > 1 {
		w.allExperts, w.expertTokens = w.allExperts/dp, 1
	}
	if m.MoE() {
		w.miss = 1 - float64(m.ExpertsPerToken)/float64(m.Experts)
	}

	w.kv = float64(m.KVElementsPerLayer()) * c.KV.Bytes() / (float64(kvShards(m, p)) * dp * pp * g.HBMBytesPerSec)
	w.prefill = 2 * float64(m.LinearParams()) / (tp * dp * linear)
	w.decode = w.prefill / pp
	w.prefillLogits = 2 * float64(m.Hidden) * float64(m.Vocab) / (tp * dp * g.BF16FLOPS)
	w.logits = w.prefillLogits / pp
	w.pair = prefillPairFLOPs(m) / (tp * dp * g.BF16FLOPS)
	w.attend = decodePairFLOPs(m) / (tp * dp * pp * g.BF16FLOPS)

	// A ring all-reduce sends 2(TP−1)/TP of its message; two per layer, BF16.
	token := 2 * float64(m.Hidden)
	w.allReduce = 2 * w.layers * 2 * (tp - 1) / tp * token / (dp * g.LinkBytesPerSec)
	if p.EP > 1 && p.DP > 1 {
		// Each token goes to the GPUs of its experts and comes back.
		away := float64(min(m.ExpertsPerToken, p.EP)) * float64(p.EP-1) / float64(p.EP)
		w.allToAll = 2 * float64(m.MoELayers()) * away * token / (dp * tp * g.LinkBytesPerSec)
		w.exchanges += float64(m.MoELayers()) * math.Log2(dp)
	}
	return w
}

// expertBytes is the size of all routed experts of all layers.
func expertBytes(m catalog.Model, d engine.DType) float64 {
	return float64(m.MoELayers()*m.Experts) * m.ExpertBytes(d)
}

// prefillPairFLOPs is scores and values of one query-key pair in one layer:
// 2·heads·(key dim + value dim).
func prefillPairFLOPs(m catalog.Model) float64 {
	return 2 * float64(m.QHeads) * float64(2*m.HeadDim+m.RopeHeadDim)
}

// decodePairFLOPs is the same in decode, where MLA works on compressed entries.
func decodePairFLOPs(m catalog.Model) float64 {
	if m.MLA() {
		return 2 * float64(m.QHeads) * float64(2*m.KVLoraRank+m.RopeHeadDim)
	}
	return prefillPairFLOPs(m)
}
