package replay

import (
	"encoding/json"
	"iter"
	"math/rand/v2"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/engine/sim/fleet"
	"plimsoll/planner"
	"plimsoll/profile"
)

const ms = time.Millisecond

// affine is a timer of steps: a base, and a time for each prompt token.
type affine struct{ base, token engine.Picoseconds }

func (a affine) StepTime(b engine.Batch) engine.Picoseconds {
	return a.base + a.token*engine.Picoseconds(b.PrefillTokens)
}

// aggregated is a pool of engines that run four requests at once, of steps of 10 ms
// and 1 ms for each prompt token: a request of 100 and 10 tokens takes 0.2 s alone.
func aggregated(start int) Scenario {
	return Scenario{
		Fleet: fleet.Config{Pools: []fleet.Pool{{
			Engine: sim.Config{Role: engine.RoleAggregated, KVBlocks: 1000, Limits: engine.Limits{MaxNumSeqs: 4}},
			Timer:  affine{engine.FromDuration(10 * ms), engine.FromDuration(ms)}, Router: fleet.LeastLoaded, StartUp: 20 * engine.Second,
		}}},
		Deployment: planner.Deployment{
			Pools:  []planner.Pool{{Role: engine.RoleAggregated, GPUs: 1, Min: 0}},
			Budget: planner.Budget{Max: -1, Min: -1},
			SLA:    profile.SLA{TTFT: time.Second, ITL: 200 * ms, Stat: profile.Mean},
		},
		Start:  planner.Replicas{Aggregated: start},
		Length: 10 * time.Minute, Drain: time.Minute,
		Pace: planner.Pace{Every: 30 * time.Second}, Scrape: 5 * time.Second, Seed: 1,
	}
}

// disaggregated is the same in two pools.
func disaggregated(prefill, decode int) Scenario {
	s := aggregated(0)
	p := s.Fleet.Pools[0]
	q := p
	p.Engine.Role, q.Engine.Role, q.GPUs = engine.RolePrefill, engine.RoleDecode, 2
	s.Fleet.Pools = []fleet.Pool{p, q}
	s.Fleet.Transfer.Latency = engine.Millisecond
	s.Deployment.Pools = []planner.Pool{{Role: engine.RolePrefill, GPUs: 1, Min: 0}, {Role: engine.RoleDecode, GPUs: 2, Min: 0}}
	s.Start = planner.Replicas{Prefill: prefill, Decode: decode}
	return s
}

// poisson are requests of 100 and 10 tokens at a rate that may change.
func poisson(seed uint64, most float64, rate func(at time.Duration) float64) iter.Seq[fleet.Request] {
	return func(yield func(fleet.Request) bool) {
		r := rand.New(rand.NewPCG(seed, 1))
		for at := 0.0; ; {
			at += r.ExpFloat64() / most
			if at > 86400 { // or nothing ever comes
				return
			}
			t := time.Duration(at * float64(time.Second))
			if r.Float64()*most <= rate(t) && !yield(fleet.Request{At: engine.FromDuration(t), ISL: 100, OSL: 10}) {
				return
			}
		}
	}
}

func steady(rate float64) iter.Seq[fleet.Request] {
	return poisson(7, rate, func(time.Duration) float64 { return rate })
}

// step is low, and high from an instant on.
func step(low, high float64, from time.Duration) iter.Seq[fleet.Request] {
	return poisson(7, high, func(at time.Duration) float64 {
		if at < from {
			return low
		}
		return high
	})
}

// spy is a policy that keeps what it is told; want says what it wants.
type spy struct {
	want func(s planner.Situation) planner.Replicas
	seen []planner.Observation
	told []planner.Observation
	made []planner.Decision
}

func (p *spy) Propose(s planner.Situation) planner.Decision {
	if s.Warmup {
		p.told = append(p.told, s.Observation)
		return planner.Decision{Want: s.Have}
	}
	p.seen = append(p.seen, s.Observation)
	d := planner.Decision{Want: s.Have}
	if p.want != nil {
		d.Want = p.want(s)
	}
	if !s.Arrivals.Known {
		d.Missing = []string{"arrivals"}
	}
	p.made = append(p.made, d)
	return d
}
func (p *spy) Save() (json.RawMessage, error)  { return json.Marshal(len(p.seen)) }
func (p *spy) Restore(b json.RawMessage) error { return json.Unmarshal(b, new(int)) }

// byRate wants a replica for every so many requests/s of the interval, at least one
// of each pool.
func byRate(each float64) func(planner.Situation) planner.Replicas {
	return func(s planner.Situation) planner.Replicas {
		want := s.Have
		for _, p := range s.Deployment.Pools {
			want = want.With(p.Role, max(1, int(s.Arrivals.Or(0)/s.Length.Seconds()/each+0.999)))
		}
		return want
	}
}

// failing is what *testing.T and *rapid.T share here.
type failing interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func coreOf(t failing, s Scenario, p planner.Policy) *planner.Core {
	t.Helper()
	c, err := planner.New(planner.Options{Deployment: s.Deployment, Policy: p, OnLoss: planner.Hold})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func mustRun(t failing, requests iter.Seq[fleet.Request], s Scenario, p planner.Policy) Result {
	t.Helper()
	r, err := Run(requests, s, coreOf(t, s, p))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func mustSchedule(t failing, requests iter.Seq[fleet.Request], s Scenario, p Schedule) Result {
	t.Helper()
	r, err := RunSchedule(requests, s, p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func agg(n int) planner.Replicas { return planner.Replicas{Aggregated: n} }

func coded(code string) func(profile.Warning) bool {
	return func(w profile.Warning) bool { return w.Code == code }
}
