package pages

import (
	"math"
	"slices"
	"strconv"
	"time"

	"plimsoll/profile"
	"plimsoll/recommend"
)

// limitsOf are the limits that a reader can choose, ns, rising.
type limitsOf struct {
	TTFT []time.Duration `json:"ttft"`
	ITL  []time.Duration `json:"itl"`
}

// picks are recommend's for each limit, or for each pair of TTFT and ITL: the
// candidate's number from 1 on, negative where it is but the nearest; 0 where no
// point can be compared. The rule stays recommend's: a page has its answers.
type picks struct {
	Prefill    []int   `json:"prefill,omitempty"` // by TTFT
	Decode     []int   `json:"decode,omitempty"`  // by ITL
	Aggregated [][]int `json:"aggregated,omitempty"`
}

// As many limits as a slider tells apart; of pairs, fewer each way.
const (
	manyLimits = 200
	pairLimits = 40
)

// answer fills in limits around the latencies that were seen, and the picks at them.
func (p Profile) answer(d *profileData) {
	n := manyLimits
	if d.Aggregated {
		n = pairLimits
	}
	of := func(latency func(candidateData) time.Duration, own time.Duration) []time.Duration {
		seen := []time.Duration{own}
		for _, c := range d.Candidates {
			if l := latency(c); l > 0 {
				seen = append(seen, l)
			}
		}
		return around(seen, own, n)
	}
	d.Limits = limitsOf{
		TTFT: of(func(c candidateData) time.Duration { return c.TTFT }, p.SLA.TTFT),
		ITL:  of(func(c candidateData) time.Duration { return c.ITL }, p.SLA.ITL),
	}
	d.SLA = limits{slices.Index(d.Limits.TTFT, p.SLA.TTFT), slices.Index(d.Limits.ITL, p.SLA.ITL)}
	for _, ttft := range d.Limits.TTFT {
		if !d.Aggregated {
			d.Picks.Prefill = append(d.Picks.Prefill, p.pick(profile.Prefill, ttft, p.SLA.ITL))
			continue
		}
		row := make([]int, len(d.Limits.ITL))
		for i, itl := range d.Limits.ITL {
			row[i] = p.pick(profile.Aggregated, ttft, itl)
		}
		d.Picks.Aggregated = append(d.Picks.Aggregated, row)
	}
	if !d.Aggregated {
		for _, itl := range d.Limits.ITL {
			d.Picks.Decode = append(d.Picks.Decode, p.pick(profile.Decode, p.SLA.TTFT, itl))
		}
	}
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

// choose is recommend's choice for other limits.
func (p Profile) choose(phase profile.Phase, ttft, itl time.Duration) (recommend.Choice, error) {
	sla := p.SLA
	sla.TTFT, sla.ITL = ttft, itl
	if phase == profile.Aggregated {
		return recommend.ChooseAggregated(p.Points, sla)
	}
	return recommend.Choose(phase, p.Points, sla, p.Rank, p.OSL)
}

// pick is the choice as a number of picks.
func (p Profile) pick(phase profile.Phase, ttft, itl time.Duration) int {
	ch, err := p.choose(phase, ttft, itl)
	if err != nil {
		return 0
	}
	n := 1 + slices.IndexFunc(p.Points, func(x profile.Point) bool { return x.ID == ch.Picked.Point.ID })
	if !ch.Feasible {
		return -n
	}
	return n
}
