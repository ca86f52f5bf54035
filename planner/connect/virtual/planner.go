package virtual

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

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
	Advise     func() bool   // while true, decisions are not kept: Scale will not be called; nil: never
	MaxWait    time.Duration // 0: DefaultMaxWait
	Log        *slog.Logger  // nil: none
}

// ErrPending is when the last decision was not carried out yet.
var ErrPending = errors.New("the last decision is not acknowledged")

// leaseSeconds is how long decisions outlive a planner that acts: a day. (Dynamo revokes its
// lease when it ends in order, outlives a kill by 30 s, and begins anew with decision 0.)
// Nothing is revoked here, so that a planner neither undoes nor repeats a decision: one that
// starts within that time renews the lease that it finds, and no key changes. A later one
// asks again for what its state file remembers; without one it does not know what runs.
const leaseSeconds = int64(24 * 60 * 60)

// Planner is the side that decides: it implements planner.Target.
type Planner struct {
	store
	aggregated bool
	advise     func() bool
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
		store: s, aggregated: o.Aggregated, advise: o.Advise, maxWait: cmp.Or(o.MaxWait, DefaultMaxWait),
		log: cmp.Or(o.Log, slog.New(slog.DiscardHandler)), scaled: Decision{ID: None},
	}, nil
}

// State implements planner.Target. What runs is not in etcd: replicas count as
// ready once their decision is acknowledged, or its time is over. Where the decision's
// keys are gone they are what this planner saw last, and the record is lost. While the
// planner acts, State renews the decision's lease.
func (p *Planner) State(ctx context.Context) (planner.State, error) {
	r, _, err := p.read(ctx)
	if err != nil {
		return planner.State{}, err
	}
	if err := p.renew(ctx, r.lease); err != nil {
		return planner.State{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	lost := p.recall(&r)
	if !lost {
		p.see(r)
	}
	var s planner.State
	if left := p.left(r); left > 0 && !lost { // nobody acknowledges what is not there
		s.Scaling = fmt.Sprintf("%v is not acknowledged. After %v the planner goes on without", r.Decision, left.Round(time.Second))
		if r.unreadable != "" {
			s.Scaling += "; " + r.unreadable
		}
	}
	if p.aggregated {
		s.Pools = []planner.PoolState{pool(engine.RoleAggregated, r.Decode, p.scaled.Decode, p.scaled.ID)}
	} else {
		s.Pools = []planner.PoolState{
			pool(engine.RolePrefill, r.Prefill, p.scaled.Prefill, p.scaled.ID),
			pool(engine.RoleDecode, r.Decode, p.scaled.Decode, p.scaled.ID),
		}
	}
	for i := range s.Pools {
		s.Pools[i].NoRecord = lost || s.Pools[i].Want == None
		s.Pools[i].Lost = lost || r.ID == None && r.Scaled != None // somebody acknowledged one
	}
	return s, nil
}

// recall gives r the decision that this planner saw last, where its keys are gone.
func (p *Planner) recall(r *record) (lost bool) {
	if p.seen == nil || !p.seen.vanished(*r) {
		return false
	}
	r.Decision = p.seen.Decision
	return true
}

// renew keeps the decisions of a planner that acts. Another program's lease, such as a
// Dynamo process's, is left alone: other keys may lie on it. What it takes along is asked
// for again.
func (p *Planner) renew(ctx context.Context, lease clientv3.LeaseID) error {
	if lease == clientv3.NoLease || p.advise != nil && p.advise() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	is, err := p.etcd.TimeToLive(ctx, lease)
	if err == nil && is.GrantedTTL == leaseSeconds {
		_, err = p.etcd.KeepAliveOnce(ctx, lease)
	}
	if err != nil && !errors.Is(err, rpctypes.ErrLeaseNotFound) { // then the next State says so
		return fmt.Errorf("renewing the lease of %s in etcd: %w", p.prefix, p.describe(err))
	}
	return nil
}

// left is how much longer the acknowledgement of r's decision is waited for; 0 where it
// came once, also if it is gone since (Dynamo's goes with its client), or its time is over.
func (p *Planner) left(r record) time.Duration {
	if r.Decision == p.scaled {
		return 0
	}
	left := p.patience.left(r.Status, time.Now(), p.maxWait)
	if left == 0 {
		p.scaled = r.Decision
		if r.Pending() {
			p.log.Warn("the last decision was never acknowledged. Going on without", "decision", r.String(), "waited", p.maxWait)
		}
	}
	return left
}

// pool tells a pool by what is wanted and what was acknowledged last. Where
// that is not known, what is wanted is taken to be there.
func pool(role planner.Role, want, scaled int, scaledID int64) planner.PoolState {
	have := max(0, scaled)
	if scaledID == None {
		have = max(0, want)
	}
	s := planner.PoolState{Role: role, Name: string(role), Want: want, Ready: min(have, max(0, want))}
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
// asks for the same and is there. It refuses with ErrPending while the last one is
// not acknowledged and its time not over, and with ErrConflict where somebody wrote
// a decision since State.
func (p *Planner) Scale(ctx context.Context, want planner.Replicas, reason string) error {
	r, _, err := p.read(ctx)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	lost := p.recall(&r)
	d, needed := r.next(p.counts(want))
	if !needed && !lost {
		p.log.Info(fmt.Sprintf("No scaling needed (prefill=%d, decode=%d)", d.Prefill, d.Decode))
		return nil
	}
	if !lost && p.seen != nil && !p.seen.sameDecision(r) {
		return fmt.Errorf("asking for %v: %w: %v", want, ErrConflict, r.Decision)
	}
	if left := p.left(r); left > 0 && !lost {
		return fmt.Errorf("asking for %v: %w: %v; another is made without after %v", want, ErrPending, r.Decision, left.Round(time.Second))
	}
	revision, err := p.decide(ctx, r, d)
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

// decide writes d under a lease of its own.
func (p *Planner) decide(ctx context.Context, r record, d Decision) (revision int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	granted, err := p.etcd.Grant(ctx, leaseSeconds)
	if err != nil {
		return 0, fmt.Errorf("a lease for %s in etcd: %w", p.prefix, p.describe(err))
	}
	return p.writeDecision(ctx, granted.ID, r, d)
}

func (p *Planner) counts(want planner.Replicas) (prefill, decode int) {
	if p.aggregated {
		return None, want.Aggregated
	}
	return want.Prefill, want.Decode
}
