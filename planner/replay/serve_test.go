package replay

import (
	"context"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"plimsoll/engine"
	"plimsoll/planner"
	"plimsoll/planner/forecast"
	"plimsoll/planner/policy"
	"plimsoll/planner/serve"
)

// tape is what a replay's planner saw, look by look, and what it decided.
type tape struct {
	*controller
	states []planner.State
	seen   *spied
	made   []planner.Decision
}

func (x *tape) act(r *run) error {
	x.states = append(x.states, stateOf(r.s, r.replicas(), r.asked))
	return x.controller.act(r)
}

// spied keeps what a policy was given and what it answered.
type spied struct {
	planner.Policy
	seen []planner.Observation
}

func (p *spied) Propose(s planner.Situation) planner.Decision {
	p.seen = append(p.seen, s.Observation)
	return p.Policy.Propose(s)
}

// player is a deployment that shows serve what the replay saw, at the same times.
type player struct {
	*tape
	began time.Time
	every time.Duration
	given int
	asked []planner.Replicas
}

func (p *player) State(context.Context) (planner.State, error) {
	i := int(time.Since(p.began) / p.every)
	return p.states[min(i, len(p.states)-1)], nil
}

func (p *player) Scale(_ context.Context, want planner.Replicas, _ string) error {
	p.asked = append(p.asked, want)
	return nil
}

func (p *player) Sample(context.Context, planner.State) error { return nil }

// Observe gives the figures of the next interval, without what serve adds to them.
func (p *player) Observe(_ context.Context, start, end time.Time) (planner.Observation, error) {
	if p.given == len(p.seen.seen) {
		return planner.Observation{Problems: []string{"the tape is over"}}, nil
	}
	o := p.seen.seen[p.given]
	p.given++
	o.Start, o.Length, o.Scaling = time.Time{}, 0, ""
	pools := o.Pools
	o.Pools = nil
	for _, q := range pools {
		q.PoolState, q.Changed = planner.PoolState{Role: q.Role}, false
		o.Pools = append(o.Pools, q)
	}
	return o, nil
}

// defaultPolicy is Default on forecasts by the last values.
func defaultPolicy(t *testing.T) planner.Policy {
	t.Helper()
	o := policy.NewDefaultOptions()
	o.Prefill, o.Decode = surfaces(t)
	o.ISL, o.OSL, o.Ahead = 100, 10, 20*time.Second
	for _, to := range []*planner.Forecaster{&o.Rate, &o.ISLs, &o.OSLs} {
		f, err := forecast.New(forecast.DefaultOptions(forecast.Kalman))
		if err != nil {
			t.Fatal(err)
		}
		*to = f
	}
	p, err := policy.NewDefault(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// serve decides the same as replay on the same observations: at the same times,
// from the same figures, by the same steps; also where scaling outlasts the
// interval, where metrics come late, and where replicas fail.
func TestServeDecidesTheSame(t *testing.T) {
	for name, change := range map[string]func(*Scenario){
		"plain":                     func(*Scenario) {},
		"start-up of two intervals": func(s *Scenario) { slowStart(s, 65) },
		"late metrics":              func(s *Scenario) { s.Delay = 45 * time.Second },
		"blocking": func(s *Scenario) {
			slowStart(s, 65)
			s.Pace.Blocking, s.Pace.Timeout = true, time.Minute
		},
		"steady, with a start-up of two intervals": func(s *Scenario) {
			slowStart(s, 65)
			s.Pace.Steady = true
		},
		"outside its bounds": func(s *Scenario) { s.Start = planner.Replicas{Prefill: 9} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := disaggregated(2, 2)
				s.Origin = time.Now()
				s.Deployment.Pools[0].Min, s.Deployment.Pools[1].Min = 1, 1
				s.Deployment.Budget.Max = 30
				change(&s)
				x := taped(t, s)
				if len(x.made) < 4 {
					t.Fatalf("only %d decisions", len(x.made))
				}
				var made []planner.Decision
				p := player{tape: x, began: time.Now(), every: s.Scrape}
				runner, err := serve.New(serve.Options{
					Name: "taped", Source: &p, Target: &p, Core: coreOf(t, s, &spied{Policy: defaultPolicy(t)}),
					Interval: s.Pace.Every, Pull: s.Scrape, Blocking: s.Pace.Blocking, Steady: s.Pace.Steady,
					ScalingTimeout: max(s.Pace.Timeout, time.Second), CallTimeout: time.Second, StartTimeout: time.Second,
					On: func(e serve.Event) {
						if e.Kind == serve.Decided {
							made = append(made, *e.Decision)
						}
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), s.Length-time.Millisecond)
				defer cancel()
				if err := runner.Run(ctx); err != nil {
					t.Fatal(err)
				}
				compare(t, made, x.made)
			})
		})
	}
}

func slowStart(s *Scenario, seconds float64) {
	for i := range s.Fleet.Pools {
		s.Fleet.Pools[i].StartUp = engine.FromSeconds(seconds)
	}
}

// taped replays a step of the load, with the default policy.
func taped(t *testing.T, s Scenario) *tape {
	t.Helper()
	x := &tape{seen: &spied{Policy: defaultPolicy(t)}}
	s.On = func(_ planner.Observation, d planner.Decision) { x.made = append(x.made, d) }
	whole, err := s.normal()
	if err != nil {
		t.Fatal(err)
	}
	x.controller = newController(whole, coreOf(t, s, x.seen))
	if _, err := replay(step(5, 40, 4*time.Minute), whole, x); err != nil {
		t.Fatal(err)
	}
	return x
}

func compare(t *testing.T, got, want []planner.Decision) {
	t.Helper()
	changes := 0
	for i, w := range want {
		if i >= len(got) {
			t.Fatalf("serve made %d decisions, replay %d", len(got), len(want))
		}
		if w.Want != w.From {
			changes++
		}
		if !reflect.DeepEqual(got[i], w) {
			t.Fatalf("decision %d of serve\n%+v, of replay\n%+v", i, got[i], w)
		}
	}
	if len(got) != len(want) || changes == 0 {
		t.Errorf("serve made %d decisions, replay %d; %d changed something", len(got), len(want), changes)
	}
}
