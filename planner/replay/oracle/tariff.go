package oracle

import (
	"math"

	"plimsoll/engine"
	"plimsoll/engine/sim/fleet"
)

// roleWithoutDecode is the role of engines that give no token to a client.
const roleWithoutDecode = engine.RolePrefill

// tariff is what requests cost at one pool's prices.
type tariff struct {
	prices
	role    engine.Role
	gpus    float64
	itl     float64 // ps promised
	prompts prompts
	from    int       // the context of paid[1]
	paid    []float64 // Σ decode tokens at contexts below from + index
	skipped int       // decode tokens of each request that are free
}

// bill is what a kept request costs a pool at least, in ps of one GPU: work less
// wait, which it is let off for the promise to be quick.
type bill struct{ work, wait float64 }

// newTariff sums decode prices up over contexts from low to high.
func newTariff(m *machine, p prices, c Case, pool int, low, high int) tariff {
	t := tariff{
		prices: p, role: m.role, gpus: float64(c.gpus(pool)), itl: float64(engine.FromDuration(c.Fleet.SLA.ITL)),
		prompts: newPrompts(m, c.Requests), from: low,
	}
	if p.decode.none() {
		return t
	}
	t.paid = make([]float64, high-low+2)
	dearest := 0.0
	for i := range high - low + 1 {
		context := low + i
		price := p.decode.of(context)
		dearest = max(dearest, price)
		if !m.caching {
			// Or a preemption gives it, by the prompt and all tokens so far.
			price = min(price, p.prompt(float64(context), pairs(0, context)))
		}
		t.paid[i+1] = t.paid[i] + price
	}
	if m.caching {
		// A preemption may cost no more than the k tokens given before it: from
		// k·token ≥ decode on that is dearer than to decode.
		t.skipped = math.MaxInt32
		if p.token > 0 {
			t.skipped = int(min(math.Ceil(dearest/p.token), math.MaxInt32))
		}
	}
	return t
}

// prompt is the price of so many prompt tokens and pairs.
func (p prices) prompt(tokens, pairs float64) float64 {
	return p.token*tokens + p.pair*(pairs-tokens)
}

// pairs are those of the tokens of a prompt after the first from, up to to.
func pairs(from, to int) float64 {
	a, b := float64(from), float64(to)
	return b*(b+1)/2 - a*(a+1)/2
}

// of is the bill of a request.
func (t *tariff) of(r fleet.Request) bill {
	var b bill
	if t.role != engine.RoleDecode {
		b.work = t.prompt(t.prompts.of(r))
	}
	if gaps := r.OSL - 1; gaps > 0 && t.role != roleWithoutDecode {
		free := min(t.skipped, gaps)
		b.work += t.paid[r.ISL+r.OSL-t.from] - t.paid[r.ISL+1-t.from+free]
		b.wait = t.wait * t.itl * float64(gaps)
	}
	return bill{b.work * t.gpus, b.wait * t.gpus}
}

// prompts say how much of each prompt has to be computed whatever the caches hold.
type prompts struct {
	block int
	seen  map[uint64]bool // with prefix caching: whether several requests have the block
}

func newPrompts(m *machine, requests []fleet.Request) prompts {
	if !m.caching {
		return prompts{}
	}
	p := prompts{block: m.block, seen: map[uint64]bool{}}
	for _, r := range requests {
		for _, h := range r.Prefix {
			_, again := p.seen[h]
			p.seen[h] = again
		}
	}
	return p
}

// of is tokens and pairs of a prompt: all, or with prefix caching those of blocks
// that no other request has, and those from its last token's block on.
func (p *prompts) of(r fleet.Request) (tokens, sum float64) {
	if p.seen == nil {
		return float64(r.ISL), pairs(0, r.ISL)
	}
	cacheable := min(len(r.Prefix), (r.ISL-1)/p.block)
	for k, h := range r.Prefix[:cacheable] {
		if !p.seen[h] {
			tokens += float64(p.block)
			sum += pairs(k*p.block, (k+1)*p.block)
		}
	}
	return tokens + float64(r.ISL-cacheable*p.block), sum + pairs(cacheable*p.block, r.ISL)
}
