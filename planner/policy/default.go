package policy

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"plimsoll/interpolation"
	"plimsoll/planner"
	"plimsoll/profile"
)

// DefaultOptions make a Default. Start from NewDefaultOptions.
type DefaultOptions struct {
	Prefill interpolation.Prefill // of one engine; for aggregated engines the same engine's
	Decode  interpolation.Decode
	ISL     float64 // tokens: the profile's workload, until lengths were seen
	OSL     float64
	Rated   Rated // of one aggregated engine; zero: sized by the surfaces alone

	Rate, ISLs, OSLs planner.Forecaster // requests/s, mean tokens

	// Ahead is how long a replica takes to serve, 0 to 24 h. A decision must do
	// until the next one's replicas serve: for an interval and Ahead.
	Ahead        time.Duration
	AheadSaid    bool          // Ahead is the user's; else it is a guess, until replicas were seen to start
	Margin       float64       // standard deviations of the forecast's error that are sized for, as if it were normal, 0 to 4
	Every        time.Duration // between steps down of a pool at least; decisions in between go up
	StableFor    time.Duration // replicas go down to the most that was wanted within it, or within twice Ahead where that is more; 0: at once
	MostUp       int           // replicas per pool and decision; 0: twice what there is, or 4
	MostDown     int           // likewise; 0: half of what there is, or 1
	KVHigh       float64       // KV use of the fullest replica above which decode grows, 0 to 1
	IdleFor      time.Duration // without any request before a pool whose least is 0 is switched off
	NoCorrection bool          // take the profile as it is
}

// NewDefaultOptions are the usual figures, chosen to hold the SLA first and to save
// second: a reserve that one load in forty exceeds (Margin 2), and replicas that are
// kept for twice Ahead, which is longer than StableFor here.
func NewDefaultOptions() DefaultOptions {
	return DefaultOptions{
		Margin: 2, StableFor: 3 * time.Minute, KVHigh: 0.9, IdleFor: 10 * time.Minute, Ahead: 2 * time.Minute,
	}
}

// Check says all that is wrong, each by field and range.
func (o DefaultOptions) Check() error {
	var errs []error
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(o.Rate == nil || o.ISLs == nil || o.OSLs == nil, "a forecaster is missing: want one each of rate, ISL and OSL")
	bad(!(o.ISL > 0 && o.OSL > 0), "the workload is ISL %v, OSL %v: want tokens above 0", o.ISL, o.OSL)
	bad(!(o.Rated.RPS >= 0) || o.Rated.RPS > 0 && !(o.Rated.ISL > 0 && o.Rated.OSL > 0), "an engine is rated at %v requests/s of ISL %v, OSL %v: want 0 or more, of tokens above 0", o.Rated.RPS, o.Rated.ISL, o.Rated.OSL)
	bad(o.Ahead < 0 || o.Ahead > 24*time.Hour, "ahead is %v: want 0 to 24h", o.Ahead)
	bad(!(o.Margin >= 0 && o.Margin <= 4), "the margin is %v: want 0 to 4 standard deviations", o.Margin)
	bad(o.Every < 0, "the time between steps down is %v: want 0 or more", o.Every)
	bad(o.StableFor < 0, "stable-for is %v: want 0 or more", o.StableFor)
	bad(o.MostUp < 0 || o.MostDown < 0, "the most replicas in a step are %d up and %d down: want 0 or more", o.MostUp, o.MostDown)
	bad(!(o.KVHigh > 0 && o.KVHigh <= 1), "the KV use to grow at is %v: want above 0 to 1", o.KVHigh)
	bad(o.IdleFor < 0, "idle-for is %v: want 0 or more", o.IdleFor)
	return errors.Join(errs...)
}

