package main

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"plimsoll/engine"
	"plimsoll/plots"
	"plimsoll/profile/trace"
)

// drawPlan draws the cheapest plan: its cost over the SLO, its GPUs over the
// load and its day, each into a file of its own beside the one named. The layout
// stays that of the plan; all sizes are the sized method's, without spares for
// failures where none were asked for.
func (o capacityOptions) drawPlan(file string, out sizedPlans) error {
	if len(out.Plans) == 0 || out.Plans[0].Infeasible != nil {
		return nil // the report says why
	}
	best := out.Plans[0]
	d := planPictures{capacityOptions: o, candidate: best.candidate, plan: best}
	pictures := map[string]func() (*plots.Picture, error){"day": d.day}
	if best.HourlyUSD > 0 { // else there is no cost to draw
		pictures["slo"] = d.costAgainstSLO
	}
	if o.arrivals == nil {
		pictures["qps"] = d.gpusAgainstQPS
	}
	for which, draw := range pictures {
		pic, err := draw()
		if err != nil {
			return fmt.Errorf("drawing %s: %w", file, err)
		}
		ext := filepath.Ext(file)
		if err := writePicture(strings.TrimSuffix(file, ext)+"-"+which+ext, pic); err != nil {
			return err
		}
	}
	return nil
}

// planPictures draws one plan.
type planPictures struct {
	capacityOptions
	candidate candidate
	plan      sizedPlan
}

func (d planPictures) caption(note string) plots.Caption {
	return plots.Caption{
		Model: d.servedModel(), GPU: d.plan.Pools[0].GPU, Configuration: d.plan.Layout, Engine: d.plan.Source,
		ISL: int(math.Round(d.workload.AvgISL)), OSL: int(math.Round(d.workload.AvgOSL)),
		SLA:        d.slo.SLA(),
		Provenance: d.plan.Provenance, Feasible: true, Note: note,
	}
}

// resized is the plan's layout under other demands, in the same order, sized by
// short trials.
func (d planPictures) resized(changes []func(*demand)) ([]sizedPlan, error) {
	plans := make([]sizedPlan, len(changes))
	err := atOnce(len(changes), func(i int) error {
		o := d.capacityOptions
		changes[i](&o.demand)
		if o.slo == d.slo && o.workload == d.workload {
			plans[i] = d.plan
			return nil
		}
		t, err := o.traffic()
		if err == nil {
			plans[i], err = o.sizeOne(d.candidate, t, true)
		}
		return err
	})
	return plans, err
}

// costAgainstSLO moves one latency of the SLO at a time.
func (d planPictures) costAgainstSLO() (*plots.Picture, error) {
	factors := []float64{0.5, 0.75, 1, 1.5, 3}
	var changes []func(*demand)
	for _, f := range factors {
		changes = append(changes, func(dm *demand) { dm.slo.TTFTP99 = time.Duration(float64(dm.slo.TTFTP99) * f) })
	}
	for _, f := range factors {
		changes = append(changes, func(dm *demand) { dm.slo.ITLP99 = time.Duration(float64(dm.slo.ITLP99) * f) })
	}
	plans, err := d.resized(changes)
	if err != nil {
		return nil, err
	}
	lines := []plots.FleetLine{{Name: "TTFT"}, {Name: "ITL"}}
	var missing []string
	for i, p := range plans {
		l, factor := &lines[i/len(factors)], factors[i%len(factors)]
		if p.Infeasible != nil {
			missing = append(missing, fmt.Sprintf("%s at %g times", l.Name, factor))
			continue
		}
		text := ""
		if n := len(l.Points); (n == 0 || factor == 1) && i < len(factors) || n > 0 && l.Points[n-1].Size != float64(p.HourlyUSD) {
			text = engine.Count(p.TotalGPUsFinal, "GPU")
		}
		l.Points = append(l.Points, plots.FleetPoint{At: factor, Size: float64(p.HourlyUSD), Text: text, Picked: factor == 1})
	}
	note := "Each line moves one latency and leaves the other as it was asked for. The ring is the plan."
	if len(missing) > 0 {
		note += " No number of these engines holds: " + strings.Join(missing, ", ") + "."
	}
	return plots.CostAgainstSLO(d.caption(note), lines)
}

