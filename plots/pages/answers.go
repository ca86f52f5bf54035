package pages

import (
	"math"
	"slices"
	"strconv"
	"time"

	"plimsoll/profile"
	"plimsoll/recommend"
)

// limitsOf are the limits that there is an answer for, ns, rising. Between two of
// them nothing changes but what a queue sustains: the lower one's answer holds.
type limitsOf struct {
	TTFT []time.Duration `json:"ttft"`
	ITL  []time.Duration `json:"itl"`
}

// stopsOf are the limits that sliders stop at, by their places in limitsOf.
type stopsOf struct {
	TTFT []int `json:"ttft"`
	ITL  []int `json:"itl"`
}

// picks are places of answers, for each limit or for each pair of TTFT and ITL. The
// rule stays recommend's: a page has its answers.
type picks struct {
	Prefill    []int   `json:"prefill,omitempty"` // by TTFT
	Decode     []int   `json:"decode,omitempty"`  // by ITL
	Aggregated [][]int `json:"aggregated,omitempty"`
}

// As many limits as a slider tells apart; of pairs, fewer each way.
const (
	manyLimits = 200
	pairLimits = 30
)

// answer fills in limits around the latencies that were seen, and the answers at them.
func (p Profile) answer(d *profileData) {
	n := manyLimits
	if d.Aggregated {
		n = pairLimits
	}
	d.Limits.TTFT, d.Stops.TTFT = p.limits(profile.Prefill, p.SLA.TTFT, n)
	d.Limits.ITL, d.Stops.ITL = p.limits(profile.Decode, p.SLA.ITL, n)
	d.SLA = limits{slices.Index(d.Limits.TTFT, p.SLA.TTFT), slices.Index(d.Limits.ITL, p.SLA.ITL)}
	if d.Aggregated {
		at := p.answers(profile.Aggregated, d)
		for _, ttft := range d.Limits.TTFT {
			row := make([]int, len(d.Limits.ITL))
			for i, itl := range d.Limits.ITL {
				row[i] = at(ttft, itl)
			}
			d.Picks.Aggregated = append(d.Picks.Aggregated, row)
		}
		return
	}
	prefill, decode := p.answers(profile.Prefill, d), p.answers(profile.Decode, d)
	for _, ttft := range d.Limits.TTFT {
		d.Picks.Prefill = append(d.Picks.Prefill, prefill(ttft, p.SLA.ITL))
	}
	for _, itl := range d.Limits.ITL {
		d.Picks.Decode = append(d.Picks.Decode, decode(p.SLA.TTFT, itl))
	}
}

// limits are those of TTFT, prefill's, or of ITL, decode's: about n stops of a slider
// and each at which a point begins to hold.
func (p Profile) limits(of profile.Phase, own time.Duration, n int) (all []time.Duration, stops []int) {
	seen := []time.Duration{own}
	for _, x := range p.Points {
		switch {
		case x.Phase == of:
			seen = append(seen, x.Latency(p.SLA))
		case x.Load != nil && x.Phase == profile.Aggregated:
			of := map[profile.Phase]profile.Distribution{profile.Prefill: x.Load.TTFT, profile.Decode: x.Load.TPOT}[of]
			seen = append(seen, of.At(p.SLA.Stat))
			if p.SLA.Stat.Quantile() == 0 {
				seen = append(seen, of.Mean+of.Half) // from where on it surely holds
			}
		}
	}
	seen = slices.DeleteFunc(seen, func(l time.Duration) bool { return l <= 0 })
	round := around(seen, own, n)
	all = slices.Concat(seen, round)
	slices.Sort(all)
	all = slices.Compact(all)
	for i, l := range all {
		if _, is := slices.BinarySearch(round, l); is {
			stops = append(stops, i)
		}
	}
	return all, stops
}

// around are about n limits from half the least to twice the most, evenly by their
// logarithm and with three digits, and the profile's own.
func around(seen []time.Duration, own time.Duration, n int) []time.Duration {
	low, high := math.Log(float64(slices.Min(seen))/2), math.Log(float64(slices.Max(seen))*2)
	out := []time.Duration{own}
	for i := range n {
		v := math.Exp(low + (high-low)*float64(i)/float64(n-1))
		if short, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64); err == nil && short >= 1 {
			out = append(out, time.Duration(math.Round(short)))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// picked is the choice in a phase for its own SLA; ok is false where nothing
// can be compared there.
func (p Profile) picked(phase profile.Phase) (ch recommend.Choice, ok bool) {
	ch, err := p.choose(phase, p.SLA.TTFT, p.SLA.ITL)
	return ch, err == nil
}

// choose is recommend's choice for other limits.
func (p Profile) choose(phase profile.Phase, ttft, itl time.Duration) (recommend.Choice, error) {
	sla := p.SLA
	sla.TTFT, sla.ITL = ttft, itl
	if phase == profile.Aggregated {
		return recommend.ChooseAggregated(p.Points, sla)
	}
	return recommend.Choose(phase, p.Points, sla, p.Rank, p.OSL)
}

// answer is what is picked for limits.
type answer struct {
	Candidate int  `json:"candidate"` // its place; −1: no point can be compared
	Feasible  bool `json:"feasible"`  // else it is but the nearest
}

// answers gives the place of a phase's answer for limits, which it adds to the data
// where it is new.
func (p Profile) answers(phase profile.Phase, d *profileData) func(ttft, itl time.Duration) int {
	return func(ttft, itl time.Duration) int {
		a := answer{Candidate: -1}
		if ch, err := p.choose(phase, ttft, itl); err == nil {
			a.Candidate = slices.IndexFunc(p.Points, func(x profile.Point) bool { return x.ID == ch.Picked.Point.ID })
			a.Feasible = ch.Feasible
		}
		i := slices.Index(d.Answers, a)
		if i < 0 {
			i = len(d.Answers)
			d.Answers = append(d.Answers, a)
		}
		return i
	}
}