// Default sizes both pools for the demand expected, so that TTFT holds with its
// waiting and ITL at the load of the fullest moment, and corrects both by what
// was observed. It goes up for any reason and down only where all agree.
//
// Prefill is a queue: its servers are engines that take one prompt at a time, as
// long as the profile says; where it says what several at once take, and fewer
// engines hold the TTFT so, those are enough (batching). Decode is a crowd: as many
// requests are in flight as Little's law says, and each engine carries what its
// surface says at the SLA.
//
// Aggregated engines do both. Where a rate was measured that one of them holds (Rated)
// they are as many as that takes; else, where the ITL promised is a percentile of answers they
// carry what lets as many be slowed down too much by others' prompts, lengths as they
// vary (interrupted).
//
// The load sized for is the forecast, a reserve for what loads went above their
// forecasts beyond what Poisson arrivals do (surprise, noise), and where the SLA is a
// percentile a margin that follows the requests that missed it (margin).
type Default struct {
	o     DefaultOptions
	m     defaultMemory
	rated float64 // see Rated.over

	unclear []profile.Warning // said last
}

// defaultMemory survives a restart, the forecasters beside it.
type defaultMemory struct {
	InSystem  planner.Figure[float64]        `json:"in_system"` // running and waiting at the last interval's end
	ISL       float64                        `json:"isl"`       // mean last seen; 0: never
	OSL       float64                        `json:"osl"`
	ISLSpread planner.Figure[float64]        `json:"isl_spread"` // squared coefficient of variation last seen
	OSLSpread planner.Figure[float64]        `json:"osl_spread"` // likewise
	CacheHit  float64                        `json:"cache_hit"`  // last seen; 0: never
	Slower    correction                     `json:"slower"`
	Idle      time.Duration                  `json:"idle_ns"`
	Gives     map[planner.Role]gives         `json:"gives,omitempty"` // what was ever seen of each pool
	Ready     planner.Replicas               `json:"ready"`           // at the last interval's end
	Mixed     planner.Replicas               `json:"mixed"`           // intervals in a row in which replicas came, of each pool
	Wanted    []wanted                       `json:"wanted"`          // within StableFor, oldest first
	Asked     planner.Replicas               `json:"asked"`           // by the last decision
	AskedAt   time.Time                      `json:"asked_at"`
	From      planner.Replicas               `json:"from"`              // what there was then
	Starts    []starting                     `json:"starts"`            // replicas that do not serve yet
	Took      map[planner.Role]time.Duration `json:"took_ns,omitempty"` // to start, the slowest lately
	Swings    map[planner.Role]swing         `json:"swings,omitempty"`
	Promised  profile.SLA                    `json:"promised"` // of which Swings tell
	Lately    tokenRate                      `json:"lately"`   // the mean load of the time that going down looks back
	Expected  tokenRate                      `json:"expected"` // by the last forecast
	Watched   int                            `json:"watched"`  // intervals that were decided on
	Prompts   surprise                       `json:"prompts"`  // in tokens/s
	Answers   surprise                       `json:"answers"`
	Margin    margin                         `json:"margin"`
}

// wanted is what was proposed at an instant.
type wanted struct {
	At       time.Time        `json:"at"`
	Replicas planner.Replicas `json:"replicas"`
}

// NewDefault makes the policy.
func NewDefault(o DefaultOptions) (*Default, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	p := &Default{o: o, m: defaultMemory{Slower: asProfiled()}}
	p.rated = o.Rated.over(engines{prefill: o.Prefill, decode: o.Decode, slower: asProfiled()})
	return p, nil
}

