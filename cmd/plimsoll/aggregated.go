package main

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"plimsoll/engine/latency"
	"plimsoll/profile"
	"plimsoll/profile/store"
	"plimsoll/recommend"
	"plimsoll/sweep"
)

// aggregatedPicks fills in what is of engines that do both.
func aggregatedPicks(rec *store.Recommendation, res sweep.Result, so sweep.Options) {
	c, pick := res.Aggregated, aggregatedPick(res, so.SLA)
	rec.Mode, rec.Aggregated, rec.Feasible = store.Aggregated, pick, c.Feasible
	rec.Rejected, rec.Assumptions, rec.Planner.DecodeEngineNumGPU = rejectedOf(c, res.Skips), aggregatedAssumptions(res, so), pick.GPUs
	rec.Provenance = profile.Weakest(rec.Provenance, c.Picked.Point.Provenance)
	if pick.KVUsage > 0 {
		rec.Thresholds.DecodeKVUtilization = store.Bounds(recommend.DecodeKV(pick.KVUsage))
	}
	if pick.SustainedRPS > 0 && pick.KVUsage > 0 {
		rec.Thresholds.DecodeKVAtRate = new(store.Bounds(recommend.AggregatedKV(pick.KVUsage)))
	}
}

// aggregatedPick is the pick at the rate that it is recommended at: where it was
// run again, the one that held then, and what it attained; where none did, the
// figures are the search's, of a rate that is recommended no more.
func aggregatedPick(res sweep.Result, sla profile.SLA) *store.Pick {
	c := res.Aggregated
	p, rps := aggregatedAt(res)
	out := store.NewPick(p.Config)
	out.Interval, out.Why, out.ModelError = p.ThroughputInterval(), c.Why, p.ModelError
	if rps > 0 && rps < c.Picked.RPS {
		out.Interval = profile.Interval{Low: p.ThroughputPerGPU, High: p.ThroughputPerGPU * c.Picked.RPS / p.Rate}
	}
	if c.Picked.Elsewhere(sla) == "" || p.ID != c.Picked.Point.ID {
		ttft, itl := p.Load.TTFT.At(sla.Stat), p.Load.TPOT.At(sla.Stat)
		out.TTFTMillis, out.ITLMillis = profile.Milliseconds(ttft), profile.Milliseconds(itl)
		out.Margin = 1 - max(float64(ttft)/float64(sla.TTFT), float64(itl)/float64(sla.ITL))
	}
	out.InFlight, out.KVUsage, out.ThroughputPerGPU, out.SustainedRPS = p.InFlight, p.KVUsage, p.ThroughputPerGPU, rps
	for _, v := range res.Verified {
		out.MostRPS = v.Most
	}
	if b := c.Picked.Bracket; b != nil {
		out.Undecided = c.Open(sla)
		out.RateInterval = profile.Interval{Low: b.AtLeast, High: b.AtMost}
		if math.IsInf(b.AtMost, 1) {
			out.RateInterval.High = 0
		}
		if sla.Stat.Quantile() < profile.MostRequests {
			out.MostRPS = min(rps, c.MostOf(res.Points, sla))
		}
	}
	return &out
}

// aggregatedAt is the load that the pick's figures are of, and the rate at which it is
// recommended.
func aggregatedAt(res sweep.Result) (profile.Point, float64) {
	picked := res.Aggregated.Picked
	for _, v := range res.Verified {
		switch {
		case v.Phase == profile.Aggregated && v.Rate > 0:
			return v.Point, v.Rate
		case v.Phase == profile.Aggregated:
			return picked.Point, 0
		}
	}
	return picked.Point, picked.RPS
}

// aggregatedDoubts says where the latency model's error is wider than what is left of
// the SLA.
func aggregatedDoubts(res sweep.Result, sla profile.SLA) []profile.Warning {
	if len(res.Aggregated.All) == 0 {
		return nil
	}
	p, rps := aggregatedAt(res)
	return recommend.LoadDoubts(p, rps > 0, sla, aggregatedTTFTError(res), p.ModelError)
}

// aggregatedTTFTError is the latency model's error of the pick's TTFT; that of its ITL
// is with its points.
func aggregatedTTFTError(res sweep.Result) profile.ModelError {
	p := res.Aggregated.Picked.Point
	return res.Engines[string(profile.Aggregated)+"/"+p.Config.Slug()].TTFTError
}

// aggregatedAssumptions are printed and stored with every such result.
func aggregatedAssumptions(res sweep.Result, so sweep.Options) []string {
	all := []string{
		"requests: " + so.Open.Source,
		"no KV reuse in the workload: the engine's prefix cache is off",
		"prefill and decode run on the same engine, interleaved as it schedules them",
		"throughput is output tokens/s/GPU at the highest rate at which TTFT and ITL both hold" + foundTo(res),
		"each engine has a queue of its own",
	}
	if hasSurfaces(res) {
		all = append(all, "surfaces describe prefill and decode separately on the picked engine; engine simulate, capacity plan and the planner interleave them; "+
			"Dynamo's planner reads them as two pools and ignores the aggregated rate")
	}
	return all
}

