package capacity

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/sim/fleet"
	"plimsoll/profile"
)

// Sized is a layout at the least size that holds the SLO.
type Sized struct {
	Layout    Layout  `json:"-"`
	Replicas  []int   `json:"replicas"` // of each pool; nil where Infeasible
	GPUs      int     `json:"gpus"`
	HourlyUSD float64 `json:"hourly_cost_usd"`
	Binding   string  `json:"binding"` // what one engine fewer breaks
	At        Trial   `json:"at"`      // of Replicas
	// Below are trials with fewer engines in one of the pools: one, or a
	// twentieth where there are more than 20. None of them holds.
	Below  []Trial `json:"below"`
	Trials int     `json:"trials"` // simulated in all
	// Cells are the equal parts, each with a router of its own, in which a fleet
	// is sized whose requests are too many to simulate; At and Below are of one.
	Cells      int                `json:"cells"`
	Infeasible *Infeasible        `json:"infeasible,omitempty"`
	Warnings   []profile.Warning  `json:"warnings,omitempty"`
	Provenance profile.Provenance `json:"provenance"`
}

// Infeasible says why no number of engines holds the SLO, and what could be
// promised instead.
type Infeasible struct {
	Why      string        `json:"why"`
	TTFTP99  time.Duration `json:"ttft_p99_ns"`
	ITLP99   time.Duration `json:"itl_p99_ns"`
	E2EP99   time.Duration `json:"e2e_p99_ns"`
	Replicas []int         `json:"replicas"` // with which those were found
}

// SizeOptions say how carefully to size.
type SizeOptions struct {
	Requests int    // in each trial; 0 = DefaultTrialRequests
	Seed     uint64 // of arrivals, lengths and engines
}

// DefaultTrialRequests make the upper bound of a 1 % share about half of that
// share wide.
const DefaultTrialRequests = 20_000

// ErrTooLarge is a layout that would need more replicas than are simulated.
var ErrTooLarge = errors.New("too large to simulate")

// Size finds the least number of engines in each pool with which the simulated
// fleet holds the SLO under the traffic, on the upper 95 % bound of the shares
// that miss it; with fewer engines in any pool it misses it, or is so near to
// doing so that the longest trial does not tell. All
// sizes see the same requests (common random numbers). It begins at the size
// below which no schedule keeps up. A layout that cannot hold the SLO at any
// size is no error: Infeasible says why.
func Size(l Layout, t Traffic, slo SLO, o SizeOptions) (Sized, error) {
	if err := errors.Join(l.Check(), slo.Check()); err != nil {
		return Sized{}, fmt.Errorf("sizing: %w", err)
	}
	cells := 1
	if t.Requests == 0 {
		o.Requests, cells = enough(t, slo, o.Requests)
		t = t.cell(cells)
	}
	s := search{layout: l, traffic: t, slo: slo, options: o, done: map[[2]int]Trial{}}
	out, err := s.run()
	out.Layout, out.Trials, out.Cells = l, len(s.done), cells
	for i := range out.Replicas {
		out.Replicas[i] *= cells
	}
	out.GPUs, out.HourlyUSD = l.GPUs(out.Replicas), l.HourlyUSD(out.Replicas)
	if cells > 1 {
		out.Warnings = append(out.Warnings, profile.Warnf("cells", "sized as %d equal cells with a router each: one router over all engines may need a little less", cells))
	}
	return out, err
}

// mostRequests bounds one trial: some tenths of a second of simulation.
const mostRequests = 200_000

// enough is how many requests a trial takes, so that each of its parts lasts
// longer than a request that the SLO just lets pass, and in how many cells.
func enough(t Traffic, slo SLO, asked int) (requests, cells int) {
	if asked == 0 {
		asked = DefaultTrialRequests
	}
	lasts := slo.TTFTP99.Seconds() + t.OSL*slo.ITLP99.Seconds()
	want := t.Rate * lasts * (batches + 2)
	cells = int(min(maxReplicas, max(1, math.Ceil(want/mostRequests))))
	return max(asked, int(min(want, 1e12))/cells), cells
}

