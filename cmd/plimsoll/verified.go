package main

import (
	"fmt"
	"strings"

	"plimsoll/engine"
	"plimsoll/profile"
	"plimsoll/profile/store"
	"plimsoll/sweep"
)

// notVerified is said of picks that nobody ran at their rate.
const notVerified = "not verified under load"

// verifiedOf is what the picks attained, as recommendation.json has it; nil where
// none was run.
func verifiedOf(res sweep.Result, source string, sla profile.SLA) *store.Verified {
	if len(res.Verified) == 0 {
		return nil
	}
	out := &store.Verified{}
	for _, v := range res.Verified {
		a := attainedOf(v, source, sla)
		switch v.Phase {
		case profile.Prefill:
			out.Prefill = a
		case profile.Aggregated:
			out.Aggregated = a
		default:
			out.Decode = a
		}
	}
	return out
}

func attainedOf(v sweep.Verification, source string, sla profile.SLA) *store.Attained {
	l := v.Point.Load
	a := &store.Attained{
		Holds: v.Rate > 0, Undecided: l.Undecided(v.Phase, sla), Point: v.Point.ID, Load: source, AskedRPS: v.Asked, RateRPS: v.Point.Rate, MostRPS: v.Most, Achieved: l.Achieved,
		Seconds: l.Window.Seconds(), Requests: l.Requests, Failures: l.Failures,
		TTFT: store.NewPercentiles(l.TTFT), Service: store.NewPercentiles(l.Service), ITL: store.NewPercentiles(l.ITL), TPOT: store.NewPercentiles(l.TPOT),
		InFlight: l.InFlight, Provenance: v.Point.Provenance, Limits: append([]string{}, v.Limits...),
	}
	ttft, itl := l.Share(profile.Prefill), l.Share(profile.Decode)
	switch a.Within = l.Share(v.Phase); v.Phase {
	case profile.Prefill:
		a.Interval, a.WithinTTFT = l.InTTFT, &ttft
	case profile.Decode:
		a.Interval, a.WithinITL = l.InITL, &itl
	default:
		a.Interval, a.WithinTTFT, a.WithinITL = l.InBoth, &ttft, &itl
	}
	return a
}

// corrected lowers the rate of a pick that missed its SLA at the one that it was
// recommended at, and takes over the rate at which 95 % of requests were within the SLA.
func corrected(p *store.Pick, a *store.Attained) {
	if p == nil || a == nil {
		return
	}
	switch p.MostRPS = a.MostRPS; {
	case !a.Holds:
		p.SustainedRPS = 0
	case a.RateRPS < a.AskedRPS:
		p.SustainedRPS = a.RateRPS
	}
}

// decodeUse is the KV use of the decode pick at the rate that it is recommended at:
// of as many as were in flight when that was verified, but for those that waited for a
// place and hold nothing, with the context that they had there, otherwise as are
// expected.
// A load's own figure is none, since its requests share prompts.
func decodeUse(res sweep.Result) float64 {
	c := res.Decode.Picked
	together, context := c.Together, 1.0
	for _, v := range res.Verified {
		if v.Phase == profile.Decode && v.Rate > 0 {
			if together = v.Point.InFlight; v.Point.Places() > 0 {
				together = min(together, float64(v.Point.Places()))
			}
			if v.Point.Context > 0 && c.Point.Context > 0 {
				p := c.Point
				context = v.Point.Context / p.Context * float64(p.KVTokensAt(p.Context)) / float64(p.KVTokensAt(v.Point.Context))
			}
		}
	}
	if together <= 0 || c.Point.InFlight <= 0 {
		return c.Point.KVUsage
	}
	return min(1, c.Point.KVUsage*context*together/c.Point.InFlight)
}

// verifiedLines are what the picks attained, and which of them nobody ran.
func verifiedLines(rec store.Recommendation) (lines []string) {
	if len(rec.Verified.All()) == 0 {
		return []string{strings.ToUpper(notVerified[:1]) + notVerified[1:]}
	}
	for _, x := range rec.Picks() {
		if x.Run == nil {
			lines = append(lines, fmt.Sprintf("The %s pick is %s", x.Phase, notVerified))
			continue
		}
		lines = append(lines, attainedLine(x.Phase, x.Label, x.Run, rec.SLA))
	}
	return lines
}

