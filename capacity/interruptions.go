package capacity

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/sim/fleet"
)

// Interruptions take engines of one pool away, one at a time and at random, as
// a cloud takes spot instances back. Each is replaced at once by one that has
// to start. Many at the same moment, as when a cloud runs out of a kind, are not
// in it.
type Interruptions struct {
	Pool    int           // of the layout
	PerHour float64       // of each engine, 0 to 60
	StartUp time.Duration // of its replacement, until it takes requests
}

// Check says what is wrong with i for a layout.
func (i Interruptions) Check(l Layout) error {
	return errors.Join(within("pool", float64(i.Pool), 0, float64(len(l.Pools)-1)),
		within("interruptions_per_hour", i.PerHour, 0, 60), within("start_up_s", i.StartUp.Seconds(), 0, 3600))
}

// Risk is what interruptions did to requests in a simulation of some hours.
type Risk struct {
	Interruptions int     `json:"interruptions"`
	Hours         float64 `json:"hours"` // simulated
	Requests      int64   `json:"requests"`
	Restarted     float64 `json:"restarted"` // share whose engine went away: their prompt was computed again
	// Missed is the share of requests that broke a promise by their own TTFT,
	// their own mean ITL or their own end-to-end latency.
	Missed float64 `json:"missed"`
	// MissedWithout is the same of the same requests without interruptions.
	MissedWithout float64 `json:"missed_without"`
}

// Bounds of a simulation with interruptions.
const (
	enoughInterruptions = 30
	mostRiskRequests    = 500_000
)

// Interrupted simulates the layout at a size for as long as about 30
// interruptions take, or half a million requests, with and without them.
func Interrupted(l Layout, replicas []int, t Traffic, slo SLO, in Interruptions, seed uint64) (Risk, error) {
	if err := errors.Join(l.Check(), slo.Check(), in.Check(l)); err != nil {
		return Risk{}, fmt.Errorf("simulating interruptions: %w", err)
	}
	requests := t.Requests
	if requests == 0 {
		requests = int(min(mostRiskRequests, max(DefaultTrialRequests, t.Rate*enoughInterruptions/max(in.perSecond(replicas), 1e-12))))
	}
	with, err := l.interrupted(replicas, t, slo, in, requests, seed)
	if err != nil {
		return Risk{}, err
	}
	calm := in
	calm.PerHour = 0
	without, err := l.interrupted(replicas, t, slo, calm, requests, seed)
	with.MissedWithout = without.Missed
	return with, err
}

// perSecond is how often they come to a pool of that size.
func (i Interruptions) perSecond(replicas []int) float64 {
	return i.PerHour / 3600 * float64(replicas[i.Pool])
}

// interrupted simulates the layout once.
func (l Layout) interrupted(replicas []int, t Traffic, slo SLO, in Interruptions, requests int, seed uint64) (Risk, error) {
	var risk Risk
	missed, restarted := 0, 0
	c := l.fleet(replicas, seed)
	c.Retry = true
	c.Pools[in.Pool].StartUp = engine.FromDuration(in.StartUp)
	c.Done = func(o fleet.Outcome) {
		risk.Requests++
		if o.Retries > 0 {
			restarted++
		}
		if broke(o, slo) {
			missed++
		}
	}
	f, err := fleet.New(c)
	if err != nil {
		return risk, fmt.Errorf("simulating interruptions: %w", err)
	}
	source, err := t.sharing(l).requests(seed, t.within(requests))
	if err != nil {
		return risk, err
	}
	random := rand.New(rand.NewPCG(seed, 0x5907)) //nolint:gosec // a simulation
	perSecond := in.perSecond(replicas)
	next := after(random, 0, perSecond)
	for r := range source {
		for ; r.At >= next; next = after(random, next, perSecond) {
			risk.Interruptions++
			if err := takeAway(f, c.Pools[in.Pool].Engine.Role, replicas[in.Pool], next, random); err != nil {
				return risk, err
			}
		}
		if err := f.Offer(r); err != nil {
			return risk, fmt.Errorf("simulating interruptions: %w", err)
		}
	}
	risk.Hours = f.Now().Seconds() / 3600
	if err := f.Finish(fleet.Forever); err != nil {
		return risk, fmt.Errorf("simulating interruptions: %w", err)
	}
	if risk.Requests > 0 {
		risk.Missed, risk.Restarted = float64(missed)/float64(risk.Requests), float64(restarted)/float64(risk.Requests)
	}
	return risk, nil
}

// after is the instant of the next interruption: they come at random.
func after(r *rand.Rand, at engine.Picoseconds, perSecond float64) engine.Picoseconds {
	gap := r.ExpFloat64()
	if perSecond == 0 || gap/perSecond > float64(fleet.Latest/engine.Second) {
		return fleet.Forever
	}
	return at + engine.FromSeconds(gap/perSecond)
}

// takeAway ends one engine of a role, drawn at random, and starts another.
func takeAway(f *fleet.Fleet, role engine.Role, want int, at engine.Picoseconds, r *rand.Rand) error {
	var numbers []int
	for _, x := range f.AppendReplicas(nil) {
		if x.Role == role {
			numbers = append(numbers, x.Number)
		}
	}
	if len(numbers) > 0 {
		if err := f.Fail(numbers[r.IntN(len(numbers))], at); err != nil {
			return fmt.Errorf("simulating interruptions: %w", err)
		}
	}
	if err := f.Scale(role, want, at); err != nil {
		return fmt.Errorf("simulating interruptions: %w", err)
	}
	return nil
}

// broke reports whether a request broke a promise.
func broke(o fleet.Outcome, slo SLO) bool {
	over := func(got engine.Picoseconds, promise time.Duration) bool {
		return promise > 0 && got > engine.FromDuration(promise)
	}
	return o.Status != fleet.Finished || over(o.TTFT(), slo.TTFT) || over(o.TPOT(), slo.ITL) || over(o.E2E(), slo.E2EP99)
}

// Hardened is the least number of engines in the interrupted pool, from
// replicas up to half as many again, with which no more of the requests than the SLO
// allows break a promise in spite of the interruptions; its Risk. Where none does, the
// last one tried is given and its Risk says so.
func Hardened(l Layout, replicas []int, t Traffic, slo SLO, in Interruptions, seed uint64) ([]int, Risk, error) {
	at := append([]int(nil), replicas...)
	most := int(math.Ceil(1.5 * float64(replicas[in.Pool])))
	for {
		r, err := Interrupted(l, at, t, slo, in, seed)
		if err != nil || r.Missed <= slo.Allowed() || at[in.Pool] >= most {
			return at, r, err
		}
		at[in.Pool] += max(1, at[in.Pool]/20)
	}
}
