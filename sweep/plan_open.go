package sweep

import (
	"math"
	"time"

	"plimsoll/engine"
	"plimsoll/profile"
	"plimsoll/recommend"
)

// usualProbes is how many rates a search usually tries, and corrections how many
// a verification does at most before it gives in.
const (
	usualProbes = 9
	corrections = 8
)

// planAggregated is what an aggregated profile does, about: the search for a rate
// tries fewer where the latency model is near.
func planAggregated(o Options) []Step {
	var steps []Step
	for _, c := range o.Candidates {
		s := Step{Stage: profile.StageSweep, Phase: profile.Aggregated, Label: c.Label()}
		for range usualProbes {
			s.addLoad(o, c, profile.Aggregated)
		}
		steps = append(steps, s.finished(o, c))
	}
	steps = append(steps, planVerify(o, profile.Aggregated)...)
	if len(o.Candidates) == 0 {
		return steps
	}
	c := o.largest()
	surfaces := o.likelySurfaces(c, c)
	surfaces[0].addPrefill(o, c, o.ISL, o.PrefillRequests)
	for i := range EnginesOf(o, c)[1:] {
		surfaces[len(surfaces)-1-i].Cost.Launches = 1
	}
	return append(steps, surfaces...)
}

// planVerify is the loads of the picks, expected at the largest candidate: one each
// where they hold what is recommended.
func planVerify(o Options, phases ...profile.Phase) []Step {
	if !o.Open.Verify || len(o.Candidates) == 0 {
		return nil
	}
	c := o.largest()
	var steps []Step
	for _, phase := range phases {
		s := Step{Stage: profile.StageVerify, Phase: phase}
		s.addLoad(o, c, phase)
		s.Points = corrections
		if s = s.finished(o, c); phase != profile.Aggregated {
			s.Cost.Launches = 0 // the surfaces' engine still runs
		}
		steps = append(steps, s)
	}
	return steps
}

// addLoad adds a load at about the rate that the latency model expects to hold.
func (s *Step) addLoad(o Options, c engine.Config, phase profile.Phase) {
	e, ok := o.expect(c)
	if !ok {
		s.Points++
		s.Unrated = true
		return
	}
	l := o.modelLoad(c, e, phase)
	rate, n := l.rate, l.asked(o.judged(l, phase))
	cost := o.openCost(rate, n, phase)
	secs := float64(n) / rate
	if o.Open.Virtual && !o.Virtual {
		secs = cost.Seconds() // of an engine that waits for it in real time
	}
	s.add(cost, Cost{
		EngineSeconds: secs, GPUSeconds: secs * float64(c.GPUs()), Requests: n, PromptTokens: int64(n) * int64(o.ISL), OutputTokens: int64(n) * int64(o.answer(phase)),
	})
}

// modelLoad is about the load that a pick is verified by.
func (o Options) modelLoad(c engine.Config, e Expectation, phase profile.Phase) openLoad {
	rate, stay := o.modelRate(c, e, phase)
	inFlight := rate * stay.Seconds()
	slack := max(leastSlack, min(1, float64(e.ITL(1, float64(o.ISL)))/float64(max(o.SLA.ITL, 1))))
	l := openLoad{rate: rate}
	switch use := rate * e.TTFT(o.ISL).Seconds(); phase {
	case profile.Prefill:
		l = l.stays(stay, 1)
		l.decides = o.decidesTTFT(min(busiest, use), 0)
	case profile.Decode:
		l.residence, l.settle, l.head = stay, stay, int(inFlight)
		l.decides = o.decidesTPOT(inFlight, slack)
	default:
		l = l.stays(stay, slack)
		l.decides = max(o.decidesTTFT(min(busiest, use), 1), o.decidesTPOT(inFlight, slack))
	}
	return l
}

// modelRate is about the rate that one engine holds, in requests/s, and how long
// a request stays.
func (o Options) modelRate(c engine.Config, e Expectation, phase profile.Phase) (float64, time.Duration) {
	n := o.mostWithin(o.rounds(o.facts(c), c, o.ISL, o.OSL), e)
	ttft, itl := e.TTFT(o.ISL), e.ITL(n, nominalContext(o.ISL, o.OSL))
	switch decoding := time.Duration(o.OSL) * itl; phase {
	case profile.Prefill:
		use := recommend.SustainableUtilization(recommend.Service{Mean: ttft, At: ttft, Batch: math.Inf(1)}, o.SLA.TTFT, o.SLA.Stat)
		return max(use, 0.05) / max(ttft.Seconds(), 1e-6), busyFor(ttft, use)
	case profile.Decode:
		return float64(n) / max(decoding.Seconds(), 1e-6), decoding
	default:
		return 1 / max(ttft.Seconds()+decoding.Seconds()/float64(n), 1e-6), ttft + decoding
	}
}

// mostWithin is the largest in-flight count whose ITL is expected to hold the SLA,
// at least 1.
func (o Options) mostWithin(room rounds, e Expectation) int {
	n := 1
	for lo, hi := 1, max(1, room.top*room.each); lo <= hi; {
		mid := (lo + hi) / 2
		if e.ITL(mid, nominalContext(o.ISL, o.OSL)) <= o.SLA.ITL {
			n, lo = mid, mid+1
		} else {
			hi = mid - 1
		}
	}
	return n
}
