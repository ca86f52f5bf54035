package replay

import (
	"errors"
	"fmt"
	"iter"

	"plimsoll/engine"
	"plimsoll/engine/sim/fleet"
	"plimsoll/planner"
)

// never is an instant that is not reached.
const never = fleet.Forever

// Run replays requests, in order of their arrival, with a planner that has decided
// nothing yet.
func Run(requests iter.Seq[fleet.Request], s Scenario, core *planner.Core) (Result, error) {
	s, err := s.normal()
	if err != nil {
		return Result{}, err
	}
	if err := s.fits(core); err != nil {
		return Result{}, err
	}
	return replay(requests, s, newController(s, core))
}

// RunSchedule replays requests with replicas that were decided beforehand.
// Requests of the warm-up are left out; nothing is watched.
func RunSchedule(requests iter.Seq[fleet.Request], s Scenario, plan Schedule) (Result, error) {
	s, err := s.normal()
	if err != nil {
		return Result{}, err
	}
	if err := plan.Check(s); err != nil {
		return Result{}, fmt.Errorf("the schedule: %w", err)
	}
	return replay(requests, s, &scheduled{plan})
}

// driver decides how many replicas there are.
type driver interface {
	next() engine.Picoseconds // when it acts next; never
	act(r *run) error         // at that instant, which the fleet has reached
}

// warmed is a driver that takes requests of before.
type warmed interface{ tell(q fleet.Request) }

// run is a replay so far.
type run struct {
	s      Scenario
	end    engine.Picoseconds
	fleet  *fleet.Fleet
	driver driver
	score  *score
	asked  planner.Replicas
	due    engine.Picoseconds // when something is to be done besides requests
	looked []fleet.Replica    // for those who look often
}

func replay(requests iter.Seq[fleet.Request], s Scenario, d driver) (Result, error) {
	r := &run{s: s, end: engine.FromDuration(s.Length), driver: d, asked: s.Start, score: newScore(s)}
	config := s.Fleet
	config.Done = r.score.done
	var err error
	if r.fleet, err = fleet.New(config); err != nil {
		return Result{}, fmt.Errorf("the fleet: %w", err)
	}
	if err := r.offer(requests); err != nil {
		return Result{}, err
	}
	return r.finish()
}

// offer brings the requests to the fleet, those of the warm-up to the driver.
func (r *run) offer(requests iter.Seq[fleet.Request]) error {
	before := engine.FromDuration(r.s.Warmup)
	for q := range requests {
		if q.At < before {
			if w, ok := r.driver.(warmed); ok {
				w.tell(q)
			}
			continue
		}
		q.At -= before
		if q.At >= r.end {
			break
		}
		if q.At >= r.due {
			if err := r.until(q.At); err != nil {
				return err
			}
		}
		if err := r.fleet.Offer(q); err != nil {
			if over := (*fleet.OverloadError)(nil); !errors.As(err, &over) {
				return fmt.Errorf("replaying: %w", err)
			}
			r.score.refuse(q.At)
		}
	}
	return r.until(r.end - 1)
}

// until does all that is due up to an instant: first the timeline's points end,
// then the driver acts.
func (r *run) until(at engine.Picoseconds) error {
	for {
		edge := r.score.edge()
		now := min(edge, r.driver.next())
		if r.due = now; now > at {
			return nil
		}
		if err := r.fleet.Advance(now); err != nil {
			return fmt.Errorf("replaying: %w", err)
		}
		if now == edge {
			r.close()
		} else if err := r.driver.act(r); err != nil {
			return err
		}
	}
}

// replicas are those that there are now, until the next call.
func (r *run) replicas() []fleet.Replica {
	r.looked = r.fleet.AppendReplicas(r.looked[:0])
	return r.looked
}

// close ends a point of the timeline.
func (r *run) close() {
	r.score.close(stateOf(r.s, r.replicas(), r.asked), r.fleet.GPUSeconds())
}

// scale asks for replicas now.
func (r *run) scale(want planner.Replicas) error {
	now := r.fleet.Now()
	for i, p := range r.s.Fleet.Pools {
		role := p.Engine.Role
		r.score.scaled(i, r.asked.Of(role), want.Of(role))
		if err := r.fleet.Scale(role, want.Of(role), now); err != nil {
			return fmt.Errorf("replaying: %w", err)
		}
	}
	if want != r.asked {
		r.score.out.Scales++
	}
	r.asked = want
	return nil
}

// finish ends the trace, lets what is in flight end, and sums up.
func (r *run) finish() (Result, error) {
	if err := r.fleet.Advance(r.end); err != nil {
		return Result{}, fmt.Errorf("replaying: %w", err)
	}
	r.close()
	gpus := r.fleet.GPUSeconds()
	if err := r.fleet.Finish(r.end + engine.FromDuration(r.s.Drain)); err != nil {
		return Result{}, fmt.Errorf("replaying: %w", err)
	}
	out := r.score.result(gpus, r.fleet.Report())
	if c, ok := r.driver.(*controller); ok {
		c.sumUp(&out)
	}
	return out, nil
}
