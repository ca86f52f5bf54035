package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"plimsoll/capacity"
	"plimsoll/plots"
)

// What the rates and the latencies of the picture are of those asked for.
func pictureRates() []float64     { return []float64{0.25, 0.5, 1, 1.5, 2} }
func pictureLatencies() []float64 { return []float64{0.5, 1, 2} }

// picture has the GPUs that a plan's layout takes at other rates and within other
// latencies.
func (o capacityOptions) picture(own sizedPlan) (*plots.Picture, error) {
	lines, err := o.fleetLines(own)
	if err != nil {
		return nil, err
	}
	note := "Beside the points: engines of each pool. The ring is the plan."
	var broken []string
	for _, l := range lines {
		if len(l.Points) < len(pictureRates()) {
			broken = append(broken, l.Name)
		}
	}
	if len(broken) > 0 {
		note += " No number of these engines holds the missing points of " + strings.Join(broken, " and ") + "."
	}
	return plots.Fleets(plots.Caption{
		Model: plannedModel(o.fleet), GPU: own.Pools[0].GPU, Configuration: own.Layout, Engine: own.Source,
		ISL: int(math.Round(o.workload.ISL)), OSL: int(math.Round(o.workload.OSL)),
		SLA: o.slo.SLA(), Provenance: own.Provenance, Feasible: true, Note: note,
	}, lines)
}

// fleetLines are the plan's layout sized by short trials at each rate, a line for
// each SLO, without the points that no number of engines holds. A trace is played
// faster or slower for another rate.
func (o capacityOptions) fleetLines(own sizedPlan) ([]plots.FleetLine, error) {
	traffic, err := o.traffic()
	if err != nil {
		return nil, err
	}
	rates, latencies := pictureRates(), pictureLatencies()
	lines := make([]plots.FleetLine, len(latencies))
	for i, k := range latencies {
		slo := o.slo.Times(k)
		lines[i] = plots.FleetLine{Name: fmt.Sprintf("TTFT %v, ITL %v", slo.TTFT, slo.ITL), Points: make([]plots.FleetPoint, len(rates))}
	}
	err = atOnce(len(rates)*len(latencies), func(i int) error {
		rate, latency := rates[i%len(rates)], latencies[i/len(rates)]
		p, other, picked := own, o, rate == 1 && latency == 1
		if !picked {
			other.slo = o.slo.Times(latency)
			var err error
			if p, err = other.sizeOne(own.candidate, traffic.Scaled(rate), capacity.SizeOptions{Rough: true}); err != nil {
				return err
			}
		}
		lines[i/len(rates)].Points[i%len(rates)] = plots.FleetPoint{RPS: rate * o.workload.Rate, GPUs: p.TotalGPUsFinal, Text: engineCounts(p.Plan), Picked: picked}
		return nil
	})
	for i := range lines {
		lines[i].Points = slices.DeleteFunc(lines[i].Points, func(p plots.FleetPoint) bool { return p.GPUs == 0 })
	}
	return lines, err
}
