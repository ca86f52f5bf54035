package virtual

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"plimsoll/engine"
	"plimsoll/planner"
)

// DefaultMaxWait is how long a decision may stay without acknowledgement before
// the next one is made all the same: Dynamo's SCALING_MAX_WAIT_TIME.
const DefaultMaxWait = 1800 * time.Second

// PlannerOptions are a Planner's.
type PlannerOptions struct {
	Options
	Aggregated bool          // one pool, which stands in the keys as decode
	MaxWait    time.Duration // 0: DefaultMaxWait
	Log        *slog.Logger  // nil: none
}

// ErrPending is when the last decision was not carried out yet.
var ErrPending = errors.New("the last decision is not acknowledged")

// ErrVanished is when a decision that this planner has written or read, or that was
// acknowledged, is not in etcd any more. It stays unknown until its keys are back.
var ErrVanished = errors.New("the last decision is not in etcd any more")

// Planner is the side that decides: it implements planner.Target.
type Planner struct {
	store
	aggregated bool
	maxWait    time.Duration
	log        *slog.Logger

	mu       sync.Mutex
	patience patience
	seen     *record  // by State, or as written: what the next decision is made upon
	scaled   Decision // the last that was acknowledged while this planner ran; ID None: none
}

var _ planner.Target = (*Planner)(nil)

// NewPlanner makes a planner's side; Close it after use.
func NewPlanner(o PlannerOptions) (*Planner, error) {
	if o.MaxWait < 0 {
		return nil, fmt.Errorf("the wait for an acknowledgement is %v: want 0 or more", o.MaxWait)
	}
	s, err := open(o.Options)
	if err != nil {
		return nil, err
	}
	return &Planner{
		store: s, aggregated: o.Aggregated, maxWait: cmp.Or(o.MaxWait, DefaultMaxWait),
		log: cmp.Or(o.Log, slog.New(slog.DiscardHandler)), scaled: Decision{ID: None},
	}, nil
}

// known fails with ErrVanished where r lacks what this planner knows to have been there:
// it saw it, or somebody has acknowledged it.
func (p *Planner) known(r record) error {
	if p.seen != nil && p.seen.vanished(r) {
		return fmt.Errorf("reading %s from etcd: %w: it was %v; hint: put the keys back, or begin anew with a planner that has no state file", p.prefix, ErrVanished, p.seen.Decision)
	}
	if r.id == 0 && r.Scaled != None {
		return fmt.Errorf("reading %s from etcd: %w: decision %d was acknowledged; hint: put the keys back, or remove %s too to begin anew", p.prefix, ErrVanished, r.Scaled, keyScaled)
	}
	return nil
}

// State implements planner.Target. What runs is not in etcd: replicas count as
// ready once their decision is acknowledged, or its time is over.
func (p *Planner) State(ctx context.Context) (planner.State, error) {
	r, _, err := p.read(ctx)
	if err != nil {
		return planner.State{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.known(r); err != nil {
		return planner.State{}, err
	}
	p.see(r)
	var s planner.State
	if left := p.patience.left(r.Status, time.Now(), p.maxWait); left > 0 {
		s.Scaling = fmt.Sprintf("%v is not acknowledged. After %v the planner goes on without", r.Decision, left.Round(time.Second))
		if r.unreadable != "" {
			s.Scaling += "; " + r.unreadable
		}
	} else {
		p.scaled = r.Decision
	}
	if p.aggregated {
		s.Pools = []planner.PoolState{pool(engine.RoleAggregated, r.Decode, p.scaled.Decode, p.scaled.ID)}
		return s, nil
	}
	s.Pools = []planner.PoolState{
		pool(engine.RolePrefill, r.Prefill, p.scaled.Prefill, p.scaled.ID),
		pool(engine.RoleDecode, r.Decode, p.scaled.Decode, p.scaled.ID),
	}
	return s, nil
}

// pool tells a pool by what is wanted and what was acknowledged last. Where
// that is not known, what is wanted is taken to be there.
func pool(role planner.Role, want, scaled int, scaledID int64) planner.PoolState {
	have := max(0, scaled)
	if scaledID == None {
		have = max(0, want)
	}
	s := planner.PoolState{Role: role, Name: string(role), Want: want, NoRecord: want == None, Ready: min(have, max(0, want))}
	s.Starting, s.Draining = max(0, want-have), max(0, have-max(0, want))
	return s
}

// see notes a decision that this planner did not make.
func (p *Planner) see(r record) {
	if p.seen != nil && !p.seen.sameDecision(r) {
		p.log.Warn("somebody else also decides in this namespace", "keys", p.prefix, "decision", r.String())
	}
	p.seen = &r
}

// Scale implements planner.Target: it writes a decision, unless the last one
// asks for the same. It refuses with ErrPending while the last one is not
// acknowledged and its time not over, with ErrConflict where somebody wrote
// a decision since State, and with ErrVanished where the last one is gone.
func (p *Planner) Scale(ctx context.Context, want planner.Replicas, reason string) error {
	r, _, err := p.read(ctx)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.known(r); err != nil {
		return fmt.Errorf("asking for %v: %w", want, err)
	}
	d, needed := r.next(p.counts(want))
	if !needed {
		p.log.Info(fmt.Sprintf("No scaling needed (prefill=%d, decode=%d)", d.Prefill, d.Decode))
		return nil
	}
	if p.seen != nil && !p.seen.sameDecision(r) {
		return fmt.Errorf("asking for %v: %w: %v", want, ErrConflict, r.Decision)
	}
	if left := p.patience.left(r.Status, time.Now(), p.maxWait); left > 0 {
		return fmt.Errorf("asking for %v: %w: %v; another is made without after %v", want, ErrPending, r.Decision, left.Round(time.Second))
	}
	if r.Pending() {
		p.log.Warn("the last decision was never acknowledged. Going on without", "decision", r.String(), "waited", p.maxWait)
	}
	revision, err := p.writeDecision(ctx, r, d)
	if err != nil {
		return fmt.Errorf("asking for %v: %w", want, err)
	}
	if revision == 0 {
		return fmt.Errorf("asking for %v: %w", want, ErrConflict)
	}
	p.seen = r.written(d, revision)
	p.patience.left(Status{Decision: d, Scaled: r.Scaled}, time.Now(), p.maxWait)
	p.log.Info("decided", "decision", d.String(), "reason", reason)
	return nil
}

func (p *Planner) counts(want planner.Replicas) (prefill, decode int) {
	if p.aggregated {
		return None, want.Aggregated
	}
	return want.Prefill, want.Decode
}