// search is a layout being sized, and the trials made so far.
type search struct {
	layout  Layout
	traffic Traffic
	slo     SLO
	options SizeOptions
	done    map[[2]int]Trial
}

func (s *search) try(replicas []int) (Trial, error) {
	key := [2]int{replicas[0], 0}
	if len(replicas) > 1 {
		key[1] = replicas[1]
	}
	if t, ok := s.done[key]; ok {
		return t, nil
	}
	for _, n := range replicas {
		if n > maxReplicas {
			return Trial{}, fmt.Errorf("%d engines in a pool: %w", n, ErrTooLarge)
		}
	}
	// A share so near to the bound that the trial does not tell takes a longer one.
	for requests := s.options.Requests; ; requests *= 4 {
		t, err := s.layout.try(slices.Clone(replicas), s.traffic, s.slo, requests, s.options.Seed)
		if err != nil {
			return t, err
		}
		if t.Holds() || t.fails() || s.traffic.Requests > 0 || requests >= mostRequests {
			s.done[key] = t
			return t, nil
		}
	}
}

func (s *search) run() (Sized, error) {
	if why, err := s.alone(); err != nil || why != "" {
		return s.infeasible(why, err)
	}
	replicas := s.layout.floor(s.traffic, s.slo)
	ample := make([]int, len(replicas))
	for i, n := range replicas {
		ample[i] = ampleness * n
	}
	t, err := s.try(ample)
	if err != nil {
		return Sized{}, err
	}
	if !t.Holds() {
		return s.infeasible(fmt.Sprintf("at %d times the GPUs that keep up with the load, %.1f %% still miss the %s", ampleness, 100*t.worst().Missed, t.binding()), nil)
	}
	for i := range replicas { // each pool with the other one ample, then with the other one found
		if err := s.least(replicas, ample, i); err != nil {
			return Sized{}, err
		}
	}
	if err := s.settle(replicas, ample); err != nil {
		return Sized{}, err
	}
	return s.sized(replicas)
}

// ampleness is how many times the floor is taken for as many engines as help:
// utilisation is then about an eighth.
const ampleness = 8

// least sets pool i to the least size at which it holds, with the other pools at
// their place in others. It gallops up from the floor, then halves.
func (s *search) least(replicas, others []int, i int) error {
	at := slices.Clone(others)
	holds := func(n int) (bool, error) {
		at[i] = n
		t, err := s.try(at)
		return t.Holds(), err
	}
	low, high := replicas[i]-1, others[i] // low does not hold, high does
	for n, step := replicas[i], 1; n < high; n, step = n+step, 2*step {
		ok, err := holds(n)
		if err != nil {
			return err
		}
		if ok {
			high = n
			break
		}
		low = n
	}
	for high-low > 1 {
		n := low + (high-low)/2
		ok, err := holds(n)
		if err != nil {
			return err
		}
		if ok {
			high = n
		} else {
			low = n
		}
	}
	replicas[i] = high
	return nil
}

// settle makes the pools hold together: what each of them needed with the other
// one ample may be too little with both as small. It adds the engine that leaves
// the least missing per dollar, then takes away what is not needed.
func (s *search) settle(replicas, ample []int) error {
	for {
		t, err := s.try(replicas)
		if err != nil {
			return err
		}
		if t.Holds() {
			break
		}
		best, most := -1, 0.0
		for i := range replicas {
			if replicas[i] >= ample[i] {
				continue
			}
			more := slices.Clone(replicas)
			more[i] += max(1, more[i]/20)
			u, err := s.try(more)
			if err != nil {
				return err
			}
			gain := (t.worst().MissedAtMost - u.worst().MissedAtMost) / max(1e-9, s.layout.HourlyUSD(more)-s.layout.HourlyUSD(replicas))
			if best < 0 || gain > most {
				best, most = i, gain
			}
		}
		if best < 0 {
			break // all ample, which holds
		}
		replicas[best] += max(1, replicas[best]/20)
	}
	return s.shrink(replicas)
}

