package oracle

import (
	"math/rand/v2"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/engine/sim/fleet"
	"plimsoll/profile"
)

// steady is an engine of one prompt a step, without anything hidden.
func steady(every engine.Picoseconds) fleet.Pool {
	return fleet.Pool{
		Engine: sim.Config{KVBlocks: 64, Limits: engine.Limits{MaxNumSeqs: 4, MaxNumBatchedTokens: 64, BlockSize: 4}},
		Timer:  affine{token: every / 64}, Replicas: 1,
	}
}

// prompts of 64 tokens, one every so often.
func evenly(every, end engine.Picoseconds) []fleet.Request {
	var out []fleet.Request
	for at := engine.Picoseconds(0); at < end; at += every {
		out = append(out, fleet.Request{At: at, ISL: 64, OSL: 1})
	}
	return out
}

// Where nothing is lost to whole engines or queues, the bound is what it takes.
func TestBoundOfAFullEngineIsItsTime(t *testing.T) {
	every, end := 100*engine.Millisecond, 200*engine.Second
	c := Case{
		Fleet:    fleet.Config{Pools: []fleet.Pool{steady(every)}, SLA: profile.SLA{TTFT: time.Second, ITL: time.Second}},
		Requests: evenly(every, end), Every: 10 * engine.Second, Bins: 20, Attainment: 0.99,
		Bounds: []Bounds{{0, 4}}, Drain: 10 * engine.Second,
	}
	f, err := Bound(c)
	if err != nil {
		t.Fatal(err)
	}
	if got := f.GPUHours * 3600; got < 0.97*200 || got > 0.99*200+0.1 {
		t.Errorf("at least %.2f GPU s, want 99 %% of 200, less the last second", got)
	}
}

// A load that comes and goes pays for starting: the bound has all but the edges of
// it.
func TestBoundChargesStartUp(t *testing.T) {
	every, end := 10*engine.Millisecond, 200*engine.Second
	p := steady(100 * engine.Millisecond)
	p.StartUp, p.Replicas = 20*engine.Second, 0
	var requests []fleet.Request
	for _, r := range evenly(every, end) { // 10 engines for 50 s, twice
		if s := r.At % (100 * engine.Second); s > 30*engine.Second && s <= 80*engine.Second {
			requests = append(requests, r)
		}
	}
	c := Case{
		Fleet:    fleet.Config{Pools: []fleet.Pool{p}, SLA: profile.SLA{TTFT: time.Second, ITL: time.Second}},
		Requests: requests, Every: 2 * engine.Second, Bins: 100, Attainment: 1, Bounds: []Bounds{{0, 40}},
	}
	f, err := Bound(c)
	if err != nil {
		t.Fatal(err)
	}
	work, all := f.Work*3600, f.GPUHours*3600
	if work < 980 || work > 1000 {
		t.Errorf("engines work for %.0f s at least, want about 1000", work)
	}
	if all < 1300 || all > 1400 {
		t.Errorf("%.0f GPU s at least, want near 1400: 10 engines start twice, 20 s each", all)
	}
}

// The least number of replicas is paid where the load is below it.
func TestBoundChargesTheLeastReplicas(t *testing.T) {
	p := steady(100 * engine.Millisecond)
	p.Replicas = 3
	c := Case{
		Fleet:    fleet.Config{Pools: []fleet.Pool{p}, SLA: profile.SLA{TTFT: time.Second, ITL: time.Second}},
		Requests: evenly(engine.Second, 100*engine.Second), Every: 2 * engine.Second, Bins: 100, Attainment: 0.5, Bounds: []Bounds{{2, 4}},
	}
	f, err := Bound(c)
	if err != nil {
		t.Fatal(err)
	}
	if got := f.GPUHours * 3600; got < 395 || got > 400 {
		t.Errorf("at least %.1f GPU s, want 2 replicas for 200 s", got)
	}
}