// foundTo says how near above the recommended rate one was judged and did not surely hold.
func foundTo(res sweep.Result) string {
	p, rps := aggregatedAt(res)
	bracket := res.Aggregated.Picked.Point.Throughput95
	switch b := res.Aggregated.Picked.Bracket; {
	case b != nil:
		return fmt.Sprintf(", by the evidence of all loads: %s, 95 %%", recommend.BracketWords(b.AtLeast, b.AtMost))
	case rps <= 0 || !res.Aggregated.Feasible:
		return "; none held"
	case rps < res.Aggregated.Picked.RPS:
		return fmt.Sprintf(", found to %.2g %%", 100*(res.Aggregated.Picked.RPS/p.Rate-1))
	case bracket.Low <= 0:
		return "; no higher one was seen to miss"
	}
	return fmt.Sprintf(", found to %.2g %%", 100*(bracket.High/bracket.Low-1))
}

// aggregatedTable shows every load of every configuration.
func aggregatedTable(b *bytes.Buffer, out outcome) {
	ch := out.res.Aggregated
	fmt.Fprintf(b, "\nAggregated at ISL %d, OSL %d (%s)\n", out.opts.isl, out.opts.osl, ch.Picked.Point.Provenance)
	t := newTable("config", "GPUs", "requests/s", "in flight", "TTFT ms", "ITL ms", "tokens/s/GPU", "verdict")
	sla := out.opts.sla
	for _, c := range byRate(ch.All) {
		p := c.Point
		rate := "alone"
		if p.Rate > 0 {
			rate = fmt.Sprintf("%.4g", p.Rate)
		}
		t.row(c.Label(), itoa(p.Config.GPUs()), rate, shownInFlight(p),
			fmt.Sprintf("%.2f", profile.Milliseconds(p.Load.TTFT.At(sla.Stat))), fmt.Sprintf("%.2f", profile.Milliseconds(p.Load.TPOT.At(sla.Stat))),
			fmt.Sprintf("%.2f", p.ThroughputPerGPU), out.verdict(ch, c))
	}
	b.WriteString(t.text("  "))
	if line := chunkLine(out); line != "" {
		fmt.Fprintf(b, "  %s\n", line)
	}
}

// chunkLine says what the picked layout holds at the engine's own tokens in a step; empty
// where others were not tried.
func chunkLine(out outcome) string {
	ch, d := out.res.Aggregated, out.dep
	config := ch.Picked.Point.Config
	plain := config
	plain.Chunked = false
	own, others, rate := plain.Label(), false, 0.0
	for _, c := range ch.All {
		if c.Point.Config.Parallelism != config.Parallelism {
			continue
		}
		others = others || c.Point.Config.Chunked
		if c.Label() == own {
			rate = max(rate, c.RPS)
		}
	}
	if !others || !d.searchesChunks(out.opts) {
		return ""
	}
	if config.Chunked {
		config.Limits.MaxNumBatchedTokens = 0
	}
	tokens := latency.Limits(*d.model, *d.gpu, config).MaxNumBatchedTokens
	switch {
	case !config.Chunked:
		return fmt.Sprintf("%s: %d tokens in a step, the engine's default", own, tokens)
	case rate == 0:
		return fmt.Sprintf("%s at the engine's default of %d tokens in a step: no tried rate holds the SLA", own, tokens)
	}
	return fmt.Sprintf("%s at the engine's default of %d tokens in a step: %.4g requests/s", own, tokens, rate)
}

func byRate(cs []recommend.Candidate) []recommend.Candidate {
	sorted := byLoad(cs)
	slices.SortStableFunc(sorted, func(a, b recommend.Candidate) int {
		switch {
		case a.Label() != b.Label():
			return 0
		case a.Point.Rate < b.Point.Rate:
			return -1
		case a.Point.Rate > b.Point.Rate:
			return 1
		}
		return 0
	})
	return sorted
}

// suggestedAggregated is the line that scripts read.
func suggestedAggregated(rec store.Recommendation) (lines []string) {
	p := rec.Aggregated
	rate := fmt.Sprintf("%.2f requests/s", p.SustainedRPS)
	switch {
	case p.SustainedRPS >= 1:
	case p.SustainedRPS > 0:
		rate = fmt.Sprintf("%.3g requests/s", p.SustainedRPS)
	case p.RateInterval.High > 0:
		rate = fmt.Sprintf("at most %.3g requests/s", p.RateInterval.High)
	case p.Undecided:
		rate = "rate not known"
	default:
		rate = "no requests/s"
	}
	switch {
	case rec.Feasible:
	case p.Undecided:
		lines = append(lines, "UNDECIDED: the line below is the nearest candidate, not an answer")
	default:
		lines = append(lines, "INFEASIBLE: the line below is the nearest candidate, not an answer")
	}
	latencies := "TTFT and ITL not measured at this rate"
	if p.TTFTMillis > 0 {
		latencies = fmt.Sprintf("TTFT %.2f ms, ITL %.2f ms", p.TTFTMillis, p.ITLMillis)
	}
	lines = append(lines, fmt.Sprintf("Suggested aggregated %s (%s, %s, throughput %.2f tokens/s/GPU)", p.Label, rate, latencies, p.ThroughputPerGPU))
	if n := p.MaxNumBatchedTokens; n > 0 {
		lines = append(lines, "Started with "+flagWords(chunkFlags(p.Parallelism(), n)))
	}
	return lines
}
