package fleet

import (
	"errors"
	"fmt"
	"math"

	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/profile"
)

// Config is a fleet to simulate. It is a value.
type Config struct {
	// Pools is one aggregated pool, or a prefill pool and then a decode pool.
	Pools []Pool
	// Transfer moves the KV of a prompt from the prefill to the decode pool.
	Transfer Transfer
	// Retry sends the requests of a failed replica to the first pool's router
	// again, where their prompt is computed anew; without it they are lost.
	Retry bool
	// SLA is what requests are held against, one by one; 0 = no bound. Its
	// statistic is ignored.
	SLA profile.SLA
	// Provenance is that of the step timers, for the report: simulated at best.
	Provenance profile.Provenance
	// Bins bounds the report's series, from 2 to 65536; 0 = DefaultBins.
	Bins int
	// MaxInFlight bounds the requests that are in the fleet at once, and with
	// them its memory; 0 = nothing does. Offer refuses one more (OverloadError).
	MaxInFlight int
	// Done is called with each request that leaves the fleet, in order of time;
	// nil = nobody wants to know. It must not call the fleet.
	Done func(Outcome)
}

// DefaultBins is how many bins a series has at most where nothing else is said.
const DefaultBins = 256

// Pool is a number of equal engines behind a router.
type Pool struct {
	// Engine is each replica's configuration. Its role is the pool's; its seed
	// is the one from which each replica's own derives.
	Engine sim.Config
	// Timer says how long the steps of each replica take.
	Timer sim.StepTimer
	// Replicas are ready from the start.
	Replicas int
	// GPUs of one replica; 0 = 1.
	GPUs int
	// Nodes are the servers that one replica spans.
	Nodes engine.Nodes
	// Router picks the replica of each request; empty = RoundRobin.
	Router Router
	// Overhead is the time that each request spends before it reaches the
	// pool's router, HTTP and scheduling outside of steps, and PerToken more of it per
	// prompt token: tokenizing.
	Overhead, PerToken engine.Picoseconds
	// StartUp is the time from the decision to start a replica until it takes
	// requests. Those of New have it behind them.
	StartUp engine.Picoseconds
}

// Router names the rule that picks a replica.
type Router string

// The rules. All of them look at ready replicas only.
const (
	// RoundRobin is the next replica by number.
	RoundRobin Router = "round_robin"
	// LeastLoaded is the replica with the fewest requests, and a request without a
	// token counts as four. Ties go to the replica whose last request is oldest.
	// vLLM's data-parallel balancer counts waiting × 4 + running, where a request
	// stops waiting when its prompt begins (DPLBAsyncMPClient in
	// vllm/v1/engine/core_client.py).
	LeastLoaded Router = "least_loaded"
	// KVAware is the one of the least cost: prompt blocks that it would have to
	// compute before and for this request, plus KV blocks in use.
	KVAware Router = "kv_aware"
)

// promptWeight is how many requests a request without a token counts as.
const promptWeight = 4

// ParseRouter reads a Router's name.
func ParseRouter(s string) (Router, error) {
	switch r := Router(s); r {
	case RoundRobin, LeastLoaded, KVAware:
		return r, nil
	}
	return "", fmt.Errorf("unknown router %q: want %s, %s or %s", s, RoundRobin, LeastLoaded, KVAware)
}

// Transfer is the way of KV from a prefill to a decode engine:
// Latency + the prompt's KV / BytesPerSecond. Blocks that the
// decode engine has cached are moved like all others.
type Transfer struct {
	Latency        engine.Picoseconds
	KV             engine.KVBytes
	BytesPerSecond float64 // of the link of one prefill engine; 0 = only the latency counts
	// Serial makes the link of each prefill engine carry one prompt at a time,
	// in order of their completion. Otherwise transfers do not slow each other.
	Serial bool
}

// Request is one request to a fleet.
type Request struct {
	ID       uint64             // for the Outcome; the fleet does not read it
	At       engine.Picoseconds // arrival, since the simulation's start
	ISL, OSL int                // tokens, each at least 1
	// Prefix is the hash chain of the prompt's full blocks (sim.BlockHashes),
	// for pools with prefix caching; nil shares nothing. It is not to be
	// changed before the request has left the fleet.
	Prefix []uint64
}

