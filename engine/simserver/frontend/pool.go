package frontend

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"plimsoll/engine"
)

// A worker that refused is left alone for a moment, twice as long each time.
const (
	firstRest = 100 * time.Millisecond
	mostRest  = 2 * time.Second
)

// promptWeight is how many requests a request without a token counts as. It is that
// of LeastLoaded in engine/sim/fleet, because plans are sized with that rule.
const promptWeight = 4

var (
	errQueueFull = errors.New("too many requests wait for a worker")
	errNoWorker  = errors.New("no worker was ready in time")
)

// need is what a request waits for.
type need int

const (
	first  need = iota // the worker that computes the prompt: prefill or aggregated
	second             // a decode worker
	needs
)

// pool knows the workers and what each has in flight, and makes requests wait
// where there is no place for them.
type pool struct {
	prefillConcurrency int
	maxQueue           int

	mu      sync.Mutex
	workers []*member // those there are, in the order of their list
	leaving []*member // gone from the list, with requests in flight
	waiting [needs][]*waiter
	held    map[*place]bool
	turn    uint64 // counts the places given
}

// member is a worker and its load. The pool guards all that changes: its state too.
type member struct {
	Worker
	inFlight  int
	prompts   int       // of them, those without a token
	lastTurn  uint64    // when it got its last request
	restUntil time.Time // it refused, and is left alone until then
	rest      time.Duration
	probing   bool
	probed    time.Time // when its last probe ended
	answered  time.Time // when one was last answered, or could have been first
	lost      error     // why it counts as lost; nil = it answers
}

// place is what a request holds at a worker from take to leave.
type place struct {
	*member
	begun bool // the request has a token
	taken time.Time
	since atomic.Int64            // how long after taken it began to wait for the worker's next bytes; 0 = it does not
	end   context.CancelCauseFunc // set before it first waits
}

// waiter is a request that waits; granted holds one.
type waiter struct{ granted chan *place }

// set replaces the list of workers. What is in flight at those that go stays there.
func (p *pool) set(list []Worker) {
	p.mu.Lock()
	defer p.mu.Unlock()
	old := slices.Clone(p.workers)
	p.workers = make([]*member, 0, len(list))
	for _, w := range list {
		same := func(m *member) bool { return m.Name == w.Name && m.URL == w.URL && m.Role == w.Role }
		m := &member{Worker: w}
		if i := slices.IndexFunc(old, same); i >= 0 {
			m = old[i]
			old = slices.Delete(old, i, i+1)
		} else if i := slices.IndexFunc(p.leaving, same); i >= 0 { // it came back
			m = p.leaving[i]
			p.leaving = slices.Delete(p.leaving, i, i+1)
		}
		if m.State != w.State {
			m.answered, m.lost = time.Now(), nil
		}
		m.State = w.State
		p.workers = append(p.workers, m)
	}
	for _, m := range old {
		if m.inFlight > 0 {
			p.leaving = append(p.leaving, m)
		}
	}
	p.dispatch()
}

// acquire gives a worker a request, which counts as in flight there until release.
// It waits in line; at most until the deadline or ctx's end. A request that was at
// a worker already, which failed it, goes to the head of the line.
func (p *pool) acquire(ctx context.Context, n need, deadline time.Time, again bool) (*place, error) {
	p.mu.Lock()
	if again || len(p.waiting[n]) == 0 {
		if m := p.pick(n, time.Now()); m != nil {
			x := p.take(m)
			p.mu.Unlock()
			return x, nil
		}
	}
	// A request whose prompt is computed is not sent away: its kind is bounded by the
	// places at the workers that compute it.
	if n == first && !again && len(p.waiting[n]) >= p.maxQueue {
		p.mu.Unlock()
		return nil, errQueueFull
	}
	w := &waiter{granted: make(chan *place, 1)}
	at := len(p.waiting[n])
	if again {
		at = 0
	}
	p.waiting[n] = slices.Insert(p.waiting[n], at, w)
	p.mu.Unlock()

	timeout := time.NewTimer(time.Until(deadline))
	defer timeout.Stop()
	err := errNoWorker
	select {
	case x := <-w.granted:
		return x, nil
	case <-timeout.C:
	case <-ctx.Done():
		err = ctx.Err()
	}
	return nil, p.giveUp(n, w, err)
}