// One and a half engines' work takes two, where starting one takes longer than
// requests may wait.
func TestBoundCountsWholeEngines(t *testing.T) {
	p := steady(100 * engine.Millisecond)
	p.StartUp, p.Replicas = 60*engine.Second, 2
	c := Case{
		Fleet:    fleet.Config{Pools: []fleet.Pool{p}, SLA: profile.SLA{TTFT: time.Second, ITL: time.Second}},
		Requests: evenly(engine.Second/15, 600*engine.Second), Every: 2 * engine.Second, Bins: 300, Attainment: 1, Bounds: []Bounds{{0, 4}},
	}
	f, err := Bound(c)
	if err != nil {
		t.Fatal(err)
	}
	if work, all := f.Work*3600, f.GPUHours*3600; work > 900 || all < 1100 || all > 1200 {
		t.Errorf("at least %.0f GPU s, of which %.0f s are work; want near 1200, and 900", all, work)
	}
	c.Attainment = 0.6 // as much as one engine can
	if f, err = Bound(c); err != nil || f.GPUHours*3600 > 600 {
		t.Errorf("at least %.0f GPU s for 60 %% of the requests, want 600 at most (%v)", f.GPUHours*3600, err)
	}
}

// More than is kept may not cost more, and a looser promise may not either.
func TestBoundFallsWithThePromise(t *testing.T) {
	c := caseOf([]fleet.Pool{llama8B(t, engine.RolePrefill, 0), llama8B(t, engine.RoleDecode, 0)}, sine(20, 200, 200).requests(), 5*engine.Second, 220*engine.Second, 9)
	floor := func(c Case) float64 {
		f, err := Bound(c)
		if err != nil {
			t.Fatal(err)
		}
		return f.GPUHours
	}
	strict := floor(c)
	looser := c
	looser.Fleet.SLA.ITL *= 3
	fewer := c
	fewer.Attainment = 0.7
	if a, b := floor(looser), floor(fewer); a > strict*(1+2*tolerance) || b > strict {
		t.Errorf("at least %v GPU-hours, with thrice the TPOT %v, with 70 %% kept %v", strict, a, b)
	}
}

// No random schedule that reaches the attainment takes less than the bound, in
// cases too large to try all.
func TestNoRandomScheduleIsBelowTheBound(t *testing.T) {
	aggregated := []fleet.Pool{llama8B(t, engine.RoleAggregated, 20*engine.Second)}
	aggregated[0].Engine.Limits.MaxNumBatchedTokens = 2048 // prompts in chunks, too
	disaggregated := []fleet.Pool{llama8B(t, engine.RolePrefill, 15*engine.Second), llama8B(t, engine.RoleDecode, 40*engine.Second)}
	closest := 0.0
	for seed := range uint64(12) {
		pools := aggregated
		if seed%2 == 1 {
			pools = disaggregated
		}
		c, s := randomCase(seed, pools)
		o, err := c.Simulate(s)
		if err != nil {
			t.Fatal(err)
		}
		if o.Attainment == 0 {
			continue
		}
		c.Attainment = o.Attainment // what it reaches is what is asked for
		f, err := Bound(c)
		if err != nil {
			t.Fatal(err)
		}
		if closest = max(closest, f.GPUHours/o.GPUHours); f.GPUHours > o.GPUHours {
			t.Errorf("seed %d: schedule %v reaches %v with %v GPU-hours, the bound is %v", seed, s, o.Attainment, o.GPUHours, f.GPUHours)
		}
	}
	if closest < 0.5 {
		t.Errorf("the bound is %v of what a schedule takes at most: nothing was tested", closest)
	}
	t.Logf("the bound is up to %.3f of what a random schedule takes", closest)
}

// randomCase is a load of up to 60 requests a second, and a schedule that wanders.
func randomCase(seed uint64, pools []fleet.Pool) (Case, Schedule) {
	rng := rand.New(rand.NewPCG(seed, 2))
	l := sine(5+55*rng.Float64(), 120, 40+200*rng.Float64())
	l.seed = seed
	c := caseOf(append([]fleet.Pool(nil), pools...), l.requests(), 10*engine.Second, 150*engine.Second, 8)
	s := make(Schedule, len(pools))
	for i := range s {
		c.Fleet.Pools[i].Replicas = rng.IntN(6)
		n := 1 + rng.IntN(6)
		for range c.Bins {
			n = min(max(n+rng.IntN(3)-1, 1), 8)
			s[i] = append(s[i], n)
		}
	}
	return c, s
}
