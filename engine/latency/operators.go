package latency

import (
	"plimsoll/engine"
	"plimsoll/engine/operator"
)

// Operator is one kind of operator in a step, on the busiest GPU.
type Operator struct {
	Name  string
	Time  engine.Picoseconds
	FLOPs float64 // 0 where nothing is multiplied
	Bytes float64 // weights, KV cache or messages; 0 where none move
}

// Operators says what a step with b spends its time on. The times add up to StepTime,
// but for rounding; operators that the step has not are left out.
func (m Model) Operators(b engine.Batch) []Operator {
	if b.PrefillSeqs == 0 && b.DecodeSeqs == 0 {
		return nil
	}
	s := sheet{m: m, b: &b, k: m.about.fit.Coefficients}
	s.matrices()
	s.attention()
	s.launches()
	return s.out
}

// sheet collects the operators of a step.
type sheet struct {
	m   Model
	b   *engine.Batch
	k   Coefficients
	out []Operator
}

// add adds x at a factor, and at the table's time of what it is part of.
func (s *sheet) add(name string, x spent, factor float64) {
	s.span(Operator{Name: name, Time: picoseconds(x.us * 1e6 * factor), FLOPs: x.flops, Bytes: x.bytes})
}

func (s *sheet) span(o Operator) {
	if o.Time > 0 {
		s.out = append(s.out, o)
	}
}

// matrices are the products, the experts, and what GPUs exchange.
func (s *sheet) matrices() {
	a, u := s.m.about, &s.m.unit
	w, l := u.work, a.layout
	prompts, seqs := u.busiest(s.b), u.share(s.b.DecodeSeqs)
	n := int(prompts.Tokens) + seqs
	tokens := float64(n)
	x := l.products()(tokens)
	scale := s.k.Products * tabled(w.tokens, w.products, n) / (x.us() / 1e6)
	s.add("attention projections", x.projections, scale)
	s.add(l.ffnName(), x.ffn, scale)
	s.add("norms, activations", x.norms, scale)
	if w.moe > 0 {
		all := n
		if u.experts != nil {
			all = s.b.PrefillTokens + s.b.DecodeSeqs
		}
		e := l.expertWork(float64(all))
		e.us = 1e6 * tabled(w.tokens, w.experts, all)
		s.add("experts", e, s.k.Experts)
	}
	sampled := seqs + int(prompts.Seqs)
	vocab := float64(a.model.Vocab) / l.tp * float64(a.model.Hidden)
	s.add("logits", spent{1e6 * tabled(w.seqs, w.logits, sampled), 2 * float64(sampled) * vocab, vocab * operator.BF16.Bytes()}, s.k.Products)
	s.add("GPU exchange", spent{us: 1e6 * tabled(w.tokens, w.exchanged, n), bytes: l.exchanged(tokens)}, s.k.Collectives)
}

// attention is that of prompts and of decode.
func (s *sheet) attention() {
	a, u, b := s.m.about, &s.m.unit, s.b
	if b.PrefillSeqs > 0 {
		prompts := u.busiest(b)
		s.span(Operator{Name: "prompt attention", Time: u.attend(prompts), FLOPs: a.layout.promptFLOPs(prompts)})
	}
	if b.DecodeSeqs > 0 {
		seqs, context := float64(u.share(b.DecodeSeqs)), float64(b.DecodeContext)/float64(b.DecodeSeqs)
		flops, bytes := a.layout.decodeWork(seqs, context)
		s.span(Operator{Name: "decode attention", Time: u.decoding(b.DecodeSeqs, b.DecodeContext).at(b.DecodeContext), FLOPs: flops, Bytes: bytes})
	}
}

// launches are what no operator takes.
func (s *sheet) launches() {
	w, u, k := s.m.unit.work, &s.m.unit, s.k
	const second = float64(engine.Second)
	s.span(Operator{Name: "launches, by layer", Time: u.step - whole(second*k.Step)})
	s.span(Operator{Name: "engine, by step", Time: whole(second * k.Step)})
	prompts := 0
	if s.b.PrefillSeqs > 0 {
		prompts = int(u.busiest(s.b).Seqs)
		s.span(Operator{Name: "launches, prompts", Time: u.prompt})
	}
	n := u.share(s.b.DecodeSeqs) + prompts
	s.span(Operator{Name: "engine, by sequence", Time: picoseconds(second * k.Sequence * counted(w.seqs, n))})
}

// tabled is a table's value at n, and counted is n where a table's line is straight.
func tabled(k knots, table []float64, n int) float64 {
	i, share := k.between(n)
	return table[i] + share*(table[i+1]-table[i])
}

func counted(k knots, n int) float64 {
	i, share := k.between(n)
	return float64(k.at(i)) + share*float64(k.at(i+1)-k.at(i))
}

func (l *layout) ffnName() string {
	if l.m.MoE() {
		return "router, shared experts"
	}
	return "feed-forward"
}

// expertWork counts the routed experts of all layers of one GPU.
func (l *layout) expertWork(tokens float64) spent {
	m := l.m
	width := float64(m.MoEFFN)
	if l.ep == 1 {
		width /= l.tp
	}
	layers, routed := float64(m.MoELayers()), tokens*float64(m.ExpertsPerToken)/l.ep
	active := operator.Experts{Tokens: tokens, TopK: float64(m.ExpertsPerToken), Count: float64(m.Experts), EP: l.ep}.Active()
	return spent{flops: layers * 6 * routed * float64(m.Hidden) * width, bytes: layers * active * 3 * float64(m.Hidden) * width * l.moe.Bytes()}
}

// exchanged is how many bytes one GPU's messages hold.
func (l *layout) exchanged(tokens float64) float64 {
	bytes, p := 2*float64(l.m.Hidden)*tokens, l.c.Parallelism
	sum := 0.0
	if p.TP > 1 {
		sum += 2 * float64(l.m.Layers) * bytes
	}
	if l.shared {
		sum += 2 * float64(l.m.MoELayers()*p.DP) * bytes
	}
	return sum
}

// promptFLOPs counts the products of scores and values.
func (l *layout) promptFLOPs(x operator.Prompts) float64 {
	m := l.m
	full, windowed, _ := attentionLayers(m)
	heads := float64(m.QHeads) / l.tp
	perPair := 2 * heads * float64(m.HeadDim+m.RopeHeadDim+m.ValueDim())
	near := min(x.Pairs, float64(m.SlidingWindow)*x.Tokens)
	return perPair * (full*x.Pairs + windowed*near)
}

// decodeWork counts products and KV bytes of decode.
func (l *layout) decodeWork(seqs, context float64) (flops, bytes float64) {
	m := l.m
	full, windowed, _ := attentionLayers(m)
	elements, width := 2*l.attends.kv*l.attends.dim, 2*float64(m.HeadDim)
	if m.MLA() {
		elements, width = float64(m.KVLoraRank+m.RopeHeadDim), float64(2*m.KVLoraRank+m.RopeHeadDim)
	}
	if m.SparseTopK > 0 {
		context = min(context, float64(m.SparseTopK))
	}
	tokens := seqs * (full*context + windowed*min(context, float64(m.SlidingWindow)))
	return 2 * tokens * float64(m.QHeads) / l.tp * width, tokens * elements * l.kv.Bytes()
}
