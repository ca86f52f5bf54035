package latency

import (
	"fmt"
	"math"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
)

// coefficients scale the physics: each is a measured time over the ideal one.
type coefficients struct {
	weights   float64       // × bytes of weights / memory bandwidth
	kv        float64       // × bytes of KV cache / memory bandwidth
	flops     float64       // × FLOPs / peak
	allReduce float64       // × bytes sent / link bandwidth
	layer     time.Duration // per layer and step: launches, norms, small kernels
	request   time.Duration // per sequence and step: scheduling, sampling
}

// vllm0151 is a non-negative least-squares fit of dense models (8B to 70B) on
// H100, vLLM 0.15.1 under open-loop load, 26 runs; flops and allReduce come
// from the pooled fit of three vLLM versions, 186 runs. Fitted 2026-08 on
// inference-sim's published ground truth and aiconfigurator's silicon export
// @ 095f58a51. There the terms were a plain sum; here the matrix products and
// the reading of their weights overlap, which halves the error on that version.
//
// The form transfers to other models, sizes and engines within some 10 %, other
// engine versions differ by 20 %: measure where it matters.
var vllm0151 = coefficients{
	weights: 0.915, kv: 1.725, flops: 1.42, allReduce: 1.34,
	layer: 82_300 * time.Nanosecond, request: 9_500 * time.Nanosecond,
}

// The terms of a step, in the order in which they are shown.
const (
	termWeights = iota
	termCompute
	termAttention
	termKV
	termLayers
	termRequests
	termAllReduce
	termAllToAll
	numTerms
)

// units are picoseconds per piece of work on the busiest GPU.
type units struct {
	fixedWeights float64 // per step: everything but routed experts
	allExperts   float64 // per step that touches every expert
	experts      int     // routed experts per layer, 0 for a dense model
	perToken     int     // of them, one token's
	expertTokens float64 // share of the step's tokens that pass these experts

	prefill, decode            float64 // per token through the linear layers
	prefillLogits, logits      float64 // per sequence through the output layer
	pairFull, pairWindow       float64 // per query-key pair of prefill
	contextFull, contextWindow float64 // per token of context attended to in decode
	kvFull, kvWindow           float64 // per token of context read
	window                     int64   // tokens; 0 = none
	layers, request            float64
	allReduce, allToAll        float64 // per token
}

