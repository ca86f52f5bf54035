package pages

import (
	"fmt"
	"slices"

	"plimsoll/profile"
)

// sideColours tell the sides apart: the palette's blue and vermilion.
func sideColours() [2]int { return [2]int{0, 6} }

// charts are the curves of both sides over each other.
func (c Comparison) charts() []chart {
	var out []chart
	for _, phase := range c.Sides[0].phases() {
		for _, name := range latencyNames(phase) {
			out = append(out, c.candidates(phase, name))
		}
	}
	return drawable(append(out, c.surfaces()...))
}

// look is how a line of a side is drawn.
func look(side int, name string, shape int) series {
	return series{Name: sideLetters()[side] + " " + name, Colour: sideColours()[side], Shape: shape, Dashed: side > 0, Points: []chartPoint{}}
}

// candidates are the points of a phase, by their latency: one line for each
// configuration of each side, whose shape is the configuration's.
func (c Comparison) candidates(phase profile.Phase, latency string) chart {
	stat := c.Sides[0].SLA.By()
	if other := c.Sides[1].SLA.By(); other != stat {
		stat += " and " + other
	}
	out := chart{Title: fmt.Sprintf("%s: throughput by %s", phase, latency), X: latency + " " + stat + ", ms", Y: "tokens/s/GPU", Log: true}
	var labels []string
	for side, s := range c.Sides {
		picked, _ := s.picked(phase)
		at := map[string]int{} // of the side's lines, by label
		for _, x := range s.Points {
			l, t := s.latencyOf(x, latency), throughputOf(x)
			if x.Phase != phase || x.Invalid != "" || l.Value <= 0 || t.Value <= 0 {
				continue
			}
			label := x.Config.Label()
			if !slices.Contains(labels, label) {
				labels = append(labels, label)
			}
			i, known := at[label]
			if !known {
				i = len(out.Series)
				at[label] = i
				out.Series = append(out.Series, look(side, label, slices.Index(labels, label)))
			}
			text := fmt.Sprintf("%s %s, %s: %s %s ms, %s tokens/s/GPU", sideLetters()[side], label, loadOf(s.candidate(x)), latency, l.text(), t.text())
			p := chartPoint{X: l.Value, Y: t.Value, Text: text, ID: x.ID}
			if !x.ModelError.Known() || x.ID == picked.Picked.Point.ID { // the model's error is one factor everywhere: its bars would cover each other
				p = p.in(t.In)
			}
			out.Series[i].Points = append(out.Series[i].Points, p)
		}
		limit := profile.Milliseconds(map[string]profile.SLA{"TTFT": {TTFT: s.SLA.TTFT}, "ITL": {TTFT: s.SLA.ITL}}[latency].TTFT)
		name := "SLA " + number(limit) + " ms"
		if len(out.Limits) == 0 {
			out.Limits = []chartLimit{{X: limit, Name: name}}
		} else if first := &out.Limits[0]; first.X != limit {
			colours := sideColours()
			first.Name, first.Colour = "A: "+first.Name, &colours[0]
			out.Limits = append(out.Limits, chartLimit{limit, "B: " + name, &colours[1]})
		}
	}
	return out
}

// surfaces are the curves at the picks.
func (c Comparison) surfaces() []chart {
	ttft := chart{Title: "prefill: TTFT by ISL, at each pick", X: "ISL, tokens", Y: "TTFT, ms"}
	rate := chart{Title: "prefill: throughput by ISL, at each pick", X: "ISL, tokens", Y: "tokens/s/GPU"}
	itl := chart{Title: "decode: ITL by KV use, at each pick", X: "KV use, %", Y: "ITL, ms"}
	out := chart{Title: "decode: throughput by KV use, at each pick", X: "KV use, %", Y: "tokens/s/GPU"}
	for side, s := range c.Sides {
		a, b := look(side, "pick", 0), look(side, "pick", 0)
		for _, x := range s.Prefill.Samples {
			ms := profile.Milliseconds(x.TTFT)
			text := fmt.Sprintf("%s, ISL %s tokens: TTFT %s ms, %s tokens/s/GPU", sideLetters()[side], number(float64(x.ISL)), number(ms), number(x.ThroughputPerGPU))
			a.Points = append(a.Points, chartPoint{X: float64(x.ISL), Y: ms, Text: text})
			b.Points = append(b.Points, chartPoint{X: float64(x.ISL), Y: x.ThroughputPerGPU, Text: text})
		}
		ttft.Series, rate.Series = append(ttft.Series, a), append(rate.Series, b)
		for k, group := range byContext(s.Decode.Samples) {
			name := contextName(group)
			a, b := look(side, name, k), look(side, name, k)
			for _, x := range group {
				ms := profile.Milliseconds(x.ITL)
				text := fmt.Sprintf("%s, KV use %s %%, context %s tokens: ITL %s ms, %s tokens/s/GPU", sideLetters()[side], number(100*x.KVUsage), whole(x.Context), number(ms), number(x.ThroughputPerGPU))
				a.Points = append(a.Points, chartPoint{X: 100 * x.KVUsage, Y: ms, Text: text})
				b.Points = append(b.Points, chartPoint{X: 100 * x.KVUsage, Y: x.ThroughputPerGPU, Text: text})
			}
			itl.Series, out.Series = append(itl.Series, a), append(out.Series, b)
		}
	}
	return []chart{ttft, rate, itl, out}
}

// nearContext is how many times the least context of a line its others may have.
const nearContext = 7.0 / 6

// byContext are decode's samples in groups whose contexts are near each other.
func byContext(all []profile.DecodeSample) [][]profile.DecodeSample {
	var out [][]profile.DecodeSample
	for _, s := range slices.SortedFunc(slices.Values(all), func(a, b profile.DecodeSample) int {
		if a.Context < b.Context {
			return -1
		} else if a.Context > b.Context {
			return 1
		}
		return 0
	}) {
		if n := len(out); n > 0 && s.Context <= nearContext*out[n-1][0].Context {
			out[n-1] = append(out[n-1], s)
		} else {
			out = append(out, []profile.DecodeSample{s})
		}
	}
	return out
}

func contextName(group []profile.DecodeSample) string {
	name := "context " + whole(group[0].Context)
	if last := group[len(group)-1].Context; last-group[0].Context > 1 {
		name += "–" + whole(last)
	}
	return name + " tokens"
}

// whole is a number of tokens.
func whole(v float64) string { return Figure{Mean: v}.fixed(0) }
