package sweep

import (
	"fmt"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
)

// Step is one trial of a plan: an engine to start, and what to measure on it.
type Step struct {
	Stage  profile.Stage
	Phase  profile.Phase
	Label  string // configuration; empty where it is not yet picked
	Points int    // at most
	// Cost is what the engine is expected to do, at most; its loading, of which no
	// model knows, is in none of the figures but Launches.
	Cost Cost
	// Expected is how long it takes here: Cost.EngineSeconds, unless engines run
	// in virtual time, which passes as fast as it is computed.
	Expected time.Duration
	Known    bool // Expected and Cost's seconds come from a latency model
	// Unrated: its loads come at rates that no latency model expects. Cost has none of
	// their requests.
	Unrated bool
}

// Total is what a plan's steps cost together.
func Total(plan []Step) (sum Cost) {
	for _, s := range plan {
		sum = sum.plus(s.Cost)
	}
	return sum
}

// Plan is what Run would do: exactly on the grid, about by the adaptive search. It
// starts nothing. Before the picks are known, the surfaces are estimated at the
// candidates that the latency model expects to be picked.
func Plan(o Options) []Step {
	if o.Open.Mode == Aggregated {
		return planAggregated(o)
	}
	return append(planPhases(o), planVerify(o, profile.Prefill, profile.Decode)...)
}

// planPhases is Plan of prefill and decode apart.
func planPhases(o Options) []Step {
	if o.Search == Grid {
		return planGrid(o)
	}
	return planAdaptive(o)
}

func (s *Step) add(expected time.Duration, c Cost) {
	s.Points++
	s.Expected += expected
	s.Cost = s.Cost.plus(c)
}

// addPrefill adds a prefill point of n requests after its warm-up.
func (s *Step) addPrefill(o Options, c engine.Config, isl, n int) {
	requests, warmups := o.prefillLoad(c, n)
	w := profile.Workload{ISL: isl, OSL: prefillOSL(c), Requests: requests + warmups, InFlight: attentionReplicas(c)}
	s.add(o.prefillCost(c, isl, n), o.costOf(c, w, false))
}

func (s Step) finished(o Options, c engine.Config) Step {
	_, s.Known = o.expect(c)
	s.Cost.Launches = 1
	if o.VirtualSurfaces && s.Stage == profile.StageSurface { // the engine waits for it in real time
		secs := s.Expected.Seconds()
		s.Cost.EngineSeconds, s.Cost.GPUSeconds = secs, secs*float64(c.GPUs())
	}
	return s
}

// context is how far the surfaces reach, tokens: what was asked for, within what
// the engine takes; where neither is known twice the target, as upstream does.
func (o Options) context(f profile.EngineFacts) int {
	c := o.MaxContext
	if f.MaxModelLen > 0 && (c == 0 || c > f.MaxModelLen) {
		c = f.MaxModelLen
	}
	if o.MostContext > 0 {
		c = min(c, o.MostContext)
	}
	if c == 0 {
		c = 2 * (o.ISL + o.OSL)
	}
	return max(c, o.ISL+o.OSL)
}

// minOSL is how many output tokens a decode measurement needs: all streams have
// to overlap for some steps after the last has started.
const minOSL = 32

// decodeOSL is the output length that decode is measured with: the target's,
// unless that is too short to measure, within the engine's context.
func (o Options) decodeOSL(f profile.EngineFacts) int {
	osl := max(o.OSL, minOSL)
	if f.MaxModelLen > 0 {
		osl = min(osl, f.MaxModelLen-o.ISL)
	}
	return max(osl, o.OSL)
}

// surfaceOSL is the output length of the decode surface: as asked, but no more
// than a quarter of the context, so that contexts keep apart.
func (o Options) surfaceOSL(f profile.EngineFacts) int {
	return min(o.SurfaceOSL, max(2, o.context(f)/4))
}

// holds says where the engine's context is too short for the target.
func (o Options) holds(f profile.EngineFacts) error {
	if f.MaxModelLen > 0 && o.ISL+o.OSL > f.MaxModelLen {
		return &engineError{err: fmt.Errorf("ISL %d + OSL %d is %d tokens, above the engine's context of %d", o.ISL, o.OSL, o.ISL+o.OSL, f.MaxModelLen)}
	}
	return nil
}

// facts is what the latency model expects an engine to say of itself.
func (o Options) facts(c engine.Config) profile.EngineFacts {
	f := profile.EngineFacts{BlockSize: c.Limits.BlockSize, MaxNumSeqs: c.Limits.MaxNumSeqs * attentionReplicas(c)} // limits are of one replica
	if e, ok := o.expect(c); ok {
		f.KVTokens, f.WindowedKV = e.KVTokens(), e.WindowedKV()
		return f
	}
	// Without a model only limits bound the plan.
	f.KVTokens = max(f.MaxNumSeqs, o.MaxInFlight, attentionReplicas(c)) * o.context(f)
	return f
}

// at is o in a stage.
func (o Options) at(stage profile.Stage) Options {
	o.Virtual = o.Virtual || o.VirtualSurfaces && stage == profile.StageSurface
	return o
}

func (o Options) expect(c engine.Config) (Expectation, bool) {
	if o.Expect == nil {
		return nil, false
	}
	return o.Expect(c)
}

// What a request and one of its tokens cost in virtual time, files included:
// measured on two cores of a 2.x GHz server, 2026-11; a plan needs no more
// than the order of magnitude.
const (
	virtualRequest = 30 * time.Microsecond
	virtualToken   = 200 * time.Nanosecond
)

// computing is how long c takes where engines run in virtual time.
func (c Cost) computing() time.Duration {
	return time.Duration(c.Requests)*virtualRequest + time.Duration(c.OutputTokens)*virtualToken
}

// prefillCost and decodeCost are expected durations; without a latency model
// they are unit costs, which still give a progress bar something to share out.
func (o Options) prefillCost(c engine.Config, isl, n int) time.Duration {
	requests, warmups := o.prefillLoad(c, n)
	if o.Virtual {
		return time.Duration(requests+warmups) * virtualRequest
	}
	e, ok := o.expect(c)
	if !ok {
		return time.Second
	}
	return time.Duration((requests+warmups)/attentionReplicas(c)) * e.TTFT(isl) // replicas work at the same time
}

func (o Options) decodeCost(c engine.Config, isl, osl, n int) time.Duration {
	if o.Virtual {
		return time.Duration(2*n)*virtualRequest + time.Duration(n*osl)*virtualToken
	}
	e, ok := o.expect(c)
	if !ok {
		return time.Second
	}
	fill := time.Duration(0)
	if c.Kind != engine.KindSim { // the embedded engine fills its cache in no time
		fill = time.Duration(n) * e.TTFT(isl)
	}
	return fill + time.Duration(osl)*e.ITL(n, nominalContext(isl, osl))
}
