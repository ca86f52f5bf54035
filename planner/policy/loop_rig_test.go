package policy

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/engine/sim/fleet"
	"plimsoll/interpolation"
	"plimsoll/planner"
	"plimsoll/planner/replay"
	"plimsoll/profile"
)

// loop is an hour of a fleet in virtual time that a Core scales.
type loop struct {
	dep      planner.Deployment
	rate     func(time.Duration) float64 // requests/s
	peak     float64                     // of rate
	startUp  time.Duration
	interval time.Duration
	slower   float64          // than the profile, the engines really are
	ramp     [2]time.Duration // requests within do not count: what nobody can foresee
	start    planner.Replicas
	even     bool // arrivals and lengths
	bounds   planner.Bounds
}

// kept is what came of a loop.
type kept struct {
	requests, within float64
	gpuHours         float64
	wanted           []planner.Replicas // from the eleventh decision on
}

func (k kept) share() float64 { return k.within / k.requests }

const loopFor = time.Hour

// run serves Poisson arrivals at the rate, of lognormal lengths, with the core.
func (l loop) run(t testing.TB, core *planner.Core) kept {
	t.Helper()
	var k kept
	r := rand.New(rand.NewPCG(1, 7))
	sla := l.dep.SLA
	f, err := fleet.New(l.fleet(t, func(o fleet.Outcome) {
		if at := o.At.Duration(); at >= l.ramp[0] && at < l.ramp[1] || o.Status == fleet.Unfinished && o.At > engine.FromDuration(loopFor-time.Minute) {
			return
		}
		k.requests++
		if o.Status == fleet.Finished && o.TTFT() <= engine.FromDuration(sla.TTFT) && o.TPOT() <= engine.FromDuration(sla.ITL) {
			k.within++
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	w := watcher{f: f}
	gap := func() float64 {
		if l.even {
			return 1 / l.peak
		}
		return r.ExpFloat64() / l.peak
	}
	next := gap()
	for now := l.interval; now <= loopFor; now += l.interval {
		for at := now - l.interval; at < now; at += 5 * time.Second {
			for ; next < (at + 5*time.Second).Seconds(); next += gap() {
				if r.Float64()*l.peak > l.rate(duration(next)) {
					continue
				}
				if l.even {
					if err := f.Offer(fleet.Request{At: engine.FromDuration(duration(next)), ISL: 990, OSL: 100}); err != nil {
						t.Fatal(err)
					}
					continue
				}
				q := fleet.Request{At: engine.FromDuration(duration(next)), ISL: lognormal(r, 990), OSL: lognormal(r, 100)}
				if err := f.Offer(q); err != nil {
					t.Fatal(err)
				}
			}
			w.look(t, at+5*time.Second)
		}
		d := core.Step(w.observation(l, now))
		for _, p := range l.dep.Pools {
			if err := f.Scale(p.Role, d.Want.Of(p.Role), engine.FromDuration(now)); err != nil {
				t.Fatal(err)
			}
		}
		core.Asked(d.Want)
		if now > 10*l.interval {
			k.wanted = append(k.wanted, d.Want)
		}
		w.want = d.Want
	}
	if err := f.Finish(engine.FromDuration(loopFor)); err != nil {
		t.Fatal(err)
	}
	for _, p := range f.Report().Pools {
		k.gpuHours += p.GPUSeconds / 3600
	}
	return k
}

// lengthSigma is of the logarithm of lengths.
const lengthSigma = 0.5

func lognormal(r *rand.Rand, mean float64) int {
	return max(2, int(mean*math.Exp(lengthSigma*r.NormFloat64()-lengthSigma*lengthSigma/2)))
}

// slowed is a step timer of engines that are slower than their profile.
type slowed struct {
	interpolation.Steps
	by float64
}

func (s slowed) StepTime(b engine.Batch) engine.Picoseconds {
	return engine.Picoseconds(s.by * float64(s.Steps.StepTime(b)))
}

func (l loop) fleet(t testing.TB, done func(fleet.Outcome)) fleet.Config {
	pre, dec := surfaces(t)
	steps := interpolation.NewSteps(pre, dec, 0)
	c := fleet.Config{Done: done, Provenance: profile.Simulated}
	for _, p := range l.dep.Pools {
		var timer sim.StepTimer = steps
		if l.slower > 0 {
			timer = slowed{steps, l.slower}
		}
		c.Pools = append(c.Pools, fleet.Pool{
			Engine: sim.Config{Role: p.Role, KVBlocks: 62_500}, Timer: timer,
			Replicas: l.start.Of(p.Role), Router: fleet.LeastLoaded, StartUp: engine.FromDuration(l.startUp),
		})
	}
	c.Pools[0].Overhead = steps.Overhead()
	return c
}

// watcher makes observations of a fleet.
type watcher struct {
	f       *fleet.Fleet
	want    planner.Replicas
	ready   [3]int
	changed [3]bool
	began   bool
	queue   [3]float64 // at the interval's start, for each ready replica
}

// look notes whether the replicas ready changed, as sampling does.
func (w *watcher) look(t testing.TB, at time.Duration) {
	if err := w.f.Advance(engine.FromDuration(at)); err != nil {
		t.Fatal(err)
	}
	var ready [3]int
	for _, r := range w.f.AppendReplicas(nil) {
		if r.State == "ready" {
			ready[place(r.Role)]++
		}
	}
	for i := range ready {
		w.changed[i] = w.changed[i] || w.began && ready[i] != w.ready[i]
	}
	w.ready, w.began = ready, true
}

func place(r planner.Role) int {
	switch r {
	case engine.RolePrefill:
		return 0
	case engine.RoleDecode:
		return 1
	default:
		return 2
	}
}

func (w *watcher) observation(l loop, now time.Duration) planner.Observation {
	v := w.f.Interval()
	o := planner.Observation{
		Start: time.Unix(0, 0).Add(now - l.interval), Length: l.interval,
		Arrivals: planner.Known(float64(v.Arrivals)), Finished: planner.Known(float64(v.Finished)),
		TTFT: replay.Latencies(v.TTFT, l.bounds.TTFT, 0), ITL: replay.Latencies(v.ITL, l.bounds.ITL, 0), TPOT: replay.Latencies(v.TPOT, l.bounds.TPOT, 0),
		Duration: replay.Latencies(v.E2E, l.bounds.E2E, 0), ISL: replay.Tokens(v.ISL, l.bounds.ISL, 0), OSL: replay.Tokens(v.OSL, l.bounds.OSL, 0),
	}
	waiting, running := 0, 0
	for _, p := range v.Pools {
		waiting, running = waiting+p.Waiting, running+p.Running
		want := w.want.Of(p.Role)
		if now == l.interval {
			want = l.start.Of(p.Role)
		}
		o.Pools = append(o.Pools, planner.PoolObservation{
			PoolState: planner.PoolState{Role: p.Role, Want: want, Ready: p.Ready, Starting: p.Starting, Draining: p.Draining, GPUs: 1},
			Changed:   w.changed[place(p.Role)], Running: planner.Known(p.RunningMean),
			KVUsage: planner.Known(p.KVUse), KVMost: planner.Known(p.KVUse), Queue: planner.Known(p.WaitingMean / float64(max(1, p.Ready))),
			QueueOpen: planner.Known(w.queue[place(p.Role)]), QueueEnd: planner.Known(float64(p.Waiting) / float64(max(1, p.Ready))),
		})
		w.queue[place(p.Role)] = float64(p.Waiting) / float64(max(1, p.Ready))
	}
	w.changed = [3]bool{}
	o.Waiting, o.Running = planner.Known(float64(waiting)), planner.Known(float64(running))
	return o
}
