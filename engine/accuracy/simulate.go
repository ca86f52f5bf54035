package accuracy

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"plimsoll/engine"
	"plimsoll/engine/latency"
	"plimsoll/engine/sim"
	"plimsoll/engine/sim/build"
)

// perPlace is how many requests a closed loop's client sends for each one that it
// keeps in flight (what InferenceX and AIPerf do by default); openRequests is how many
// an open loop sends.
const (
	perPlace     = 10
	openRequests = 1500
)

// Lengths are uniform in mean·(1 ± spread). InferenceX draws them from 0.8 to 1.0 of the
// nominal length, so its means are not round. Round means come from benchmarks with equal
// lengths; their requests still drift apart, so a spread stands for the drift. Of 0.02,
// 0.05, 0.08, 0.12 and 0.2, 0.08 gave the best TTFT over the groups with round means.
const (
	drawn = 1.0 / 9
	equal = 0.08
)

// streamed is the time that a Python client and server front end need for one output
// token. They handle tokens one after the other, so a faster engine builds a backlog and
// TTFT grows by seconds: TensorRT-LLM 1.0 from 8,000 tokens/s, SGLang 0.5.6 from 15,000.
// Of 30, 60 and 100 µs, 60 fits best. InferenceX streams 10 to 50 tokens at once.
const streamed = 60 * engine.Picoseconds(1e6)

// spread is that of a row's lengths.
func (r Row) spread() float64 {
	if round(r.ISL) && round(r.OSL) {
		return equal
	}
	return drawn
}

func round(n int) bool { return n%50 == 0 || n&(n-1) == 0 }

// Prediction is what the model gives for a row: seconds, means and quantiles of
// requests; output tokens per second. Zero is what the row's loop has not.
type Prediction struct{ TTFT, TTFT50, TTFT90, TPOT, Throughput float64 }

// Predict is what m gives for the load of a row.
func Predict(m latency.Model, r Row) (Prediction, error) {
	if err := r.room(m); err != nil {
		return Prediction{}, err
	}
	switch r.Loop {
	case Single:
		t := m.Predict(latency.Observation{Kind: latency.KindTTFT, ISL: r.ISL, Cached: r.Cached})
		p := Prediction{TTFT: t, TTFT50: t, TTFT90: t, TPOT: m.ITL(1, float64(r.ISL)+float64(r.OSL)/2).Seconds()}
		if r.OSL > 0 {
			p.Throughput = float64(r.OSL) / (t + float64(r.OSL-1)*p.TPOT)
		}
		return p, nil
	case Step:
		t := m.ITL(r.Concurrency, float64(r.ISL)).Seconds()
		return Prediction{TPOT: t, Throughput: float64(r.Concurrency) / t}, nil
	case Closed, Open:
	}
	cfg := build.Engine(m, engine.RoleAggregated)
	cfg.PrefixCaching = r.Cached > 0
	e, err := sim.New(cfg, m)
	if err != nil {
		return Prediction{}, fmt.Errorf("simulating: %w", err)
	}
	c := client{model: m, engine: e, row: r, random: rand.New(rand.NewPCG(3, 4)), left: openRequests, spread: r.spread()} //nolint:gosec // the same load each time
	for i := range uint64(r.Cached / e.Config().Limits.BlockSize) {
		c.prefix = append(c.prefix, i+1)
	}
	if c.spread == equal {
		c.output = streamed
	}
	if r.Loop == Closed {
		c.left = perPlace * r.Concurrency
	}
	return c.run()
}

// mostInFlight bounds what a simulation takes: engines run a thousand or two.
const mostInFlight = 1 << 14

// room says why the load of a row is none that the engine can have.
func (r Row) room(m latency.Model) error {
	tokens, context := r.ISL+r.OSL, m.Limits().MaxModelLen
	switch kv := m.KVTokensAt(tokens); {
	case r.Requests != nil: // each is checked as it comes
		return nil
	case tokens > context:
		return fmt.Errorf("%d tokens of a request: the model's context is %d", tokens, context)
	case r.Loop == Step && r.Concurrency > kv/tokens:
		return fmt.Errorf("%d sequences of %d tokens: the KV cache holds %d", r.Concurrency, tokens, kv/tokens)
	case r.Concurrency > mostInFlight:
		return fmt.Errorf("%d requests in flight: want at most %d", r.Concurrency, mostInFlight)
	}
	return nil
}

// client sends the load of a row to a simulated engine. A closed loop sends all that it
// keeps in flight at once, and another request for each that ends.
type client struct {
	model  latency.Model
	engine *sim.Engine
	row    Row
	random *rand.Rand
	prefix []uint64

	spread    float64
	output    engine.Picoseconds // per output token outside of the engine
	front     engine.Picoseconds // when the client has got all tokens so far
	steps     int                // decode steps since the engine looked for requests
	now, free engine.Picoseconds // free: when the tokeniser has done all prompts so far
	left      int                // requests to send
	in        int                // how many of sent have reached the engine
	sent      []exchange         // by ID
	first     []float64          // TTFTs, seconds
	decode    float64            // sum of TPOTs, seconds
	tokens    int
}

