package process

import (
	"context"
	"errors"
	"sync"
)

// ErrEnding is wrapped by Start after KillAll: the program ends.
var ErrEnding = errors.New("the program ends, and starts nothing more")

// registry is what has to end before the program does.
type registry struct {
	mu       sync.Mutex
	closed   bool
	engines  map[*Process]bool
	kills    map[int]func(context.Context)
	last     int // key of kills
	starting sync.WaitGroup
}

//nolint:gochecknoglobals // a program has one set of children
var live = registry{engines: map[*Process]bool{}, kills: map[int]func(context.Context){}}

// begin announces a start, which done ends; false where the program ends.
func (r *registry) begin() (done func(), ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, false
	}
	r.starting.Add(1)
	return r.starting.Done, true
}

// add takes up an engine that was started; false where the program ends.
func (r *registry) add(p *Process) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.engines[p] = true
	}
	return !r.closed
}

func (r *registry) remove(p *Process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.engines, p)
}

// close lets nothing more be started, and gives what there is.
func (r *registry) close() (engines []*Process, kills []func(context.Context)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for p := range r.engines {
		engines = append(engines, p)
	}
	for _, kill := range r.kills {
		kills = append(kills, kill)
	}
	return engines, kills
}

// KillAll ends every engine that is not Detached at once, calls what OnKillAll was given,
// and returns when all is gone or ctx ends. It is for a program that is about to exit:
// from its call on, Start fails with ErrEnding.
func KillAll(ctx context.Context) {
	engines, kills := live.close()
	var all sync.WaitGroup
	for _, p := range engines {
		all.Go(p.kill)
	}
	all.Go(func() {
		live.starting.Wait() // what was being started ends itself, or can be found by now
		for _, kill := range kills {
			all.Go(func() { kill(ctx) })
		}
	})
	gone := make(chan struct{})
	go func() {
		all.Wait()
		close(gone)
	}()
	select {
	case <-gone:
	case <-ctx.Done():
	}
}

// OnKillAll makes KillAll call kill too, which ends what its caller answers for and
// returns when that is gone or its context ends. After remove it does not.
func OnKillAll(kill func(context.Context)) (remove func()) {
	live.mu.Lock()
	defer live.mu.Unlock()
	live.last++
	key := live.last
	live.kills[key] = kill
	return func() {
		live.mu.Lock()
		defer live.mu.Unlock()
		delete(live.kills, key)
	}
}