// unitsOf lays the work of m out over the GPUs. Work of tensor-parallel ranks
// divides by TP; attention replicas share the step's sequences evenly (DP); a
// pipeline (PP) runs decode as PP smaller batches that follow each other, so
// that what grows with sequences divides by PP and what each batch costs does
// not, and a prefill passes all of its stages.
func unitsOf(m catalog.Model, g catalog.GPU, c engine.Config) units {
	const second = float64(engine.Second)
	k, p := vllm0151, c.Parallelism
	tp, dp, pp := float64(p.TP), float64(p.DP), float64(p.PP)
	full, windowed := float64(m.FullAttentionLayers), float64(m.Layers-m.FullAttentionLayers)
	linear, _ := g.FLOPS(c.Weights)

	u := units{
		experts: m.Experts, perToken: m.ExpertsPerToken, window: int64(m.SlidingWindow),
		layers: k.layer.Seconds() * second * float64(m.Layers), request: k.request.Seconds() * second / (dp * pp),
	}
	readWeights := k.weights * second / (tp * g.HBMBytesPerSec)
	experts := expertBytes(m, c.Weights)
	u.fixedWeights = readWeights * (m.WeightBytes(c.Weights) - experts)
	u.allExperts, u.expertTokens = readWeights*experts, 1/dp
	if p.EP > 1 {
		u.allExperts, u.expertTokens = u.allExperts/dp, 1
	}

	kvLayer := k.kv * second * float64(m.KVElementsPerLayer()) * c.KV.Bytes() /
		(float64(kvShards(m, p)) * dp * pp * g.HBMBytesPerSec)
	u.kvFull, u.kvWindow = kvLayer*full, kvLayer*windowed

	flop := k.flops * second / (tp * dp)
	u.prefill = flop * 2 * float64(m.LinearParams()) / linear
	u.decode = u.prefill / pp
	u.prefillLogits = flop * 2 * float64(m.Hidden) * float64(m.Vocab) / g.BF16FLOPS
	u.logits = u.prefillLogits / pp
	pair := flop * prefillPairFLOPs(m) / g.BF16FLOPS
	u.pairFull, u.pairWindow = pair*full, pair*windowed
	attend := flop * decodePairFLOPs(m) / (g.BF16FLOPS * pp)
	u.contextFull, u.contextWindow = attend*full, attend*windowed

	// A ring all-reduce sends 2(TP−1)/TP of its message; two per layer, BF16.
	token := 2 * float64(m.Hidden)
	u.allReduce = k.allReduce * second * 2 * float64(m.Layers) * 2 * (tp - 1) / tp * token / (dp * g.LinkBytesPerSec)
	if p.EP > 1 && p.DP > 1 {
		// Each token goes to the GPUs of its experts and comes back.
		away := float64(min(m.ExpertsPerToken, p.EP)) * float64(p.EP-1) / float64(p.EP)
		u.allToAll = k.allReduce * second * 2 * float64(m.MoELayers()) * away * token / (dp * tp * g.LinkBytesPerSec)
	}
	return u
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

// times are the terms of a step with b, each rounded to a picosecond, so that
// their sum is exact.
func (u units) times(b engine.Batch) [numTerms]engine.Picoseconds {
	preTokens, preSeqs, seqs := float64(b.PrefillTokens), float64(b.PrefillSeqs), float64(b.DecodeSeqs)
	past, context, pairs := float64(b.PrefillPast), float64(b.DecodeContext), float64(b.PrefillPairs)
	pastWindow, contextWindow, pairsWindow := past, context, pairs
	if u.window > 0 {
		w := float64(u.window)
		pastWindow, contextWindow, pairsWindow = min(past, w*preSeqs), min(context, w*seqs), min(pairs, w*preTokens)
	}
	weights := picoseconds(u.fixedWeights + u.allExperts*u.touched(preTokens+seqs))
	products := picoseconds(u.prefill*preTokens + u.prefillLogits*preSeqs + (u.decode+u.logits)*seqs)
	return [numTerms]engine.Picoseconds{
		termWeights: weights,
		termCompute: max(0, products-weights), // the rest is hidden behind the reading
		termAttention: picoseconds(u.pairFull*pairs + u.pairWindow*pairsWindow +
			u.contextFull*context + u.contextWindow*contextWindow),
		termKV:        picoseconds(u.kvFull*(past+context) + u.kvWindow*(pastWindow+contextWindow)),
		termLayers:    picoseconds(u.layers),
		termRequests:  picoseconds(u.request * (preSeqs + seqs)),
		termAllReduce: picoseconds(u.allReduce * (preTokens + seqs)),
		termAllToAll:  picoseconds(u.allToAll * (preTokens + seqs)),
	}
}

// touched is the share of the experts that at least one of the tokens passes
// through, when each token picks perToken of them evenly: 1 − (1 − k/E)^tokens.
func (u units) touched(tokens float64) float64 {
	if u.experts == 0 {
		return 0
	}
	miss := 1 - float64(u.perToken)/float64(u.experts)
	return 1 - math.Pow(miss, max(1, tokens*u.expertTokens))
}

// picoseconds rounds, and bounds a term to a day so that no sum overflows.
func picoseconds(x float64) engine.Picoseconds {
	const day = 24 * 3600 * engine.Second
	return engine.Picoseconds(math.Round(min(max(x, 0), float64(day))))
}

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
	k := vllm0151
	describe := [numTerms][2]string{
		termWeights:   {"weights", fmt.Sprintf("%g · bytes of weights touched / (TP · memory bandwidth)", k.weights)},
		termCompute:   {"compute", fmt.Sprintf("%g · 2 · parameters · tokens / (TP · peak), beyond the weights' time", k.flops)},
		termAttention: {"attention", fmt.Sprintf("%g · FLOPs of query-key pairs / (TP · peak)", k.flops)},
		termKV:        {"kv cache", fmt.Sprintf("%g · bytes of KV cache read / (shards · memory bandwidth)", k.kv)},
		termLayers:    {"layers", fmt.Sprintf("%v · layers", k.layer)},
		termRequests:  {"requests", fmt.Sprintf("%v · sequences", k.request)},
		termAllReduce: {"all-reduce", fmt.Sprintf("%g · 2 · layers · 2(TP−1)/TP · tokens · hidden state / link bandwidth", k.allReduce)},
		termAllToAll:  {"all-to-all", fmt.Sprintf("%g · 2 · layers · experts away · tokens · hidden state / link bandwidth", k.allReduce)},
	}
	out := make([]Term, 0, numTerms)
	for i, t := range m.unit.times(b) {
		out = append(out, Term{Name: describe[i][0], Time: t, Formula: describe[i][1]})
	}
	return out
}
