package policy

import (
	"fmt"
	"math"
	"slices"
	"time"

	"plimsoll/engine"
	"plimsoll/planner"
)

// tokenRate is a load by what it makes engines do, in tokens/s, of so many requests.
type tokenRate struct {
	Prompts  float64 `json:"prompts"`
	Answers  float64 `json:"answers"`
	Requests float64 `json:"requests"`
}

func tokensOf(d demand, over time.Duration) tokenRate {
	return tokenRate{d.rate * d.prompt(), d.rate * d.osl, d.rate * over.Seconds()}
}

// see takes in the load of an interval, of the mean over about so long.
func (t *tokenRate) see(d demand, length, over time.Duration) {
	weight := length.Seconds() / over.Seconds()
	if *t == (tokenRate{}) {
		weight = 1
	}
	now := tokensOf(d, over)
	t.Prompts += weight * (now.Prompts - t.Prompts)
	t.Answers += weight * (now.Answers - t.Answers)
	t.Requests += weight * (now.Requests - t.Requests)
}

// above reports whether a load is more than another by more than about, and what chance does.
func (t tokenRate) above(o tokenRate) bool {
	by := 1 + about + 2/math.Sqrt(max(1, min(t.Requests, o.Requests)))
	return t.Prompts > by*o.Prompts || t.Answers > by*o.Answers
}

func (t tokenRate) bad() bool {
	return !(min(t.Prompts, t.Answers, t.Requests) >= 0 && max(t.Prompts, t.Answers, t.Requests) < mostOfAnything)
}

const (
	// about is how far a load may be from another and count as the same.
	about = 0.05
	// A pool that flapped is not tried with as few replicas for flapsFor, twice as long
	// each further time, and for mostFlaps at most.
	flapsFor  = 4 * time.Hour
	mostFlaps = 24 * time.Hour
)

// swing is how a pool went down and came up again.
type swing struct {
	Have  int  `json:"have"`  // replicas asked for at the last look
	Whole bool `json:"whole"` // all of them served

	DownAt time.Time `json:"down_at"` // when they last became fewer; zero: never
	DownTo int       `json:"down_to"`
	Load   tokenRate `json:"load"`  // then
	Lower  bool      `json:"lower"` // it has been lower since

	Short     int           `json:"short"` // replicas that were too few; 0: none were
	ShortAt   time.Time     `json:"short_at"`
	ShortLoad tokenRate     `json:"short_load"`
	For       time.Duration `json:"for_ns"` // they are not tried again
}

// swung notes where pools went, whoever asked them to. One that comes back up although all
// replicas served and the load neither grew, nor was expected to, nor was lower in between,
// has flapped: it was short with what it had, whatever the profile and its corrections say.
// Another SLA begins anew, and so does a clock that was set back.
func (m *defaultMemory) swung(s planner.Situation) {
	if sla := s.Deployment.SLA; sla != m.Promised || m.Swings == nil {
		m.Promised, m.Swings = sla, map[planner.Role]swing{}
	}
	load := m.Lately
	for _, p := range s.Deployment.Pools {
		pool, _ := s.Pool(p.Role)
		x, have := m.Swings[p.Role], s.Have.Of(p.Role)
		if x.DownAt.After(s.End()) || x.ShortAt.After(s.End()) {
			x = swing{Have: have}
		}
		x.Lower = x.Lower || x.Load.above(load)
		switch {
		case have < x.Have:
			x.DownAt, x.DownTo, x.Load, x.Lower = s.Start, have, load, false
		case have > x.Have && !x.DownAt.IsZero() && x.Have == x.DownTo && x.Whole && !x.Lower && x.Load.Requests > 0 && !load.above(x.Load) && !m.Expected.above(x.Load):
			if x.Short != x.Have {
				x.For = flapsFor / 2
			}
			x.Short, x.ShortAt, x.ShortLoad, x.For = x.Have, s.End(), load, min(2*x.For, mostFlaps)
		}
		x.Have, x.Whole = have, pool.Ready >= have
		m.Swings[p.Role] = x
	}
}

// flaps is the least that a pool may go down to by what its last flap taught; 0 where
// that says nothing.
func (m *defaultMemory) flaps(at time.Time, role planner.Role, n int) (least int, why string) {
	x := m.Swings[role]
	if x.Short == 0 || n > x.Short || x.ShortLoad.above(m.Lately) || at.Sub(x.ShortAt) > x.For {
		return 0, ""
	}
	return x.Short + 1, fmt.Sprintf("with %d it had to grow again at %s, under this load", x.Short, x.ShortAt.Format(time.TimeOnly))
}

// checkSwings refuses what swung and see cannot have left.
func (m defaultMemory) checkSwings() error {
	bad := m.Lately.bad() || m.Expected.bad()
	for role, x := range m.Swings {
		known := slices.Contains(engine.Roles(), role)
		bad = bad || !known || min(x.Have, x.DownTo, x.Short) < 0 || x.Load.bad() || x.ShortLoad.bad() || x.For < 0 || x.For > mostFlaps
	}
	if bad {
		return fmt.Errorf("its pools went %+v under %+v: want known pools, and no number below 0", m.Swings, m.Lately)
	}
	return nil
}
