package replay

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/engine/sim/fleet"
	"plimsoll/planner"
)

// Scenario is a fleet, how it is watched and scaled, and for how long. It is a
// value.
type Scenario struct {
	// Fleet is the pools, with their start-up times. Its Done, SLA and Bins are
	// replay's own, its replicas are Start's, and engine seeds are mixed with Seed.
	// MaxInFlight 0 is DefaultMaxInFlight: one more is refused.
	Fleet fleet.Config
	// Deployment has the same pools; its SLA is what requests are held against.
	Deployment planner.Deployment
	Start      planner.Replicas // ready at virtual time 0
	Origin     time.Time        // of virtual time 0; the zero time is that of Unix
	// Warmup is how much of the requests is told to the core before, by intervals:
	// virtual time 0 comes after it, and nothing of it counts.
	Warmup time.Duration
	Length time.Duration // no request comes at or after it, nothing is decided, no GPU counts
	Drain  time.Duration // after Length, in which what is in flight may end

	Pace   planner.Pace   // between decisions
	Scrape time.Duration  // between looks at target and metrics, at most Pace.Every
	Delay  time.Duration  // how old the metrics are that a decision sees; the target's own word is not
	MaxAge time.Duration  // metrics that are older are missing; 0 = they never are
	Bounds planner.Bounds // of the histograms in which distributions are seen

	Seed uint64 // of noise, with the engines' own

	// On takes every decision before it is carried out, with what it was made of;
	// nil = nobody wants to know.
	On func(planner.Observation, planner.Decision)
}

// DefaultMaxInFlight is how many requests are in flight at most where Fleet does not say.
const DefaultMaxInFlight = 1_000_000

// DefaultTarget is the share of a minute's requests that is enough.
const DefaultTarget = 0.99

// MaxLength bounds a replay, and a warm-up: virtual time has 100 days for arrivals.
const MaxLength = 90 * 24 * time.Hour

// normal fills in the defaults and refuses what cannot be replayed, all complaints
// at once.
func (s Scenario) normal() (Scenario, error) {
	var errs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	if s.Origin.IsZero() {
		s.Origin = time.Unix(0, 0).UTC()
	}
	errs = append(errs, s.Deployment.Check(), s.matches())
	bad(s.Deployment.SLA.TTFT == 0, "the TTFT to keep is 0s: want above 0")
	bad(s.Deployment.SLA.ITL == 0, "the ITL to keep is 0s: want above 0")
	bad(s.Length <= 0 || s.Length > MaxLength, "the length is %v: want above 0 to %v", s.Length, MaxLength)
	bad(s.Drain < 0 || s.Drain > 24*time.Hour, "the drain is %v: want 0 to 24h", s.Drain)
	bad(s.Warmup < 0 || s.Warmup > MaxLength, "the warm-up is %v: want 0 to %v", s.Warmup, MaxLength)
	bad(s.Pace.Every < time.Second || s.Pace.Every > 24*time.Hour, "the time between decisions is %v: want 1s to 24h", s.Pace.Every)
	bad(s.Pace.Blocking && s.Pace.Timeout <= 0, "the scaling timeout is %v: want above 0", s.Pace.Timeout)
	bad(s.Scrape < 100*time.Millisecond || s.Scrape > s.Pace.Every, "the time between looks is %v: want 100ms to that between decisions, %v", s.Scrape, s.Pace.Every)
	bad(s.Delay < 0 || s.Delay > 24*time.Hour, "the metrics' delay is %v: want 0 to 24h", s.Delay)
	bad(s.MaxAge < 0, "the metrics' greatest age is %v: want above 0, or 0 for any", s.MaxAge)
	if err := errors.Join(errs...); err != nil {
		return s, fmt.Errorf("the scenario: %w", err)
	}
	s.Fleet = s.Simulated()
	return s, nil
}

// matches says where the deployment is not the fleet's.
func (s Scenario) matches() error {
	if len(s.Fleet.Pools) != len(s.Deployment.Pools) {
		return fmt.Errorf("the fleet has %d pools, the deployment %d", len(s.Fleet.Pools), len(s.Deployment.Pools))
	}
	var errs []error
	for _, p := range s.Fleet.Pools {
		role := roleOf(p)
		want := s.Deployment.Pool(role)
		if gpus := max(1, p.GPUs); gpus != want.GPUs {
			errs = append(errs, fmt.Errorf("a replica of the %s pool has %d GPUs, in the deployment %d", role, gpus, want.GPUs))
		}
		if n := s.Start.Of(role); n < 0 {
			errs = append(errs, fmt.Errorf("the %s pool starts with %d replicas: want 0 or more", role, n))
		}
	}
	return errors.Join(errs...)
}

// fits says where a planner is for another deployment.
func (s Scenario) fits(core *planner.Core) error {
	d := core.Deployment()
	if d.SLA == s.Deployment.SLA && slices.Equal(d.Pools, s.Deployment.Pools) {
		return nil
	}
	return fmt.Errorf("the planner is for pools %v and %+v, the scenario for %v and %+v: want the same", d.Pools, d.SLA, s.Deployment.Pools, s.Deployment.SLA)
}

// roleOf is a pool's role, which may be left empty.
func roleOf(p fleet.Pool) planner.Role {
	if p.Engine.Role == "" {
		return engine.RoleAggregated
	}
	return p.Engine.Role
}

// Simulated is the fleet as a replay runs it: for who simulates it beside, and wants
// each replica to start in the same time.
func (s Scenario) Simulated() fleet.Config {
	c := s.Fleet
	c.SLA, c.Done, c.Bins = s.Deployment.SLA, nil, 0
	c.MaxInFlight = cmp.Or(c.MaxInFlight, DefaultMaxInFlight)
	c.Pools = slices.Clone(c.Pools)
	for i := range c.Pools {
		p := &c.Pools[i]
		p.Engine.Role, p.GPUs = roleOf(*p), max(1, p.GPUs)
		p.Engine.Seed = sim.Mix(p.Engine.Seed, sim.Mix(sim.Mix(s.Seed, 0), uint64(i)))
		p.Replicas = s.Start.Of(p.Engine.Role)
	}
	return c
}

// at is an instant of virtual time as the planner knows it.
func (s Scenario) at(t engine.Picoseconds) time.Time { return s.Origin.Add(t.Duration()) }
