package fleet

import (
	"cmp"
	"slices"

	"plimsoll/engine"
	"plimsoll/engine/sim"
)

// act is what a caller does to a fleet at an instant.
type act struct {
	at    engine.Picoseconds
	kind  string // offer, scale or fail
	offer Request
	role  engine.Role
	n     int // replicas wanted, or the one that fails
}

// dumb is the fleet again, as dumb as can be: every step goes through Begin and
// End, every instant looks at every replica, every list is kept whole.
type dumb struct {
	cfg      Config
	now      engine.Picoseconds
	reps     []*dumbReplica
	held     [2][]*dumbRequest
	moving   []*dumbRequest
	requests []*dumbRequest
	lastTurn [2]int
	moves    int
	routed   int

	itl         []int64
	waitingArea [2]float64 // request-picoseconds
	kvArea      [2]float64 // block-picoseconds
	busyArea    [2]float64
	heldArea    float64    // request-picoseconds: KV kept by prefill engines
	stalledArea float64    // replica-picoseconds
	servingArea [2]float64 // replica-picoseconds, ready or draining
	gpuArea     float64
	inFlight    float64
}

type dumbReplica struct {
	number, pool int
	engine       *sim.Engine
	readyAt      engine.Picoseconds
	state        state
	gone         bool
	stepping     bool
	begin, end   engine.Picoseconds
	used         int
	link         engine.Picoseconds
	requests     []*dumbRequest
	turn         int  // number of the request that it got last
	stalled      bool // found no room
	wake         bool // some became free
	due          bool // had something to do when the instant came; what others get at it begins after that
}

type dumbRequest struct {
	Request
	out     Outcome
	pool    int
	arrives engine.Picoseconds // at the pool's router
	order   int
	need    int  // until its first token in this pool
	prompt  bool // likewise
	gone    bool
	holder  *dumbReplica // of its KV, since its prompt was computed
	tokens  []engine.Picoseconds
}

func newDumb(c Config) *dumb {
	c, err := c.normal()
	if err != nil {
		panic(err)
	}
	d := &dumb{cfg: c, lastTurn: [2]int{-1, -1}}
	for i, p := range c.Pools {
		for range p.Replicas {
			d.spawn(i, 0).state = ready
		}
	}
	return d
}

func (d *dumb) spawn(pool int, readyAt engine.Picoseconds) *dumbReplica {
	p := d.cfg.Pools[pool]
	c := p.Engine
	c.Seed = sim.Mix(c.Seed, uint64(len(d.reps))*0x9e3779b97f4a7c15)
	e, err := sim.New(c, struct{ sim.StepTimer }{p.Timer}) // hides that it knows runs
	if err != nil {
		panic(err)
	}
	r := &dumbReplica{number: len(d.reps), pool: pool, engine: e, readyAt: readyAt}
	d.reps = append(d.reps, r)
	return r
}

// play does the acts and goes on until all is done or the horizon is reached.
func (d *dumb) play(acts []act, horizon engine.Picoseconds) {
	for {
		next := horizon
		if len(acts) > 0 {
			next = min(next, acts[0].at)
		}
		busy := false
		for _, r := range d.reps {
			switch {
			case r.gone:
			case r.stepping:
				busy = true
				next = min(next, r.end)
			case r.state == starting:
				next = min(next, r.readyAt)
			case !r.engine.Idle() && !r.stalled || r.wake:
				next = d.now
			}
		}
		for _, x := range d.moving {
			next = min(next, x.arrives)
		}
		done := len(acts) == 0 && !busy && !slices.ContainsFunc(d.requests, func(x *dumbRequest) bool { return !x.gone })
		if done {
			return
		}
		if next == Forever {
			return
		}
		d.pass(next)
		if next == horizon {
			return
		}
		for len(acts) > 0 && acts[0].at == d.now {
			d.do(acts[0])
			acts = acts[1:]
		}
		d.instant()
	}
}

