package pages

import (
	"fmt"
	"strings"

	"plimsoll/capacity"
	"plimsoll/engine"
)

// capacityBody is what the template shows.
type capacityBody struct {
	Summary     string
	Controls    []capacityControl
	Own         cellData
	Pools       []poolRow
	Plans       []planRow
	Rough       bool
	Cells       []cellRow
	QPS         bool // the rate can be chosen
	Details     []Fact
	Beside      []CapacityVariant
	Unmet       []Fact
	LeftOut     []Fact
	Assumptions []string
}

// capacityControl is a slider over stops.
type capacityControl struct {
	ID, Label, Unit string
	Last, At        int
	Text            string
}

// cellData is a cell in words, so that the page only shows them.
type cellData struct {
	Key     string       `json:"key"`  // of its marks in charts
	GPUs    int          `json:"gpus"` // 0: none holds
	USD     capacity.USD `json:"usd"`  // an hour; null: not known
	Layout  string       `json:"layout"`
	Fleet   string       `json:"fleet"`
	Cost    string       `json:"cost"`
	Against string       `json:"against"` // what was asked for
	Latency string       `json:"latency"`
	Breaks  string       `json:"breaks"`
	Why     string       `json:"why"`
	Command string       `json:"command"`
}

type poolRow struct {
	Name, Engines, Spare, GPUs, Busy, KVUse, InFlight, Waiting string
	Share                                                      float64 // busy, percent
}

type planRow struct {
	Layout, GPU string
	Picked      bool
	Cells       []cell
	Breaks      string
}

// cellRow is a cell of the grid as a row of its table.
type cellRow struct {
	QPS, TTFT, ITL string
	Own            bool
	Cell           cellData
}

func (c Capacity) body() capacityBody {
	g := c.Grid
	b := capacityBody{
		Summary: c.summary(), Own: c.words(g.Own[0], g.Own[1], g.Own[2]), QPS: len(g.QPS) > 1,
		Details: c.Details, Beside: c.Beside, Unmet: c.Unmet, LeftOut: c.LeftOut, Assumptions: c.Assumptions,
	}
	for i, axis := range []struct {
		id, label, unit string
		stops           []float64
	}{{"qps", "Rate at the peak", "requests/s", g.QPS}, {"ttft", "TTFT p99 at most", "ms", g.TTFT}, {"itl", "ITL p99 at most", "ms", g.ITL}} {
		if len(axis.stops) > 1 {
			b.Controls = append(b.Controls, capacityControl{axis.id, axis.label, axis.unit, len(axis.stops) - 1, g.Own[i], number(axis.stops[g.Own[i]])})
		}
	}
	if len(c.Plans) > 0 {
		b.Pools = poolRows(c.Plans[0])
	}
	for i, p := range c.Plans {
		b.Rough = b.Rough || p.Rough
		b.Plans = append(b.Plans, p.row(i == 0))
	}
	for q := range g.QPS {
		for t := range g.TTFT {
			for k := range g.ITL {
				b.Cells = append(b.Cells, cellRow{number(g.QPS[q]), number(g.TTFT[t]), number(g.ITL[k]), g.Own == [3]int{q, t, k}, c.words(q, t, k)})
			}
		}
	}
	return b
}

// summary is the answer in one sentence.
func (c Capacity) summary() string {
	if len(c.Plans) == 0 {
		return "No fleet that was looked at holds the SLO."
	}
	p := c.Plans[0]
	within := ""
	if p.Range.Factor > 0 {
		within = fmt.Sprintf(" Within the step times' error, a factor of %.2f, it is %s.", p.Range.Factor, p.Range.Words())
	}
	hold := "hold"
	if p.TotalGPUsFinal == 1 {
		hold = "holds"
	}
	return fmt.Sprintf("%s (%s) for %s an hour %s the SLO: %s, %s.%s", engine.Count(p.TotalGPUsFinal, "GPU"), p.GPU, dollars(p.HourlyUSD), hold, p.Layout, p.engines(), within)
}

