package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"plimsoll/planner"
)

// TokensOptions make a Tokens. Start from DefaultTokens.
type TokensOptions struct {
	KVTokens int     // KV capacity of one replica, in tokens; of every pool
	Up       float64 // share of the capacity that demand may take before a pool grows, 0 to 1
	Down     float64 // share below which it shrinks
}

// DefaultTokens are the rule's own thresholds.
func DefaultTokens(kvTokens int) TokensOptions {
	return TokensOptions{KVTokens: kvTokens, Up: 0.85, Down: 0.70}
}

const mostKVTokens = 1 << 40

// Check says all that is wrong, each by field and range.
func (o TokensOptions) Check() error {
	var errs []error
	if o.KVTokens < 1 || o.KVTokens > mostKVTokens {
		errs = append(errs, fmt.Errorf("the KV capacity of a replica is %d tokens: want 1 to %d", o.KVTokens, mostKVTokens))
	}
	if !(o.Down > 0 && o.Down < o.Up && o.Up <= 1) {
		errs = append(errs, fmt.Errorf("the shares of the capacity to go down and up at are %v and %v: want above 0 to 1, in this order", o.Down, o.Up))
	}
	return errors.Join(errs...)
}

// Tokens is the rule of llm-d's workload-variant-autoscaler by tokens (V2), to
// compare with (llm-d-workload-variant-autoscaler b08b1c7 of 2026-02, saturation
// analyzer). Per pool,
//
//	demand   = tokens in the KV caches + requests waiting · ISL
//	capacity = min(0.80 · KVTokens, tokens in a cache while 5 requests or more wait)
//	up by      ceil((demand/Up − replicas·capacity) / capacity), those that start included
//	down by    floor((ready·capacity − demand/Down) / capacity)
//
// where the second bound of the capacity is the one now, else the mean of the last
// 10 seen. Left out: deriving that bound from an engine's arguments, keeping it by
// output length, and choosing between kinds of GPU by cost.
type Tokens struct {
	o     TokensOptions
	bound map[planner.Role][]float64 // tokens in a cache while requests queued, oldest first
}

const mostBounds = 10

var _ planner.Policy = (*Tokens)(nil)

// NewTokens makes the policy.
func NewTokens(o TokensOptions) (*Tokens, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	return &Tokens{o: o, bound: map[planner.Role][]float64{}}, nil
}

// Propose compares each pool's tokens with its capacity.
func (k *Tokens) Propose(s planner.Situation) planner.Decision {
	f, _ := byPool(s, func(f *draft, n *figures, p planner.Pool, seen planner.PoolObservation) {
		kv, queue := n.load(seen)
		isl := 0.0
		if queue > 0 {
			isl = n.need(s.ISL.Mean, "ISL")
		}
		k.size(f, seen, s.Have.Of(p.Role), min(kv, 1)*float64(k.o.KVTokens), queue, isl)
	})
	return f.d
}

// size sizes one pool; inUse is tokens, queue requests, each per ready replica.
func (k *Tokens) size(f *draft, p planner.PoolObservation, have int, inUse, queue, isl float64) {
	capacity := k.capacity(p.Role, inUse, queue)
	demand := float64(p.Ready) * (inUse + queue*isl)
	why := fmt.Sprintf("demand %.5g tokens of %.5g for each of %d replicas, %d ready", demand, capacity, have, p.Ready)
	required := demand/k.o.Up - float64(have)*capacity
	spare := float64(p.Ready)*capacity - demand/k.o.Down
	switch less := whole(math.Floor(spare / capacity)); {
	case required > 0:
		f.step("up", p.Role, have+whole(required/capacity), "%s: above %.3g", why, k.o.Up)
	case less > 0:
		f.step("down", p.Role, max(0, have-less), "%s: %d more than %.3g needs", why, less, k.o.Down)
	default:
		f.step("hold", p.Role, have, "%s: within %.3g and %.3g", why, k.o.Down, k.o.Up)
	}
}

// capacity is what a replica carries, in tokens. A bound of nothing says nothing.
func (k *Tokens) capacity(role planner.Role, inUse, queue float64) float64 {
	most := saturatedKV * float64(k.o.KVTokens)
	if queue >= saturatedQueue && inUse > 0 {
		past := append(slices.Clone(k.bound[role]), inUse)
		k.bound[role] = past[max(0, len(past)-mostBounds):]
		return min(most, inUse)
	}
	if past := k.bound[role]; len(past) > 0 {
		sum := 0.0
		for _, x := range past {
			sum += x
		}
		return min(most, sum/float64(len(past)))
	}
	return most
}

// tokensState is what Save writes.
type tokensState struct {
	Policy string                     `json:"policy"`
	Bound  map[planner.Role][]float64 `json:"bound"`
}

const tokensName = "wva-tokens"

// Save gives the bounds seen.
func (k *Tokens) Save() (json.RawMessage, error) {
	return json.Marshal(tokensState{tokensName, k.bound})
}

// Restore takes back what Save gave; after an error the policy is as it was.
func (k *Tokens) Restore(b json.RawMessage) error {
	var s tokensState
	if err := restored(b, &s, &s.Policy, tokensName); err != nil {
		return err
	}
	bound := map[planner.Role][]float64{}
	for role, past := range s.Bound {
		if len(past) > mostBounds || slices.ContainsFunc(past, func(x float64) bool { return !(x > 0) }) {
			return fmt.Errorf("its bounds of %s are %v: want at most %d numbers above 0", role, past, mostBounds)
		}
		bound[role] = past
	}
	k.bound = bound
	return nil
}