// Propose is the policy's answer to one interval.
func (p *Default) Propose(s planner.Situation) planner.Decision {
	d := planner.Decision{Want: s.Have}
	seen, ok := p.observe(s, &d)
	if ok && s.Warmup {
		p.expect(s, seen, &planner.Decision{}) // the reserve is of what forecasts missed
	}
	if !ok || s.Warmup {
		why := "a trace warms the forecasters"
		if !ok {
			why = "the demand is not known"
			p.unseen(s)
		}
		for _, pool := range s.Deployment.Pools {
			n := s.Have.Of(pool.Role)
			d.Steps = append(d.Steps, planner.Step{Rule: "hold", Role: pool.Role, From: n, To: n, Why: why})
		}
		return d
	}
	p.age(s, &d)
	p.learnMargin(s, seen)
	p.mix(s)
	p.m.note(s)
	p.m.Lately.see(seen, s.Length, max(p.hold(s), s.Length))
	p.m.swung(s)
	need := p.expect(s, seen, &d)
	p.m.Expected = tokensOf(need, max(p.hold(s), s.Length))
	sized := p.size(s, need, &d)
	sized = p.react(s, seen, sized, &d)
	for _, pool := range s.Deployment.Pools {
		if a, b := sized.Of(pool.Role), s.Deployment.Ratio.Grow(sized).Of(pool.Role); a != b {
			d.Steps = append(d.Steps, planner.Step{Rule: "ratio", Role: pool.Role, From: a, To: b, Why: fmt.Sprintf("prefill per decode replica is kept %s", s.Deployment.Ratio)})
		}
	}
	sized = s.Deployment.Ratio.Grow(sized)
	p.remember(s, sized)
	d.Want = p.careful(s, seen, sized, &d)
	p.m.Asked = d.Want
	p.m.From, p.m.AskedAt = s.Have, s.End()
	return d
}

// unseen lets an interval go by of which nothing is known: what was asked for stays
// wanted, so that the first look afterwards gives nothing away at once.
func (p *Default) unseen(s planner.Situation) {
	if len(p.m.Wanted) > 0 {
		p.remember(s, p.m.Asked)
	}
	p.m.Idle = 0
	p.m.Prompts.pass()
	p.m.Answers.pass()
}

// size is the fewest replicas for a demand.
func (p *Default) size(s planner.Situation, need demand, d *planner.Decision) planner.Replicas {
	engines := p.engines(s.Deployment.SLA)
	if need.none() {
		return p.idle(s, d)
	}
	if s.Deployment.Aggregated() {
		engines = engines.knowing(need)
	}
	var want planner.Replicas
	for _, pool := range s.Deployment.Pools {
		n, why, warn := engines.least(pool.Role, p.m.Margin.sized(pool.Role, need))
		want = want.With(pool.Role, n)
		d.Steps = append(d.Steps, planner.Step{Rule: "demand", Role: pool.Role, From: s.Have.Of(pool.Role), To: n, Why: why})
		d.Warnings = append(d.Warnings, warn...)
		d.Capacity = append(d.Capacity, engines.capacity(pool.Role, need, n))
	}
	d.Sized = p.sized(s.Deployment, engines, need)
	return want
}

// sized is the fewest replicas for a load and a part of the reserve: see Decision.Sized.
// The forecast load is held in the mean; that the SLA is of a percentile is a reserve.
func (p *Default) sized(dep planner.Deployment, e engines, need demand) func(load, reserve float64) planner.Replicas {
	return func(load, reserve float64) (r planner.Replicas) {
		least := func(role planner.Role, e engines, reserve float64) int {
			e.slower = e.slower.part(reserve)
			n, _, _ := e.least(role, need.part(p.m.Margin.sized(role, need), load, reserve))
			return n
		}
		mean := e
		mean.sla.Stat = profile.Mean
		for _, pool := range dep.Pools {
			n := least(pool.Role, mean, 0)
			if reserve > 0 { // an SLA out of reach asks for fewer
				n = max(n, least(pool.Role, e, reserve))
			}
			r = r.With(pool.Role, n)
		}
		return r
	}
}