// words is a cell as the page says it.
func (c Capacity) words(q, t, k int) cellData {
	x := c.Grid.at(q, t, k)
	d := cellData{Key: key(q, t, k), Why: x.Why, Command: x.Command}
	if x.Why != "" {
		return d
	}
	p := x.Plan
	d.GPUs, d.USD, d.Layout = p.TotalGPUsFinal, p.HourlyUSD, p.Layout
	d.Fleet = fmt.Sprintf("%s on %s: %s", p.Layout, p.GPU, p.engines())
	d.Cost = fmt.Sprintf("%s an hour, %s a year, %s per 1,000 requests at the peak", dollars(p.HourlyUSD), dollars(p.AnnualUSD), dollars(p.Per1kQueriesUSD))
	d.Latency = fmt.Sprintf("TTFT p99 %s ms, ITL p99 %s ms, end to end p99 %s s", number(p.EstimatedTTFTP99Ms), number(p.EstimatedITLP99Ms), number(p.EstimatedE2EP99Ms/1e3))
	d.Breaks = p.Binding
	if own := c.Grid.own(); own.Why == "" && c.Grid.Own != [3]int{q, t, k} {
		ratio, of := float64(p.HourlyUSD/own.Plan.HourlyUSD), ""
		if !(own.Plan.HourlyUSD > 0 && p.HourlyUSD.Known()) {
			ratio, of = float64(p.TotalGPUsFinal)/float64(own.Plan.TotalGPUsFinal), " of the GPUs"
		}
		d.Against = percent(ratio-1) + of + " against what was asked for"
	}
	return d
}

// key names a cell in charts.
func key(q, t, k int) string { return fmt.Sprintf("%d-%d-%d", q, t, k) }

// engines are those of each pool: "4 and 1 spare prefill, 1 decode engines".
func (p CapacityPlan) engines() string {
	var parts []string
	for _, pool := range p.Pools {
		s := engine.Count(pool.Engines, "engine")
		if pool.Role != engine.RoleAggregated {
			s = engine.Count(pool.Engines, string(pool.Role)+" engine")
		}
		if pool.SpareEngines > 0 {
			s += fmt.Sprintf(" and %d spare", pool.SpareEngines)
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, ", ")
}

// dollars are with as many digits as they deserve.
func dollars(of capacity.USD) string {
	usd := float64(of)
	switch {
	case !of.Known():
		return "no price"
	case usd < 1:
		return "$" + number(usd)
	case usd < 100:
		return "$" + Figure{Mean: usd}.fixed(2)
	}
	return "$" + Figure{Mean: usd}.fixed(0)
}

func poolRows(p CapacityPlan) []poolRow {
	var out []poolRow
	for _, pool := range p.Pools {
		n := float64(pool.Engines)
		out = append(out, poolRow{
			Name: fmt.Sprintf("%s, %s on %s", pool.Role, pool.Engine, pool.GPU), Engines: whole(n), Spare: whole(float64(pool.SpareEngines)), GPUs: whole(float64(pool.GPUs)),
			Busy: whole(100*pool.Utilisation) + " %", KVUse: whole(100*pool.KVUse) + " %", InFlight: Figure{Mean: pool.Running / n}.fixed(1), Waiting: Figure{Mean: pool.Waiting / n}.fixed(2), Share: 100 * pool.Utilisation,
		})
	}
	return out
}

func (p CapacityPlan) row(picked bool) planRow {
	about := ""
	if p.Rough {
		about = "≈ "
	}
	of := func(name, unit, text string, value float64) cell {
		return cell{Name: name, Unit: unit, Text: text, Value: value, Known: true}
	}
	money := func(unit string, usd capacity.USD) cell {
		if !usd.Known() {
			return cell{Name: "Cost", Unit: unit, Text: dollars(usd)}
		}
		return of("Cost", unit, dollars(usd), float64(usd))
	}
	return planRow{Layout: p.Layout, GPU: p.GPU, Picked: picked, Breaks: p.Binding, Cells: []cell{
		{Name: "Engines", Text: about + p.engines()},
		of("GPUs", "", about+whole(float64(p.TotalGPUsFinal)), float64(p.TotalGPUsFinal)),
		money("$/hour", p.HourlyUSD), money("$/year", p.AnnualUSD),
		of("TTFT p99", "ms", number(p.EstimatedTTFTP99Ms), p.EstimatedTTFTP99Ms), of("ITL p99", "ms", number(p.EstimatedITLP99Ms), p.EstimatedITLP99Ms),
		of("E2E p99", "s", number(p.EstimatedE2EP99Ms/1e3), p.EstimatedE2EP99Ms),
	}}
}

// percent is a share with its sign, to a tenth of a percent.
func percent(share float64) string {
	s := apart(fmt.Sprintf("%.1f", 100*share))
	switch {
	case strings.Trim(s, "−0.") == "":
		return "±0.0 %"
	case share > 0:
		return "+" + s + " %"
	}
	return s + " %"
}

// whole is a number of tokens.
func whole(v float64) string { return Figure{Mean: v}.fixed(0) }
