package policy

import (
	"fmt"
	"math"
	"time"

	"plimsoll/engine"
	"plimsoll/planner"
)

// margin is what each pool is sized for over what the profile and the forecast say,
// as a logarithm: 0 takes them as they are. It is learned from what became of the
// requests, whatever the reason for their misses: bursts within an interval, a
// formula that is off, replicas that come late. With m the share of an interval's
// requests that missed their promise and α the share that may,
//
//	margin += weight · interval/relax · (m/α − 1), within its bounds,
//
// where the weight is the interval's requests over their mean, since the promise is of
// requests, not of hours. It is not learned from intervals whose fleet is not what the
// margin asked for: bounds that bind would drive it to its end.
//
// which is adaptive conformal inference (Gibbs and Candès, NeurIPS 2021): as long as
// it is within its bounds the mean of m over any time T differs from α by at most
// α·relax/T times their distance, whatever the load does.
type margin struct {
	Prefill    float64 `json:"prefill"`
	Decode     float64 `json:"decode"`
	Aggregated float64 `json:"aggregated"`
	Requests   float64 `json:"requests"` // of usual, older ones the less
	Seconds    float64 `json:"seconds"`  // and the time in which they came
}

const (
	// relax is how fast the margin goes down without misses: a tenth in relax/10.
	relax = 10 * time.Hour
	// mostMisses is m/α of one interval at most: what misses nearly everything says
	// no more of the margin than what misses one in ten.
	mostMisses = 10
	// spare is the part of the misses allowed that is aimed at.
	spare = 0.5
	// usual is the time over which the rate is that an interval's weight goes by, and
	// mostWeight bounds what a burst counts.
	usual       = time.Hour
	mostWeight  = 2
	leastMargin = -0.2
	mostMargin  = 0.5
)

func (m *margin) of(role planner.Role) *float64 {
	switch role {
	case engine.RolePrefill:
		return &m.Prefill
	case engine.RoleDecode:
		return &m.Decode
	default:
		return &m.Aggregated
	}
}

// learn takes an interval in: the requests that missed over those that may, and what
// the interval counts.
func (m *margin) learn(role planner.Role, missed, weight float64, length time.Duration) {
	v := m.of(role)
	over := math.Min(missed/spare, mostMisses) - 1
	*v = within(*v+weight*over*length.Seconds()/relax.Seconds(), leastMargin, mostMargin)
}

// weigh is the interval's requests over their mean.
func (m *margin) weigh(rate float64, length time.Duration) float64 {
	fade := math.Exp(-length.Seconds() / usual.Seconds())
	m.Requests = fade*m.Requests + rate*length.Seconds()
	m.Seconds = fade*m.Seconds + length.Seconds()
	return math.Min(rate*m.Seconds/m.Requests, mostWeight)
}

// check refuses what learn cannot have left.
func (m margin) check() error {
	for _, v := range []float64{m.Prefill, m.Decode, m.Aggregated} {
		if !(v >= leastMargin && v <= mostMargin) {
			return fmt.Errorf("its margins are %+v: want %v to %v", m, leastMargin, mostMargin)
		}
	}
	if !(m.Requests >= 0 && m.Requests <= mostOfAnything && m.Seconds >= 0 && m.Seconds <= mostOfAnything) {
		return fmt.Errorf("its mean rate is of %v requests in %v s: want 0 or more", m.Requests, m.Seconds)
	}
	return nil
}

// sized is the demand that a pool is sized for.
func (m *margin) sized(role planner.Role, need demand) demand {
	switch role {
	case engine.RolePrefill:
		need.rate = need.prompts
	case engine.RoleDecode:
		need.rate = need.answers
	default:
		need.rate = max(need.prompts, need.answers)
	}
	need.rate *= math.Exp(*m.of(role))
	need.backlog = need.queued.of(role)
	return need
}

// learnMargin learns from what the interval's requests met, where the promise is of
// a share of them and more replicas can keep it.
func (p *Default) learnMargin(s planner.Situation, seen demand) {
	sla := s.Deployment.SLA
	q := sla.Stat.Quantile()
	if q == 0 || seen.rate == 0 {
		return
	}
	weight := p.m.Margin.weigh(seen.rate, s.Length)
	late, may := p.missedTTFT(s, seen)
	slow := missed{math.NaN(), math.NaN(), math.NaN()}
	if p.engines(sla).mendsITL(seen) {
		slow = itlMissed(s)
	}
	ttft, itl := late.learnt(spare*may)/may, slow.learnt(spare*(1-q))/(1-q)
	for _, pool := range s.Pools {
		over := ttft
		switch {
		case pool.Role == engine.RoleDecode:
			over = itl
		case pool.Role == engine.RoleAggregated && !late.known():
			over = itl
		case pool.Role == engine.RoleAggregated && slow.known():
			over = math.Max(ttft, itl) // NaN where either is told too roughly: what can only go up would end at its most
		}
		if !math.IsNaN(over) && p.answers(s, pool, over > spare) {
			p.m.Margin.learn(pool.Role, over, weight, s.Length)
		}
	}
}

// answers reports whether a pool's misses, too many or too few, are the margin's: not
// where it was refused what was wanted, or what it wanted more starts or has just come,
// and not where it was left more than was wanted.
func (p *Default) answers(s planner.Situation, pool planner.PoolObservation, many bool) bool {
	if len(p.m.Wanted) == 0 {
		return false
	}
	have, asked := s.Have.Of(pool.Role), p.m.Asked.Of(pool.Role)
	if many {
		return have >= asked && !p.coming(s, pool) && !pool.Changed
	}
	return have <= asked
}
