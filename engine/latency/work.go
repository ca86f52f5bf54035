package latency

import (
	"math"

	"plimsoll/engine"
	"plimsoll/engine/catalog"
	"plimsoll/engine/operator"
)

// work is how long the operators of a step take on the busiest GPU, in seconds, as
// their kernels take alone: tables over what a step carries. What is counted instead
// of timed says so.
type work struct {
	tokens    knots
	products  []float64 // by tokens of a replica: the products of all layers, and what is done by element
	exchanged []float64 // by tokens of a replica: all-reduces, or gathering and scattering
	experts   []float64 // by tokens of the step
	seqs      knots
	logits    []float64 // by sequences of a replica
	context   knots
	decode    [][]float64 // by sequences of a replica and context of each

	prompts   []attention // of prompts
	perPrompt float64     // products of a prompt's token more than of any other (MLA)

	layers, quantised, moe, mla float64 // layers, counted
	replicas, stages            int     // DP, PP
	shared                      bool    // each replica has a part of the experts
}

// attention is that of prompts in a kind of layers.
type attention struct {
	layers float64
	heads  operator.Heads
	mla    bool
	curve  operator.PrefillCurve
}

// layout is a model over the GPUs of an engine.
type layout struct {
	m              catalog.Model
	c              engine.Config
	kernels        operator.Kernels
	hbm            float64
	tp, ep         float64
	dense, moe, kv operator.DType
	shared         bool // experts are shared out among replicas of attention
	attends        attending
}

type attending struct{ query, kv, dim float64 }

// workOf lays the work of m out over GPUs. Work of tensor-parallel ranks divides by TP;
// attention replicas share the step's sequences evenly (DP); a pipeline (PP) runs
// decode as PP smaller batches that follow each other, and a prefill passes all of
// its stages.
func workOf(m catalog.Model, g catalog.GPU, c engine.Config, kernels operator.Kernels) (work, layout) {
	p := c.Parallelism
	l := layout{m: m, c: c, kernels: kernels, hbm: g.HBMBytesPerSec / 1e6, tp: float64(p.TP), ep: 1, kv: typeOf(c.KV)}
	l.dense, l.moe = weightTypes(m, g, c.Weights)
	if p.EP > 1 {
		l.ep, l.shared = float64(p.TP*p.DP), p.DP > 1
	}
	l.attends = attending{float64(m.QHeads) / l.tp, math.Max(1, float64(m.KVHeads)/l.tp), float64(m.HeadDim)}
	w := work{
		tokens: knotsTo(2, 1<<17), seqs: knotsTo(1, 1<<12), context: knotsTo(1, 1<<20),
		layers: float64(m.Layers), moe: float64(m.MoELayers()), replicas: p.DP, stages: p.PP, shared: l.shared,
	}
	if l.dense != operator.BF16 {
		w.quantised = w.layers
	} else if l.moe != operator.BF16 {
		w.quantised = w.moe
	}
	if m.MLA() {
		w.mla = w.layers
	}
	l.tabulate(&w)
	return w, l
}

// typeOf is the kernels' name of a type of KV cache or plain weights.
func typeOf(d engine.DType) operator.DType {
	switch d {
	case engine.FP8:
		return operator.FP8
	case engine.FP4, engine.NVFP4:
		return operator.NVFP4
	case engine.MXFP4:
		return operator.MXFP4
	case engine.INT4:
		return operator.Int4
	case engine.BF16:
	}
	return operator.BF16
}

// weightTypes are the kernels' types of dense products and of experts. FP8 checkpoints
// of mixtures of experts are scaled by blocks.
func weightTypes(m catalog.Model, g catalog.GPU, d engine.DType) (dense, experts operator.DType) {
	of := func(d engine.DType) operator.DType {
		switch t := typeOf(d); {
		case t == operator.FP8 && (m.MoE() || m.QuantBlock > 0):
			return operator.FP8Block
		case t == operator.MXFP4 && g.FP4FLOPS > 0:
			return operator.MXFP4MXFP8
		default:
			return t
		}
	}
	attention, ffn := m.WeightTypes(d)
	return of(attention), of(ffn)
}

