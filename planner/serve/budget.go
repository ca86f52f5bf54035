package serve

import (
	"maps"
	"slices"
	"sync"

	"plimsoll/planner"
)

// Budget is a number of GPUs that several deployments share.
type Budget struct {
	gpus int

	mu   sync.Mutex
	asks map[string]planner.Ask
	held map[string]int
}

// NewBudget shares gpus.
func NewBudget(gpus int) *Budget {
	return &Budget{gpus: gpus, asks: map[string]planner.Ask{}, held: map[string]int{}}
}

// join makes a deployment known, before anybody decides.
func (b *Budget) join(name string, priority, weight, least int) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asks[name] = planner.Ask{Priority: priority, Weight: weight, Least: least, Want: least}
}

// holds takes in the GPUs that a deployment has now, starting and draining
// replicas included.
func (b *Budget) holds(name string, gpus int) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held[name] = gpus
	if ask, ok := b.asks[name]; ok && ask.Want < gpus {
		ask.Want = gpus // until it decides it keeps what it has
		b.asks[name] = ask
	}
}

// share is what a deployment may have now.
func (b *Budget) share(name string, least int) planner.Share {
	if b == nil {
		return planner.Unshared()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	ask := b.asks[name]
	ask.Least, ask.Want = least, max(least, ask.Want)
	b.asks[name] = ask
	names := slices.Sorted(maps.Keys(b.asks))
	var asks []planner.Ask
	free := b.gpus
	for _, n := range names {
		a := b.asks[n]
		if n == name {
			a.Want = b.gpus // what it would want is not known yet: all that others leave
		}
		asks = append(asks, a)
		free -= b.held[n]
	}
	return planner.Share{Max: planner.Shares(b.gpus, asks)[slices.Index(names, name)], Free: max(0, free)}
}

// decided notes what a deployment would have had, for the shares of the others,
// and that it holds what it was granted, before the target shows it.
func (b *Budget) decided(name string, wanted, granted int) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	ask := b.asks[name]
	ask.Want = max(ask.Least, wanted)
	b.asks[name] = ask
	b.held[name] = max(b.held[name], granted)
}
