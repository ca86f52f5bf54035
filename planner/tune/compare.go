package tune

import (
	"math"

	"plimsoll/profile"
)

// Figures are what a setting gave in one replay. The zero value is not known.
type Figures struct {
	Known      bool    `json:"known"`
	Attainment float64 `json:"attainment"` // share of the requests, 0 to 1
	Cost       float64 `json:"cost"`       // GPU-hours or money, in the same unit everywhere
}

// Interval is a mean and half of its 95 % interval; of one value the half is +Inf.
type Interval struct{ Mean, Half float64 }

// Above reports whether all of the interval is above a value, Below likewise.
func (i Interval) Above(v float64) bool { return i.Mean-i.Half > v }

// Below reports whether all of the interval is below a value.
func (i Interval) Below(v float64) bool { return i.Mean+i.Half < v }

func intervalOf(values []float64) Interval {
	mean, half := profile.MeanInterval(values)
	if len(values) < 2 {
		half = math.Inf(1)
	}
	return Interval{mean, half}
}

func attainment(f Figures) float64 { return f.Attainment }
func cost(f Figures) float64       { return f.Cost }

// over is the interval of a figure over the seeds that are known.
func over(figures []Figures, of func(Figures) float64) Interval {
	var values []float64
	for _, f := range figures {
		if f.Known {
			values = append(values, of(f))
		}
	}
	return intervalOf(values)
}

// Holds reports whether figures hold a target with all of their interval.
func Holds(figures []Figures, target float64) bool {
	a := over(figures, attainment)
	return a.Mean-a.Half >= target
}

// Comparison is one setting's figures less another's, seed by seed.
type Comparison struct {
	Attainment, Cost Interval
	Holds, Held      bool // the target: the one, and the other that it is compared with
	Better           bool // by more than its interval
}

// Compare says whether a setting is better than another one: it holds the target
// and costs less or, where the other one does not hold it, attains more; or neither
// holds it and it attains more. Each by more than the interval of the differences.
// Figures have the same seeds in the same order; those that one lacks are left out.
func Compare(one, other []Figures, target float64) Comparison {
	var attained, costs []float64
	for i := range min(len(one), len(other)) {
		if one[i].Known && other[i].Known {
			attained = append(attained, one[i].Attainment-other[i].Attainment)
			costs = append(costs, one[i].Cost-other[i].Cost)
		}
	}
	c := Comparison{Attainment: intervalOf(attained), Cost: intervalOf(costs), Holds: Holds(one, target), Held: Holds(other, target)}
	switch {
	case c.Holds:
		c.Better = c.Cost.Below(0) || !c.Held && c.Attainment.Above(0)
	case !c.Held:
		c.Better = c.Attainment.Above(0)
	}
	return c
}