// pass integrates over the time until an instant.
func (d *dumb) pass(to engine.Picoseconds) {
	span := float64(to - d.now)
	for _, r := range d.reps {
		if r.gone {
			continue
		}
		d.gpuArea += span * float64(d.cfg.Pools[r.pool].GPUs)
		if r.state != starting {
			d.servingArea[r.pool] += span
		}
		if r.stepping {
			d.busyArea[r.pool] += span
		}
		switch {
		case !d.delivers(r.pool): // also what waits to be read
			used, _ := r.engine.KVBlocks()
			d.kvArea[r.pool] += span * float64(used)
		case r.stepping:
			d.kvArea[r.pool] += span * float64(r.used)
		}
		if r.stalled {
			d.stalledArea += span
		}
		d.waitingArea[r.pool] += span * float64(r.engine.Waiting())
	}
	for i := range d.held {
		d.waitingArea[i] += span * float64(len(d.held[i]))
	}
	for _, x := range d.requests {
		if !x.gone {
			d.inFlight += span
		}
		if x.holder != nil {
			d.heldArea += span
		}
	}
	d.now = to
}

func (d *dumb) instant() {
	for _, r := range d.reps {
		r.stalled, r.wake = r.stalled && !r.wake, false
		r.due = r.stepping && r.end == d.now || !r.stepping && !r.stalled && !r.engine.Idle()
	}
	for _, r := range d.reps {
		switch {
		case r.gone:
		case r.state == starting && r.readyAt == d.now:
			r.state = ready
		case r.stepping && r.end == d.now:
			d.end(r)
		}
	}
	for i := range d.held {
		held := d.held[i]
		d.held[i] = nil
		for _, x := range held {
			d.route(x)
		}
	}
	slices.SortFunc(d.moving, func(a, b *dumbRequest) int {
		return cmp.Or(cmp.Compare(a.arrives, b.arrives), cmp.Compare(a.order, b.order))
	})
	for len(d.moving) > 0 && d.moving[0].arrives == d.now {
		x := d.moving[0]
		d.moving = d.moving[1:]
		d.enter(x)
	}
	for _, r := range d.reps {
		if !r.gone && r.due && !r.stepping && !r.engine.Idle() {
			d.begin(r)
		}
		d.leaveEmpty(r)
	}
}

func (d *dumb) find(r *dumbReplica, id uint64) *dumbRequest {
	for _, x := range r.requests {
		if uint64(x.out.Number) == id {
			return x
		}
	}
	panic("no such request")
}

func (d *dumb) delivers(pool int) bool { return pool == len(d.cfg.Pools)-1 }

func (d *dumb) end(r *dumbReplica) {
	r.stepping = false
	events := r.engine.End()
	got := map[uint64]bool{}
	for id := range r.engine.Decoding() {
		got[id] = true
	}
	for _, e := range events {
		if e.Last {
			got[e.ID] = true
		}
	}
	for id := range got {
		x := d.find(r, id)
		if !d.delivers(r.pool) {
			continue
		}
		if n := len(x.tokens); n > 0 && x.tokens[n-1] == r.begin {
			d.itl = append(d.itl, int64(d.now-r.begin))
		}
		x.tokens = append(x.tokens, d.now)
	}
	for _, e := range events {
		x := d.find(r, e.ID)
		x.need, x.prompt = 0, false
		if r.pool == 0 {
			x.out.cached = e.CachedTokens
		}
		if e.First { // of a prompt that was computed, or moved, in one piece
			if r.pool == 0 {
				x.out.started = r.begin
			} else {
				x.out.decodeStart = r.begin
			}
		}
		if d.delivers(r.pool) && x.out.First == 0 {
			x.out.First = d.now
		}
		if !e.Last {
			continue
		}
		r.requests = slices.DeleteFunc(r.requests, func(y *dumbRequest) bool { return x == y })
		if d.delivers(r.pool) {
			x.out.Last = d.now
			d.leave(x, Finished)
			continue
		}
		x.out.prefilled = d.now
		x.holder = r
		t := d.cfg.Transfer
		span, begin := engine.Picoseconds(0), d.now
		if t.BytesPerSecond > 0 {
			span = engine.FromSeconds(t.KV.Of(x.ISL) / t.BytesPerSecond)
		}
		if t.Serial {
			begin = max(begin, r.link)
			r.link = begin + span
		}
		x.pool = 1
		d.moves++
		x.order = d.moves
		x.arrives = begin + span + t.Latency + d.cfg.Pools[1].Overhead
		d.moving = append(d.moving, x)
	}
}

func (d *dumb) leave(x *dumbRequest, s Status) {
	x.gone = true
	x.out.Status = s
}

func (d *dumb) enter(x *dumbRequest) {
	if x.pool == 1 {
		x.out.Moved = d.now
	}
	d.route(x)
}

