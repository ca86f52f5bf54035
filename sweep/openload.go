package sweep

import (
	"fmt"
	"math"
	"time"

	"plimsoll/engine"
	"plimsoll/engine/field"
	"plimsoll/profile"
)

const (
	leastJudged = 20
	mostJudged  = 20_000  // requests of a load
	mostVirtual = 40_000  // of one in virtual time that had too few: some ten seconds of a processor
	mostAsked   = 200_000 // requests of one load
	// mostTokens of answers are judged in one load, where that leaves it least: each
	// takes memory, and room in the records. What a load takes beside is bounded by
	// the KV cache that its requests share.
	mostTokens = 10_000_000
	// The part of an aggregated engine's load that is judged lasts for so many
	// residence times: a queue near what it carries takes a few to show whether it
	// ends.
	aggregatedStays = 5
)

// openLoad is one load on a trial's engine.
type openLoad struct {
	stage     profile.Stage
	id        string
	rate      float64       // requests/s
	residence time.Duration // of one request, at most, where the SLA holds
	settle    time.Duration // from the first request until the engine is as it stays
	decides   int           // requests that an interval is expected to take
	seed      uint64
	more      int                               // requests, beside those that asked gives
	head      int                               // requests that are under way as the load begins
	change    func([]profile.Ask) []profile.Ask // of the traffic; nil = as it is
	fill      []profile.Ask                     // prompts that the cache is to hold
	judge     int                               // requests that are judged; 0 = as many as it takes
	evidence  bool                              // it counts with others, however much it says by itself
	takes     time.Duration                     // until its last request; 0 = by the number of requests
	held      bool                              // requests wait for places that others hold until their end
}

// attain judges the load.
func (l openLoad) attain(rs []profile.Request, w profile.Window, sla profile.SLA, cfg engine.Config) profile.Attainment {
	if l.evidence {
		return profile.AttainTogether(rs, w, sla, attentionReplicas(cfg), l.held)
	}
	return profile.Attain(rs, w, sla, attentionReplicas(cfg))
}

// window is the part of a load that is judged, by when its first and its last
// request are due: from when the engine is as it stays until one residence time
// before the last, so that each runs beside as many as it would in the middle. It is
// empty where the load does not last so long.
func (l openLoad) window(first, last time.Duration) profile.Window {
	w := profile.Window{From: first + l.settle, To: last - l.residence}
	if w.From >= w.To {
		return profile.Window{}
	}
	return w
}

// stays is a load whose requests stay for so long, on an engine that takes longer
// to settle by slack (see profile.FlightMemory).
func (l openLoad) stays(residence time.Duration, slack float64) openLoad {
	l.residence, l.settle = residence, 2*time.Duration(float64(residence)/slack)
	return l
}

// decidesTTFT and decidesTPOT are how many requests an interval of either takes, and
// as many independent ones as the SLA's percentile.
func (o Options) decidesTTFT(use, variation float64) int {
	return max(profile.QueueRequests(use, variation), o.independent(profile.QueueMemory(use, variation)))
}

func (o Options) decidesTPOT(inFlight, slack float64) int {
	n := profile.FlightRequests(inFlight, slack)
	if o.SLA.Stat.Quantile() > 0 {
		n = max(n, o.independent(profile.FlightMemory(inFlight, slack)))
	}
	return n
}

// independent is how many requests are worth as many as the SLA's percentile takes,
// a quarter more than in the mean, where so many share a latency.
func (o Options) independent(memory float64) int {
	if o.SLA.Stat.Quantile() == 0 {
		return 0
	}
	return int(math.Ceil(1.25 * memory * float64(profile.SamplesFor(o.SLA.Stat))))
}

// judged is how many requests a load is judged by: all that are wished for, or as
// many of them as fit into what it may last, but for those without which it is none.
func (o Options) judged(l openLoad, phase profile.Phase) int {
	if l.judge > 0 {
		return min(l.judge, mostJudged)
	}
	few := max(leastJudged, profile.SamplesFor(o.SLA.Stat))
	n := max(o.Open.Requests, l.decides, few)
	if phase == profile.Aggregated {
		n = max(n, int(l.rate*aggregatedStays*l.residence.Seconds()))
	}
	return min(n, mostJudged, o.most(l, phase))
}

// most is how many requests of a load are judged at most, at its rate.
func (o Options) most(l openLoad, phase profile.Phase) int {
	n := o.ever(phase)
	if o.Open.Longest == 0 {
		return n
	}
	return min(n, max(leastJudged, int(l.rate*o.Open.Longest.Seconds())))
}

// ever is how many requests a load is judged by at most, however long it may last.
func (o Options) ever(phase profile.Phase) int {
	n := mostJudged
	if o.Virtual || o.Open.Virtual {
		n = mostVirtual
	}
	if phase == profile.Prefill { // whose answers are of one token
		return n
	}
	return min(n, max(leastJudged, profile.SamplesFor(o.SLA.Stat), mostTokens/max(o.OSL, 1)))
}

// asked is how many requests it takes for so many to be judged. Where those beside
// them are so many that chance in their arrivals could take half of the window, that
// is added.
func (l openLoad) asked(judged int) int {
	beside := l.rate * (l.settle + l.residence).Seconds()
	if chance := 2 * math.Sqrt(beside+float64(judged)); chance > float64(judged)/2 {
		beside += chance
	}
	return min(judged+int(math.Ceil(beside))+1+l.more+l.head, mostAsked)
}

// underWay makes the first n requests those that a load in full flow has under way
// as it begins: all due at once, with what is left of their answers.
func underWay(asks []profile.Ask, n int) {
	if n = min(n, len(asks)-1); n <= 0 {
		return
	}
	begin := asks[n].Due
	for i := range asks {
		if asks[i].Due -= begin; i < n {
			asks[i].Due, asks[i].OSL = 0, max(1, (2*i+1)*asks[i].OSL/(2*n))
		}
	}
}

// missing is how many requests more would be enough for the SLA's statistic, and
// some, as far as they fit; none where what fits is not enough.
func (o Options) missing(l openLoad, a profile.Attainment, phase profile.Phase) int {
	need, room := o.need(a, phase), o.most(l, phase)
	if need > float64(room) {
		return 0
	}
	return min(max(leastJudged, int(1.2*need)), room) - a.Requests
}

// need is how many requests as those of a load the SLA's statistic takes.
func (o Options) need(a profile.Attainment, phase profile.Phase) float64 {
	n := float64(profile.SamplesFor(o.SLA.Stat))
	if o.SLA.Stat.Quantile() > 0 && a.Requests > 0 {
		n *= float64(a.Requests) / a.Worth(phase, o.SLA)
	}
	return n
}

// full reports whether a load that has too few requests would have no more, or not
// enough, if it might last longer.
func (o Options) full(a profile.Attainment, phase profile.Phase) bool {
	return a.Few(phase, o.SLA) && (o.Open.Longest == 0 || o.need(a, phase) > float64(o.ever(phase)))
}

// longer says for how long a load at a rate would have to be judged for an interval
// and for the SLA's statistic, where it may not last so long, and would be by so many.
func (o Options) longer(l openLoad, rate float64, phase profile.Phase) string {
	n := max(l.decides, profile.SamplesFor(o.SLA.Stat))
	need := time.Duration(float64(n) / rate * float64(time.Second))
	if o.Open.Longest == 0 || need <= o.Open.Longest || n > min(mostJudged, o.ever(phase)) {
		return ""
	}
	return fmt.Sprintf("; about %s would do: set "+field.LoadTime+" %s", engine.Count(n, "request"), (need + time.Second - 1).Truncate(time.Second))
}
