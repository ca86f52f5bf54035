package fleet

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"plimsoll/engine"
	"plimsoll/engine/sim"
)

// queue is a fleet of servers that take one request at a time, each for as long
// as its one prompt token or many take, and n Poisson arrivals.
func queue(t *testing.T, servers int, router Router, timer sim.StepTimer, rate float64, n int, isl func(*rand.Rand) int) Report {
	t.Helper()
	f, err := New(Config{Pools: []Pool{{
		Engine:   sim.Config{Limits: engine.Limits{MaxNumSeqs: 1, BlockSize: 16}, KVBlocks: 100},
		Timer:    timer,
		Replicas: servers,
		Router:   router,
	}}})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, uint64(rate*1000)))
	at := engine.Picoseconds(0)
	for range n {
		at += engine.FromSeconds(rng.ExpFloat64() / rate)
		if err := f.Offer(Request{At: at, ISL: isl(rng), OSL: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Finish(Forever); err != nil {
		t.Fatal(err)
	}
	return f.Report()
}

func oneToken(*rand.Rand) int { return 1 }

// perToken takes one second for each prompt token.
func perToken() sim.StepTimer { return affine{token: engine.Second} }

// TestPollaczekKhinchine holds the mean wait of one server against
// λE[S²]/(2(1−ρ)): M/D/1, where it is ρD/(2(1−ρ)), and M/G/1 with two service
// times. (L. Kleinrock, Queueing Systems 1, 1975, section 5.6.)
func TestPollaczekKhinchine(t *testing.T) {
	twoTimes := func(r *rand.Rand) int { return oneOf(r, 1, 1, 1, 5) } // mean 2, mean square 7
	for _, c := range []struct {
		name         string
		isl          func(*rand.Rand) int
		mean, square float64
	}{{"M/D/1", oneToken, 1, 1}, {"M/G/1", twoTimes, 2, 7}} {
		for _, rho := range []float64{0.2, 0.5, 0.8} {
			rate := rho / c.mean
			want := rate * c.square / (2 * (1 - rho))
			r := queue(t, 1, RoundRobin, perToken(), rate, 150_000, c.isl)
			got := r.Pools[0].Wait.Mean() / float64(engine.Second)
			// The error of a mean wait grows as 1/(1−ρ): its waits are correlated.
			if math.Abs(got/want-1) > 0.015/(1-rho) {
				t.Errorf("%s at ρ = %v: mean wait of %.4f s, want %.4f", c.name, rho, got, want)
			}
			if u := r.Pools[0].Utilisation; math.Abs(u-rho) > 0.01 {
				t.Errorf("%s at ρ = %v: utilisation %.4f", c.name, rho, u)
			}
		}
	}
}

// Round robin over c servers gives each of them an Erlang-c arrival process, so
// E_c/D/1: for c = 4 at ρ = 0.8 its mean wait, by Lindley's recursion here.
func TestRoundRobinIsLindley(t *testing.T) {
	const servers, rho, n = 4, 0.8, 150_000
	r := queue(t, servers, RoundRobin, perToken(), servers*rho, n, oneToken)
	rng := rand.New(rand.NewPCG(77, 3))
	wait, sum := 0.0, 0.0
	for range n {
		sum += wait
		gap := 0.0
		for range servers {
			gap += rng.ExpFloat64() / (servers * rho)
		}
		wait = math.Max(0, wait+1-gap)
	}
	got, want := r.Pools[0].Wait.Mean()/float64(engine.Second), sum/n
	if math.Abs(got/want-1) > 0.05 {
		t.Errorf("mean wait %.4f s, want %.4f", got, want)
	}
}

// Little's law is an identity of integrals: requests over time is the sum of
// their times, to the picosecond, in the fleet and in the queue of each pool.
func TestLittlesLaw(t *testing.T) {
	looked := 0
	for seed := range cases() {
		s := drawScenario(seed)
		var stay, held wide
		s.config.Done = func(o Outcome) {
			if o.Status == Finished {
				stay = stay.plus(product(int64(o.E2E()), 1))
				held = held.plus(product(int64(o.decodeStart-o.prefilled), 1))
			}
		}
		f, err := New(s.config)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.play(s, nil); err != nil {
			t.Fatal(err)
		}
		r := f.Report()
		if r.Lost+r.Unfinished > 0 {
			continue
		}
		looked++
		if got := f.inFlight.area(f.now); got != stay {
			t.Fatalf("seed %d: ∫ in flight = %v, Σ E2E = %v", seed, got, stay)
		}
		if failed := slices.ContainsFunc(r.Scales, func(e ScaleEvent) bool { return e.Failed }); !failed && f.pools[0].holding.area(f.now) != held {
			t.Fatalf("seed %d: ∫ held = %v, Σ from computed to decode = %v", seed, f.pools[0].holding.area(f.now), held)
		}
		for i, p := range f.pools {
			if r.Pools[i].Preemptions == 0 && r.Retries == 0 && p.waiting.area(f.now) != p.wait.sum {
				t.Fatalf("seed %d: ∫ waiting = %v, Σ wait = %v", seed, p.waiting.area(f.now), p.wait.sum)
			}
		}
	}
	if looked < int(cases()/10) {
		t.Fatalf("only %d fleets finished all requests", looked)
	}
}

// TestConservation looks at a fleet at many instants: every request is
// somewhere, the gauges are what the engines say, and nobody holds more than
// there is.
func TestConservation(t *testing.T) {
	for seed := range cases() / 4 {
		s := drawScenario(seed)
		tokens := int64(0)
		s.config.Done = func(o Outcome) {
			if o.Status == Finished {
				tokens += int64(o.OSL)
			}
		}
		f, err := New(s.config)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(seed, 3))
		err = f.play(s, func(f *Fleet, until engine.Picoseconds) error {
			for f.Now() < until {
				if err := f.Advance(min(until, f.Now()+1+engine.Picoseconds(rng.IntN(5000)))); err != nil {
					return err
				}
				conserved(t, seed, f)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		r := f.Report()
		last := f.pools[len(f.pools)-1]
		stats := last.gone
		for _, p := range last.live {
			stats = sum(stats, p.engine.Stats())
		}
		if r.Lost+r.Unfinished+r.Retries == 0 && (stats.OutputTokens != tokens || f.tally.tokens != tokens) {
			t.Fatalf("seed %d: the engines gave %d tokens, clients got %d", seed, stats.OutputTokens, tokens)
		}
	}
}

func conserved(t *testing.T, seed uint64, f *Fleet) {
	t.Helper()
	c := f.tally
	if n := c.finished + c.rejected + c.lost + c.unfinished + int64(f.flights.n); n != c.offered || f.inFlight.value != int64(f.flights.n) {
		t.Fatalf("seed %d: %d requests offered, %d accounted for", seed, c.offered, n)
	}
	shown, keeps := f.AppendReplicas(nil), map[*replica]int{}
	for i := range f.flights.slots {
		if x := &f.flights.slots[i]; x.live && x.holder != nil {
			keeps[x.holder]++
		}
	}
	inPools := len(f.handoffs)
	for _, p := range f.pools {
		waiting, running := p.held.n, 0
		for _, rep := range p.live {
			waiting += rep.engine.Waiting()
			running += rep.engine.Running()
			if rep.load != rep.engine.Waiting()+rep.engine.Running() || rep.load < rep.fresh.n+rep.preempted {
				t.Fatalf("seed %d: replica %d holds %d requests, its engine %d", seed, rep.ordinal, rep.load, rep.engine.Waiting()+rep.engine.Running())
			}
			s := rep.engine.Stats()
			i := slices.IndexFunc(shown, func(r Replica) bool { return r.Number == int(rep.ordinal) })
			if r := shown[i]; r.Role != p.role() || r.Requests != rep.load || r.Running+r.Waiting != rep.load || r.KVUse != float64(s.KVUsed)/float64(s.KVTotal) || (r.State == Ready) != slices.Contains(p.ready, rep) {
				t.Fatalf("seed %d: replica %d is shown as %+v, it has %+v", seed, rep.ordinal, r, s)
			}
			if s.Held != keeps[rep] || rep.stalled && (s.Held == 0 || rep.load == 0 || rep.busy) {
				t.Fatalf("seed %d: replica %d holds the KV of %d prompts, %d are said to be there; stalled %v", seed, rep.ordinal, s.Held, keeps[rep], rep.stalled)
			}
			delete(keeps, rep)
			if s.KVUsed < 0 || s.KVUsed+s.KVCached > s.KVTotal || rep.load+s.Held == 0 && s.KVUsed != 0 {
				t.Fatalf("seed %d: replica %d uses %d KV blocks of %d for %d requests", seed, rep.ordinal, s.KVUsed, s.KVTotal, rep.load)
			}
			if rep.load == 0 && rep.backlog != 0 || rep.backlog < 0 {
				t.Fatalf("seed %d: replica %d has %d prompt blocks to compute for %d requests", seed, rep.ordinal, rep.backlog, rep.load)
			}
		}
		if int(p.waiting.value) != waiting || int(p.running.value) != running {
			t.Fatalf("seed %d: %d wait and %d run, want %d and %d", seed, p.waiting.value, p.running.value, waiting, running)
		}
		if p.draining() < 0 || len(p.ready) > int(p.serving.value) {
			t.Fatalf("seed %d: %d ready, %d draining, %d in service", seed, len(p.ready), p.draining(), p.serving.value)
		}
		inPools += waiting + running
	}
	if len(keeps) > 0 {
		t.Fatalf("seed %d: engines that are gone hold KV", seed)
	}
	if inPools != f.flights.n {
		t.Fatalf("seed %d: %d requests in pools or on the way, %d in the fleet", seed, inPools, f.flights.n)
	}
}

// Intervals add up to the whole.
func TestIntervalsAddUp(t *testing.T) {
	for seed := range cases() / 8 {
		s := drawScenario(seed)
		f, err := New(s.config)
		if err != nil {
			t.Fatal(err)
		}
		var ttft, itl, isl Sketch
		var arrivals, finished, lost int64
		waiting := make([]float64, len(f.pools))
		collect := func(f *Fleet, until engine.Picoseconds) error {
			v := f.Interval()
			ttft.Merge(v.TTFT)
			itl.Merge(v.ITL)
			isl.Merge(v.ISL)
			arrivals, finished, lost = arrivals+v.Arrivals, finished+v.Finished, lost+v.Lost
			for i, p := range v.Pools {
				waiting[i] += p.WaitingMean * float64(v.To-v.From)
				if p.KVUse < -1e-9 || p.KVUse > 1+1e-9 || p.Utilisation < 0 || p.Utilisation > 1+1e-9 {
					t.Fatalf("seed %d: KV use %v, utilisation %v", seed, p.KVUse, p.Utilisation)
				}
			}
			return nil
		}
		if err := f.play(s, collect); err != nil {
			t.Fatal(err)
		}
		_ = collect(f, 0)
		r := f.Report()
		if arrivals != r.Offered || finished != r.Finished || lost != r.Lost ||
			ttft.sum != r.TTFT.sum || ttft.count != r.TTFT.count || itl.sum != r.ITL.sum || itl.count != r.ITL.count || isl.sum != r.ISL.sum {
			t.Fatalf("seed %d: the intervals are not the whole", seed)
		}
		for i, p := range r.Pools {
			if err := errors.Join(near("waiting", waiting[i], p.WaitingMean*float64(r.At), 1e-6), near("GPU time", f.GPUSeconds()[i], p.GPUSeconds, 0)); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
	}
}
