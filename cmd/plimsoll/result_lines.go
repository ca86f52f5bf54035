package main

import (
	"fmt"
	"slices"
	"strings"

	"plimsoll/profile"
	"plimsoll/profile/store"
	"plimsoll/recommend"
)

// What a profile ends with, as lines: the terminal and the page say the same.

// shortfallLines say of each phase that nothing meets what binds, what is nearest, and
// what could be promised.
func shortfallLines(all []recommend.Choice, sla profile.SLA) (lines []string) {
	for _, ch := range all {
		if ch.Phase == "" {
			continue // of the other mode
		}
		s, short := ch.Shortfall(sla)
		if !short {
			continue
		}
		if s.Undecided() {
			lines = append(lines, fmt.Sprintf("\nWhether anything meets the SLA in %s is undecided", ch.Phase))
		} else {
			lines = append(lines, fmt.Sprintf("\nNothing meets the SLA in %s: %s binds", ch.Phase, s.Metric))
		}
		lines = append(lines, fmt.Sprintf("  nearest: %s at %.0f in flight: %s", ch.Picked.Label(), inFlight(ch.Picked.Point), s.Nearest()))
		if s.Promise > 0 {
			lines = append(lines, fmt.Sprintf("  could be promised: %s", promises(ch, s)))
		}
	}
	return lines
}

// promises is what could be asked for instead: all that the nearest candidate misses
// together, and of a load the rate at which that was seen.
func promises(ch recommend.Choice, s recommend.Shortfall) string {
	names := map[string]string{"TTFT": "ttft", "ITL": "itl", recommend.Stall: "stall-p99"}
	text := fmt.Sprintf("--%s %.6g", names[s.Metric], profile.Milliseconds(s.Promise))
	if s.Besides > 0 {
		other := map[string]string{"TTFT": "itl", "ITL": "ttft"}[s.Metric]
		text += fmt.Sprintf(" --%s %.6g", other, profile.Milliseconds(s.Besides))
	}
	switch rate := ch.Picked.Point.Rate; {
	case ch.Phase != profile.Aggregated:
		return text + beyondMeasured(ch.Picked.Point)
	case rate > 0:
		return fmt.Sprintf("%s, seen at %.4g requests/s", text, rate)
	}
	return text + ", seen with one request at a time; concurrent requests take longer"
}

// beyondMeasured is the caveat of a figure that was read off a surface beyond what was
// measured.
func beyondMeasured(p profile.Point) string {
	for _, w := range p.Warnings {
		if strings.HasSuffix(w.Code, "_out_of_range") {
			return ", if it goes on as measured: " + w.Message
		}
	}
	return ""
}

// infeasibleLine is said before the lines of picks that are no answer.
const infeasibleLine = "INFEASIBLE: the lines below are the nearest candidate, not an answer"

// suggestedLines are those that scripts read: their words are a contract.
func suggestedLines(rec store.Recommendation) []string {
	if rec.Mode == store.Aggregated {
		return suggestedAggregated(rec)
	}
	p, d, th := rec.Prefill, rec.Decode, rec.Thresholds
	lines := []string{
		fmt.Sprintf("Suggested prefill %s (TTFT %.2f ms, throughput %.2f tokens/s/GPU)", p.Parallelism().Label(), p.TTFTMillis, p.ThroughputPerGPU),
		fmt.Sprintf("Suggested planner upper/lower bound for prefill queue size: %.2f/%.2f", th.PrefillQueueSize.Upper, th.PrefillQueueSize.Lower),
		fmt.Sprintf("Suggested decode %s (ITL %.2f ms, throughput %.2f tokens/s/GPU)", d.Parallelism().Label(), d.ITLMillis, d.ThroughputPerGPU),
	}
	if kv := th.DecodeKVUtilization; kv.Upper > 0 { // where the capacity is known
		lines = append(lines, fmt.Sprintf("Suggested planner upper/lower bound for decode kv cache utilization: %.2f/%.2f", kv.Upper, kv.Lower))
	}
	if !rec.Feasible {
		lines = append([]string{infeasibleLine}, lines...)
	}
	return lines
}

// recommendedLines are the lines of what is recommended that are there.
func recommendedLines(rec store.Recommendation) []string {
	return slices.DeleteFunc([]string{recommendedLine(rec), underLoadLine(rec), atRateLine(rec)}, func(line string) bool { return line == "" })
}

// recommendedLine is the rates that the picks are recommended at: those that held
// where they were verified; empty where there are none. The Suggested lines are of the
// picks' best in-flight counts, and have no room for it: their words are others' contract.
func recommendedLine(rec store.Recommendation) string {
	var rates []string
	for _, p := range rec.Picks() {
		if !rec.Feasible || p.SustainedRPS <= 0 {
			continue
		}
		rate := fmt.Sprintf("%s %s %.4g requests/s with %s within the SLA", p.Phase, p.Label, p.SustainedRPS, statWords(rec.SLA.Stat))
		if p.MostRPS > 0 {
			rate += fmt.Sprintf(", %.4g with %g %% of requests within it", p.MostRPS, 100*profile.MostRequests)
		}
		rates = append(rates, rate)
	}
	if len(rates) == 0 {
		return ""
	}
	return "Recommended for each engine: " + strings.Join(rates, "; ")
}

// statWords is a statistic of both latencies.
func statWords(s profile.Statistic) string {
	if s.Quantile() == 0 {
		return "means"
	}
	return "the " + string(s)
}

// atRateLine is the bounds that planner serve --policy load takes from the profile; empty
// where they are those of the Suggested line.
func atRateLine(rec store.Recommendation) string {
	b := rec.Thresholds.DecodeKVAtRate
	if b == nil {
		return ""
	}
	if rec.Mode == store.Aggregated {
		return fmt.Sprintf("KV use at the recommended rate: scale up above %.3g, down below %.3g (planner serve --policy load)", b.Upper, b.Lower)
	}
	return fmt.Sprintf("Decode KV use at the recommended rate: scale up above %.2f, down below %.2f (planner serve --policy load)", b.Upper, b.Lower)
}
