package latency

import (
	"math"
	"math/bits"

	"plimsoll/engine"
	"plimsoll/engine/operator"
)

// units are the tables of a work at an engine's speeds, in picoseconds.
type units struct {
	work               *work
	tokens             []engine.Picoseconds // by tokens of a replica
	experts            []engine.Picoseconds // by tokens of the step; nil where tokens has them
	logits             []engine.Picoseconds // by sequences of a replica
	decode             [][]float64          // by sequences of a replica and context of each
	alone              []engine.Picoseconds // by sequences, of steps that only decode, but for attention; may be shorter
	step               engine.Picoseconds   // per step
	prompt             engine.Picoseconds   // per step with a prompt
	prefill            float64              // × attention of prompts
	perPrompt          float64
	overhead, perToken engine.Picoseconds // per request, and per token of it, outside of steps
}

// units scale w by what was measured.
func (w *work) units(k Coefficients) units {
	const second = float64(engine.Second)
	u := units{
		work: w, prefill: k.Prefill * second, perPrompt: k.Products * second * w.perPrompt, perToken: whole(k.Tokenise * second),
		step:     whole(second * (k.Step + k.Layer*w.layers + k.Quantised*w.quantised + k.MoE*w.moe + k.MLA*w.mla)),
		prompt:   whole(second * (k.Prompt*w.layers + k.PromptMoE*w.moe)),
		overhead: whole(second * k.Overhead),
		tokens:   make([]engine.Picoseconds, w.tokens.most), logits: make([]engine.Picoseconds, w.seqs.most), decode: make([][]float64, w.seqs.most),
	}
	if w.shared {
		u.experts = make([]engine.Picoseconds, w.tokens.most)
	}
	for i := range u.tokens {
		t := k.Products*w.products[i] + k.Collectives*w.exchanged[i]
		if u.experts != nil {
			u.experts[i] = picoseconds(second * k.Experts * w.experts[i])
		} else {
			t += k.Experts * w.experts[i]
		}
		u.tokens[i] = picoseconds(second * t)
	}
	for i := range u.logits {
		u.logits[i] = picoseconds(second * (k.Products*w.logits[i] + k.Sequence*float64(w.seqs.at(i))))
		row := make([]float64, w.context.most)
		for j, t := range w.decode[i] {
			row[j] = second * k.Decode * t
		}
		u.decode[i] = row
	}
	return u
}

// tabulateAlone makes steps that only decode up to so many sequences quicker to tell: most
// of a simulation's are.
func (u *units) tabulateAlone(seqs int) {
	if u.work.replicas*u.work.stages > 1 {
		return
	}
	alone := make([]engine.Picoseconds, min(seqs, mostAlone)+1)
	for n := range alone {
		alone[n] = u.beside(&engine.Batch{DecodeSeqs: n})
	}
	u.alone = alone
}

// mostAlone bounds them.
const mostAlone = 2048

// line is a table's value at n.
func line(k knots, table []engine.Picoseconds, n int) engine.Picoseconds {
	if n <= 0 {
		return 0
	}
	i, share := k.between(n)
	return table[i] + picoseconds(share*float64(table[i+1]-table[i]))
}

// time is that of a step with b, 0 where b is empty.
func (u *units) time(b *engine.Batch) engine.Picoseconds {
	if b.PrefillSeqs == 0 && b.DecodeSeqs == 0 {
		return 0
	}
	return u.beside(b) + u.decoding(b.DecodeSeqs, b.DecodeContext).at(b.DecodeContext)
}

// beside is what a step with b takes beside decode attention.
func (u *units) beside(b *engine.Batch) engine.Picoseconds {
	if b.PrefillSeqs == 0 && b.DecodeSeqs < len(u.alone) {
		return u.alone[max(0, b.DecodeSeqs)]
	}
	w := u.work
	prompts, seqs := u.busiest(b), u.share(b.DecodeSeqs)
	t := u.step + line(w.tokens, u.tokens, int(prompts.Tokens)+seqs) + line(w.seqs, u.logits, seqs+int(prompts.Seqs))
	if u.experts != nil {
		t += line(w.tokens, u.experts, b.PrefillTokens+b.DecodeSeqs)
	}
	if b.PrefillSeqs > 0 {
		t += u.prompt + u.attend(prompts)
	}
	return t
}

// attend is the attention of prompts and what else their tokens take.
func (u *units) attend(x operator.Prompts) engine.Picoseconds {
	sum := u.perPrompt * x.Tokens
	for _, a := range u.work.prompts {
		sum += u.prefill * a.time(x)
	}
	return picoseconds(sum)
}

// busiest are the prompts of the replica that has most: an even share, and a whole one
// at least.
func (u *units) busiest(b *engine.Batch) operator.Prompts {
	if b.PrefillSeqs == 0 {
		return operator.Prompts{}
	}
	over := float64(min(u.work.replicas, b.PrefillSeqs))
	return operator.Prompts{Seqs: math.Ceil(float64(b.PrefillSeqs) / over), Tokens: math.Ceil(float64(b.PrefillTokens) / over), Pairs: float64(b.PrefillPairs) / over}
}

// share are the sequences that a replica decodes at once.
func (u *units) share(seqs int) int {
	over := u.work.replicas * u.work.stages
	return (seqs + over - 1) / over
}

// pace is decode attention of a number of sequences over a stretch of context: first
// at from, and each more per token up to to.
type pace struct {
	first, each engine.Picoseconds
	from, to    int64
}

func (p pace) at(context int64) engine.Picoseconds {
	return p.first + many(context-p.from, p.each)
}

// decoding is the pace of seqs sequences around context tokens in all.
func (u *units) decoding(seqs int, context int64) pace {
	if seqs <= 0 {
		return pace{to: math.MaxInt64}
	}
	w := u.work
	row, share := w.seqs.between(u.share(seqs))
	mean := int(min(max(context, 0)/int64(seqs), 1<<40))
	j := min(w.context.place(mean), w.context.most-2)
	value := func(j int) engine.Picoseconds {
		low, high := u.decode[row][j], u.decode[row+1][j]
		return picoseconds(low + share*(high-low))
	}
	p := pace{first: value(j), from: int64(w.context.at(j)) * int64(seqs), to: int64(w.context.at(j+1)) * int64(seqs)}
	n := engine.Picoseconds(p.to - p.from)
	p.each = (value(j+1) - p.first + n/2) / n
	if j == w.context.most-2 {
		p.to = math.MaxInt64
	}
	return p
}

// day bounds a term, so that no sum overflows.
const day = engine.Day

// picoseconds rounds to a whole number within a day.
func picoseconds(x float64) engine.Picoseconds {
	switch {
	case x > 0 && x < float64(day):
		return engine.Picoseconds(x + 0.5)
	case x > 0:
		return day
	}
	return 0
}

// whole is s picoseconds, rounded, and at least 1 where there is any.
func whole(s float64) engine.Picoseconds {
	if s <= 0 {
		return 0
	}
	return max(1, picoseconds(s))
}

// many is n pieces of each, at most a day.
func many(n int64, each engine.Picoseconds) engine.Picoseconds {
	if n <= 0 || each <= 0 {
		return 0
	}
	high, low := bits.Mul64(uint64(n), uint64(each))
	if high != 0 || low > uint64(day) {
		return day
	}
	return engine.Picoseconds(low)
}
