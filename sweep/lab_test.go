package sweep

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
	"plimsoll/recommend"
)

const ms = time.Millisecond

// law is an engine in virtual time: TTFT and ITL by formula, with faults.
type law struct {
	kv, seqs, block int
	windowed        engine.WindowedKV // its KV cache where layers have a sliding window
	ttft            func(isl int) time.Duration
	itl             func(n int, context float64) time.Duration
	launchErr       error
	diesAtPlay      int     // the engine ends at the play of that number; 0 = never
	slower          float64 // share by which decoding is slower under open-loop load
	doubt           string  // of its records under open-loop load; empty = none
	busyPlays       [2]int  // from the first load to before the second, counted from 1, the client is the bottleneck
	busyFrom        int     // in-flight count of decode from which on the client is the bottleneck; 0 = never
	busyAbove       float64 // requests/s of a load above which the client is the bottleneck; 0 = never
	context         int     // longer requests fail under open-loop load; 0 = none does
	forgets         bool    // its prefix cache keeps nothing under open-loop load
	keeps           bool    // it keeps new prompts too, so that the same load again finds them
	voids           int     // the first so many loads under open-loop load are void
	dieAt           int     // in-flight count at which the engine ends; 0 = never
	failEvery       int     // every k-th measured request fails; 0 = never
	failOnce        int     // the first request of the measurement of that number fails; 0 = never
	busy            int     // in the first so many measurements the client is the bottleneck
	errors          profile.ModelError
	noise           float64 // relative spread of a step and of a prefill
	unstable        bool    // cannot climb
	voidAt          int     // in-flight count from which on every window is void; 0 = never
	grown           bool    // streams never have tokens left
	silent          bool    // does not say what came from its prefix cache
	caps            bool    // no more are in flight than a script says, also where that is more than one
	places          int     // requests that are served at once, each as if alone, in order of arrival; 0 = see play
	refuses         bool    // what comes while all places are taken
	fails           float64 // share of requests that fail at places
	stalls          int     // the first measurements of a kind hold one request with a stall
}

func (l law) TTFT(isl int) time.Duration { return l.ttft(isl) }

func (l law) ITL(n int, context float64) time.Duration { return l.itl(n, context) }

func (l law) KVTokens() int { return l.kv }

func (l law) WindowedKV() engine.WindowedKV { return l.windowed }

func (l law) Errors() (ttft, itl profile.ModelError) { return l.errors, l.errors }

func affine(tp int) law {
	return law{
		kv: 400_000, seqs: 64, block: 16,
		ttft: func(isl int) time.Duration { return 5*ms + time.Duration(isl)*22*time.Microsecond/time.Duration(tp) },
		itl: func(n int, c float64) time.Duration {
			return 3*ms + 5*ms/time.Duration(tp) + time.Duration(float64(n)*(10_000+c*60/float64(tp)))
		},
	}
}

// lab launches laws and keeps count of what runs. Its clock moves only as
// engines work.
type lab struct {
	laws     map[string]law // by label
	version  string         // of all engines
	found    bool           // all engines ran before
	now      time.Time
	running  int
	launches []string
	measured []profile.Workload
	plays    int
	played   time.Duration
	cancel   func(id int) // called before every measurement
	failing  *Failing     // is told of every request

	random    *rand.Rand
	climbs    int // stairs begun
	prefilled int // tokens of their streams
}

func newLab(laws map[string]law) *lab {
	return &lab{laws: laws, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), random: rand.New(rand.NewPCG(1, 2))}
}

func (b *lab) Launch(_ context.Context, cfg engine.Config) (*Instance, error) {
	label := cfg.Parallelism.Label()
	b.launches = append(b.launches, fmt.Sprintf("%s cache=%v", label, cfg.PrefixCaching))
	b.now = b.now.Add(time.Second)
	l := b.laws[label]
	if l.launchErr != nil {
		return nil, l.launchErr
	}
	b.running++
	e := &virtual{lab: b, law: l}
	in := &Instance{
		Facts:    profile.EngineFacts{Version: b.version, KVTokens: l.kv, WindowedKV: l.windowed, BlockSize: l.block, MaxNumSeqs: l.seqs, MaxModelLen: l.context, Provenance: profile.Simulated},
		Measurer: e, Found: b.found,
		Play: e.play,
		Died: func() error { return e.died },
		Stop: func(context.Context) error { b.running--; return nil },
	}
	if !l.unstable {
		in.Climb = e.Climb
	}
	return in, nil
}

type virtual struct {
	lab  *lab
	law  law
	died error
	open bool // stairs are

	stalled  int
	measured int
	kept     map[uint64]bool // seeds of the scripts whose prompts it has
}