func (l *layout) tabulate(w *work) {
	w.products, w.exchanged, w.experts = make([]float64, w.tokens.most), make([]float64, w.tokens.most), make([]float64, w.tokens.most)
	products, collectives, experts := l.products(), l.collectives(), l.experts()
	for i := 1; i < w.tokens.most; i++ {
		m := float64(w.tokens.at(i))
		w.products[i], w.exchanged[i] = products(m).us()/1e6, collectives(m)/1e6
		if w.moe > 0 {
			w.experts[i] = w.moe * experts(m) / 1e6
		}
	}
	w.logits = make([]float64, w.seqs.most)
	logits := l.kernels.Product(operator.BF16)
	w.decode = make([][]float64, w.seqs.most)
	decode := l.decoding()
	for i := 1; i < w.seqs.most; i++ {
		n := float64(w.seqs.at(i))
		w.logits[i] = logits(operator.Product{M: n, N: float64(l.m.Vocab) / l.tp, K: float64(l.m.Hidden)}) / 1e6
		w.decode[i] = make([]float64, w.context.most)
		for j := range w.context.most {
			w.decode[i][j] = decode(n, math.Max(1, float64(w.context.at(j)))) / 1e6
		}
	}
	w.decode[0] = make([]float64, w.context.most)
	l.prompts(w)
	rising(w.products)
	rising(w.exchanged)
	rising(w.experts)
	rising(w.logits)
	for i, row := range w.decode {
		rising(row)
		for j := range row {
			if i > 0 {
				row[j] = max(row[j], w.decode[i-1][j])
			}
		}
	}
}

// rising lifts what falls: more work takes no less time.
func rising(v []float64) {
	for i := 1; i < len(v); i++ {
		v[i] = max(v[i], v[i-1])
	}
}

// attentionLayers are layers with full attention, with a window, and with a linear one.
func attentionLayers(m catalog.Model) (full, windowed, linear float64) {
	linear = float64(m.LinearLayers)
	full = float64(m.FullAttentionLayers)
	return full, float64(m.KVLayers()) - full, linear
}

// spent is what operators take of one GPU: time alone, µs; operations; bytes read and
// written, of weights or a cache.
type spent struct{ us, flops, bytes float64 }

// product adds the products of m tokens with n×k weights in so many layers.
func (s *spent) product(layers float64, curve func(operator.Product) float64, d operator.DType, m, n, k float64) {
	if layers*n*k == 0 {
		return
	}
	s.us += layers * curve(operator.Product{M: m, N: n, K: k})
	s.flops += layers * 2 * m * n * k
	s.bytes += layers * n * k * d.Bytes()
}

// element adds what is done by element on so many bytes.
func (l *layout) element(s *spent, bytes float64) {
	s.us += bytes / (elementwise * l.hbm)
	s.bytes += bytes
}

// elementwise is the share of the memory bandwidth at which norms, rotations and
// activations run.
const elementwise = 0.8

// perToken are the parts of a step by tokens of a replica, logits and experts apart.
type perToken struct{ projections, ffn, norms spent }

func (p perToken) us() float64 { return p.projections.us + p.ffn.us + p.norms.us }