func (d planPictures) gpusAgainstQPS() (*plots.Picture, error) {
	factors := []float64{0.25, 0.5, 1, 1.5, 2}
	var changes []func(*demand)
	for _, f := range factors {
		changes = append(changes, func(dm *demand) { dm.workload.PeakQPS *= f })
	}
	plans, err := d.resized(changes)
	if err != nil {
		return nil, err
	}
	l := plots.FleetLine{Name: "sized for each load"}
	for i, p := range plans {
		if p.Infeasible == nil {
			l.Points = append(l.Points, plots.FleetPoint{At: factors[i] * d.workload.PeakQPS, Size: float64(p.TotalGPUsFinal), Text: engineCounts(p.Plan), Picked: factors[i] == 1})
		}
	}
	return plots.GPUsAgainstQPS(d.caption("Beside the points: engines of each pool. The ring is the plan."), []plots.FleetLine{l})
}

// day is the load over the day, or over the trace, and the GPUs: those planned,
// and of a pattern those that each hour's mean rate would take.
func (d planPictures) day() (*plots.Picture, error) {
	load := plots.Line{Step: true, Filled: true}
	gpus := []plots.Line{{Name: "planned", Step: true}}
	width, title, note := time.Hour, "Day profile: "+string(d.workload.Pattern), "The plan is for the peak; an hour's rate is its mean, and its fleet the least that holds the SLO then."
	if d.arrivals != nil {
		width, load.Values = traceBins(d.arrivals)
		title, note = "Profile of the trace", ""
	} else {
		needed, err := d.hourly()
		if err != nil {
			return nil, err
		}
		day := d.workload.Day()
		load.Values = day[:]
		gpus = append(gpus, plots.Line{Name: "for each hour's rate", Step: true, Values: needed})
	}
	for range load.Values {
		gpus[0].Values = append(gpus[0].Values, float64(d.plan.TotalGPUsFinal))
	}
	return plots.Timeline(d.caption(note), title, 0, width, []plots.Panel{
		{Title: "Requests", Unit: "per second", Lines: []plots.Line{load}, Limits: []plots.Limit{{Name: "peak in windows of " + short(d.workload.PeakWindow), Value: d.workload.PeakQPS}}},
		{Title: "GPUs", Lines: gpus},
	}, nil)
}

// hourly is the GPUs that each hour of the day would take.
func (d planPictures) hourly() ([]float64, error) {
	var rates []float64
	var changes []func(*demand)
	for _, qps := range d.workload.Day() {
		if !slices.Contains(rates, qps) {
			rates = append(rates, qps)
			changes = append(changes, func(dm *demand) {
				dm.workload.PeakQPS, dm.workload.PeakToAverage, dm.workload.Pattern = qps, 1, trace.Flat
			})
		}
	}
	plans, err := d.resized(changes)
	if err != nil {
		return nil, err
	}
	var gpus []float64
	for _, qps := range d.workload.Day() {
		gpus = append(gpus, float64(plans[slices.Index(rates, qps)].TotalGPUsFinal))
	}
	return gpus, nil
}

// mostTraceBins are as many as a day of a trace is cut into.
const mostTraceBins = 288

// traceBins are requests per second in bins of equal width.
func traceBins(arrivals []trace.Arrival) (time.Duration, []float64) {
	last := arrivals[len(arrivals)-1].At
	width := max(time.Second, (last/mostTraceBins + time.Second).Truncate(time.Second))
	bins := make([]float64, last/width+1)
	for _, a := range arrivals {
		bins[a.At/width] += 1 / width.Seconds()
	}
	return width, bins
}
