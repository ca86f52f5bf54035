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

	// Two all-reduces of a token's hidden state per layer, BF16.
	token := 2 * float64(m.Hidden)
	w.allReduce = 2 * w.layers * token * allReduce(p.TP, g) / dp
	if p.EP > 1 && p.DP > 1 {
		// Each token goes to the GPUs of its experts and comes back.
		w.allToAll = 2 * float64(m.MoELayers()) * float64(min(m.ExpertsPerToken, p.EP)) * token * allToAll(p.EP, g) / (dp * tp)
		w.exchanges += float64(m.MoELayers()) * math.Log2(dp)
	}
	return w
}

// serverGPUs is how many GPUs one server links by NVLink or its like (DGX and HGX
// A100, H100, H200, B200 data sheets): beyond, bytes go over the network.
const serverGPUs = 8

// allReduce is seconds per byte of a message that n GPUs sum up. In one server a
// ring sends 2(n−1)/n of it. Over servers each sums up its own, the eighths that
// its GPUs then hold are summed up over the network at the same time, and every
// server spreads the result (NCCL's hierarchy; no row spans servers).
func allReduce(n int, g catalog.GPU) float64 {
	if n <= serverGPUs {
		return 2 * float64(n-1) / float64(n) / g.LinkBytesPerSec
	}
	servers := math.Ceil(float64(n) / serverGPUs)
	return 2.0*(serverGPUs-1)/serverGPUs/g.LinkBytesPerSec + 2*(servers-1)/servers/serverGPUs/g.InterNodeBytesPerSec
}

// allToAll is seconds per byte that a GPU sends to experts spread over n GPUs.
func allToAll(n int, g catalog.GPU) float64 {
	near := float64(min(n, serverGPUs) - 1)
	far := float64(n) - 1 - near
	if far == 0 {
		return near / float64(n) / g.LinkBytesPerSec
	}
	return near/float64(n)/g.LinkBytesPerSec + far/float64(n)/g.InterNodeBytesPerSec
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
