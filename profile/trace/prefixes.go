package trace

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
)

// MaxGroups bounds the number of prefixes.
const MaxGroups = 1 << 20

// Prefixes say which prompts begin alike: with probability Share a prompt
// belongs to one of Groups groups, whose prompts have their first Tokens tokens
// in common (system prompts, documents); all else is new in each prompt. A
// prompt shorter than Tokens is the head of its group's prefix. The zero value
// shares nothing, and its arrivals have no blocks.
type Prefixes struct {
	Groups      int
	Tokens      int     // of a group's prefix
	BlockTokens int     // of each block whose id an arrival carries: 16, as vLLM has, or what the engine has
	Share       float64 // of all prompts, 0 to 1
	Zipf        float64 // group g is picked with weight 1/g^Zipf, 0 to 10; 0 = each equally often
}

// Validate says all that is wrong with p.
func (p Prefixes) Validate() error {
	if p == (Prefixes{}) {
		return nil
	}
	return errors.Join(
		within("groups", float64(p.Groups), 1, MaxGroups),
		within("prefix tokens", float64(p.Tokens), 1, MaxTokens),
		within("block tokens", float64(p.BlockTokens), 1, MaxTokens),
		within("share", p.Share, 0, 1),
		within("zipf", p.Zipf, 0, 10))
}

// prompts makes the blocks of one prompt after the other.
type prompts struct {
	Prefixes
	seed  uint64
	rng   *rand.Rand
	upTo  []float64 // sums of the groups' weights
	fresh uint64    // prompts made so far: what is new in each differs by it
}

func newPrompts(p Prefixes, seed uint64) *prompts {
	if p == (Prefixes{}) {
		return nil
	}
	s := &prompts{Prefixes: p, seed: seed, rng: stream(seed, prefixStream), upTo: make([]float64, p.Groups)}
	sum := 0.0
	for g := range s.upTo {
		sum += math.Pow(float64(g+1), -p.Zipf)
		s.upTo[g] = sum
	}
	return s
}

// blocks are the ids of the full blocks of the next prompt, of isl tokens.
func (p *prompts) blocks(isl int) []uint64 {
	p.fresh++
	group, member := p.pick()
	shared := 0
	if member {
		shared = min(p.Tokens, isl) / p.BlockTokens
	}
	ids := make([]uint64, isl/p.BlockTokens)
	c := newChain(p.seed, 0, uint64(group))
	for i := range ids {
		if i == shared { // what follows is this prompt's alone
			c = newChain(p.seed, 1, p.fresh)
		}
		c = c.then(uint64(i))
		ids[i] = uint64(c)
	}
	return ids
}

// pick takes two random numbers whatever comes of it, so that a changed Share
// leaves later prompts as they are.
func (p *prompts) pick() (group int, member bool) {
	member = p.rng.Float64() < p.Share
	x := p.rng.Float64() * p.upTo[len(p.upTo)-1]
	group = sort.SearchFloat64s(p.upTo, x)
	return min(group, len(p.upTo)-1), member
}

// chain is a running hash: equal chains stand for equal tokens so far.
type chain uint64

func newChain(seed, domain, which uint64) chain {
	return chain(seed).then(domain).then(which)
}

// then mixes one more id in, with the finalizer of SplitMix64 (Steele, Lea and
// Flood, OOPSLA 2014): for either argument fixed it is one-to-one in the other.
func (c chain) then(id uint64) chain {
	x := (uint64(c)*0x9e3779b97f4a7c15 + id) + 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return chain(x ^ x>>31)
}

// Reblock gives the hash chain of a prompt's full blocks of blockTokens tokens
// each, made of the blocks that its trace has, coarser or finer: what an engine
// with such blocks would have cached. Prompts that share their first k blocks of
// C tokens share at least their first k·C/blockTokens of the chain, and two
// prompts share nothing of it beyond the first block in which they differ.
//
// Where the trace's ids end before the prompt does, the chain ends there too:
// nothing is known of the rest. Nil where the arrival has no blocks. It panics
// for blockTokens below 1.
func Reblock(a Arrival, blockTokens int) []uint64 {
	if blockTokens < 1 {
		panic(fmt.Sprintf("trace: blocks of %d tokens", blockTokens))
	}
	if len(a.Blocks) == 0 || a.BlockTokens < 1 {
		return nil
	}
	known := a.ISL
	if c := a.BlockTokens; known/c >= len(a.Blocks) {
		known = len(a.Blocks) * c
	}
	fine := slices.Grow([]uint64(nil), known/blockTokens)
	var c chain
	mixed := 0
	for end := blockTokens; end <= known; end += blockTokens {
		for mixed*a.BlockTokens < end { // the trace's blocks that this one reaches into
			c = c.then(a.Blocks[mixed])
			mixed++
		}
		fine = append(fine, uint64(c.then(uint64(end))))
	}
	return fine
}

// Reblocked is the trace with its blocks made blocks of blockTokens tokens, as
// Reblock does. It panics for blockTokens below 1.
func Reblocked(t Trace, blockTokens int) Trace {
	return each(t, func(a *Arrival) {
		a.Blocks, a.BlockTokens = Reblock(*a, blockTokens), blockTokens
		if a.Blocks == nil {
			a.BlockTokens = 0
		}
	})
}
