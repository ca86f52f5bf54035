package replay

import (
	"fmt"
	"slices"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/sim/fleet"
	"plimsoll/planner"
)

// Hindsight is a schedule that somebody who knew all arrivals could have followed.
type Hindsight struct {
	Every    time.Duration // between two changes, at least
	Schedule Schedule
	Result   Result // of the schedule
	// Reaches says that the schedule reaches the share asked for; otherwise it is, of
	// those tried, the one that comes closest.
	Reaches bool
	// Settled says that one replica less, in whatever bin of whatever pool, saves nothing
	// or misses the share; otherwise there were too few simulations to tell.
	Settled     bool
	Simulations int // that it took
}

// DefaultSimulations is how many simulations LookBack may take where nothing else is
// said.
const DefaultSimulations = 100

// Sizing is the replicas for what comes in a minute: requests, and their prompt and
// output tokens in all.
type Sizing func(requests, isl, osl float64) (planner.Replicas, error)

// LookBack looks for a schedule by which a share of the requests meets both TTFT and
// ITL with few GPU-hours, by so many simulations at most (0 = DefaultSimulations).
// A schedule changes in bins of Scenario.Pace.Every, or of the timeline's points where
// these are longer. It begins with each bin's load by the sizing, times the factor that
// reaches the share. Then it lowers windows, all bins first and single bins last, as
// many at once as do not touch each other, where that costs few requests for what it
// saves. It ends, where simulations are left for it, with what every single bin can do
// without. It takes no more GPU-hours than the sizing's peak does all the time, where
// that reaches the share. The same arguments give the same schedule.
func LookBack(requests []fleet.Request, s Scenario, size Sizing, share float64, simulations int) (Hindsight, error) {
	whole, err := s.normal()
	if err != nil {
		return Hindsight{}, err
	}
	if simulations <= 0 {
		simulations = DefaultSimulations
	}
	x := &search{
		s: s, requests: requests, size: size, left: simulations, every: max(s.Pace.Every, whole.point()),
	}
	x.count(share)
	if err := x.run(); err != nil {
		return Hindsight{}, fmt.Errorf("looking back: %w", err)
	}
	return Hindsight{
		Every: x.every, Schedule: x.schedule(x.best.want), Result: x.best.result, Reaches: x.reaches(x.best),
		Settled: x.settled, Simulations: simulations - x.left,
	}, nil
}

// search is for a schedule.
type search struct {
	s             Scenario
	requests      []fleet.Request
	size          Sizing
	every         time.Duration // a bin
	loads         []load        // of the bins
	before, after int           // bins that feel what happens in one
	may           int64         // requests that may miss
	left          int           // simulations
	best          trial
	price         float64 // misses that a GPU-hour is worth
	settled       bool
}

// load is what comes in a minute; tokens in all.
type load struct{ requests, isl, osl float64 }

// trial is a schedule and what becomes of it.
type trial struct {
	want   []planner.Replicas // in each bin
	result Result
	hours  float64 // of GPUs
	missed []int64 // requests, by the bin of their arrival
	misses int64
	guess  bool // put together from others, not simulated
}

// count takes in the load of each bin, how far what happens in one is felt, and how many
// requests may miss.
func (x *search) count(share float64) {
	x.loads = make([]load, above(x.s.Length, x.every))
	minutes := x.every.Minutes()
	n, osl := 0, 0
	for _, q := range x.requests {
		at := q.At.Duration() - x.s.Warmup
		if at < 0 || at >= x.s.Length {
			continue
		}
		l := &x.loads[at/x.every]
		l.requests, l.isl, l.osl = l.requests+1/minutes, l.isl+float64(q.ISL)/minutes, l.osl+float64(q.OSL)/minutes
		n, osl = n+1, osl+q.OSL
	}
	x.may = int64(float64(n)*(1-share) + 1e-6)
	startUp := engine.Picoseconds(0)
	for _, pool := range x.s.Fleet.Pools {
		startUp = max(startUp, pool.StartUp)
	}
	sla := x.s.Deployment.SLA
	stay := min(sla.TTFT+time.Duration(osl/max(1, n))*sla.ITL, x.s.Length)
	x.before, x.after = int(stay/x.every)+1, int((startUp.Duration()+2*stay)/x.every)+1
}

// schedule is what is wanted as a replay takes it.
func (x *search) schedule(want []planner.Replicas) Schedule {
	var out Schedule
	for b, w := range want {
		if b == 0 || w != want[b-1] {
			out = append(out, Change{time.Duration(b) * x.every, w})
		}
	}
	return out
}

// try simulates a schedule, and keeps it where it is the best so far.
func (x *search) try(want []planner.Replicas) (trial, error) {
	x.left--
	r, err := RunSchedule(slices.Values(x.requests), x.s, x.schedule(want))
	if err != nil {
		return trial{}, err
	}
	t := trial{want: want, result: r, hours: r.GPUHours, missed: make([]int64, len(want))}
	for _, p := range r.Timeline {
		t.missed[p.From/x.every] += p.Arrivals - p.MetBoth
		t.misses += p.Arrivals - p.MetBoth
	}
	if x.best.want == nil || x.better(t, x.best) {
		x.best = t
	}
	return t, nil
}

