package capacity

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"plimsoll/profile"
)

// OneEngine is the Binding of a fleet that cannot have an engine fewer.
const OneEngine = "one engine is the minimum"

// Sized is a layout at the least size that holds the SLO.
type Sized struct {
	Layout    Layout
	Replicas  []int // of each pool; nil where Infeasible
	GPUs      int
	HourlyUSD USD
	Binding   string // what one engine fewer breaks
	At        Trial  // of Replicas
	// Below are trials with fewer engines in one of the pools: one, or a
	// twentieth where there are more than 20. None of them holds.
	Below  []Trial
	Trials int // sizes simulated
	// Cells are the equal parts, each with a router of its own, in which a fleet
	// is sized whose requests are too many to simulate; At and Below are of one.
	Cells      int
	Infeasible *Infeasible
	Warnings   []profile.Warning

	// Rate is the highest, in requests/s, that the fleet was found to hold; 0 = it was
	// sized for the traffic's.
	Rate float64
	// Variation is how it was chosen among Variants; nil where it was not.
	Variation *Variation

	short map[[2]int]Trial // the trials of a rough sizing
}

// Infeasible says why no number of engines holds the SLO, and what could be
// promised instead.
type Infeasible struct {
	Why      string        `json:"why"`
	TTFT     time.Duration `json:"ttft_ns"` // by the SLO's statistic, as ITL
	ITL      time.Duration `json:"itl_ns"`
	GapP99   time.Duration `json:"gap_p99_ns"` // of single gaps between tokens
	E2EP99   time.Duration `json:"e2e_p99_ns"`
	Replicas []int         `json:"replicas"` // with which those were found
}

// Beyond is the largest ratio of a latency to its promise; +Inf where no request was
// served.
func (i Infeasible) Beyond(slo SLO) float64 {
	if i.TTFT == 0 {
		return math.Inf(1)
	}
	most := 0.0
	for _, x := range []struct{ got, promise time.Duration }{{i.TTFT, slo.TTFT}, {i.ITL, slo.ITL}, {i.GapP99, slo.StallP99}, {i.E2EP99, slo.E2EP99}} {
		if x.promise > 0 {
			most = max(most, x.got.Seconds()/x.promise.Seconds())
		}
	}
	return most
}

// SizeOptions say how carefully to size.
type SizeOptions struct {
	// Requests in each trial of the search, leastRequests at least; 0 =
	// DefaultTrialRequests. Those that decide are longTrial times as long.
	Requests int
	Seed     uint64 // of arrivals, lengths and engines
	// Rough leaves the long trials out: for a range or a picture. Next to
	// saturation it may be an engine short.
	Rough bool
	// After is a rough sizing of the same layout, traffic and SLO with the same
	// Requests and Seed, whose trials are not made again; nil = none.
	After *Sized
	// LimitUSD is what the fleet may cost an hour at the prices of Layout.Ranked;
	// 0 = no matter what. A layout of
	// which no size for so much holds is not sized: ErrDearer. One that is returned
	// may cost more.
	LimitUSD USD
	// AtOnce does n things that do not touch each other, in any order, and returns
	// their errors: on several processors, where it wants. The result is the same.
	// nil = one by one.
	AtOnce func(n int, do func(i int) error) error

	within bool // all that is asked is whether it holds within LimitUSD: of no size is ErrDearer too
}

// holds reports whether a trial of such a search holds: a rough one as it is, for the rate
// of few requests, else on its bound.
func (o SizeOptions) holds(t Trial) bool { return t.Holds() || o.Rough && t.held() }

func oneByOne(n int, do func(i int) error) error {
	for i := range n {
		if err := do(i); err != nil {
			return err
		}
	}
	return nil
}

const (
	// DefaultTrialRequests tell a share of misses of 1 % from one of 2 %.
	DefaultTrialRequests = 20_000
	// longTrial is how many times as long the trials are that decide. Next to
	// saturation a queue remembers seconds to minutes, and a short trial's parts
	// all see the same of it.
	longTrial = 10
	// leastRequests are enough that a trial without a miss shows a share below 1 %.
	leastRequests = 1000
)

// ErrTooLarge is a layout that would need more replicas than are simulated.
var ErrTooLarge = errors.New("too large to simulate")

