package pages

import (
	"fmt"
	"slices"
	"time"

	"plimsoll/profile"
	"plimsoll/recommend"
)

// picked is a side's choice in a phase for its own SLA; ok is false where nothing
// can be compared there.
func (p Profile) picked(phase profile.Phase) (ch recommend.Choice, ok bool) {
	ch, err := p.choose(phase, p.SLA.TTFT, p.SLA.ITL)
	return ch, err == nil
}

// latencyNames are those that a phase promises.
func latencyNames(phase profile.Phase) []string {
	return map[profile.Phase][]string{profile.Prefill: {"TTFT"}, profile.Decode: {"ITL"}, profile.Aggregated: {"TTFT", "ITL"}}[phase]
}

// latencyOf is a point's latency by the SLA's statistic, ms.
func (p Profile) latencyOf(x profile.Point, name string) quantity {
	c := p.candidate(x)
	l, i, off := c.ITL, x.LatencyInterval(p.SLA), x.ModelError
	if name == "TTFT" {
		l = c.TTFT
	}
	if own, ok := p.TTFTErrors[x.Config.Slug()]; ok && name == "TTFT" && x.Phase == profile.Aggregated {
		off = own
	}
	if x.Phase == profile.Aggregated && !x.ModelError.Known() && x.Load != nil {
		i = x.Load.TTFT.Interval(p.SLA.Stat)
		if name == "ITL" {
			i = x.Load.ITLOf(p.SLA).Interval(p.SLA.Stat)
		}
	}
	if off.Known() {
		i = off.Around(float64(l))
	}
	ms := float64(time.Millisecond)
	return quantity{profile.Milliseconds(l), profile.Interval{Low: i.Low / ms, High: i.High / ms}}
}

func throughputOf(x profile.Point) quantity {
	return quantity{x.ThroughputPerGPU, x.ThroughputInterval()}
}

// recommends reports whether the picks have rates that they are recommended at.
func (p Profile) recommends() bool {
	for _, phase := range p.phases() {
		if p.Ending.Recommended[phase].Rate <= 0 {
			return false
		}
	}
	return true
}

// gpuSeconds are what a request takes of GPUs at the picks, at the rates that they are
// recommended at or at the load of their points, which no rate of arrivals carries;
// zero where one is none or misses its SLA.
func (p Profile) gpuSeconds(recommended bool) quantity {
	var sum quantity
	known := true
	for _, phase := range p.phases() {
		ch, ok := p.picked(phase)
		rec := p.Ending.Recommended[phase]
		if !ok || !ch.Feasible || ch.Picked.Point.ThroughputPerGPU <= 0 || rec.Missed && rec.Rate <= 0 {
			return quantity{}
		}
		tokens := float64(p.OSL)
		if phase == profile.Prefill {
			tokens = float64(p.ISL)
		}
		t := throughputOf(ch.Picked.Point)
		seconds := tokens / t.Value
		if recommended {
			seconds = float64(ch.Picked.Point.Config.GPUs()) / rec.Rate
		}
		sum.Value += seconds
		if known = known && t.In.Low > 0; known { // a rate is off by as much as the throughput
			sum.In.Low += seconds * t.Value / t.In.High
			sum.In.High += seconds * t.Value / t.In.Low
		}
	}
	if !known {
		sum.In = profile.Interval{}
	}
	return sum
}

// usdPerThousand is what 1,000 requests cost at the picks; zero without a price.
func (p Profile) usdPerThousand(recommended bool) quantity {
	k := p.USD * 1000 / 3600
	q := p.gpuSeconds(recommended)
	return quantity{q.Value * k, profile.Interval{Low: q.In.Low * k, High: q.In.High * k}}
}

// figureRow is a figure of both sides.
type figureRow struct {
	Name, Unit string
	Values     [2]string
	Change     string
	Verdict    string
	Shown      bool
}

func rowOf(name, unit string, a, b quantity) figureRow {
	c := changeOf(a, b)
	return figureRow{Name: name, Unit: unit, Values: [2]string{a.text(), b.text()}, Change: c.text(), Verdict: c.verdict(), Shown: c.shown()}
}

// wordRow is a row of what is no figure.
func wordRow(name string, a, b string) figureRow {
	r := figureRow{Name: name, Values: [2]string{a, b}, Verdict: "the same"}
	if a != b {
		r.Verdict, r.Shown = "another", true
	}
	return r
}

// phaseRows are the picks of a phase.
func (c Comparison) phaseRows(phase profile.Phase) []figureRow {
	var words, loads [2]string
	var points [2]profile.Point
	for i, s := range c.Sides {
		words[i], loads[i] = "none", "–"
		if ch, ok := s.picked(phase); ok {
			points[i] = ch.Picked.Point
			words[i], loads[i] = ch.Picked.Label(), loadOf(s.candidate(points[i]))
			if !ch.Feasible {
				words[i] += ", which misses its SLA"
			}
		}
	}
	load := wordRow("Load", loads[0], loads[1])
	load.Verdict, load.Shown = "", false
	rows := []figureRow{wordRow("Configuration", words[0], words[1]), load}
	for _, name := range latencyNames(phase) {
		rows = append(rows, rowOf(name, "ms", c.Sides[0].latencyOf(points[0], name), c.Sides[1].latencyOf(points[1], name)))
	}
	return append(rows, rowOf("Throughput", "tokens/s/GPU", throughputOf(points[0]), throughputOf(points[1])))
}

// loadOf is a candidate's load in words.
func loadOf(c candidateData) string {
	if c.Rate > 0 {
		return number(c.Rate) + " requests/s"
	}
	return number(c.InFlight) + " in flight"
}

// pointPair is a point that both sides have: one configuration under one load.
type pointPair struct {
	Label, Load string
	Rows        []figureRow // its latencies, its throughput
}

// pairs are the points of a phase that both sides have, without what is invalid.
func (c Comparison) pairs(phase profile.Phase) []pointPair {
	var out []pointPair
	for _, a := range c.Sides[0].Points {
		if a.Phase != phase || a.Invalid != "" {
			continue
		}
		i := slices.IndexFunc(c.Sides[1].Points, func(b profile.Point) bool {
			return b.Phase == phase && b.Invalid == "" && b.Config.Parallelism.Normal() == a.Config.Parallelism.Normal() && b.ISL == a.ISL && b.Asked == a.Asked && b.Rate == a.Rate
		})
		if i < 0 {
			continue
		}
		b := c.Sides[1].Points[i]
		x := pointPair{Label: a.Config.Label(), Load: fmt.Sprintf("%d in flight", a.Asked)}
		if a.Rate > 0 {
			x.Load = number(a.Rate) + " requests/s"
		}
		for _, name := range latencyNames(phase) {
			x.Rows = append(x.Rows, rowOf(name, "ms", c.Sides[0].latencyOf(a, name), c.Sides[1].latencyOf(b, name)))
		}
		x.Rows = append(x.Rows, rowOf("Throughput", "tokens/s/GPU", throughputOf(a), throughputOf(b)))
		out = append(out, x)
	}
	return out
}