func (x *search) reaches(t trial) bool { return t.misses <= x.may }

func (x *search) better(a, b trial) bool {
	if x.reaches(a) && x.reaches(b) {
		return a.hours < b.hours
	}
	return a.misses < b.misses
}

func (x *search) run() error {
	factor, err := x.flat()
	if err != nil || !x.reaches(x.best) {
		return err
	}
	t, err := x.follow(factor)
	if err != nil {
		return err
	}
	// What is cheap to save goes first.
	x.price = float64(x.may)/t.hours + 1
	for range 6 {
		if t, err = x.trim(t); err != nil {
			return err
		}
		x.price *= 4
	}
	if x.left < len(x.loads)*len(x.s.Fleet.Pools) {
		return nil
	}
	return x.settle()
}

// What the load is multiplied by, at least and at most, to find replicas that reach the
// share.
const (
	leastFactor = 0.05
	mostFactor  = 20
)

// flat tries the same all the time: the peak of what the load takes, and where that
// misses too much, of a multiple of it. It returns the factor.
func (x *search) flat() (float64, error) {
	for factor := 1.0; ; factor *= 1.5 {
		want, err := x.staffed(factor)
		if err != nil {
			return 0, err
		}
		var peak planner.Replicas
		for _, w := range want {
			peak = peak.Max(w)
		}
		t, err := x.try(slices.Repeat([]planner.Replicas{x.s.Deployment.Within(peak)}, len(want)))
		if err != nil || x.reaches(t) || x.left == 0 || factor > mostFactor {
			return factor, err
		}
	}
}

// staffed is the schedule that has ready in each bin what a factor of its load takes:
// engines start as much earlier as they take.
func (x *search) staffed(factor float64) ([]planner.Replicas, error) {
	need := make([]planner.Replicas, len(x.loads))
	for b, l := range x.loads {
		var err error
		if need[b], err = x.size(factor*l.requests, factor*l.isl, factor*l.osl); err != nil {
			return nil, err
		}
	}
	out := slices.Clone(need)
	for b, want := range out {
		for _, pool := range x.s.Fleet.Pools {
			role, lead := roleOf(pool), above(pool.StartUp.Duration(), x.every)
			for _, n := range need[b:min(b+lead+1, len(need))] {
				want = want.With(role, max(want.Of(role), n.Of(role)))
			}
		}
		out[b] = x.s.Deployment.Within(want)
	}
	return out, nil
}

// spared is the share of the misses allowed that the first schedule leaves for
// windows where they save more.
const spared = 0.7

// follow finds the factor of the load at which the schedule that follows it reaches the
// share with misses to spare. It begins at a factor; without one that does, the best so
// far stays.
func (x *search) follow(factor float64) (trial, error) {
	low, high, best, last := 0.0, 0.0, x.best, x.best
	for x.left > 0 && factor > leastFactor && factor < mostFactor && (low == 0 || high == 0 || high/low > 1.05) {
		want, err := x.staffed(factor)
		if err != nil {
			return trial{}, err
		}
		switch {
		case slices.Equal(want, best.want):
			last = best
		case !slices.Equal(want, last.want):
			if last, err = x.try(want); err != nil {
				return trial{}, err
			}
		}
		if float64(last.misses) <= (1-spared)*float64(x.may) {
			high, best = factor, last
		} else {
			low = factor
		}
		switch {
		case high == 0:
			factor = low * 1.3
		case low == 0:
			factor = high / 1.3
		default:
			factor = (low + high) / 2
		}
	}
	return best, nil
}

// settle lowers single bins of the best schedule, one at a time, until none can be.
func (x *search) settle() error {
	for !x.settled {
		before := x.best.want
		for _, pool := range x.s.Deployment.Pools {
			for b := range before {
				want, saves := x.lowered(x.best.want, pool.Role, b, b+1, 1)
				switch {
				case saves == 0:
					continue
				case x.left == 0:
					return nil
				}
				if _, err := x.try(want); err != nil {
					return err
				}
			}
		}
		x.settled = slices.Equal(before, x.best.want)
	}
	return nil
}

// lowered is a schedule with so many replicas of a pool fewer in a window, and the
// GPU-hours that this saves.
func (x *search) lowered(want []planner.Replicas, role planner.Role, from, to, by int) (out []planner.Replicas, saves float64) {
	d, out := x.s.Deployment, slices.Clone(want)
	gpus := 0
	for b := from; b < to; b++ {
		out[b] = d.Within(want[b].With(role, want[b].Of(role)-by))
		gpus += d.GPUs(want[b]) - d.GPUs(out[b])
	}
	return out, float64(gpus) * x.every.Hours()
}