// exchange is one request: when it was sent, reached the engine, and was answered.
type exchange struct {
	isl, osl        int
	sent, at, first engine.Picoseconds
}

func (c *client) run() (Prediction, error) {
	switch {
	case c.row.Requests != nil:
		for _, r := range c.row.Requests {
			c.sendOf(engine.FromSeconds(r.At), r.ISL, r.OSL)
		}
		c.left = 0
	case c.row.Loop == Open:
		at := engine.Picoseconds(0)
		for range c.left {
			gap := 1.0
			if !c.row.Regular {
				gap = c.random.ExpFloat64()
			}
			at += engine.FromSeconds(gap / c.row.Rate)
			c.send(at)
		}
		c.left = 0
	default:
		for range c.row.Concurrency {
			c.send(0)
		}
		c.left -= c.row.Concurrency
	}
	for c.in < len(c.sent) || !c.engine.Idle() {
		if err := c.step(); err != nil {
			return Prediction{}, err
		}
	}
	n := len(c.first)
	sum := 0.0
	for _, t := range c.first {
		sum += t
	}
	slices.Sort(c.first)
	return Prediction{
		TTFT: sum / float64(n), TTFT50: c.first[n/2], TTFT90: c.first[n*9/10],
		TPOT: c.decode / float64(n), Throughput: float64(c.tokens) / c.now.Seconds(),
	}, nil
}

// step moves to the next instant at which something happens.
func (c *client) step() error {
	look := c.steps >= c.row.Poll || c.engine.Idle()
	for look && c.in < len(c.sent) && c.sent[c.in].at <= c.now {
		x := c.sent[c.in]
		if err := c.engine.Add(sim.Request{ID: uint64(c.in), PromptTokens: x.isl, OutputTokens: x.osl, Prefix: c.prefix}); err != nil { //nolint:gosec // not negative
			return fmt.Errorf("simulating: %w", err)
		}
		c.in++
	}
	if look {
		c.steps = 0
	}
	if run := c.engine.Ahead(); run.Steps > 0 {
		n := run.Steps
		if c.in < len(c.sent) {
			n = max(1, run.Reach(c.sent[c.in].at-c.now))
		}
		if c.row.Poll > 0 {
			n = min(n, int64(c.row.Poll-c.steps))
			c.steps += int(n)
		}
		c.now += run.Length(n)
		c.emitted(n, c.engine.Running())
		c.engine.Skip(n)
		return nil
	}
	step, ok := c.engine.Begin()
	if !ok {
		if c.in == len(c.sent) {
			return fmt.Errorf("simulating: %s wait for ever", engine.Count(c.engine.Waiting(), "request"))
		}
		c.now = max(c.now, c.sent[c.in].at)
		return nil
	}
	c.now += step.Duration
	c.emitted(1, step.Batch.DecodeSeqs+step.Batch.PrefillSeqs)
	if c.steps++; step.Batch.PrefillSeqs > 0 {
		c.steps = c.row.Poll
	}
	for _, event := range c.engine.End() {
		c.answered(event)
	}
	return nil
}

// emitted takes the tokens of steps that have just ended to the client.
func (c *client) emitted(steps int64, seqs int) {
	t := c.output * engine.Picoseconds(seqs)
	c.front = max(c.front+t*engine.Picoseconds(steps), c.now+t)
}

func (c *client) answered(event sim.Event) {
	x := &c.sent[event.ID]
	if event.First {
		x.first = c.front
		c.first = append(c.first, (c.front - x.sent).Seconds())
	}
	if !event.Last {
		return
	}
	c.tokens += x.osl
	if x.osl > 1 {
		c.decode += (c.front - x.first).Seconds() / float64(x.osl-1)
	}
	if c.left > 0 {
		c.left--
		c.send(c.front)
	}
}

// send makes a request at an instant, of drawn lengths.
func (c *client) send(at engine.Picoseconds) {
	isl, osl := c.length(c.row.ISL), max(1, c.length(c.row.OSL))
	c.sendOf(at, max(c.row.Cached+1, min(isl, c.model.Limits().MaxModelLen-osl)), osl)
}

// sendOf makes one of given lengths: the tokeniser takes one prompt after the other.
func (c *client) sendOf(at engine.Picoseconds, isl, osl int) {
	c.free = max(c.free, at) + c.model.PerToken()*engine.Picoseconds(isl)
	c.sent = append(c.sent, exchange{isl: isl, osl: osl, sent: at, at: c.free + c.model.Overhead()})
}

// length draws one around its mean.
func (c *client) length(mean int) int {
	return int(float64(mean)*(1+c.spread*(2*c.random.Float64()-1)) + 0.5)
}