// Size finds the least number of engines in each pool with which the simulated
// fleet holds the SLO under the traffic, on the upper 95 % bound of the shares
// that miss it; with fewer engines in any pool it misses it, or is so near to
// doing so that a long trial does not tell. All sizes see the same requests
// (common random numbers). More load or a tighter SLO takes no fewer engines, unless it is
// more by less than a trial tells: at loads half a percent apart a fleet of 20 may take
// one engine more at the lower one. It begins at the size below which no schedule keeps
// up. A layout that cannot hold the SLO at any size is no error: Infeasible says
// why.
func Size(l Layout, t Traffic, slo SLO, o SizeOptions) (Sized, error) {
	o.Requests = cmp.Or(o.Requests, DefaultTrialRequests)
	if err := errors.Join(l.Check(), slo.Check(), within("requests", float64(o.Requests), leastRequests, mostRequests)); err != nil {
		return Sized{}, fmt.Errorf("sizing: %w", err)
	}
	enough, cells := o.Requests, 1
	if n := l.floor(t, slo); slices.Max(n) >= maxReplicas {
		return Sized{}, fmt.Errorf("%s at %.4g requests/s needs more than %d engines in a pool: %w", l.Name(), t.Rate, maxReplicas, ErrTooLarge)
	}
	if t.Requests == 0 {
		enough, cells = l.enough(t, slo, o.Requests)
		t = t.cell(cells)
	}
	s := l.search(t, slo, o, enough, cells)
	out, err := s.run()
	out.Layout, out.Trials, out.Cells = l, s.trials, cells
	if o.Rough {
		out.short = s.done
	}
	for i := range out.Replicas {
		out.Replicas[i] *= cells
	}
	out.GPUs, out.HourlyUSD = l.GPUs(out.Replicas), l.HourlyUSD(out.Replicas)
	return out, err
}

// search is that of the layout's least size in one of so many cells.
func (l Layout) search(t Traffic, slo SLO, o SizeOptions, enough, cells int) search {
	s := search{layout: l.Ranked(), traffic: t, slo: slo, seed: o.Seed, requests: max(o.Requests, enough/2), decisive: enough, rough: o.Rough, limitUSD: o.LimitUSD, within: o.within, cells: cells, atOnce: o.AtOnce, done: map[[2]int]Trial{}}
	if o.After != nil {
		maps.Copy(s.done, o.After.short)
	}
	if s.atOnce == nil {
		s.atOnce = oneByOne
	}
	return s
}

// HoldsAt reports whether the fleet holds the SLO at so many times the traffic that it
// was sized for, in one trial as long as those that decided.
func (s Sized) HoldsAt(times float64, t Traffic, slo SLO, o SizeOptions) (bool, error) {
	o.Requests = cmp.Or(o.Requests, DefaultTrialRequests)
	enough := o.Requests
	if t = t.Scaled(times); t.Requests == 0 {
		enough, _ = s.Layout.enough(t, slo, o.Requests)
		t = t.cell(s.Cells)
	}
	replicas := slices.Clone(s.Replicas)
	for i := range replicas {
		replicas[i] /= s.Cells
	}
	trials := s.Layout.search(t, slo, o, enough, s.Cells)
	trials.decide()
	trials.deciding = false // it may stop where the answer is clear
	trial, err := trials.try(replicas)
	return trial.Holds(), err
}

// mostRequests bounds one trial: some tenths of a second of simulation.
const mostRequests = 200_000

// enough is how many requests a trial takes that decides, so that each of its
// parts lasts longer than most requests that the SLO just lets pass, and in how
// many cells. Half as many have filled the fleet before they count.
// A cell has cellEngines at least, else whole engines and queues of their own
// would cost more than the cells are worth.
func (l Layout) enough(t Traffic, slo SLO, asked int) (requests, cells int) {
	want := l.wanted(t, slo)
	engines := 0
	for _, n := range l.floor(t, slo) {
		engines += n
	}
	cells = max(1, min(int(min(want, 1e12))/mostRequests+1, engines/cellEngines))
	return max(asked, int(min(want/float64(cells), 5*mostRequests))), cells
}

// lasting is enough in one cell.
func (l Layout) lasting(t Traffic, slo SLO, asked int) int {
	return max(asked, int(min(l.wanted(t, slo), 5*mostRequests)))
}

// wanted is how many requests make parts long enough.
func (l Layout) wanted(t Traffic, slo SLO) float64 {
	decode := l.Pools[len(l.Pools)-1]
	context := t.context()
	step := min(slo.ITL.Seconds(), decode.step(decode.room(context), context)) // the slowest; prompts among them aside
	lasts := slo.TTFT.Seconds() + max(t.OSL, t.OSLP99/2)*step
	return t.Rate * lasts * (batches + 3)
}

const cellEngines = 20