func (v *virtual) Measure(_ context.Context, w profile.Workload) (Measurement, error) {
	if v.lab.cancel != nil {
		v.lab.cancel(len(v.lab.measured))
	}
	v.lab.measured = append(v.lab.measured, w)
	if v.law.dieAt > 0 && w.InFlight >= v.law.dieAt {
		v.died = errors.New("exit code 137")
	}
	m := Measurement{Client: &profile.Client{}}
	if !w.Warmup && v.measured < v.law.busy || w.SharedPrompts && v.law.busyFrom > 0 && w.InFlight >= v.law.busyFrom {
		m.Client.Why = "no processor time"
	}
	v.measured++
	base := time.Millisecond
	itl := v.law.itl(w.InFlight, float64(w.ISL)+float64(w.OSL)/2)
	first := v.law.step(v.lab.random, v.law.ttft(w.ISL))
	if w.SharedPrompts {
		first = ms
	}
	if w.OSL == 1 && w.InFlight > 1 {
		first = v.law.ttft(w.ISL * w.InFlight) // one step holds all of a round
	}
	for i := range w.Requests {
		start := base
		if w.OSL == 1 && w.InFlight > 1 {
			start += time.Duration(i/w.InFlight) * first
		}
		if w.InFlight == 1 {
			start += time.Duration(i) * (first + time.Duration(w.OSL)*itl)
		}
		r := profile.Request{
			Index: i, ISL: w.ISL, OSL: w.OSL, PromptTokens: w.ISL, OutputTokens: w.OSL, UsageSeen: true,
			Due: start, Sent: start, First: start + first,
		}
		if w.SharedPrompts {
			r.CachedTokens = w.ISL
		}
		if v.law.silent {
			r.CachedTokens = -1
		}
		for k := range w.OSL {
			r.Chunks = append(r.Chunks, profile.Chunk{At: r.First + time.Duration(k)*itl})
		}
		r.Last = r.Chunks[len(r.Chunks)-1].At
		r.End = r.Last
		if v.stalled < v.law.stalls && !w.Warmup && i == 0 && w.Requests > 2 {
			v.stalled++
			late := 400 * ms
			r.First += late
			for k := range r.Chunks {
				r.Chunks[k].At += late * time.Duration(1+k) // every gap of this stream
			}
			r.Last = r.Chunks[len(r.Chunks)-1].At
		}
		if v.law.failEvery > 0 && (i+1)%v.law.failEvery == 0 || v.law.failOnce > 0 && v.measured == v.law.failOnce && i == 0 {
			r.Failure = profile.FailStatus
		}
		m.Requests = append(m.Requests, r)
		v.lab.now = v.lab.now.Add(0)
	}
	if v.lab.failing != nil {
		v.lab.failing.Begin(len(m.Requests), func() {})
		for _, r := range m.Requests {
			v.lab.failing.Done(r)
		}
	}
	last := m.Requests[len(m.Requests)-1]
	v.lab.now = v.lab.now.Add(last.Last)
	m.Running = []Running{{At: (last.First + last.Last) / 2, N: float64(w.InFlight)}}
	return m, nil
}

// notes is a Recorder in memory.
type notes struct {
	Known
	after func() // called after every point
}

func (n *notes) Point(p profile.Point, _ []profile.Request, spent Cost) error {
	n.Points = append(n.Points, p)
	n.Cost = spent
	if n.after != nil {
		n.after()
	}
	return nil
}

func (n *notes) Engine(k string, f profile.EngineFacts) error {
	if n.Engines == nil {
		n.Engines = map[string]profile.EngineFacts{}
	}
	n.Engines[k] = f
	return nil
}

func options(b *lab, tps ...int) Options {
	var cs []engine.Config
	for _, tp := range tps {
		cs = append(cs, engine.Config{Kind: engine.KindSim, Model: "m", Parallelism: engine.TP(tp), Limits: engine.Limits{MaxNumSeqs: 64, BlockSize: 16}})
	}
	return Options{
		Candidates: cs, ISL: 3000, OSL: 150, SLA: profile.SLA{TTFT: 200 * ms, ITL: 20 * ms, Stat: profile.Mean},
		Rank: recommend.BySingle, Search: Adaptive,
		PrefillRequests: 5, PrefillWarmups: 2, SurfaceRequests: 3, PrefillGranularity: 6, DecodeGranularity: 4,
		SurfaceOSL: 40, MaxContext: 16384, RequestTimeout: time.Minute, Seed: 1,
		Now:    func() time.Time { return b.now },
		Expect: func(c engine.Config) (Expectation, bool) { return b.laws[c.Parallelism.Label()], true },
	}
}

func run(t *testing.T, b *lab, o Options, known Known) (Result, *notes, error) {
	t.Helper()
	return runOn(t, b, o, b, known)
}

// runOn is run with engines of a launcher that is over b.
func runOn(t *testing.T, b *lab, o Options, l Launcher, known Known) (Result, *notes, error) {
	t.Helper()
	n := &notes{}
	res, err := Run(t.Context(), o, l, n, known, nil)
	if b.running != 0 {
		t.Errorf("%d engines left running", b.running)
	}
	return res, n, err
}

func three() map[string]law {
	return map[string]law{"TP:1": affine(1), "TP:2": affine(2), "TP:4": affine(4)}
}

func codes(ws []profile.Warning) (out []string) {
	for _, w := range ws {
		out = append(out, w.Code)
	}
	return out
}
