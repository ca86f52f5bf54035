package pages

import (
	"time"

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
}

// phaseBody is a phase: what is picked in it for the profile's SLA, and why the
// other points are not.
type phaseBody struct {
	Phase     profile.Phase
	Picked    string
	Why       string
	Latencies []string // that the phase promises
	Rows      []pointRow
}

type pointRow struct {
	Label, Load, Throughput, Verdict string
	Latencies                        []Fact
	Picked                           bool
}

func (p Profile) body(d profileData) profileBody {
	b := profileBody{
		TTFT: profile.Milliseconds(p.SLA.TTFT), ITL: profile.Milliseconds(p.SLA.ITL), Stat: p.SLA.By(),
		LeftOut: p.LeftOut, Verified: p.Verified, Assumptions: p.Assumptions, Curves: len(d.Prefill)+len(d.Decode) > 0,
	}
	phases := []profile.Phase{profile.Prefill, profile.Decode}
	if d.Aggregated {
		phases = []profile.Phase{profile.Aggregated}
	}
	for _, phase := range phases {
		b.Phases = append(b.Phases, p.phase(phase, d))
	}
	return b
}

func (p Profile) phase(phase profile.Phase, d profileData) phaseBody {
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
		b.Picked = ch.Picked.Label()
		for _, c := range ch.All {
			reasons[c.Point.ID] = lost(ch, c, p.SLA).Reason
		}
		reasons[ch.Picked.Point.ID] = ch.Why
	}
	for _, c := range d.Candidates {
		if c.Phase != phase {
			continue
		}
		r := pointRow{Label: c.Label, Load: number(c.InFlight) + " in flight", Throughput: number(c.Throughput), Verdict: reasons[c.ID], Picked: err == nil && c.ID == ch.Picked.Point.ID}
		if c.Rate > 0 {
			r.Load = number(c.Rate) + " requests/s"
		}
		for _, name := range b.Latencies {
			l := map[string]time.Duration{"TTFT": c.TTFT, "ITL": c.ITL}[name]
			text := "–"
			if l > 0 {
				text = number(profile.Milliseconds(l))
			}
			r.Latencies = append(r.Latencies, Fact{name, text})
		}
		b.Rows = append(b.Rows, r)
	}
	return b
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