func (d *dumb) route(x *dumbRequest) {
	p := d.cfg.Pools[x.pool]
	var ok []*dumbReplica
	for _, r := range d.reps {
		if r.pool == x.pool && !r.gone && r.state == ready {
			ok = append(ok, r)
		}
	}
	if len(ok) == 0 {
		d.held[x.pool] = append(d.held[x.pool], x)
		return
	}
	var cost func(r *dumbReplica) int
	blocks := (x.ISL + p.Engine.Limits.BlockSize - 1) / p.Engine.Limits.BlockSize
	switch p.Router {
	case RoundRobin:
		cost = func(r *dumbReplica) int { // how far after the last one
			return (r.number - d.lastTurn[x.pool] - 1 + 1000) % 1000
		}
	case LeastLoaded:
		cost = func(r *dumbReplica) int {
			c := r.engine.Running() + r.engine.Waiting()
			for _, y := range r.requests {
				if y.prompt {
					c += 3
				}
			}
			return c*1_000_000 + r.turn
		}
	case KVAware:
		cost = func(r *dumbReplica) int {
			c, _ := r.engine.KVBlocks()
			for _, y := range r.requests {
				c += y.need
			}
			return c + blocks - r.engine.Overlap(x.Prefix)
		}
	}
	best := ok[0]
	for _, r := range ok[1:] {
		if cost(r) < cost(best) {
			best = r
		}
	}
	d.lastTurn[x.pool] = best.number
	prefix := x.Prefix
	if !p.Engine.PrefixCaching {
		prefix = nil
	}
	best.wake = best.stalled
	x.need = blocks - best.engine.Overlap(prefix)
	x.prompt = true
	d.routed++
	best.turn = d.routed
	best.requests = append(best.requests, x)
	err := best.engine.Add(sim.Request{ID: uint64(x.out.Number), PromptTokens: x.ISL, OutputTokens: x.OSL, Prefix: prefix})
	if err != nil {
		panic(err)
	}
}

func (d *dumb) do(a act) {
	switch a.kind {
	case "offer":
		d.offer(a.offer)
	case "scale":
		d.scale(slices.IndexFunc(d.cfg.Pools, func(p Pool) bool { return p.Engine.Role == a.role }), a.n)
	case "fail":
		d.fail(a.n)
	}
}

func (d *dumb) offer(q Request) {
	x := &dumbRequest{Request: q, out: Outcome{Number: int64(len(d.requests) + 1), ID: q.ID, ISL: q.ISL, OSL: q.OSL, At: q.At}}
	d.requests = append(d.requests, x)
	for _, p := range d.cfg.Pools {
		if q.ISL+p.Engine.Output(q.OSL) > p.Engine.MaxTokens() {
			d.leave(x, Rejected)
			return
		}
	}
	if wait := d.cfg.Pools[0].Overhead; wait > 0 {
		d.moves++
		x.order, x.arrives = d.moves, d.now+wait
		d.moving = append(d.moving, x)
		return
	}
	d.enter(x)
}

func (d *dumb) scale(pool, n int) {
	var in []*dumbReplica
	for _, r := range d.reps {
		if r.pool == pool && !r.gone && r.state != draining {
			in = append(in, r)
		}
	}
	for i := len(in); i < n; i++ {
		d.spawn(pool, d.now+d.cfg.Pools[pool].StartUp)
	}
	slices.SortFunc(in, func(a, b *dumbReplica) int {
		return cmp.Or(cmp.Compare(a.state, b.state), cmp.Compare(len(a.requests), len(b.requests)), cmp.Compare(b.number, a.number))
	})
	for len(in) > n {
		in[0].state = draining
		d.leaveEmpty(in[0])
		in = in[1:]
	}
}

func (d *dumb) fail(number int) {
	if number >= len(d.reps) || d.reps[number].gone {
		return
	}
	r := d.reps[number]
	r.gone, r.stalled = true, false
	for _, x := range d.requests {
		if x.holder == r {
			x.holder = nil
		}
	}
	slices.SortFunc(r.requests, func(a, b *dumbRequest) int { return cmp.Compare(a.out.Number, b.out.Number) })
	for _, x := range r.requests {
		d.letGo(x)
		if !d.cfg.Retry {
			d.leave(x, Lost)
			continue
		}
		o := x.out
		x.out = Outcome{Number: o.Number, ID: o.ID, ISL: o.ISL, OSL: o.OSL, At: o.At, First: o.First, Retries: o.Retries + 1}
		x.pool, x.need = 0, 0
		d.enter(x)
	}
}