// idle is what stays when nothing is expected: the pools' least, 0 only after
// IdleFor without a request.
func (p *Default) idle(s planner.Situation, d *planner.Decision) planner.Replicas {
	var want planner.Replicas
	for _, pool := range s.Deployment.Pools {
		n := pool.Min
		why := "no request is expected"
		if n == 0 && s.Have.Of(pool.Role) > 0 && p.m.Idle < p.o.IdleFor {
			n, why = 1, fmt.Sprintf("no request is expected, but the last came only %v ago (limit %v)", p.m.Idle, p.o.IdleFor)
		}
		want = want.With(pool.Role, n)
		d.Steps = append(d.Steps, planner.Step{Rule: "idle", Role: pool.Role, From: s.Have.Of(pool.Role), To: n, Why: why})
	}
	return want
}

// engines are the profile's, as slow as they were seen to be.
func (p *Default) engines(sla profile.SLA) engines {
	e := engines{prefill: p.o.Prefill, decode: p.o.Decode, sla: sla, slower: p.m.Slower, rated: p.rated}
	if p.o.NoCorrection {
		e.slower = asProfiled()
	}
	return e
}

// defaultState is Save's form.
type defaultState struct {
	Policy string          `json:"policy"`
	Memory defaultMemory   `json:"memory"`
	Rate   json.RawMessage `json:"rate"`
	ISL    json.RawMessage `json:"isl"`
	OSL    json.RawMessage `json:"osl"`
}

// Save gives what the policy remembers, its forecasters included.
func (p *Default) Save() (json.RawMessage, error) {
	s := defaultState{Policy: "default", Memory: p.m}
	var errs [3]error
	s.Rate, errs[0] = p.o.Rate.Save()
	s.ISL, errs[1] = p.o.ISLs.Save()
	s.OSL, errs[2] = p.o.OSLs.Save()
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	return json.Marshal(s)
}

// Restore takes back what Save gave; after an error the policy is as it was.
func (p *Default) Restore(b json.RawMessage) error {
	var s defaultState
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	if s.Policy != "default" {
		return fmt.Errorf("it is of the policy %q, not of default", s.Policy)
	}
	s.Memory.Slower.Full = cmp.Or(s.Memory.Slower.Full, 1) // an older file has none
	if err := s.Memory.check(); err != nil {
		return err
	}
	was, err := p.Save()
	if err != nil {
		return err
	}
	if err := p.restoreSeries(s); err != nil {
		var old defaultState
		return errors.Join(err, json.Unmarshal(was, &old), p.restoreSeries(old))
	}
	p.m = s.Memory
	return nil
}

// check refuses a memory that no Default can have.
func (m defaultMemory) check() error {
	c := m.Slower
	factor := func(v float64) bool { return v >= leastCorrection && v <= mostCorrection }
	if !(factor(c.Prefill) && factor(c.Full) && factor(c.Decode) && c.Tail >= 1 && c.Tail <= mostCorrection) {
		return fmt.Errorf("its corrections are %+v: want %v to %v", c, leastCorrection, mostCorrection)
	}
	if !(m.ISL >= 0 && m.ISL < mostOfAnything && m.OSL >= 0 && m.OSL < mostOfAnything) || m.ISLSpread.Value < 0 || m.OSLSpread.Value < 0 || m.Idle < 0 {
		return fmt.Errorf("its ISL is %v, its OSL %v, their spreads %v and %v, idle for %v: want 0 or more", m.ISL, m.OSL, m.ISLSpread.Value, m.OSLSpread.Value, m.Idle)
	}
	if !(m.CacheHit >= 0 && m.CacheHit <= mostCacheHit) {
		return fmt.Errorf("its cache hits are %v: want 0 to %v", m.CacheHit, mostCacheHit)
	}
	if c.Extra < 0 || m.Watched < 0 {
		return fmt.Errorf("TTFT's rest is %v after %d intervals: want 0 or more", c.Extra, m.Watched)
	}
	return errors.Join(m.checkStarts(), m.checkSwings(), m.Margin.check(), m.Prompts.check(), m.Answers.check())
}

func (p *Default) restoreSeries(s defaultState) error {
	return errors.Join(p.o.Rate.Restore(s.Rate), p.o.ISLs.Restore(s.ISL), p.o.OSLs.Restore(s.OSL))
}
