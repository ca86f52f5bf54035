package pages

import (
	"cmp"
	"slices"

	"plimsoll/profile"
	"plimsoll/recommend"
)

// profileBody is what the template shows.
type profileBody struct {
	TTFT, ITL   float64 // ms
	Stat        string
	Phases      []phaseBody
	LeftOut     []Fact
	Verified    []string
	Assumptions []string
	Curves      bool
	Ending      Ending
	Aggregated  bool
}

// phaseBody is a phase: what is picked in it for the profile's SLA, and why the
// other points are not.
type phaseBody struct {
	Phase     profile.Phase
	Picked    string
	Missed    bool // it is but the nearest
	Why       string
	UnderLoad string   // of the pick
	Latencies []string // that the phase promises
	Rows      []pointRow
}

type pointRow struct {
	Label, Load, Throughput, Verdict string
	Latencies                        []Fact
	Picked, Missed                   bool // is the pick; misses the SLA
}

func (p Profile) body(d profileData) profileBody {
	b := profileBody{
		TTFT: profile.Milliseconds(p.SLA.TTFT), ITL: profile.Milliseconds(p.SLA.ITL), Stat: string(p.SLA.Stat),
		LeftOut: p.LeftOut, Verified: p.Verified, Assumptions: p.Assumptions, Curves: len(d.Prefill)+len(d.Decode) > 0,
		Ending: p.Ending, Aggregated: d.Aggregated,
	}
	phases := []profile.Phase{profile.Prefill, profile.Decode}
	if d.Aggregated {
		phases = []profile.Phase{profile.Aggregated}
	}
	for _, phase := range phases {
		b.Phases = append(b.Phases, p.phase(phase))
	}
	return b
}

func (p Profile) phase(phase profile.Phase) phaseBody {
	lost := recommend.Choice.Lost
	if phase == profile.Aggregated {
		lost = recommend.Choice.LostAggregated
	}
	ch, err := p.choose(phase, p.SLA.TTFT, p.SLA.ITL)
	b := phaseBody{Phase: phase, Why: ch.Why, Latencies: map[profile.Phase][]string{
		profile.Prefill: {"TTFT"}, profile.Decode: {"ITL"}, profile.Aggregated: {"TTFT", "ITL"},
	}[phase]}
	reasons := p.excluded(phase)
	if err != nil {
		b.Why = err.Error()
	} else {
		r := p.Ending.Recommended[phase]
		b.Picked, b.Missed, b.UnderLoad = ch.Picked.Label(), !ch.Feasible || r.Missed, r.UnderLoad
		for _, c := range ch.All {
			reasons[c.Point.ID] = lost(ch, c, p.SLA).Reason
		}
		reasons[ch.Picked.Point.ID] = ch.Why
		if b.UnderLoad != "" {
			reasons[ch.Picked.Point.ID] += "; " + b.UnderLoad
		}
	}
	for _, x := range p.byLoad(phase) {
		r := pointRow{Label: x.Config.Label(), Load: loadOf(p.candidate(x)), Throughput: throughputOf(x).text(), Verdict: reasons[x.ID], Picked: err == nil && x.ID == ch.Picked.Point.ID}
		r.Missed = r.Picked && !ch.Feasible
		for _, name := range b.Latencies {
			r.Latencies = append(r.Latencies, Fact{name, p.latencyOf(x, name).text()})
		}
		b.Rows = append(b.Rows, r)
	}
	return b
}

// byLoad are the points of a phase: configurations in the order that they were tried
// in, the loads of each rising.
func (p Profile) byLoad(phase profile.Phase) []profile.Point {
	first := map[string]int{}
	var out []profile.Point
	for i, x := range p.Points {
		if x.Phase == phase {
			out = append(out, x)
			if label := x.Config.Label(); first[label] == 0 {
				first[label] = i + 1
			}
		}
	}
	slices.SortStableFunc(out, func(a, b profile.Point) int {
		return cmp.Or(cmp.Compare(first[a.Config.Label()], first[b.Config.Label()]), cmp.Compare(a.Rate, b.Rate), cmp.Compare(a.InFlight, b.InFlight))
	})
	return out
}

// excluded are the points of a phase that are compared with none, and why.
func (p Profile) excluded(phase profile.Phase) map[string]string {
	out := map[string]string{}
	for _, x := range p.Points {
		if x.Phase != phase {
			continue
		}
		alone := p
		alone.Points = []profile.Point{x}
		if ch, err := alone.choose(phase, p.SLA.TTFT, p.SLA.ITL); err != nil && len(ch.Rejected) > 0 {
			out[x.ID] = ch.Rejected[0].Reason
		}
	}
	return out
}