// normal fills in the defaults and refuses what cannot be simulated, all
// complaints at once.
func (c Config) normal() (Config, error) {
	var errs []error
	complain := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	c.Pools = append([]Pool(nil), c.Pools...)
	for i := range c.Pools {
		// What decode engines read stays until they have it.
		c.Pools[i].Engine.HoldKV = c.Pools[i].Engine.Role == engine.RolePrefill
		p, err := c.Pools[i].normal()
		if err != nil {
			errs = append(errs, fmt.Errorf("pool %d: %w", i+1, err))
		}
		c.Pools[i] = p
	}
	complain(!c.shaped(), "pools of roles %v: want one aggregated pool, or a prefill and a decode pool", c.roles())
	complain(c.mixedBlocks(), "block sizes %d and %d of two pools that cache prefixes: want one size, the hash chains are the same",
		blockSize(c.Pools, 0), blockSize(c.Pools, 1))
	if c.Bins == 0 {
		c.Bins = DefaultBins
	}
	c.Provenance = profile.Weakest(profile.Simulated, c.Provenance)
	complain(c.Bins < 2 || c.Bins > 1<<16, "%d bins: want 2 to 65536", c.Bins)
	complain(c.MaxInFlight < 0, "at most %d requests in flight: want 0 (no bound) or more", c.MaxInFlight)
	complain(c.SLA.TTFT < 0 || c.SLA.ITL < 0, "SLA of TTFT %v and ITL %v: want no negative bound", c.SLA.TTFT, c.SLA.ITL)
	t := c.Transfer
	complain(t.Latency < 0, "transfer latency %v: want none below 0", t.Latency.Duration())
	complain(!(t.KV.PerToken >= 0) || math.IsInf(t.KV.PerToken, 0), "%v transfer bytes per token: want 0 or more", t.KV.PerToken)
	complain(!(t.KV.Windowed >= 0 && t.KV.Windowed <= t.KV.PerToken) || t.KV.Window < 0, "transfer bytes %+v: want no more in layers with a window than in all, and no window below 0", t.KV)
	complain(!(t.BytesPerSecond >= 0), "%v transfer bytes per second: want 0 (unlimited) or more", t.BytesPerSecond)
	return c, errors.Join(errs...)
}

// shaped reports whether the pools' roles make a fleet.
func (c Config) shaped() bool {
	switch r := c.roles(); len(r) {
	case 1:
		return r[0] == engine.RoleAggregated
	case 2:
		return r[0] == engine.RolePrefill && r[1] == engine.RoleDecode
	default:
		return false
	}
}

func (c Config) roles() []engine.Role {
	var roles []engine.Role
	for _, p := range c.Pools {
		roles = append(roles, p.Engine.Role)
	}
	return roles
}

// mixedBlocks reports whether two pools would read one hash chain differently.
func (c Config) mixedBlocks() bool {
	return len(c.Pools) == 2 && c.Pools[0].Engine.PrefixCaching && c.Pools[1].Engine.PrefixCaching &&
		blockSize(c.Pools, 0) != blockSize(c.Pools, 1)
}

func blockSize(pools []Pool, i int) int {
	if i >= len(pools) {
		return 0
	}
	return pools[i].Engine.Limits.BlockSize
}

func (p Pool) normal() (Pool, error) {
	e, err := p.Engine.Normal()
	errs := []error{err}
	p.Engine = e
	if p.Timer == nil {
		errs = append(errs, errors.New("no step timer given"))
	}
	if p.Router == "" {
		p.Router = RoundRobin
	}
	if _, err := ParseRouter(string(p.Router)); err != nil {
		errs = append(errs, err)
	}
	if p.Router == KVAware && !e.PrefixCaching {
		errs = append(errs, errors.New("router kv_aware needs prefix caching"))
	}
	if p.GPUs == 0 {
		p.GPUs = 1
	}
	if p.Replicas < 0 || p.GPUs < 0 {
		errs = append(errs, fmt.Errorf("%d replicas of %d GPUs: want no negative number", p.Replicas, p.GPUs))
	}
	if p.Overhead < 0 || p.PerToken < 0 || p.StartUp < 0 {
		errs = append(errs, fmt.Errorf("overhead %v, per token %v, start-up %v: want none below 0", p.Overhead.Duration(), p.PerToken.Duration(), p.StartUp.Duration()))
	}
	return p, errors.Join(errs...)
}
