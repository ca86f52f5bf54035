package fleet

import (
	"math/rand/v2"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/profile"
)

// affine is a step timer whose time tells the batch apart. It is a
// sim.DecodeTimer whose runs are cut at odd places.
type affine struct{ base, token, context, stream engine.Picoseconds }

func (a affine) StepTime(b engine.Batch) engine.Picoseconds {
	return a.base + a.token*engine.Picoseconds(b.PrefillTokens) + a.context*engine.Picoseconds(b.DecodeContext+b.PrefillPast) +
		a.stream*engine.Picoseconds(b.DecodeSeqs+b.PrefillSeqs)
}

func (a affine) DecodeRun(seqs int, context int64) (first, growth engine.Picoseconds, steps int64) {
	first = a.StepTime(engine.Batch{DecodeSeqs: seqs, DecodeContext: context})
	return first, a.context * engine.Picoseconds(seqs), 1 + context%97
}

var _ sim.DecodeTimer = affine{}

// steady takes the same time for every step.
type steady engine.Picoseconds

func (s steady) StepTime(engine.Batch) engine.Picoseconds { return engine.Picoseconds(s) }

func (s steady) DecodeRun(int, int64) (first, growth engine.Picoseconds, steps int64) {
	return engine.Picoseconds(s), 0, 1 << 40
}

// scenario is a small random fleet, what happens to it, and when it ends.
type scenario struct {
	config  Config
	acts    []act
	horizon engine.Picoseconds
}

func oneOf[T any](r *rand.Rand, xs ...T) T { return xs[r.IntN(len(xs))] }

func drawScenario(seed uint64) scenario {
	r := rand.New(rand.NewPCG(seed, 7))
	var s scenario
	s.config = Config{
		Retry: r.IntN(2) == 0,
		Bins:  2 + r.IntN(20),
		SLA:   profile.SLA{TTFT: time.Duration(oneOf(r, 0, 5, 40)), ITL: time.Duration(oneOf(r, 0, 1, 2))},
		Transfer: Transfer{
			Latency: oneOf(r, 0, engine.Picoseconds(r.IntN(9000))),
			KV:      engine.KVBytes{PerToken: float64(60 + r.IntN(40)), Windowed: float64(r.IntN(60)), Window: r.IntN(100)}, BytesPerSecond: oneOf[float64](r, 0, 1e9), Serial: r.IntN(2) == 0,
		},
	}
	blockSize := 1 + r.IntN(5)
	if r.IntN(2) == 0 {
		s.config.Pools = []Pool{drawPool(r, engine.RoleAggregated, blockSize)}
	} else {
		s.config.Pools = []Pool{drawPool(r, engine.RolePrefill, blockSize), drawPool(r, engine.RoleDecode, blockSize)}
	}
	at, last := engine.Picoseconds(0), engine.Picoseconds(0)
	for range r.IntN(60) {
		at += oneOf(r, 0, engine.Picoseconds(r.IntN(20))*1000, engine.Picoseconds(r.IntN(60_000)))
		last = at
		s.acts = append(s.acts, drawAct(r, at, s.config, blockSize))
	}
	if r.IntN(4) == 0 {
		s.toGrid()
	}
	s.horizon = Forever
	if r.IntN(4) == 0 {
		s.horizon = last + 1 + engine.Picoseconds(r.IntN(200_000))
	}
	return s
}

// toGrid makes all instants multiples of a step's time, so that much happens at
// once.
func (s *scenario) toGrid() {
	const grid = 1000
	round := func(p *engine.Picoseconds) { *p -= *p % grid }
	for i := range s.config.Pools {
		p := &s.config.Pools[i]
		p.Timer, p.Engine.Noise = steady(grid), 0
		round(&p.Overhead)
		round(&p.StartUp)
		round(&p.Engine.DRAM.Load)
		round(&p.Engine.NVMe.Load)
	}
	s.config.Transfer.BytesPerSecond = 0
	round(&s.config.Transfer.Latency)
	for i := range s.acts {
		round(&s.acts[i].at)
		round(&s.acts[i].offer.At)
	}
}