// products is what all products but routed experts' take, and what is done by
// element, by tokens of a replica.
func (l *layout) products() func(tokens float64) perToken {
	m, tp := l.m, l.tp
	dense, bf16 := l.kernels.Product(l.dense), l.kernels.Product(operator.BF16)
	ffn := dense
	if l.moe != l.dense {
		ffn = l.kernels.Product(l.moe)
	}
	h, layers, moe := float64(m.Hidden), float64(m.KVLayers()), float64(m.MoELayers())
	plain, value := float64(m.FFNLayers())-moe, float64(m.QHeads*m.ValueDim())/tp
	shared := float64(m.SharedExperts*m.MoEFFN) / tp
	return func(t float64) (out perToken) {
		project := func(n, k float64) { out.projections.product(layers, dense, l.dense, t, n, k) }
		var wide float64
		if m.MLA() {
			wide = float64(m.HeadDim+m.RopeHeadDim) * float64(m.QHeads) / tp
			q := float64(m.QLoraRank)
			project(q+float64(m.KVLoraRank+m.RopeHeadDim), h)
			if q > 0 {
				project(wide, q)
			} else {
				project(wide, h)
			}
		} else {
			q := l.attends.query
			if m.GatedAttention {
				q *= 2
			}
			project((q+2*l.attends.kv)*l.attends.dim, h)
			wide = (q + l.attends.kv) * l.attends.dim
		}
		project(h, value)
		l.linear(&out, t, dense)
		forward := func(layers, width float64) {
			out.ffn.product(layers, ffn, l.moe, t, float64(m.FFNProducts()-1)*width, h) // gate and up, or up alone
			out.ffn.product(layers, ffn, l.moe, t, h, width)
		}
		forward(plain, float64(m.FFN)/tp)
		width := float64(m.FFN) / tp
		if moe > 0 {
			out.ffn.product(moe, bf16, operator.BF16, t, float64(m.Experts), h)
			forward(moe, shared)
			out.ffn.product(moe, ffn, l.moe, t, float64(m.MoELatent), h)
			out.ffn.product(moe, ffn, l.moe, t, h, float64(m.MoELatent))
			width = float64(m.ExpertsPerToken*m.MoEFFN) / tp
		}
		l.element(&out.norms, float64(m.Layers)*t*(16*h+4*wide+6*width))
		return out
	}
}

// linear adds layers with linear attention (gated DeltaNet: S. Yang et al.,
// arXiv 2412.06464; Mamba2: T. Dao and A. Gu, arXiv 2405.21060): projections of
// queries, keys, values and gates, and back; what is done by element over the state of
// each head.
func (l *layout) linear(out *perToken, t float64, dense func(operator.Product) float64) {
	m, layers := l.m, float64(l.m.LinearLayers)
	keys, values := float64(m.LinearKeyHeads*m.LinearKeyDim())/l.tp, float64(m.LinearValueHeads*m.LinearHeadDim)/l.tp
	out.projections.product(layers, dense, l.dense, t, 2*keys+2*values, float64(m.Hidden))
	out.projections.product(layers, dense, l.dense, t, float64(m.Hidden), values)
	l.element(&out.norms, layers*t*2*(4*keys+6*values))
}

// experts is the time of the routed experts of one layer, by tokens of the step, µs.
func (l *layout) experts() func(tokens float64) float64 {
	curve := l.kernels.Experts(l.moe)
	m := l.m
	width := float64(m.MoEFFN*m.FFNProducts()) / 3 // the curves are of gated experts
	if l.ep == 1 {
		width /= l.tp
	}
	return func(t float64) float64 {
		return curve(operator.Experts{Tokens: t, Hidden: float64(m.ExpertHidden()), Width: width, TopK: float64(m.ExpertsPerToken), Count: float64(m.Experts), EP: l.ep})
	}
}

// collectives is the time of what all GPUs exchange, by tokens of a replica, µs: two
// all-reduces of the hidden states per layer; under DP all GPUs of the experts gather
// them, and scatter the results.
func (l *layout) collectives() func(tokens float64) float64 {
	p, token := l.c.Parallelism, 2*float64(l.m.Hidden)
	reduce, gather, scatter := l.kernels.Collective(operator.KindAllReduce), l.kernels.Collective(operator.KindAllGather), l.kernels.Collective(operator.KindScatter)
	return func(t float64) float64 {
		sum := 0.0
		if p.TP > 1 {
			sum += float64(l.m.Layers-l.m.FeedForwardLayers+l.m.FFNLayers()) * l.over(reduce, t*token, p.TP)
		}
		if l.shared {
			n := p.DP * p.TP
			sum += float64(l.m.MoELayers()) * (l.over(gather, t*token*float64(p.DP), n) + l.over(scatter, t*token*float64(p.DP), n))
		}
		return sum
	}
}

