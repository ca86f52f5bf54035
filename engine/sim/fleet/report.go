package fleet

import (
	"math"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/sim"
	"plimsoll/profile"
)

// Report is what a fleet did from the start up to an instant. It is a value
// that the fleet no longer changes. Means are over that whole time.
type Report struct {
	Provenance profile.Provenance
	At         engine.Picoseconds

	// Offered = Finished + Rejected + Lost + Unfinished + InFlight.
	Offered, Finished, Rejected, Lost, Unfinished int64
	InFlight                                      int64
	Retries                                       int64
	MeanInFlight                                  float64

	// TTFT has every request that got a first token, E2E and TPOT every
	// finished one (TPOT: of more than one token).
	TTFT, E2E, TPOT Sketch
	// ITL has every gap between two tokens of a stream, step by step: a stream
	// that decodes gets a token from each step, so that its gap is the step's
	// time. A step counts as it begins. The gap that a preemption or a retry
	// tears open is not in it; TPOT and E2E have it.
	ITL Sketch
	// ISL and OSL have every request that was offered; tokens.
	ISL, OSL Sketch

	Attainment Attainment
	// Per second: finished requests, their output tokens, and of both those of
	// requests that met the whole SLA.
	Requests, Tokens, GoodRequests, GoodTokens float64

	Pools      []PoolReport
	Links      LinkReport
	GPUSeconds float64 // start-up and draining included
	Scales     []ScaleEvent
	Series     []Bin
	Warnings   []profile.Warning
}

// Attainment is the share of requests that met the SLA, from 0 to 1; 0 of none.
// A request meets it by its own TTFT and its own mean ITL (TPOT). Rejected and
// lost requests miss it, and unfinished ones; those in flight do not count yet.
// Where the SLA's ITL is of gaps, ITL is the share of gaps that met it, and Both is
// of requests all the same.
type Attainment struct {
	Requests        int64
	TTFT, ITL, Both float64
}

// PoolReport is what a pool did.
type PoolReport struct {
	Role                      engine.Role
	Ready, Starting, Draining int // replicas now
	Failed                    int // replicas ever

	Utilisation              float64 // share of the time of ready and draining replicas that was spent in steps
	KVUseMean                float64 // share of their KV blocks in use, from 0 to 1, over time
	KVUsePeak                float64 // the most at any replica
	WaitingMean, WaitingPeak float64 // requests at the router and in the engines' queues, preempted ones too
	RunningMean, RunningPeak float64
	Wait                     Sketch // from the router to the first step; picoseconds
	PrefixHits               PrefixHits
	Steps, Preemptions       int64
	PromptTokens             int64 // of requests that got their first token here
	GPUSeconds               float64

	recomputed int64 // prompt tokens computed again because a preemption had lost their KV
	// held is computed prompts whose KV a prefill engine keeps until a decode
	// engine starts them; stalled the share of the time of ready and draining
	// replicas in which it left no room for the next one and nothing ran.
	heldMean, heldPeak float64
	stalled            float64
}

// PrefixHits is the share of prompt tokens that the prefix caches held, by the
// tier that held them; 0 without prefix caching.
type PrefixHits struct{ HBM, DRAM, NVMe float64 }

// All is the share found in any tier.
func (h PrefixHits) All() float64 { return h.HBM + h.DRAM + h.NVMe }

// Report is what the fleet did up to now.
func (f *Fleet) Report() Report {
	f.catchUpAll(f.now)
	t := f.tally
	r := Report{
		Provenance: f.provenance, At: f.now,
		Offered: t.offered, Finished: t.finished, Rejected: t.rejected, Lost: t.lost, Unfinished: t.unfinished,
		InFlight: int64(f.flights.n), Retries: t.retries, MeanInFlight: per(f.inFlight.area(f.now), f.now),
		TTFT: f.ttft.Clone(), E2E: f.e2e.Clone(), TPOT: f.tpot.Clone(), ITL: f.itl.Clone(),
		ISL: f.isl.Clone(), OSL: f.asked.Clone(),
		Attainment: t.attainment(int64(f.flights.n)),
		Series:     f.bins(),
		Scales:     append([]ScaleEvent(nil), f.scales...),
	}
	if s := f.now.Seconds(); s > 0 {
		r.Requests, r.Tokens = float64(t.finished)/s, float64(t.tokens)/s
		r.GoodRequests, r.GoodTokens = float64(t.metBoth)/s, float64(t.goodTokens)/s
	}
	for _, p := range f.pools {
		r.Pools = append(r.Pools, p.report(f.now))
		r.GPUSeconds += p.gpuSeconds(f.now)
	}
	r.Links = f.linkReport()
	r.Warnings = f.warnings(r)
	return r
}

func (t tally) attainment(inFlight int64) Attainment {
	a := Attainment{Requests: t.offered - inFlight}
	if a.Requests > 0 {
		n := float64(a.Requests)
		a.TTFT, a.ITL, a.Both = float64(t.metTTFT)/n, float64(t.metITL)/n, float64(t.metBoth)/n
	}
	return a
}

// stats are those of all replicas that there are or were.
func (p *pool) stats() sim.Stats {
	all := p.gone
	for _, r := range p.live {
		all = sum(all, r.engine.Stats())
	}
	return all
}

