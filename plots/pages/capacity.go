package pages

import (
	"errors"
	"fmt"
	"math"

	"plimsoll/capacity"
)

// Capacity is a plan of GPUs for a workload within an SLO, beside the plans that lost
// to it and those that other demands would get.
type Capacity struct {
	Origin

	SLO capacity.SLO
	// Plans are those that hold it, the cheapest first; empty where none does.
	Plans []CapacityPlan
	Grid  CapacityGrid

	Details     []Fact // of the cheapest plan
	Beside      []CapacityVariant
	Unmet       []Fact // layouts that hold the SLO at no size, and why
	LeftOut     []Fact // layouts that were not sized, and why
	Assumptions []string
}

// CapacityPlan is a plan as sized; Rough: to an engine or so.
type CapacityPlan struct {
	capacity.Plan

	GPU   string // its GPUs' names
	Rough bool
}

// CapacityVariant is the cheapest plan's layout with something else about it.
type CapacityVariant struct {
	Name      string
	GPUs      int // 0: no number holds the SLO
	HourlyUSD capacity.USD
	Saving    string // of the plan against it
	Missed    string // requests that miss, where that was looked at
}

// CapacityGrid is the cheapest plan for every combination of a rate, a TTFT and an
// ITL: what a reader can choose from. Each was made as the page's own plan was.
type CapacityGrid struct {
	QPS       []float64 // rising; one where the load is recorded
	TTFT, ITL []float64 // ms, rising
	Own       [3]int    // places of what was asked for
	Cells     []CapacityCell
}

// CapacityCell is the cheapest plan for one demand; Why: none, and why.
type CapacityCell struct {
	Plan    CapacityPlan
	Why     string
	Command string // that makes it
}

// at is the cell of places.
func (g CapacityGrid) at(qps, ttft, itl int) CapacityCell {
	return g.Cells[(qps*len(g.TTFT)+ttft)*len(g.ITL)+itl]
}

func (g CapacityGrid) own() CapacityCell { return g.at(g.Own[0], g.Own[1], g.Own[2]) }

// HTML is the page.
func (c Capacity) HTML() ([]byte, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("page %q: %w", c.Title, err)
	}
	d := c.data()
	for _, x := range append(d.Charts, d.Alternatives...) {
		if err := x.check(); err != nil {
			return nil, fmt.Errorf("page %q: %w", c.Title, err)
		}
	}
	kind := page{template: "capacity.html", scripts: []string{"format.js", "svg.js", "table.js", "xy.js", "capacity.js"}}
	return kind.html(c.Origin, d, c.body())
}

func (c Capacity) check() error {
	g := c.Grid
	if n := len(g.QPS) * len(g.TTFT) * len(g.ITL); n == 0 || n != len(g.Cells) {
		return fmt.Errorf("a grid of %d rates, %d TTFTs and %d ITLs has %d cells: want %d", len(g.QPS), len(g.TTFT), len(g.ITL), len(g.Cells), n)
	}
	var errs []error
	for i, axis := range [][]float64{g.QPS, g.TTFT, g.ITL} {
		if g.Own[i] < 0 || g.Own[i] >= len(axis) {
			errs = append(errs, fmt.Errorf("what was asked for is at %d of %d: want a place that is there", g.Own[i], len(axis)))
		}
		for k, v := range axis {
			if !(v > 0) || math.IsInf(v, 0) || k > 0 && v <= axis[k-1] {
				errs = append(errs, fmt.Errorf("the grid's axis %v: want finite numbers above 0 that rise", axis))
				break
			}
		}
	}
	for _, x := range g.Cells {
		if x.Why == "" && x.Plan.TotalGPUsFinal <= 0 {
			errs = append(errs, errors.New("a cell without GPUs that does not say why"))
			break
		}
	}
	return errors.Join(errs...)
}