// giveUp takes w out of the line, or gives back the place that it got meanwhile.
func (p *pool) giveUp(n need, w *waiter, err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.waiting[n], w); i >= 0 {
		p.waiting[n] = slices.Delete(p.waiting[n], i, i+1)
		return err
	}
	p.leave(<-w.granted)
	return err
}

// release ends a request at its worker. One that refused it rests.
func (p *pool) release(x *place, refused bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if refused {
		x.rest = min(max(firstRest, 2*x.rest), mostRest)
		x.restUntil = time.Now().Add(x.rest)
		time.AfterFunc(x.rest, p.wake)
	}
	p.leave(x)
}

// begin notes that a request has a token. Only the request calls it, before release.
func (p *pool) begin(x *place) {
	if x.begun {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	x.begun = true
	x.prompts--
}

// works notes that m answers requests.
func (p *pool) works(m *member) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m.rest = 0
}

func (p *pool) leave(x *place) {
	if x.end != nil {
		x.end(nil)
	}
	delete(p.held, x)
	x.inFlight--
	if !x.begun {
		x.prompts--
	}
	if x.inFlight == 0 {
		p.leaving = slices.DeleteFunc(p.leaving, func(l *member) bool { return l == x.member })
	}
	p.dispatch()
}

func (p *pool) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dispatch()
}

// dispatch gives places to those who wait, first come first served.
func (p *pool) dispatch() {
	now := time.Now()
	for n := range p.waiting {
		for len(p.waiting[n]) > 0 {
			m := p.pick(need(n), now)
			if m == nil {
				break
			}
			p.waiting[n][0].granted <- p.take(m)
			p.waiting[n] = slices.Delete(p.waiting[n], 0, 1)
		}
	}
}

func (p *pool) take(m *member) *place {
	p.turn++
	m.inFlight++
	m.prompts++
	m.lastTurn = p.turn
	x := &place{member: m, taken: time.Now()}
	if p.held == nil {
		p.held = map[*place]bool{}
	}
	p.held[x] = true
	return x
}

// score is what pick compares.
func (m *member) score() int { return m.inFlight + (promptWeight-1)*m.prompts }

// pick is the worker with room and the lowest score, nil if none has room. Ties go to
// the worker whose last request is oldest, so that equal workers take turns.
func (p *pool) pick(n need, now time.Time) *member {
	role := engine.RoleDecode
	if n == first {
		role = p.startsAt(now)
	}
	var best *member
	for _, m := range p.workers {
		if m.Role != role || !m.takes(now) || m.Role == engine.RolePrefill && m.inFlight >= p.prefillConcurrency {
			continue
		}
		if best == nil || cmp.Or(cmp.Compare(m.score(), best.score()), cmp.Compare(m.lastTurn, best.lastTurn)) < 0 {
			best = m
		}
	}
	return best
}

// startsAt is the role of the workers that a request starts at now; empty = none.
func (p *pool) startsAt(now time.Time) engine.Role {
	is := map[engine.Role]bool{}
	for _, m := range p.workers {
		is[m.Role] = is[m.Role] || m.takes(now)
	}
	switch {
	case is[engine.RolePrefill] && is[engine.RoleDecode]:
		return engine.RolePrefill
	case is[engine.RoleAggregated]:
		return engine.RoleAggregated
	}
	return ""
}

// takes reports whether requests may go to m.
func (m *member) takes(now time.Time) bool { return m.state() == Ready && !now.Before(m.restUntil) }

func (m *member) state() State {
	if m.lost != nil {
		return Unreachable
	}
	return m.State
}

// load is what the pool holds at an instant.
type load struct {
	members      []member // those that are leaving too
	waiting      int      // for any worker
	prefillQueue int      // for a prefill worker
	serves       bool     // a request would find its way
}

func (p *pool) load() load {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := load{serves: p.startsAt(time.Now()) != "", waiting: len(p.waiting[first]) + len(p.waiting[second])}
	for _, m := range slices.Concat(p.workers, p.leaving) {
		l.members = append(l.members, *m)
		if m.Role == engine.RolePrefill {
			l.prefillQueue = len(p.waiting[first])
		}
	}
	return l
}