func (p *pool) report(now engine.Picoseconds) PoolReport {
	stats := p.stats()
	r := PoolReport{
		Role: p.role(), Ready: len(p.ready), Starting: int(p.starting.value), Draining: p.draining(), Failed: p.failed,
		Utilisation: share(p.busy.area(now), p.serving.area(now)),
		KVUseMean:   share(p.kvTwiceAt(now), p.capacity(now)) / 2,
		KVUsePeak:   float64(p.kvPeak) / float64(p.Engine.KVBlocks),
		WaitingMean: per(p.waiting.area(now), now), WaitingPeak: float64(p.waiting.peak),
		RunningMean: per(p.running.area(now), now), RunningPeak: float64(p.running.peak),
		Wait:  p.wait.Clone(),
		Steps: stats.Steps, Preemptions: stats.Preemptions, PromptTokens: stats.PromptTokens, recomputed: stats.Recomputed,
		heldMean: per(p.holding.area(now), now), heldPeak: float64(p.holding.peak),
		stalled:    share(p.stalled.area(now), p.serving.area(now)),
		GPUSeconds: p.gpuSeconds(now),
	}
	if q := float64(stats.PrefixQueries); q > 0 {
		lower := stats.PrefixHitsDRAM + stats.PrefixHitsNVMe
		r.PrefixHits = PrefixHits{
			HBM: float64(stats.PrefixHits-lower) / q, DRAM: float64(stats.PrefixHitsDRAM) / q, NVMe: float64(stats.PrefixHitsNVMe) / q,
		}
	}
	return r
}

// gpuSeconds is the time of all GPUs of the pool, from the decision to start
// each replica until it was gone.
func (p *pool) gpuSeconds(now engine.Picoseconds) float64 {
	return p.starting.area(now).plus(p.serving.area(now)).float() / float64(engine.Second) * float64(p.GPUs)
}

// warnings is what the report's reader must know.
func (f *Fleet) warnings(r Report) []profile.Warning {
	var ws []profile.Warning
	if r.Unfinished > 0 {
		ws = append(ws, profile.Warnf("unfinished", "%d of %d requests were unfinished when the simulation ended at %.3f s. They count as misses; latencies leave them out",
			r.Unfinished, r.Offered, r.At.Seconds()))
	}
	if r.Rejected > 0 {
		ws = append(ws, profile.Warnf("rejected", "%d of %d requests are too long for an engine and count as misses. The longest has %d prompt and %d output tokens (limit %d together)",
			r.Rejected, r.Offered, f.longest.PromptTokens, f.longest.OutputTokens, f.longest.Limit))
	}
	if r.Lost > 0 {
		ws = append(ws, profile.Warnf("lost", "%d of %d requests were lost when replicas failed; they count as misses", r.Lost, r.Offered))
	}
	if l := r.Links; l.Utilisation > busyLink {
		ws = append(ws, profile.Warnf("links_busy", "KV links from prefill to decode engines were busy %.1f %% of the time, and prompts waited %v for them on average. They limit TTFT; use faster links or more engines",
			100*l.Utilisation, engine.Picoseconds(l.Wait.Mean()).Duration().Round(time.Millisecond)))
	}
	for i, p := range r.Pools {
		ws = append(ws, p.warnings(f.pools[i].Engine)...)
	}
	if early, late, ok := saturated(r.Series, f.lastArrival); ok {
		ws = append(ws, profile.Warnf("saturated", "the fleet cannot carry this load: the queue was still growing at the end (from %.1f to %.1f requests on average). Latencies depend on how long the load lasts",
			early, late))
	}
	return ws
}

// From which share of prompt tokens computed again, of requests preempted, and of
// time without room a report warns: what is below moves no percentile but the
// last, and is less than the error of step times.
const (
	muchRecomputed = 0.1
	manyPreempted  = 0.05
	longStalled    = 0.01
)

// warnings is what is wrong with a pool's KV caches.
func (p PoolReport) warnings(e sim.Config) []profile.Warning {
	var ws []profile.Warning
	again := float64(p.recomputed) / max(float64(p.PromptTokens), 1)
	if again > muchRecomputed || float64(p.Preemptions) > manyPreempted*float64(p.Wait.Count()) {
		remedy := "more KV per engine, fewer requests at once (max-num-seqs) or more engines"
		if !e.ReserveFullPrompt {
			remedy = "an engine that starts a prompt only where all of it fits, as vLLM does since 0.19, or " + remedy
		}
		ws = append(ws, profile.Warnf("thrash", "the %s engines run out of KV cache: %d preemptions of %d requests, and %.0f %% of prompt tokens were computed again (hint: %s)",
			p.Role, p.Preemptions, p.Wait.Count(), 100*again, remedy))
	}
	if p.stalled > longStalled {
		ws = append(ws, profile.Warnf("held_back", "prefill stood still %.1f %% of the time, as up to %.0f finished prompts waited for the decode pool and filled the KV cache (hint: more decode engines, or a lower rate)",
			100*p.stalled, p.heldPeak))
	}
	return ws
}

// saturated compares the mean queues of the third and the fourth quarter of the
// time until the last arrival. At the edge of saturation a queue is a random
// walk of about one request a step, so that its quarters' means differ by √n
// over the n arrivals of a quarter; what is three times that, and more than
// a tenth of the queue, is growth.
func saturated(bins []Bin, last engine.Picoseconds) (early, late float64, ok bool) {
	var area, span [4]float64
	var arrivals int64
	for _, b := range bins {
		if b.To > last {
			break
		}
		quarter := min(int(4*(b.From.Seconds()+b.To.Seconds())/2/last.Seconds()), 3)
		width := (b.To - b.From).Seconds()
		area[quarter] += b.Waiting * width
		span[quarter] += width
		if quarter == 3 {
			arrivals += b.Arrivals
		}
	}
	if span[2] == 0 || span[3] == 0 || arrivals == 0 {
		return 0, 0, false
	}
	early, late = area[2]/span[2], area[3]/span[3]
	return early, late, late-early > 3*math.Sqrt(float64(arrivals)) && late > early*1.1
}
