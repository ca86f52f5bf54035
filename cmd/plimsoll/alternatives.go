package main

import (
	"fmt"
	"slices"

	"plimsoll/engine"
	"plimsoll/profile"
	"plimsoll/profile/store"
	"plimsoll/recommend"
	"plimsoll/sweep"
)

// alternatives adds the best of what was not picked: to a disaggregated profile the
// aggregated engine of the highest rate per GPU, by the latency model, and the next
// layout of each phase. Where there is no such model, that is assumed.
func (j *job) alternatives(rec *store.Recommendation, res sweep.Result, so sweep.Options) error {
	if rec.Mode == store.Aggregated {
		rec.Alternatives = nextBest(nil, res.Aggregated, *rec)
		return nil
	}
	var all []store.Alternative
	switch a, err := j.aggregatedInstead(so); {
	case err != nil:
		return err
	case a == nil:
		rec.Assumptions = append(rec.Assumptions, fmt.Sprintf("aggregated engines are not compared: there is no latency model of %s with this model and GPU", j.dep.kind))
	case a.RPS > 0:
		a.PickRPSPerGPU = rec.RPSPerGPU()
		all = append(all, *a)
	}
	rec.Alternatives = nextBest(nextBest(all, res.Prefill, *rec), res.Decode, *rec)
	return nil
}

// aggregatedInstead is the aggregated engine of the highest rate per GPU by short trials in
// virtual time, with the tokens in a step that suit it best; nil without a latency model,
// and of rate 0 where none holds the SLA.
func (j *job) aggregatedInstead(so sweep.Options) (*store.Alternative, error) {
	o, d := j.opts, j.dep
	if !d.simulates() {
		return nil, nil
	}
	var best *store.Alternative
	for _, c := range so.Candidates {
		all, layouts := d.chunksOf(o, c)
		if len(all) == 0 {
			continue
		}
		if !d.hasChunks(o) {
			layouts = layouts[:1]
		}
		order, rates, err := layouts.Best(o.alike(), o.sla, o.seed)
		if err != nil {
			return nil, err
		}
		at := 0
		if len(order) > 0 {
			at = order[0]
		}
		gpus := float64(c.GPUs())
		if best != nil && rates[at]/gpus <= best.RPSPerGPU { // which holds in a longer trial
			continue
		}
		rps, err := layouts[at].Sustains(rates[at], o.alike(), o.sla, insteadRequests, o.seed)
		if err != nil {
			return nil, err
		}
		if best == nil || rps/gpus > best.RPSPerGPU {
			best = &store.Alternative{
				Mode: store.Aggregated, Phase: profile.Aggregated, Label: all[at].Label(), GPUs: c.GPUs(), RPS: rps, RPSPerGPU: rps / gpus,
				Provenance: profile.Estimated, Source: "trials in virtual time, latency model of fit " + d.fit.Name,
			}
			if at > 0 {
				best.MaxNumBatchedTokens = all[at].Limits.MaxNumBatchedTokens
			}
		}
	}
	return best, nil
}

// insteadRequests is how many requests confirm the rate of the other mode.
const insteadRequests = 20_000

// simulates reports whether a latency model stands for the engine, or knows it.
func (d deployment) simulates() bool {
	known := []engine.Kind{engine.KindSim, engine.KindEstimate, engine.KindVLLM, engine.KindSGLang, engine.KindTRTLLM}
	return d.model != nil && d.gpu != nil && slices.Contains(known, d.kind)
}

// nextBest adds to alternatives the best layout of a phase beside the pick's.
func nextBest(all []store.Alternative, ch recommend.Choice, rec store.Recommendation) []store.Alternative {
	pick, picked := rec.PhasePick(ch.Phase), ch.Picked
	best := -1
	perGPU := func(c recommend.Candidate) float64 { return c.RPS / float64(c.Point.Config.GPUs()) }
	for i, c := range ch.All {
		if c.Feasible && c.RPS > 0 && c.Label() != picked.Label() && (best < 0 || perGPU(c) > perGPU(ch.All[best])) {
			best = i
		}
	}
	if best < 0 {
		return all
	}
	c := ch.All[best]
	a := store.Alternative{
		Mode: rec.Mode, Phase: ch.Phase, Label: c.Label(), GPUs: c.Point.Config.GPUs(), RPS: c.RPS, RPSPerGPU: perGPU(c), Provenance: c.Point.Provenance,
		Source: "the search; it was not run under load",
	}
	if ch.Feasible {
		a.PickRPSPerGPU = picked.RPS / float64(pick.GPUs)
	}
	if c.Point.Config.Chunked {
		a.MaxNumBatchedTokens = c.Point.Config.Limits.MaxNumBatchedTokens
	}
	return append(all, a)
}
