package oracle

import (
	"fmt"
	"math"

	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/engine/sim/fleet"
)

// machine is what one engine of a pool can do in a step.
type machine struct {
	timer     sim.StepTimer
	role      engine.Role
	sequences int     // at most in a step
	tokens    int     // at most in a step
	kv        int     // tokens of all sequences at most; no bound where they share blocks
	pair      float64 // ps that a query-key pair adds at least
	share     float64 // of a step's time that one with more takes at least; 1 where time never falls
	caching   bool
	block     int
}

// machineOf reads a pool; the error says that the timer is not one that prices hold
// for.
func machineOf(p fleet.Pool) (machine, error) {
	e, err := p.Engine.Normal()
	if err != nil {
		return machine{}, err
	}
	m := machine{
		timer: p.Timer, role: e.Role, sequences: e.Limits.MaxNumSeqs, tokens: e.Limits.MaxNumBatchedTokens,
		kv: e.KVBlocks * e.Limits.BlockSize, caching: e.PrefixCaching, block: e.Limits.BlockSize,
	}
	if m.caching {
		m.kv = math.MaxInt32
	}
	fall, err := m.fall()
	m.share, m.pair = 1-fall, (1-fall)*m.leastPair()
	return m, err
}

// step is the least time of a step with at least n prompt tokens and s
// sequences whose contexts add up to context, or more. With so many tokens there are as many query-key
// pairs at least; in how many prompts they are is tried from both ends.
func (m *machine) step(n, s int, context float64) float64 {
	b := engine.Batch{DecodeSeqs: s, DecodeContext: int64(context), PrefillTokens: n, PrefillPairs: int64(n)}
	if n == 0 {
		return m.share * m.time(b)
	}
	b.PrefillSeqs = 1
	t := m.time(b)
	if most := min(n, m.sequences-s); most > 1 {
		b.PrefillSeqs = most
		t = min(t, m.time(b))
	}
	return m.share * t
}

// time is that of a step in ps.
func (m *machine) time(b engine.Batch) float64 { return float64(max(0, m.timer.StepTime(b))) }

// samples are batches over all orders of magnitude that the engine can run.
func (m *machine) samples(each func(engine.Batch)) {
	scale := func(most int) []int {
		return []int{1, max(1, most/64), max(1, most/8), max(1, most/2), most}
	}
	limit := min(m.tokens, m.kv)
	for _, s := range append([]int{0}, scale(m.sequences)...) {
		for _, c := range []int64{64, 512, 4096, 32768} {
			for _, n := range append([]int{0}, scale(limit)...) {
				for _, q := range []int{1, 2, 16} {
					if int64(s)*c > int64(m.kv) || q > n && n > 0 || n+s > m.tokens || n+s == 0 || n > 0 && q+s > m.sequences {
						continue
					}
					each(engine.Batch{
						DecodeSeqs: s, DecodeContext: int64(s) * c, PrefillSeqs: q, PrefillTokens: n,
						PrefillPairs: max(int64(n)*int64(n/q+1)/2, int64(n)),
					})
				}
			}
		}
	}
}

// leastPair is what a query-key pair adds to a step, the least of the samples.
func (m *machine) leastPair() float64 {
	least := math.Inf(1)
	m.samples(func(b engine.Batch) {
		if b.PrefillTokens == 0 {
			return
		}
		for _, more := range []int64{1 << 22, 1 << 26} {
			longer := b
			longer.PrefillPairs += more
			least = min(least, (m.time(longer)-m.time(b)-1)/float64(more))
		}
	})
	if math.IsInf(least, 1) {
		return 0
	}
	return max(0, least)
}

// deepest is how much less a step may take for more and still be priced; what
// noise of measurements does to a profile is a few percent.
const deepest = 0.15

// fall is how much less a step takes for more, relative to it, the most of the
// samples; the error says where that is too much.
func (m *machine) fall() (float64, error) {
	var most float64
	var err error
	m.samples(func(b engine.Batch) {
		if b.PrefillTokens == 0 {
			b.PrefillSeqs, b.PrefillPairs = 0, 0
		}
		t := m.time(b)
		for _, more := range larger(b) {
			u := m.time(more)
			if u >= t*(1-slack) {
				continue
			}
			if most = max(most, 1-u/t); most > deepest && err == nil {
				err = fmt.Errorf("a step of the %s engines with %+v takes %.0f ps, one with %+v takes %.0f ps: prices do not hold for engines that take so much less for more, as those with data-parallel attention may",
					m.role, b, t, more, u)
			}
		}
	})
	return most, err
}

// larger is batches with more of one thing, or of all.
func larger(b engine.Batch) []engine.Batch {
	var out []engine.Batch
	for _, times := range []int{2, 9} {
		seqs, tokens, context, pairs, past := b, b, b, b, b
		seqs.DecodeSeqs *= times
		context.DecodeContext *= int64(times)
		tokens.PrefillTokens *= times
		pairs.PrefillPairs *= int64(times)
		if b.PrefillTokens > 0 {
			past.PrefillPast += int64(500 * times)
			pairs.PrefillPast = past.PrefillPast
		}
		all := past
		all.DecodeSeqs, all.DecodeContext, all.PrefillTokens, all.PrefillPairs = seqs.DecodeSeqs, context.DecodeContext, tokens.PrefillTokens, pairs.PrefillPairs*int64(times)
		out = append(out, seqs, context, tokens, pairs, past, all)
	}
	one := b
	one.DecodeSeqs++
	return append(out, one)
}

// slack is what rounding to picoseconds may move a figure by, relative to it.
const slack = 1e-6
