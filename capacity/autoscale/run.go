package autoscale

import (
	"errors"
	"fmt"
	"iter"
	"time"

	"plimsoll/capacity"
	"plimsoll/engine"
	"plimsoll/engine/sim/fleet"
	"plimsoll/planner/policy"
	"plimsoll/profile"
)

// Options are a fleet, and who scales it.
type Options struct {
	// Fleet is what there is at the start; each pool's StartUp is what a new
	// engine takes. Done and SLA are not looked at.
	Fleet fleet.Config
	// Rules are one for each pool, in the same order; nil leaves the fleet as it
	// is. Each looks at its own pool alone.
	Rules []policy.Simple
	// Full is, for each pool, how many requests an engine holds at utilisation 1;
	// 0 = utilisation is the share of the time spent in steps. A decode engine is
	// in steps whenever it holds a request, so that this says nothing of it.
	Full  []float64
	SLO   capacity.SLO
	Every time.Duration // between two looks, above 0
	For   time.Duration // the end, at which what is in flight is left
}

// Result is what a run took and gave.
type Result struct {
	GPUHours float64   `json:"gpu_hours"` // from each decision to start an engine until it is gone
	ByPool   []float64 `json:"gpu_hours_by_pool"`
	Requests int64     `json:"requests"`
	TTFT     Kept      `json:"ttft"`
	ITL      Kept      `json:"itl"` // of gaps between tokens
	E2E      Kept      `json:"e2e"` // of finished requests, where promised
	Changes  int       `json:"changes"`
	Looks    []Look    `json:"-"` // every Options.Every
	Held     []Held    `json:"-"` // from each look to the next, and from the last one to the end
}

// Held is how many GPUs each pool had, on average over a time: those that start or
// drain too, as in GPUHours.
type Held struct {
	Hours float64
	GPUs  []float64
}

// Kept counts latencies, and those above the SLO.
type Kept struct {
	Count  int64   `json:"count"`
	Missed float64 `json:"missed"`
}

// Share is the share that kept the SLO, from 0 to 1; 1 of none.
func (k Kept) Share() float64 {
	if k.Count == 0 {
		return 1
	}
	return 1 - k.Missed/float64(k.Count)
}

func (k *Kept) add(o Kept) {
	k.Count += o.Count
	k.Missed += o.Missed
}

// Attainment is the least of the shares that kept a promise.
func (r Result) Attainment() float64 {
	return min(r.TTFT.Share(), r.ITL.Share(), r.E2E.Share())
}

// Look is what was seen in one interval, and what the rules made of it.
type Look struct {
	From, To  time.Duration
	Arrivals  int64
	TTFT, ITL Kept
	Pools     []PoolLook
}

// PoolLook is one pool of a Look.
type PoolLook struct {
	Seen    policy.Seen
	GPUs    int             // in service, starting or draining, at its end, before the rule
	Wanted  int             // by the rule, GPUs
	Reasons []policy.Reason // empty without rules
}

// Check says what is wrong with o; the fleet's own faults come from Run.
func (o Options) Check() error {
	errs := []error{o.SLO.Check()}
	if o.Every <= 0 || o.For < o.Every {
		errs = append(errs, fmt.Errorf("every %v for %v: want both above 0, and one look at least", o.Every, o.For))
	}
	if n := len(o.Fleet.Pools); o.Rules != nil && len(o.Rules) != n || len(o.Full) != n {
		errs = append(errs, fmt.Errorf("%d rules and %d full loads for %d pools: want one of each for every pool, or no rules", len(o.Rules), len(o.Full), n))
	}
	for i, r := range o.Rules {
		if err := r.Check(); err != nil {
			errs = append(errs, fmt.Errorf("rule of pool %d: %w", i+1, err))
		}
		if i < len(o.Fleet.Pools) && r.GroupGPUs != max(1, o.Fleet.Pools[i].GPUs) {
			errs = append(errs, fmt.Errorf("rule of pool %d: groups of %d GPUs, its engines have %d", i+1, r.GroupGPUs, o.Fleet.Pools[i].GPUs))
		}
	}
	return errors.Join(errs...)
}

// Run serves the requests, in order of their arrival, until the end. Requests at
// or after it do not come.
func Run(requests iter.Seq[fleet.Request], o Options) (Result, error) {
	if err := o.Check(); err != nil {
		return Result{}, fmt.Errorf("autoscaling: %w", err)
	}
	r := run{options: o, every: engine.FromDuration(o.Every), end: engine.FromDuration(o.For)}
	config := o.Fleet
	config.SLA, config.Done = profile.SLA{}, r.done
	var err error
	if r.fleet, err = fleet.New(config); err != nil {
		return Result{}, fmt.Errorf("autoscaling: %w", err)
	}
	for _, p := range o.Fleet.Pools {
		r.states = append(r.states, policy.State{GPUs: p.Replicas * max(1, p.GPUs)})
	}
	r.gpuSeconds = make([]float64, len(o.Fleet.Pools))
	for q := range requests {
		if q.At >= r.end {
			break
		}
		if err := r.until(q.At); err != nil {
			return Result{}, err
		}
		if err := r.fleet.Offer(q); err != nil {
			return Result{}, fmt.Errorf("autoscaling: %w", err)
		}
		r.out.Requests++
	}
	return r.finish()
}

