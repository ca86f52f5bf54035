package main

import (
	"fmt"
	"math/rand/v2"

	"plimsoll/engine"
	"plimsoll/engine/latency"
	"plimsoll/engine/sim"
)

// requestsPerPlace is how many requests a simulated client sends for each one
// that it keeps in flight. Nothing says how many the measuring ones sent.
const requestsPerPlace = 10

// shortest is the least length of a family's requests over the longest, which
// are uniform in between; a family that is not here has fixed lengths
// (testdata/README.md).
var shortest = map[string]float64{"vllm-fp8": 0.8}

// simulate is what the client of a closed-loop row sees of a simulated engine:
// all of its requests in flight are sent at time 0 and each that ends is
// followed by another at once, so that equal lengths stay in lock-step. The
// engine has the limits that its documentation gives as the default
// (latency.Limits; trtllm-serve's --max_num_tokens is 8192 too), schedules
// without running ahead, as vLLM did before 0.14, and cuts prompts into chunks,
// which TensorRT-LLM does only where asked to.
func simulate(m latency.Model, r row) (latency.Means, error) {
	limits := m.Limits()
	e, err := sim.New(sim.Config{Limits: limits, KVBlocks: m.KVTokens() / limits.BlockSize}, m)
	if err != nil {
		return latency.Means{}, fmt.Errorf("simulating %s: %w", r.family, err)
	}
	c := client{engine: e, row: r, random: rand.New(rand.NewPCG(3, 4))} //nolint:gosec // the same lengths each time
	return c.means(m.Overhead())
}

// client keeps requests in flight at a simulated engine.
type client struct {
	engine *sim.Engine
	row    row
	random *rand.Rand
	now    engine.Picoseconds
	sent   []exchange // by ID
}

// exchange is one request and when it was sent and answered.
type exchange struct {
	osl         int
	sent, first engine.Picoseconds
}

// means sends the row's requests and takes the mean over all of them; overhead
// is what a request's TTFT has outside of steps.
func (c *client) means(overhead engine.Picoseconds) (latency.Means, error) {
	all := requestsPerPlace * c.row.load.InFlight
	for range c.row.load.InFlight {
		if err := c.send(); err != nil {
			return latency.Means{}, err
		}
	}
	var sum latency.Means
	for {
		if run := c.engine.Ahead(); run.Steps > 0 {
			c.now += run.Length(run.Steps)
			c.engine.Skip(run.Steps)
			continue
		}
		step, ok := c.engine.Begin()
		if !ok {
			break
		}
		c.now += step.Duration
		for _, event := range c.engine.End() {
			x := &c.sent[event.ID]
			if event.First {
				x.first = c.now
				sum.TTFT += (c.now - x.sent + overhead).Seconds()
			}
			if event.Last {
				sum.TPOT += (c.now - x.first).Seconds() / float64(x.osl-1)
			}
			if event.Last && len(c.sent) < all {
				if err := c.send(); err != nil {
					return latency.Means{}, err
				}
			}
		}
	}
	n := float64(len(c.sent))
	return latency.Means{TTFT: sum.TTFT / n, TPOT: sum.TPOT / n}, nil
}

func (c *client) send() error {
	isl, osl := c.length(c.row.load.ISL), max(2, c.length(c.row.load.OSL))
	id := uint64(len(c.sent))
	c.sent = append(c.sent, exchange{osl: osl, sent: c.now})
	if err := c.engine.Add(sim.Request{ID: id, PromptTokens: isl, OutputTokens: osl}); err != nil {
		return fmt.Errorf("simulating %s with %d in flight: %w", c.row.family, c.row.load.InFlight, err)
	}
	return nil
}

// length draws one around its mean.
func (c *client) length(mean int) int {
	least, ok := shortest[c.row.family]
	if !ok {
		return mean
	}
	return int(float64(mean) * (least + (1-least)*c.random.Float64()) / ((1 + least) / 2))
}
