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

	deciding sync.Mutex // one decision at a time: two at once would both take what is free

	mu   sync.Mutex // guards what follows
	asks map[string]planner.Ask
	held map[string]int // of those that were seen
}

// NewBudget shares gpus.
func NewBudget(gpus int) *Budget {
	return &Budget{gpus: gpus, asks: map[string]planner.Ask{}, held: map[string]int{}}
}

// Set changes the number that is shared, from the next decisions on.
func (b *Budget) Set(gpus int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gpus = gpus
}

// join makes a deployment known, before anybody decides: priority, weight, pair and least
// are those of its ask.
func (b *Budget) join(name string, ask planner.Ask) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	ask.Want = ask.Least
	b.asks[name] = ask
}

// holds takes in the GPUs that a deployment has now or was asked for, those that
// drain included.
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

// decide lets a deployment decide within what it may have. step gives what it
// would have had without the others, for their shares, and what it takes.
func (b *Budget) decide(name string, least int, step func(planner.Share) (wanted, granted int)) {
	if b == nil {
		step(planner.Unshared())
		return
	}
	b.deciding.Lock()
	defer b.deciding.Unlock()
	wanted, granted := step(b.share(name, least))
	b.decided(name, wanted, granted)
}

// share is what a deployment may have now. One that was not seen yet may serve: it is
// taken to hold its pair, or its least where that is more. Until all were seen nobody
// knows what is free, and nobody grows beyond its least.
func (b *Budget) share(name string, least int) planner.Share {
	b.mu.Lock()
	defer b.mu.Unlock()
	ask := b.asks[name]
	ask.Least, ask.Want = least, max(least, ask.Want)
	b.asks[name] = ask
	names := slices.Sorted(maps.Keys(b.asks))
	var asks []planner.Ask
	free, unseen := b.gpus, false
	for _, n := range names {
		a := b.asks[n]
		held, ok := b.held[n]
		if !ok && n != name { // it may serve already
			unseen, held = true, max(a.Pair, a.Least)
			a.Want = max(a.Want, held)
		}
		a.Serves = held >= a.Pair
		if n == name {
			a.Want = b.gpus // what it would want is not known yet: all that others leave
		}
		asks = append(asks, a)
		free -= held
	}
	if unseen {
		free = min(free, ask.Least-b.held[name])
	}
	return planner.Share{Max: planner.Shares(b.gpus, asks)[slices.Index(names, name)], Free: max(0, free)}
}

// decided notes what a deployment would have had, for the shares of the others,
// and that it holds what it was granted, before the target shows it.
func (b *Budget) decided(name string, wanted, granted int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	ask := b.asks[name]
	ask.Want = max(ask.Least, wanted)
	b.asks[name] = ask
	b.held[name] = max(b.held[name], granted)
}