// shrink takes engines away, from the dearest pool first, while the SLO holds.
func (s *search) shrink(replicas []int) error {
	for again := true; again; {
		again = false
		for i := range replicas {
			for replicas[i] > 1 {
				fewer := slices.Clone(replicas)
				fewer[i]--
				t, err := s.try(fewer)
				if err != nil {
					return err
				}
				if !t.Holds() {
					break
				}
				replicas[i], again = fewer[i], true
			}
		}
	}
	return nil
}

// alone says why one request that has the fleet to itself breaks the SLO; empty
// = it does not.
func (s *search) alone() (string, error) {
	one := make([]int, len(s.layout.Pools))
	for i := range one {
		one[i] = 1
	}
	for _, c := range []struct {
		isl, osl float64
		of       func(fleet.Outcome) engine.Picoseconds
		what     string
		promise  time.Duration
	}{
		{s.traffic.P99ISL, 2, fleet.Outcome.TTFT, "TTFT", s.slo.TTFTP99},
		{s.traffic.ISL, max(2, s.traffic.OSL), fleet.Outcome.TPOT, "ITL", s.slo.ITLP99},
		{s.traffic.ISL, max(2, s.traffic.P99OSL), fleet.Outcome.E2E, "end-to-end latency", s.slo.E2EP99},
	} {
		var got fleet.Outcome
		config := s.layout.fleet(one, s.options.Seed)
		config.Done = func(o fleet.Outcome) { got = o }
		f, err := fleet.New(config)
		if err != nil {
			return "", fmt.Errorf("simulating %s: %w", s.layout.Name(), err)
		}
		if err := f.Offer(fleet.Request{ISL: int(c.isl), OSL: int(c.osl)}); err != nil {
			return "", err
		}
		if err := f.Finish(fleet.Forever); err != nil {
			return "", err
		}
		length := fmt.Sprintf("a request of %d prompt and %d output tokens", int(c.isl), int(c.osl))
		if got.Status == fleet.Rejected {
			return length + " is longer than the engine allows", nil
		}
		if c.promise > 0 && c.of(got).Duration() > c.promise {
			return fmt.Sprintf("%s that has the fleet to itself has a %s of %s ms, above %s ms", length, c.what,
				millis(c.of(got).Duration()), millis(c.promise)), nil
		}
	}
	return "", nil
}

func millis(d time.Duration) string { return fmt.Sprintf("%.4g", d.Seconds()*1e3) }

func (s *search) infeasible(why string, err error) (Sized, error) {
	if err != nil {
		return Sized{}, err
	}
	ample := s.layout.floor(s.traffic, s.slo)
	for i := range ample {
		ample[i] *= ampleness
	}
	t, err := s.try(ample)
	if err != nil {
		return Sized{}, err
	}
	return Sized{At: t, Infeasible: &Infeasible{
		Why: why, Replicas: ample, TTFTP99: t.TTFT.P99.Duration(), ITLP99: t.ITL.P99.Duration(), E2EP99: t.E2E.P99.Duration(),
	}}, nil
}

// sized tries what is below and reports.
func (s *search) sized(replicas []int) (Sized, error) {
	out := Sized{Replicas: slices.Clone(replicas)}
	var err error
	if out.At, err = s.try(replicas); err != nil {
		return out, err
	}
	worst := 0.0
	for i, n := range replicas {
		if n == 1 {
			continue
		}
		fewer := slices.Clone(replicas)
		fewer[i] -= max(1, n/20)
		t, err := s.try(fewer)
		if err != nil {
			return out, err
		}
		out.Below = append(out.Below, t)
		if m := t.worst().MissedAtMost; m > worst {
			worst, out.Binding = m, fmt.Sprintf("%s, by the %s pool", t.binding(), s.layout.Pools[i].Engine.Role)
		}
	}
	if out.Binding == "" {
		out.Binding = "one engine is the least that there can be"
	}
	return out, nil
}