// over is the time of a collective over n GPUs. Over servers, each exchanges within
// itself, and the parts that its GPUs then hold go over the network at the same time
// (NCCL's hierarchy; no measured row spans servers).
func (l *layout) over(within func(bytes, n float64) float64, bytes float64, n int) float64 {
	linked := float64(l.kernels.Linked())
	if float64(n) <= linked {
		return within(bytes, float64(n))
	}
	servers := math.Ceil(float64(n) / linked)
	return within(bytes, linked) + 2*(servers-1)/servers/linked*bytes/(l.kernels.InterNode()/1e6)
}

// decoding is the attention of all layers in decode, by sequences of a replica and
// context of each, µs.
func (l *layout) decoding() func(seqs, context float64) float64 {
	m := l.m
	full, windowed, linear := attentionLayers(m)
	state := float64(m.LinearValueHeads*m.LinearHeadDim*m.LinearKeyDim()) / l.tp * stateBytes
	if m.MLA() {
		mla, bmm := l.kernels.MLADecode(l.kv), l.kernels.Product(operator.BF16)
		heads := float64(m.QHeads) / l.tp
		return func(seqs, context float64) float64 {
			if m.SparseTopK > 0 {
				context = math.Min(context, float64(m.SparseTopK))
			}
			absorbed := bmm(operator.Product{M: seqs, N: float64(m.KVLoraRank) * heads, K: float64(m.HeadDim)}) +
				bmm(operator.Product{M: seqs, N: float64(m.ValueDim()) * heads, K: float64(m.KVLoraRank)})
			return full * (mla(heads, seqs, context) + absorbed)
		}
	}
	gqa := l.kernels.Decode(l.kv)
	all := operator.Heads{Query: l.attends.query, KV: l.attends.kv, Dim: l.attends.dim}
	near := all
	near.Window = float64(m.SlidingWindow)
	return func(seqs, context float64) float64 {
		t := full*gqa(all, seqs, context) + linear*(linearLaunch+2*seqs*state/(elementwise*l.hbm))
		if windowed > 0 {
			t += windowed * gqa(near, seqs, context)
		}
		return t
	}
}

// The state of linear attention is FP32, and read and written once per token; its
// kernels, convolution and recurrence, take some microseconds to start.
const (
	stateBytes   = 4
	linearLaunch = 10
)

// prompts are the curves of prompts' attention.
func (l *layout) prompts(w *work) {
	m := l.m
	full, windowed, _ := attentionLayers(m)
	if m.MLA() {
		heads := float64(m.QHeads) / l.tp
		w.prompts = []attention{{layers: full, heads: operator.Heads{Query: heads}, mla: true, curve: l.kernels.MLAPrefill(l.kv)}}
		const many = 8192
		product := l.kernels.Product(operator.BF16)
		w.perPrompt = full * product(operator.Product{M: many, N: float64(m.HeadDim+m.ValueDim()) * heads, K: float64(m.KVLoraRank)}) / many / 1e6
		return
	}
	curve := l.kernels.Prefill(l.kv)
	heads := operator.Heads{Query: l.attends.query, KV: l.attends.kv, Dim: l.attends.dim}
	w.prompts = []attention{{layers: full, heads: heads, curve: curve}}
	if windowed > 0 {
		heads.Window = float64(m.SlidingWindow)
		w.prompts = append(w.prompts, attention{layers: windowed, heads: heads, curve: curve})
	}
}

// time of prompts' attention, in seconds.
func (a attention) time(x operator.Prompts) float64 {
	if a.mla {
		return a.layers * a.curve.MLATime(a.heads.Query, x) / 1e6
	}
	return a.layers * a.curve.Time(a.heads, x) / 1e6
}
