package latency

import (
	"math"
	"math/bits"

	"plimsoll/engine"
)

// The terms of a step, in the order in which they are shown.
const (
	termWeights = iota
	termCompute
	termAttention
	termKV
	termLayers
	termPrefill
	termRequests
	termCollectives
	termAllReduce
	termAllToAll
	numTerms
)

// units are work at an engine's measured speeds, in picoseconds per piece.
type units struct {
	fixedWeights, allExperts, miss, expertTokens float64

	prefill, decode, prefillLogits, logits float64
	pairFull, pairWindow                   float64

	// Per token of context, whole picoseconds: a batch that only decodes grows
	// by the same whole number each step.
	kvFull, kvWindow, attendFull, attendWindow engine.Picoseconds
	window                                     int64
	inside, outside                            pace

	layers, prefillLayers, collectives engine.Picoseconds // per step; per step with a prompt; per step
	request, allReduce, allToAll       float64
	overhead                           engine.Picoseconds // per request, outside of steps
	replicas                           int                // of attention (DP)
}

// units scale w by what was measured. In decode, attention waits for the
// slower of the memory and the arithmetic: the other one's time is not added.
func (w work) units(k Coefficients) units {
	const second = float64(engine.Second)
	kv, attend := k.KV*second*w.kv, max(0, k.Attention*w.attend-k.KV*w.kv)*second
	pair, flops := k.Attention*second*w.pair, w.flops(k)*second
	u := units{
		fixedWeights: k.Weights * second * w.fixedWeights, allExperts: k.Experts * second * w.allExperts,
		miss: w.miss, expertTokens: w.expertTokens,
		prefill: flops * w.prefill, decode: flops * w.decode,
		prefillLogits: k.FLOPs * second * w.prefillLogits, logits: k.FLOPs * second * w.logits,
		pairFull: pair * w.full, pairWindow: pair * w.windowed,
		kvFull: whole(kv * w.full), kvWindow: whole(kv*(w.full+w.windowed)) - whole(kv*w.full),
		attendFull: whole(attend * w.full), attendWindow: whole(attend*(w.full+w.windowed)) - whole(attend*w.full),
		window:        w.window,
		layers:        whole(second * (k.Layer*w.layers + k.Step)),
		prefillLayers: whole(second * k.PrefillLayer * w.layers),
		collectives:   whole(second * k.Collective * w.exchanges),
		request:       k.Request * second * w.sequences,
		allReduce:     k.AllReduce * second * w.allReduce, allToAll: k.AllReduce * second * w.allToAll,
		overhead: whole(k.Overhead * second), replicas: w.replicas,
	}
	u.inside, u.outside = paceOf(u.kvFull, u.attendFull, u.kvWindow, u.attendWindow), paceOf(u.kvFull, u.attendFull)
	return u
}

// flops is the coefficient of the matrix products.
func (w work) flops(k Coefficients) float64 {
	if w.low {
		return k.LowFLOPs
	}
	return k.FLOPs
}

// step is the sum of the terms of a step with b, 0 where b is empty.
func (u *units) step(b *engine.Batch) engine.Picoseconds {
	if b.PrefillSeqs == 0 && b.DecodeSeqs == 0 {
		return 0
	}
	var times [numTerms]engine.Picoseconds
	u.times(b, &times)
	var sum engine.Picoseconds
	for _, t := range &times {
		sum += t
	}
	return sum
}

// times puts the terms of a step with b into out, each a whole number of
// picoseconds, so that their sum is exact. Batch and terms go by pointer: to
// copy them takes longer than to work them out.
func (u *units) times(b *engine.Batch, out *[numTerms]engine.Picoseconds) {
	tokens := float64(b.PrefillTokens + b.DecodeSeqs)
	if u.replicas > 1 {
		busy := u.busiest(*b)
		b = &busy
	}
	seqs := float64(b.DecodeSeqs)
	inWindow := u.inWindow(b.DecodeContext, int64(b.DecodeSeqs))
	attention, prefill := many(b.DecodeContext, u.attendFull)+many(inWindow, u.attendWindow), engine.Picoseconds(0)
	kv := many(b.DecodeContext, u.kvFull) + many(inWindow, u.kvWindow)
	products := (u.decode + u.logits) * seqs
	if b.PrefillSeqs > 0 || b.PrefillTokens > 0 {
		prefill = u.prefillLayers
		products += u.prefill*float64(b.PrefillTokens) + u.prefillLogits*float64(b.PrefillSeqs)
		pairs := float64(b.PrefillPairs)
		attention += picoseconds(u.pairFull*pairs + u.pairWindow*u.pairsInWindow(b))
		kv += many(b.PrefillPast, u.kvFull) + many(u.inWindow(b.PrefillPast, int64(b.PrefillSeqs)), u.kvWindow)
	}
	weights := picoseconds(u.fixedWeights + u.allExperts*u.touched(tokens))
	out[termWeights] = weights
	out[termCompute] = max(0, picoseconds(products)-weights) // the rest is hidden behind the reading
	out[termAttention] = attention
	out[termKV] = kv
	out[termLayers] = u.layers
	out[termPrefill] = prefill
	out[termRequests] = picoseconds(u.request * (float64(b.PrefillSeqs) + seqs))
	out[termCollectives] = u.collectives
	out[termAllReduce] = picoseconds(u.allReduce * tokens)
	out[termAllToAll] = picoseconds(u.allToAll * tokens)
}

// busiest is the batch that takes as long where every replica of attention has
// an equal share of it: fewer prompts than replicas, or fewer sequences, leave
// some of these idle, and the others have a whole one each.
func (u *units) busiest(b engine.Batch) engine.Batch {
	if n := b.PrefillSeqs; n > 0 && n < u.replicas {
		b.PrefillSeqs, b.PrefillTokens = u.replicas, int(u.filled(int64(b.PrefillTokens), n))
		b.PrefillPast, b.PrefillPairs = u.filled(b.PrefillPast, n), u.filled(b.PrefillPairs, n)
	}
	b.DecodeSeqs, b.DecodeContext = u.busiestDecode(b.DecodeSeqs, b.DecodeContext)
	return b
}

// busiestDecode is the same of the sequences that decode.
func (u *units) busiestDecode(seqs int, context int64) (int, int64) {
	if seqs <= 0 || seqs >= u.replicas {
		return seqs, context
	}
	return u.replicas, u.filled(context, seqs)
}

// filled is what all replicas would have if each had as much as one of n has.
func (u *units) filled(sum int64, n int) int64 {
	most := math.MaxInt64 / int64(u.replicas)
	each := sum / int64(n)
	if sum%int64(n) > 0 {
		each++
	}
	return int64(u.replicas) * min(each, most)
}

// inWindow is how much of the context of seqs sequences a layer with a window reads.
func (u *units) inWindow(context, seqs int64) int64 {
	if u.window <= 0 {
		return context
	}
	if high, most := bits.Mul64(uint64(u.window), uint64(max(seqs, 0))); high == 0 && most < math.MaxInt64 {
		return min(context, int64(most))
	}
	return context
}

func (u *units) pairsInWindow(b *engine.Batch) float64 {
	pairs := float64(b.PrefillPairs)
	if u.window > 0 {
		return min(pairs, float64(u.window)*float64(b.PrefillTokens))
	}
	return pairs
}

// touched is the share of the experts that at least one of the tokens passes
// through, when each token picks its k of E evenly: 1 − (1 − k/E)^tokens.
func (u *units) touched(tokens float64) float64 {
	if u.allExperts == 0 {
		return 0
	}
	return 1 - math.Pow(u.miss, max(1, tokens*u.expertTokens))
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