func drawPool(r *rand.Rand, role engine.Role, blockSize int) Pool {
	seqs := 1 + r.IntN(5)
	p := Pool{
		Engine: sim.Config{
			Role: role,
			Limits: engine.Limits{
				MaxNumSeqs: seqs, BlockSize: blockSize,
				MaxNumBatchedTokens: oneOf(r, 1000, seqs+r.IntN(20)),
			},
			KVBlocks:      10 + r.IntN(40),
			PrefixCaching: r.IntN(2) == 0,
			Seed:          r.Uint64(),
			Noise:         oneOf(r, 0, 0, 0, 0.3),

			AsyncScheduling:   r.IntN(2) == 0,
			ReserveFullPrompt: r.IntN(2) == 0,
		},
		Replicas: r.IntN(4), GPUs: r.IntN(3),
		Router:   oneOf(r, "", RoundRobin, LeastLoaded),
		Overhead: oneOf(r, 0, engine.Picoseconds(r.IntN(4000))),
		StartUp:  oneOf(r, 0, engine.Picoseconds(r.IntN(100_000))),
	}
	if p.Engine.PrefixCaching {
		p.Router = oneOf(r, KVAware, KVAware, p.Router)
		p.Engine.DRAM = oneOf(r, sim.Tier{}, sim.Tier{Blocks: r.IntN(30), Load: engine.Picoseconds(r.IntN(500))})
		p.Engine.NVMe = oneOf(r, sim.Tier{}, sim.Tier{Blocks: r.IntN(30), Load: engine.Picoseconds(r.IntN(900))})
	}
	timer := affine{
		base: 1000, token: oneOf[engine.Picoseconds](r, 0, 100, 137), context: oneOf[engine.Picoseconds](r, 0, 10, 7), stream: oneOf[engine.Picoseconds](r, 0, 50, 31),
	}
	p.Timer = oneOf[sim.StepTimer](r, timer, timer, struct{ sim.StepTimer }{timer}, steady(1000))
	return p
}

func drawAct(r *rand.Rand, at engine.Picoseconds, c Config, blockSize int) act {
	switch r.IntN(14) {
	case 0:
		return act{at: at, kind: "scale", role: oneOf(r, c.Pools...).Engine.Role, n: r.IntN(5)}
	case 1:
		return act{at: at, kind: "fail", n: r.IntN(8)}
	}
	isl := 1 + r.IntN(oneOf(r, 10, 50, 120))
	tokens := make([]uint32, isl)
	for i := r.IntN(isl); i < isl; i++ {
		tokens[i] = uint32(1 + r.IntN(3))
	}
	return act{at: at, kind: "offer", offer: Request{
		ID: r.Uint64(), At: at, ISL: isl, OSL: 1 + r.IntN(oneOf(r, 1, 5, 60)),
		Prefix: oneOf(r, nil, sim.BlockHashes(tokens, blockSize), sim.BlockHashes(tokens, blockSize)),
	}}
}

// play does the acts to a fleet, and asks it things in between where peek is
// not nil.
func (f *Fleet) play(s scenario, peek func(f *Fleet, until engine.Picoseconds) error) error {
	for _, a := range s.acts {
		if peek != nil {
			if err := peek(f, a.at); err != nil {
				return err
			}
		}
		if err := f.do(a); err != nil {
			return err
		}
	}
	return f.Finish(s.horizon)
}

func (f *Fleet) do(a act) error {
	switch a.kind {
	case "scale":
		return f.Scale(a.role, a.n, a.at)
	case "fail":
		if err := f.Advance(a.at); err != nil {
			return err
		}
		if f.replica(a.n) == nil {
			return nil // gone before, or never there
		}
		return f.Fail(a.n, a.at)
	default:
		return f.Offer(a.offer)
	}
}
