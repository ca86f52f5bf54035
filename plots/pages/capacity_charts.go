package pages

import (
	"fmt"
	"slices"

	"plimsoll/engine"
	"plimsoll/profile"
)

// capacityData is what the page's script shows and draws.
type capacityData struct {
	QPS          []float64  `json:"qps"`
	TTFT         []float64  `json:"ttft"`
	ITL          []float64  `json:"itl"`
	Own          [3]int     `json:"own"`
	Cells        []cellData `json:"cells"`
	Charts       []chart    `json:"charts"` // of the cells
	Alternatives []chart    `json:"alternatives"`
}

func (c Capacity) data() capacityData {
	g := c.Grid
	d := capacityData{QPS: g.QPS, TTFT: g.TTFT, ITL: g.ITL, Own: g.Own, Alternatives: drawable([]chart{c.alternatives("TTFT"), c.alternatives("ITL")})}
	for q := range g.QPS {
		for t := range g.TTFT {
			for k := range g.ITL {
				d.Cells = append(d.Cells, c.words(q, t, k))
			}
		}
	}
	charts := []chart{c.costs("Cost by TTFT", "TTFT p99 at most, ms", g.TTFT, len(g.ITL), "ITL", g.ITL, func(x, line int) (int, int, int) { return g.Own[0], x, line })}
	if len(g.QPS) > 1 {
		charts = append([]chart{c.costs("Cost by rate", "requests/s at the peak", g.QPS, len(g.TTFT), "TTFT", g.TTFT, func(x, line int) (int, int, int) { return x, line, g.Own[2] })}, charts...)
	}
	d.Charts = drawable(charts)
	return d
}

// costs are an hour's over the stops of one axis, a line for each stop of another.
func (c Capacity) costs(title, x string, stops []float64, lines int, of string, at []float64, place func(x, line int) (q, t, k int)) chart {
	out := chart{Title: title, X: x, Y: "$ an hour"}
	for line := range lines {
		s := series{Name: fmt.Sprintf("%s ≤ %s ms", of, number(at[line])), Colour: line, Shape: line, Points: []chartPoint{}}
		for i, v := range stops {
			q, t, k := place(i, line)
			w := c.words(q, t, k)
			if w.Why != "" || !w.USD.Known() {
				continue // there is nothing to pay for; the table says why
			}
			text := fmt.Sprintf("%s requests/s, TTFT ≤ %s ms, ITL ≤ %s ms: %s, %s an hour, %s", number(c.Grid.QPS[q]), number(c.Grid.TTFT[t]), number(c.Grid.ITL[k]), engine.Count(w.GPUs, "GPU"), dollars(w.USD), w.Fleet)
			s.Points = append(s.Points, chartPoint{X: v, Y: float64(w.USD), Text: text, ID: w.Key})
		}
		out.Series = append(out.Series, s)
	}
	return out
}

// alternatives are the plans by what they cost and by one latency.
func (c Capacity) alternatives(latency string) chart {
	out := chart{Title: "Cost by " + latency + " p99 of each layout", X: latency + " p99, ms", Y: "$ an hour"}
	limit := c.SLO.TTFTP99
	if latency == "ITL" {
		limit = c.SLO.ITLP99
	}
	out.Limits = []chartLimit{{X: profile.Milliseconds(limit), Name: "SLO " + number(profile.Milliseconds(limit)) + " ms"}}
	for i, p := range c.Plans {
		if !p.HourlyUSD.Known() {
			continue
		}
		name := string(p.Strategy) + " on " + p.GPU
		n := slices.IndexFunc(out.Series, func(s series) bool { return s.Name == name })
		if n < 0 {
			n = len(out.Series)
			out.Series = append(out.Series, series{Name: name, Colour: n, Shape: n, Bare: true})
		}
		ms := p.EstimatedTTFTP99Ms
		if latency == "ITL" {
			ms = p.EstimatedITLP99Ms
		}
		text := fmt.Sprintf("%s on %s: %s, %s an hour, %s p99 %s ms", p.Layout, p.GPU, engine.Count(p.TotalGPUsFinal, "GPU"), dollars(p.HourlyUSD), latency, number(ms))
		out.Series[n].Points = append(out.Series[n].Points, chartPoint{X: ms, Y: float64(p.HourlyUSD), Text: text, ID: fmt.Sprintf("plan %d", i)})
	}
	return out
}