// run is a run so far.
type run struct {
	options    Options
	fleet      *fleet.Fleet
	states     []policy.State
	every, end engine.Picoseconds
	gpuSeconds []float64 // of each pool, up to the last of out.Held
	heldUntil  engine.Picoseconds
	late       Kept // requests without a first token at the end
	out        Result
}

// done counts those that the end cut off: the sketches do not have them.
func (r *run) done(o fleet.Outcome) {
	if o.Status != fleet.Unfinished || o.First != 0 {
		return
	}
	if r.end-o.At > engine.FromDuration(r.options.SLO.TTFTP99) {
		r.late.add(Kept{1, 1})
	}
}

// until takes every look that is due before an instant, or at it.
func (r *run) until(at engine.Picoseconds) error {
	for next := r.nextLook(); next <= at; next = r.nextLook() {
		if err := r.look(next); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) nextLook() engine.Picoseconds {
	return r.every * engine.Picoseconds(len(r.out.Looks)+1)
}

func (r *run) look(at engine.Picoseconds) error {
	if err := r.fleet.Advance(at); err != nil {
		return fmt.Errorf("autoscaling: %w", err)
	}
	r.hold(at)
	v := r.fleet.Interval()
	l := r.count(v)
	for i, p := range v.Pools {
		gpus := max(1, r.options.Fleet.Pools[i].GPUs)
		look := PoolLook{Seen: r.seen(i, p, v, l), GPUs: (p.Ready + p.Starting + p.Draining) * gpus, Wanted: r.states[i].GPUs}
		if r.options.Rules != nil {
			before := r.states[i].GPUs
			r.states[i], look.Reasons = r.options.Rules[i].Step(r.states[i], look.Seen)
			look.Wanted = r.states[i].GPUs
			if look.Wanted != before {
				r.out.Changes++
			}
			if err := r.fleet.Scale(p.Role, look.Wanted/gpus, at); err != nil {
				return fmt.Errorf("autoscaling: %w", err)
			}
		}
		l.Pools = append(l.Pools, look)
	}
	r.out.Looks = append(r.out.Looks, l)
	return nil
}

// hold notes what GPUs there were since the last time.
func (r *run) hold(at engine.Picoseconds) {
	seconds := (at - r.heldUntil).Seconds()
	if seconds <= 0 {
		return
	}
	h := Held{Hours: seconds / 3600}
	now := r.fleet.GPUSeconds()
	for i, sum := range now {
		h.GPUs = append(h.GPUs, (sum-r.gpuSeconds[i])/seconds)
	}
	r.out.Held = append(r.out.Held, h)
	r.gpuSeconds, r.heldUntil = now, at
}

// count adds an interval to the result. Refused requests have no latency and
// missed every promise.
func (r *run) count(v fleet.Interval) Look {
	slo := r.options.SLO
	above := func(s fleet.Sketch, promise time.Duration, refused int64) Kept {
		if promise == 0 {
			return Kept{}
		}
		return Kept{s.Count() + refused, s.Above(int64(engine.FromDuration(promise))) + float64(refused)}
	}
	l := Look{
		From: v.From.Duration(), To: v.To.Duration(), Arrivals: v.Arrivals,
		TTFT: above(v.TTFT, slo.TTFTP99, v.Rejected), ITL: above(v.TPOT, slo.ITLP99, 0),
	}
	r.out.TTFT.add(l.TTFT)
	r.out.ITL.add(l.ITL)
	r.out.E2E.add(above(v.E2E, slo.E2EP99, 0))
	return l
}

// seen is what the rule of pool i looks at. TTFT is missed by the pool that
// prefills, ITL by the one that decodes; refused requests are no reason to
// scale. Where nothing was served and nothing waits, nothing is missed.
func (r *run) seen(i int, p fleet.PoolInterval, v fleet.Interval, l Look) policy.Seen {
	s := policy.Seen{At: l.To, Utilization: p.Utilisation, Queue: p.Waiting}
	if full := r.options.Full[i]; full > 0 {
		s.Utilization = min(1, (p.RunningMean+p.WaitingMean)/(full*float64(max(1, p.Ready))))
	}
	ttft := Kept{v.TTFT.Count(), l.TTFT.Missed - float64(v.Rejected)}
	if p.Role != engine.RoleDecode {
		s.Misses = max(s.Misses, 1-ttft.Share())
	}
	if p.Role != engine.RolePrefill {
		s.Misses = max(s.Misses, 1-l.ITL.Share())
	}
	return s
}

// finish takes the remaining looks, and counts what the end cuts off.
func (r *run) finish() (Result, error) {
	if err := r.until(r.end); err != nil {
		return Result{}, err
	}
	if err := errors.Join(r.fleet.Advance(r.end), r.fleet.Finish(r.end)); err != nil {
		return Result{}, fmt.Errorf("autoscaling: %w", err)
	}
	r.hold(r.end)
	r.count(r.fleet.Interval())
	r.out.TTFT.add(r.late)
	for _, p := range r.fleet.Report().Pools {
		r.out.ByPool = append(r.out.ByPool, p.GPUSeconds/3600)
		r.out.GPUHours += p.GPUSeconds / 3600
	}
	return r.out, nil
}