// attainedLine is one pick under load.
func attainedLine(phase profile.Phase, label string, a *store.Attained, sla store.SLA) string {
	verb := "Verified under load"
	if !a.Holds {
		verb = "MISSES ITS SLA UNDER LOAD"
	}
	figures := attainedFigures(a, sla)
	switch {
	case a.Undecided && a.Interval == profile.Interval{}:
		figures = append(figures, "undecided: too short to say")
	case a.Undecided:
		figures = append(figures, "undecided")
	}
	return fmt.Sprintf("%s: %s %s at %.4g requests/s for %.0f s: %s of %s within the SLA, %.1f in flight, %s",
		verb, phase, label, a.RateRPS, a.Seconds, shownShare(a), engine.Count(a.Requests, "request"), a.InFlight, strings.Join(figures, ", "))
}

// loadVerdict is what a pick did under load, as its verdict says it; empty where it was
// run under none.
func loadVerdict(p *store.Pick) string {
	if p == nil || p.UnderLoad == nil {
		return ""
	}
	u := p.UnderLoad
	text := "under load " + missedShare(u) + " " + u.Limit
	if u.Stat != "" {
		text += fmt.Sprintf(" (--sla-stat %s sizes for them)", u.Stat)
	}
	return text
}

// missedShare is "21 % of requests miss".
func missedShare(u *store.UnderLoad) string {
	switch share := 100 * u.Misses; {
	case share == 0:
		return "no request misses"
	case share < 10:
		return fmt.Sprintf("%.2g %% of requests miss", share)
	default:
		return fmt.Sprintf("%.0f %% of requests miss", share)
	}
}

// underLoadLine is that of all picks; empty where none was run.
func underLoadLine(rec store.Recommendation) string {
	var picks []string
	hint := ""
	for _, p := range rec.Picks() {
		if p.UnderLoad != nil {
			picks = append(picks, fmt.Sprintf("%s %s at %s %s", missedShare(p.UnderLoad), p.UnderLoad.Limit, p.Phase, p.Label))
			if p.UnderLoad.Stat != "" {
				hint = fmt.Sprintf(" (--sla-stat %s sizes for them)", p.UnderLoad.Stat)
			}
		}
	}
	if len(picks) == 0 {
		return ""
	}
	return "Under load: " + strings.Join(picks, ", ") + hint
}

// attainedFigures are the latencies that the SLA speaks of, as they were under load.
func attainedFigures(a *store.Attained, sla store.SLA) (figures []string) {
	if a.WithinTTFT != nil && a.TTFT != nil {
		figures = append(figures, fmt.Sprintf("TTFT %s", shownFigure(a.TTFT, sla.Stat)))
	}
	if a.WithinITL != nil && a.TPOT != nil {
		figures = append(figures, fmt.Sprintf("ITL %s", shownFigure(a.TPOT, sla.Stat)))
	}
	return figures
}

// shownShare is the share of requests within the SLA, with its 95 % interval.
func shownShare(a *store.Attained) string {
	if a.Interval.High == 0 {
		return fmt.Sprintf("%.1f %%", 100*a.Within)
	}
	return fmt.Sprintf("%.1f %% (%.1f to %.1f)", 100*a.Within, 100*a.Interval.Low, 100*a.Interval.High)
}

// shownFigure is the statistic that the SLA speaks of, of a mean with its interval.
func shownFigure(p *store.Percentiles, stat profile.Statistic) string {
	if x, ok := map[profile.Statistic]float64{profile.P50: p.P50, profile.P90: p.P90, profile.P95: p.P95, profile.P99: p.P99}[stat]; ok {
		return fmt.Sprintf("%s %.2f ms", stat, x)
	}
	if p.Half95 > 0 {
		return fmt.Sprintf("mean %.2f ± %.2f ms", p.Mean, p.Half95)
	}
	return fmt.Sprintf("mean %.2f ms", p.Mean)
}
